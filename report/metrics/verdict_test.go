package metrics

import (
	"fmt"
	"slices"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestNotProved: a difference that fails Holm's correction is a tie if the blocks could
// have passed it, and unproved otherwise.
func TestNotProved(t *testing.T) {
	overlapping := []float64{10.05, 10.15, 10.3, 10.4, 10.5, 10.6} // p 0.015 against benchtest.Six(10): enough for one pair
	among := func(n int, round ...float64) []*Cell {
		cells := []result.Cell{steady("best", 10), benchtest.Cell("next", even, 1, 1, round...)}
		for i := range n {
			cells = append(cells, steady(fmt.Sprint("same-", i), 10.001))
		}
		return New(benchtest.Result(cells...)).Cells
	}
	for _, tt := range []struct {
		name     string
		cells    []*Cell
		tied     bool // next is tied
		unproved bool
	}{
		{"alone", among(0, overlapping...), false, false},
		{"among ten, where 6 blocks can prove a difference", among(10, overlapping...), true, false},
		{"among thirty, where they cannot", among(30, benchtest.Six(20)...), false, true},
	} {
		d, _ := Decide(tt.cells)
		tied := slices.ContainsFunc(d.Tied, func(c *Cell) bool { return c.Variant == "next" })
		check.That(t, tied == tt.tied && d.Unshown == tt.unproved,
			"%s: got tied %v, unproved %v, want %v, %v", tt.name, tied, d.Unshown, tt.tied, tt.unproved)
	}
}
