package metrics

import (
	"slices"
	"strings"
	"time"

	"ipcbench/bench/stat"
)

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
	if level := c.result.Level(); level != nil {
		rounds = slices.Clone(rounds)
		for i := range rounds {
			rounds[i] = slices.Clone(rounds[i])
			for j := range rounds[i] {
				rounds[i][j] /= level[i]
			}
		}
	}
	return stat.Modes(rounds), stat.Drift(rounds)
}

// Spread returns the time over which the blocks of the cell's run were spread, or 0.
func (c *Cell) Spread() time.Duration { return c.result.Plan.Spread }

// When says over which time the blocks of a spread run were measured, and on which day: "over 3h on 2026-11-30". It is
// empty for other runs, which speak for their minutes.
func (c *Cell) When() string {
	if c.Spread() == 0 {
		return ""
	}
	over := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(c.Spread().String()) // 2h, or 1h40m
	return "over " + over + " on " + c.result.Started.UTC().Format(time.DateOnly)
}

// Level returns what each cycle of a spread run did to all its cells, also if r has fewer: the median of their
// rounds relative to their own medians. It is nil if the run was not spread, or cells have different numbers of blocks.
func (r *Result) Level() []float64 {
	if r.Plan.Spread == 0 || len(r.run) == 0 {
		return nil
	}
	return Keep(r, "level", func() []float64 {
		var byCycle [][]float64
		for i, c := range r.run {
			medians := c.Medians("round")
			if i == 0 {
				byCycle = make([][]float64, len(medians))
			}
			if len(medians) != len(byCycle) {
				return nil
			}
			for k, m := range medians {
				byCycle[k] = append(byCycle[k], m/stat.Median(medians))
			}
		}
		return stat.Medians(byCycle)
	})
}
