package bench_test

import (
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
)

// TestCalibrating: a run that calibrates measures no floor and leaves no model out. It
// goes on in whole cycles until its budget is used up, and has its fewest blocks first.
func TestCalibrating(t *testing.T) {
	h := host()
	budgets := []time.Duration{time.Millisecond}
	if !testing.Short() {
		budgets = append(budgets, 4*time.Second)
	}
	for len(budgets) > 0 {
		budget := budgets[0]
		budgets = budgets[1:]
		p := quick(t)
		p.Blocks, p.Time, p.Budget = 3, 60*time.Millisecond, budget
		o := options(t, h, p, spec(t, h, "pickle", "uniform:16KiB/3", 1, 1), spec(t, h, "pickle", "uniform:4KiB/3", 1, 2))
		o.Calibrating = true
		var notes []string
		o.Progress = func(p bench.Progress) {
			switch {
			case p.Note != "":
				notes = append(notes, p.Note)
			case p.Left <= 0 || p.Left > time.Hour || p.Done > p.Plan || p.More:
				t.Errorf("%+v", p)
			}
		}
		outline, err := bench.Describe(t.Context(), o)
		check(t, err)
		if len(outline.Floors) > 0 || len(outline.Cells) != 4 {
			t.Errorf("floors %q, cells %v", outline.Floors, outline.Cells)
		}
		r, err := bench.Run(t.Context(), o)
		check(t, err)
		check(t, r.Validate())
		blocks := len(r.Cells[0].Blocks)
		short := budget < time.Second
		if !short && blocks == 3 { // on a busy machine, there may be time for no more
			budgets = append(budgets, 4*budget)
			continue
		}
		if len(r.Cells) != 4 || len(r.Floors) > 0 || len(r.Skipped) > 0 || blocks < 3 || short && blocks > 3 || short && len(notes) != 1 {
			t.Errorf("budget %v: %d cells of %d blocks, %d floors, notes %q", budget, len(r.Cells), blocks, len(r.Floors), notes)
		}
		for _, c := range r.Cells {
			if len(c.Blocks) != blocks || c.Stopped != "budget" {
				t.Errorf("%s: %d blocks, the first cell has %d; stopped by %q", c.ID(), len(c.Blocks), blocks, c.Stopped)
			}
		}
		if short && !strings.Contains(notes[0], "the run goes on for") {
			t.Error(notes[0])
		}
	}
}
