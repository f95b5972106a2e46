package metrics

import (
	"strings"
	"time"

	"ipcbench/bench/result"
)

// A series is the samples of one block.
type series func(c *Cell, b *result.Block) []float64

// seconds returns a series of durations.
func seconds(of func(b *result.Block) []int64) series {
	return func(_ *Cell, b *result.Block) []float64 {
		ns := of(b)
		s := make([]float64, len(ns))
		for i, n := range ns {
			s[i] = float64(n) / float64(time.Second)
		}
		return s
	}
}

// untrained returns a series of durations that enclose the worker function,
// without it.
func untrained(of func(b *result.Block) []int64) series {
	return func(_ *Cell, b *result.Block) []float64 {
		ns := of(b)
		s := make([]float64, len(ns))
		for i, n := range ns {
			s[i] = float64(n-b.Train[i]) / float64(time.Second)
		}
		return s
	}
}

// each returns a series with one sample a block, or none where f does not know.
func each(f func(c *Cell, b *result.Block) (float64, bool)) series {
	return func(c *Cell, b *result.Block) []float64 {
		if x, ok := f(c, b); ok {
			return []float64{x}
		}
		return nil
	}
}

// meanRound returns a series of one sample a block: the mean of its rounds, of
// which the block holds the sum.
func meanRound(sum func(b *result.Block) (ns int64, ok bool)) series {
	return each(func(_ *Cell, b *result.Block) (float64, bool) {
		ns, ok := sum(b)
		return float64(ns) / float64(time.Second) / float64(len(b.Round)), ok
	})
}

// processes returns the server and all workers of a block.
func processes(b *result.Block) []*result.Process {
	all := make([]*result.Process, 0, 1+len(b.Processes))
	all = append(all, &b.Server)
	for i := range b.Processes {
		all = append(all, &b.Processes[i])
	}
	return all
}

// sum returns a series of what all processes of a block spent, divided by what
// per returns for it.
func sum(of func(p *result.Process) (float64, bool), per func(c *Cell, b *result.Block) float64) series {
	return each(func(c *Cell, b *result.Block) (float64, bool) {
		total := 0.0
		for _, p := range processes(b) {
			x, ok := of(p)
			if !ok {
				return 0, false
			}
			total += x
		}
		d := per(c, b)
		return total / d, d > 0 && (total > 0 || c.Peer == "") // a peer leaves out what it does not know
	})
}

// inGo leaves out cells with processes that are not in Go: Go's runtime counts
// nothing there, and the kernel counts no recv and send.
func inGo(s series) series {
	return func(c *Cell, b *result.Block) []float64 {
		if c.Peer != "" || c.Language != "" {
			return nil
		}
		return s(c, b)
	}
}

func perRound(_ *Cell, b *result.Block) float64 { return float64(len(b.Round)) }

// perGB is the payload that a block delivered in its timed rounds.
func perGB(c *Cell, b *result.Block) float64 {
	return float64(c.Payload()) * float64(len(b.Round)) / 1e9
}

func whole(*Cell, *result.Block) float64 { return 1 }

func ns(d time.Duration) (float64, bool) { return d.Seconds(), true }
func number(n int64) (float64, bool)     { return float64(n), true }

// counted returns a series of a counter per round, times unit. A transport that
// does not have the counter does not have the metric.
func counted(name string, unit float64) series {
	return each(func(_ *Cell, b *result.Block) (float64, bool) {
		n, ok := b.Counts()[name]
		return float64(n) * unit / float64(len(b.Round)), ok
	})
}

// prefixed returns the sum of all counters with a prefix, and whether there are
// any.
func prefixed(counts map[string]int64, prefix string) (sum int64, any bool) {
	for name, n := range counts {
		if strings.HasPrefix(name, prefix) {
			sum, any = sum+n, true
		}
	}
	return sum, any
}
