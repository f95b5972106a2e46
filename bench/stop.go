package bench

import (
	"time"

	"ipcbench/bench/stat"
)

// finished reports whether c needs no more blocks, and records the reason. Cells that do
// the same work end together: they are compared, and one of them is the control that is
// subtracted from the others. Blocks that only one of them had would include machine
// conditions that the others never met.
func (r *run) finished(c *cell) bool {
	if c.result.Stopped != "" {
		return true
	}
	alike := r.alike(c)
	for _, d := range alike {
		if d.result.Stopped == "" && r.enough(d, alike) == "" {
			return false
		}
	}
	c.result.Stopped = r.enough(c, alike)
	return true
}

// alike returns the cells with the same workload, workers and clients as c, including c.
func (r *run) alike(c *cell) []*cell {
	var all []*cell
	for _, d := range r.cells {
		a, b := &d.result, &c.result
		if a.Workload() == b.Workload() && a.Workers == b.Workers && a.Clients == b.Clients {
			all = append(all, d)
		}
	}
	return all
}

// enough returns the reason why c may stop, or "" if it needs more blocks. Cells alike
// share one time budget, of which cells with slow rounds use more.
func (r *run) enough(c *cell, alike []*cell) string {
	n := len(c.result.Blocks)
	switch {
	case n < r.Plan.Blocks:
		return ""
	case r.Plan.Rounds > 0:
		if c.result.Rounds() < r.Plan.Rounds {
			return ""
		}
		return "rounds"
	case r.Plan.Precision == 0:
		return "blocks"
	case r.precise(c):
		return "precision"
	case r.unspent(alike) <= 0:
		return "time"
	}
	return ""
}

// unspent returns the remaining part of the time that the cells share.
func (r *run) unspent(alike []*cell) time.Duration {
	left := time.Duration(len(alike)) * r.Plan.Time
	for _, d := range alike {
		left -= d.spent
	}
	return left
}

// precise reports whether the relative confidence interval of the cell's median round is
// at most the plan's Precision.
func (r *run) precise(c *cell) bool {
	i := stat.Of(c.rounds())
	return i.Sure() && i.Relative() <= r.Plan.Precision
}
