package metrics

import (
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// Marks are caveats about a cell's numbers.
type Marks struct {
	OtherWay    bool             // some tensors were not transferred in the way that the transport is named for
	Attested    float64          // if OtherWay: the share of tensors that were
	Reasons     map[string]int64 // if OtherWay: numbers of tensors by reason, as far as the transport gives reasons
	Modes       []stat.Mode      // the two modes of round times, in seconds; nil if there are not two
	Drift       stat.Trend       // relative trend of rounds; zero if none is significant
	OutOfTime   float64          // relative half-width of the round's interval, if time ran out before the asked precision; else 0
	Outliers    int              // number of outlying rounds, if more than a tenth of all; else 0
	Interrupted bool
}

// Marks returns the caveats about the cell's numbers. All fields are zero for most cells.
// The caller must not change Reasons.
func (c *Cell) Marks() Marks { return c.marks() }

// findMarks computes the marks.
func (c *Cell) findMarks() Marks {
	m := Marks{Interrupted: c.Stopped == "interrupted"}
	reasons := c.Tally(phase.Fallback)
	if a := c.Of("attested"); a.Known() && a.Low < 1 || len(reasons) > 0 {
		m.OtherWay, m.Reasons = true, reasons
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
