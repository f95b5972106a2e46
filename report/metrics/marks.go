package metrics

import (
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// Marks are what a reader of a cell's numbers must know about them.
type Marks struct {
	Astray      bool             // some tensors did not go the way that the transport is named for
	Attested    float64          // then: the share of those that did
	Reasons     map[string]int64 // then: why, with the number of tensors, where the transport says so
	Modes       []stat.Mode      // nil, or the two modes of rounds, in seconds
	Drift       stat.Trend       // relative; zero if none is shown
	OutOfTime   float64          // the relative half-width that the round's interval still had when time ran out; 0 if it did not
	Outliers    int              // of the rounds, if more than a tenth of them are; else 0
	Interrupted bool
}

// Marks returns what a reader of the cell's numbers must know about them. All
// fields are zero for most cells. The caller must not change Reasons.
func (c *Cell) Marks() Marks { return c.marks() }

// findMarks computes the marks.
func (c *Cell) findMarks() Marks {
	m := Marks{Interrupted: c.Stopped == "interrupted"}
	reasons := c.Tally(phase.Fallback)
	if a := c.Of("attested"); a.Known() && a.Low < 1 || len(reasons) > 0 {
		m.Astray, m.Reasons = true, reasons
		if a.Known() {
			m.Attested = a.Center
		}
	}
	rounds := c.Samples("round")
	m.Modes, m.Drift = stat.Modes(rounds), stat.Drift(rounds)
	ranOut := c.Stopped == "time" || c.Stopped == "budget"
	if i, asked := c.Of("round"), c.result.Plan.Precision; i.Sure() && asked > 0 && i.Relative() > asked && ranOut {
		m.OutOfTime = i.Relative()
	}
	if n := c.Of("round_outliers"); n.Center*10 > float64(n.N) {
		m.Outliers = int(n.Center)
	}
	return m
}
