package analysis

import "ipcbench/bench/stat"

// ClientRate returns how many clients a second are served.
func (c *Cell) ClientRate() stat.Interval {
	return c.Of("round").Map(func(s float64) float64 { return float64(c.Clients) / s })
}

// ColdRound returns the cold round without starting the workers. Where every
// round starts its own workers, it is what is left of the round without that.
func (c *Cell) ColdRound() stat.Interval {
	if !c.Respawn {
		return c.Of("cold_round")
	}
	round, spawn := c.Of("round"), c.Of("spawn")
	return stat.Interval{Center: round.Center - spawn.Center, Low: round.Low - spawn.High, High: round.High - spawn.Low,
		Confidence: max(0, round.Confidence+spawn.Confidence-1), Blocks: round.Blocks, N: round.N}
}

// StartDominates reports whether starting the workers is shown to take longer
// than all else in a cold round. A session that is started for every round runs
// its cold round and no other.
func (c *Cell) StartDominates() bool {
	spawn, cold := c.Of("spawn"), c.ColdRound()
	return spawn.Confidence > 0 && cold.Confidence > 0 && spawn.Low > cold.High
}
