package bench_test

import (
	"slices"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
)

// TestAdd: a run that came later brings its cells, and the floors of its links; what
// both have is that of the first. The sum can be written.
func TestAdd(t *testing.T) {
	first := benchtest.Linked(map[string]float64{"unshaped": 0, "100Mbit": 100e6})
	later := benchtest.Linked(map[string]float64{"100Mbit": 100e6, "1Gbit": 1e9})
	later.Floors = append(later.Floors, bench.Floor{Name: "copy", Unit: "B/s", Blocks: [][]float64{{1}}})
	later.Cells[0].Stopped, later.Partial = "budget", "interrupted"
	cells, floors := len(first.Cells), len(first.Floors)
	first.Add(later)
	if err := first.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(first.Cells) != cells+8 || len(first.Floors) != floors+1 || first.Cells[0].Stopped == "budget" || first.Partial != "interrupted" || first.Elapsed != 84*time.Second {
		t.Errorf("%d cells, %d floors, %v", len(first.Cells), len(first.Floors), first.Elapsed)
	}
	if i := slices.IndexFunc(first.Cells, func(c bench.Cell) bool { return c.Link == "1Gbit" }); first.Cells[i].Blocks[0].At != 42*time.Second {
		t.Errorf("its blocks begin at %v", first.Cells[i].Blocks[0].At)
	}
}
