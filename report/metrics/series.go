package metrics

import (
	"math"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// A source is what a metric is computed from: a number or a series of each block, or, if it is
// derived, other metrics of the cell.
type source interface {
	of(c *Cell, m Metric) stat.Interval
	samples(c *Cell, b *result.Block, unit string) []float64
}

// A number is what a block as a whole says, and NaN if it does not know. It is divided by what
// stands behind the / of the metric's unit.
type number func(c *Cell, b *result.Block) float64

// A series is a sample for each round or client of a block.
type series func(c *Cell, b *result.Block) []float64

// What is derived is computed from other metrics, and has no samples.
type derived func(c *Cell) stat.Interval

func (d derived) of(c *Cell, _ Metric) stat.Interval { return d(c) }
func (number) of(c *Cell, m Metric) stat.Interval    { return stat.Of(c.Samples(m.Name)) }
func (series) of(c *Cell, m Metric) stat.Interval    { return stat.Of(c.Samples(m.Name)) }

func (derived) samples(*Cell, *result.Block, string) []float64 {
	panic("metrics: what is derived has no samples")
}
func (s series) samples(c *Cell, b *result.Block, _ string) []float64 { return s(c, b) }

func (x number) samples(c *Cell, b *result.Block, unit string) []float64 {
	if _, per, _ := strings.Cut(unit, "/"); per != "" {
		x = ratio(x, map[string]number{"round": rounds, "GB": gigabytes}[per])
	}
	if n := x(c, b); !math.IsNaN(n) {
		return []float64{n}
	}
	return nil
}

// each is a series of times of a block, but for those of which the sample is NaN.
func each(times func(b *result.Block) []int64, sample func(c *Cell, b *result.Block, i int, ns int64) float64) series {
	return func(c *Cell, b *result.Block) (all []float64) {
		for i, ns := range times(b) {
			if x := sample(c, b, i, ns); !math.IsNaN(x) {
				all = append(all, x)
			}
		}
		return all
	}
}

// durations are times of a block, in seconds.
func durations(of func(b *result.Block) []int64) series {
	return each(of, func(_ *Cell, _ *result.Block, _ int, ns int64) float64 { return float64(ns) / float64(time.Second) })
}

// untrained are times that enclose the worker function, without it.
func untrained(of func(b *result.Block) []int64) series {
	return each(of, func(_ *Cell, b *result.Block, i int, ns int64) float64 {
		return float64(ns-b.Train[i]) / float64(time.Second)
	})
}

// ratio is x ÷ y, where y is above zero.
func ratio(x, y number) number {
	return func(c *Cell, b *result.Block) float64 {
		divisor := y(c, b)
		return given(divisor > 0, x(c, b)/divisor)
	}
}

// given is x if it is known, and NaN if not.
func given(known bool, x float64) float64 {
	if !known {
		return math.NaN()
	}
	return x
}

// from is what of makes of x, and NaN if there is no x.
func from[T any](x *T, of func(x *T) float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return of(x)
}

// What numbers are divided by.
func rounds(_ *Cell, b *result.Block) float64       { return float64(len(b.Round)) }
func clientRounds(c *Cell, b *result.Block) float64 { return rounds(c, b) * float64(c.Clients) }
func payload(c *Cell, b *result.Block) float64      { return rounds(c, b) * float64(c.Payload()) }
func gigabytes(c *Cell, b *result.Block) float64    { return payload(c, b) / 1e9 }

// processes returns the server and all workers of a block.
func processes(b *result.Block) []*result.Process {
	all := []*result.Process{&b.Server}
	for i := range b.Processes {
		all = append(all, &b.Processes[i])
	}
	return all
}

// sum is what all processes of a block spent, if all of them know.
func sum(of func(p *result.Process) float64) number {
	return func(c *Cell, b *result.Block) float64 {
		total := 0.0
		for _, p := range processes(b) {
			total += of(p)
		}
		return given(total > 0 || c.Peer == "", total) // a peer leaves out what it does not know
	}
}

// server is what the server spent.
func server(of func(p *result.Process) float64) number {
	return func(_ *Cell, b *result.Block) float64 { return of(&b.Server) }
}

// most is the largest of what processes have, and at least 0.
func most(of []*result.Process, x func(p *result.Process) float64) float64 {
	largest := 0.0
	for _, p := range of {
		largest = max(largest, x(p))
	}
	return largest
}

// inGo leaves out cells with processes that are not in Go: Go's runtime counts
// nothing there, and the kernel counts no recv and send.
func inGo(x number) number {
	return func(c *Cell, b *result.Block) float64 { return given(c.Peer == "" && c.Language == "", x(c, b)) }
}

// spent is the time in phases, added up over all spans in all processes.
func spent(phases ...phase.Phase) number {
	return func(_ *Cell, b *result.Block) float64 {
		sum, recorded := int64(0), false
		for _, p := range phases {
			ns, ok := b.Phases[p.String()]
			sum, recorded = sum+ns, recorded || ok
		}
		return given(recorded, float64(sum)/float64(time.Second))
	}
}

// counter is a counter of a transport. One that does not have the counter does not have the
// metric.
func counter(name string) number {
	return counters(name, func(rest string) bool { return rest == "" })
}

// timer is a counter of nanoseconds, in seconds.
func timer(name string) number {
	return func(c *Cell, b *result.Block) float64 { return counter(name)(c, b) / float64(time.Second) }
}

// counters is the sum of all counters with a prefix and a wanted rest of their name. It is
// known if there is any with the prefix.
func counters(prefix string, wanted func(rest string) bool) number {
	return func(c *Cell, b *result.Block) float64 {
		sum, counted := int64(0), false
		for name, n := range c.counts(b) {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				counted = true
				if wanted(rest) {
					sum += n
				}
			}
		}
		return given(counted, float64(sum))
	}
}
