package contrast_test

import (
	"fmt"
	"slices"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
)

// even is a model of 100 MB.
var even = result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}

// TestNotProved: a difference that fails Holm's correction is a tie if the blocks could
// have passed it, and unproved otherwise.
func TestNotProved(t *testing.T) {
	overlapping := []float64{10.05, 10.15, 10.3, 10.4, 10.5, 10.6} // p 0.015 against benchtest.Six(10): enough for one pair
	among := func(n int, round ...float64) []*metrics.Cell {
		cells := []result.Cell{benchtest.Cell("best", even, 1, 1, benchtest.Six(10)...), benchtest.Cell("next", even, 1, 1, round...)}
		for i := range n {
			cells = append(cells, benchtest.Cell(fmt.Sprint("same-", i), even, 1, 1, benchtest.Six(10.001)...))
		}
		return metrics.New(benchtest.Result(cells...)).Cells
	}
	for _, tt := range []struct {
		name     string
		cells    []*metrics.Cell
		tied     bool // next is tied
		unproved bool
	}{
		{"alone", among(0, overlapping...), false, false},
		{"among ten, where 6 blocks can prove a difference", among(10, overlapping...), true, false},
		{"among thirty, where they cannot", among(30, benchtest.Six(20)...), false, true},
	} {
		d, _ := contrast.Decide(tt.cells)
		tied := slices.ContainsFunc(d.Tied, func(j contrast.Judged) bool { return j.Cell.Variant == "next" })
		check.That(t, tied == tt.tied && d.Unshown == tt.unproved,
			"%s: got tied %v, unproved %v, want %v, %v", tt.name, tied, d.Unshown, tt.tied, tt.unproved)
	}
}
