package metrics

import (
	"math"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// A source has the samples of a metric in a block: a number, or a series. A derived source computes
// the metric from others instead.
type source interface {
	samples(c *Cell, b *result.Block, unit string) []float64
}

// A number returns one value for a whole block, NaN if it is unknown. The value is the total of
// the block: it is then divided by the unit after the / in the metric's unit, if there is one.
type number func(c *Cell, b *result.Block) float64

// A series returns a sample for each round or client of a block.
type series func(c *Cell, b *result.Block) []float64

// A derived source computes a metric from others. It has no samples.
type derived func(c *Cell) stat.Interval

func (derived) samples(*Cell, *result.Block, string) []float64 {
	panic("metrics: a derived metric has no samples")
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

// each is the series of the samples of a block's times, in ns. Samples that are NaN are left out.
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

// durations is the series of a block's times, in seconds.
func durations(of func(b *result.Block) []int64) series {
	return each(of, func(_ *Cell, _ *result.Block, _ int, ns int64) float64 { return float64(ns) / 1e9 })
}

// untrained is the series of times that include a worker function, less the time of that
// function, in seconds.
func untrained(of func(b *result.Block) []int64) series {
	return each(of, func(_ *Cell, b *result.Block, i int, ns int64) float64 {
		return float64(ns-b.Train[i]) / 1e9
	})
}

// ratio is x ÷ y, or NaN unless y is above zero.
func ratio(x, y number) number {
	return func(c *Cell, b *result.Block) float64 {
		divisor := y(c, b)
		return knownIf(divisor > 0, x(c, b)/divisor)
	}
}

// knownIf returns x if it is known, else NaN.
func knownIf(known bool, x float64) float64 {
	if !known {
		return math.NaN()
	}
	return x
}

// valueOf returns of(x), or NaN if x is nil.
func valueOf[T any](x *T, of func(x *T) float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return of(x)
}

// Divisors of numbers.
func rounds(_ *Cell, b *result.Block) float64       { return float64(len(b.Round)) }
func clientRounds(c *Cell, b *result.Block) float64 { return rounds(c, b) * float64(c.Clients) }
func payload(c *Cell, b *result.Block) float64      { return rounds(c, b) * float64(c.Payload()) }
func gigabytes(c *Cell, b *result.Block) float64    { return payload(c, b) / 1e9 }

// processes returns all processes of a block, the server's first.
func processes(b *result.Block) []*result.Process {
	all := []*result.Process{&b.Server}
	for i := range b.Processes {
		all = append(all, &b.Processes[i])
	}
	return all
}

// sum is the total over all processes of a block. It is NaN if one of them is NaN or, for a
// peer, if the total is 0.
func sum(of func(p *result.Process) float64) number {
	return func(c *Cell, b *result.Block) float64 {
		total := 0.0
		for _, p := range processes(b) {
			total += of(p)
		}
		return knownIf(total > 0 || !c.IsPeer(), total) // a peer leaves out unknown values
	}
}

// server is the value of the server's process.
func server(of func(p *result.Process) float64) number {
	return func(_ *Cell, b *result.Block) float64 { return of(&b.Server) }
}

// most returns the largest x of the processes, and at least 0.
func most(of []*result.Process, x func(p *result.Process) float64) float64 {
	largest := 0.0
	for _, p := range of {
		largest = max(largest, x(p))
	}
	return largest
}

// inGo is x, or NaN for cells with processes that are not in Go: the Go runtime counts
// nothing there, and the kernel does not count recv and send.
func inGo(x number) number {
	return func(c *Cell, b *result.Block) float64 { return knownIf(!c.IsPeer() && c.Language == "", x(c, b)) }
}

// spent is the time in phases, in seconds, summed over all spans in all processes. It is NaN if
// a block has none of the phases.
func spent(phases ...phase.Phase) number {
	return func(_ *Cell, b *result.Block) float64 {
		sum, recorded := int64(0), false
		for _, p := range phases {
			ns, ok := b.Phases[p.String()]
			sum, recorded = sum+ns, recorded || ok
		}
		return knownIf(recorded, float64(sum)/1e9)
	}
}

// counter is a counter of a transport, or NaN for a transport without that counter.
func counter(name string) number {
	return counters(name, func(rest string) bool { return rest == "" })
}

// timer is a counter of nanoseconds, in seconds.
func timer(name string) number {
	return func(c *Cell, b *result.Block) float64 { return counter(name)(c, b) / 1e9 }
}

// counters is the sum of all counters with a prefix for which wanted accepts the rest of the
// name. It is NaN if there is no counter with that prefix.
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
		return knownIf(counted, float64(sum))
	}
}
