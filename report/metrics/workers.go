package metrics

import (
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// ClientRate returns how many clients a second are served.
func (c *Cell) ClientRate() stat.Interval {
	return c.Of("round").Map(func(s float64) float64 { return float64(c.Clients) / s })
}

// ColdRound returns the cold round without starting the workers.
func (c *Cell) ColdRound() stat.Interval { return stat.Of(c.cold()) }

// StartRatio returns the time in which the workers start over that of a cold round.
// A session that is started for every round runs its cold round and no other.
func (c *Cell) StartRatio() stat.Interval {
	return stat.Ratio(stat.Medians(c.cold()), c.Medians("spawn"))
}

// StartDominates reports whether rounds surely take longer to start and end their workers
// than for all else.
func (c *Cell) StartDominates() bool {
	r := c.Of("restart")
	return r.Confidence >= stat.Confidence && r.Low > 0.5
}

// restart is the share of the rounds of a block in which their workers start and end.
func restart(c *Cell, b *result.Block) (float64, bool) {
	spawn, started := b.Phases[phase.Spawn.String()]
	stop, ended := b.Phases[phase.Stop.String()]
	return float64(spawn+stop) / float64(b.RoundTime()), c.Respawn && started && ended
}

// cold returns the cold round of each block. Where every round starts its own
// workers, it is what is left of a round without that.
func (c *Cell) cold() [][]float64 {
	if !c.Respawn {
		return c.Samples("cold_round")
	}
	spawns := c.Samples("spawn")
	all := make([][]float64, len(spawns))
	for i, rounds := range c.Samples("round") {
		for _, spawn := range spawns[i] {
			all[i] = []float64{stat.Median(rounds) - spawn}
		}
	}
	return all
}
