package metrics

import "ipcbench/bench/stat"

// Interrupted reports whether a user ended the measurement of the cell early.
func (c *Cell) Interrupted() bool { return c.Stopped == "interrupted" }

// OutOfTime returns the relative half-width of the round's interval if time ran out before the asked
// precision, else 0.
func (c *Cell) OutOfTime() float64 {
	ranOut := c.Stopped == "time" || c.Stopped == "budget"
	if i, asked := c.Of("round"), c.result.Plan.Precision; i.Sure() && asked > 0 && i.Relative() > asked && ranOut {
		return i.Relative()
	}
	return 0
}

// Trends returns the two modes of the cell's round times, in seconds, or nil if there are not two, and the
// relative trend of its rounds, which is zero if none is significant.
func (c *Cell) Trends() ([]stat.Mode, stat.Trend) { return c.trends() }

func (c *Cell) findTrends() ([]stat.Mode, stat.Trend) {
	rounds := c.Samples("round")
	return stat.Modes(rounds), stat.Drift(rounds)
}
