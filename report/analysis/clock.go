package analysis

import (
	"math"
	"slices"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/stat"
)

// Some metrics are of spans that begin on one host and end on another. What two clocks
// leave open is joined to their intervals, and what they leave open of more than a
// tenth is not shown. All others are read on one clock.

// clockShare is the most of a value that clocks may leave open.
const clockShare = 0.1

// once says that a metric is off by as much as the clocks are.
func once(*Cell) float64 { return 1 }

// everyWay says that each way of a round, down and up, may be off in a metric.
func everyWay(c *Cell) float64 { return 2 * float64(c.Clients) }

// blur returns by how much a time of a block may be off, in seconds.
func blur(b *bench.Block) float64 {
	var widest int64
	for _, c := range b.Clocks {
		widest = max(widest, c.Width)
	}
	return float64(widest) / float64(time.Second)
}

// blurred returns the interval of a metric's samples, by block, with what clocks leave
// open: all samples of a block may be off the same way. There is none if that is too
// much.
func (c *Cell) blurred(m Metric, of []bench.Block, blocks [][]float64) (stat.Interval, bool) {
	i := stat.Of(blocks)
	if m.clocks == nil || !slices.ContainsFunc(of, func(b bench.Block) bool { return blur(&b) > 0 }) {
		return i, true
	}
	shifted := func(sign float64) stat.Interval {
		all := make([][]float64, len(blocks))
		for k := range blocks {
			by := sign * m.clocks(c) * blur(&of[k])
			for _, x := range blocks[k] {
				all[k] = append(all[k], x+by)
			}
		}
		return stat.Of(all)
	}
	low, high := shifted(-1), shifted(1)
	if high.Center-low.Center > 2*clockShare*math.Abs(i.Center) {
		return stat.None(), false
	}
	if i.Confidence > 0 {
		i.Low, i.High = low.Low, high.High
	}
	return i, true
}
