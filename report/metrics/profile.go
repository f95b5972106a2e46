package metrics

import (
	"math"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/profile/capture"
	"ipcbench/phase"
)

// Profiled returns what was profiled of the cell, or nil. Kinds are those of
// package capture.
func (c *Cell) Profiled(kind string) *result.Profile {
	for i := range c.Profiles {
		if c.Profiles[i].Kind == kind {
			return &c.Profiles[i]
		}
	}
	return nil
}

// Summary returns the summary of the cell's profile of a kind, or nil.
func (c *Cell) Summary(kind string) *result.Summary {
	if p := c.Profiled(kind); p != nil {
		return p.Summary
	}
	return nil
}

// watched returns the blocks in which p was taken.
func (c *Cell) watched(p *result.Profile) []result.Block {
	return slices.DeleteFunc(slices.Clone(c.Blocks[p.First:p.First+p.Blocks]), func(b result.Block) bool {
		return !b.Profiled // a file that was edited may name others
	})
}

// profiled are the metrics of profiles.
func profiled() (all []Metric) {
	of := func(share func(c *Cell, s *result.Summary) float64) derived {
		return func(c *Cell) stat.Interval {
			if p := c.Profiled(capture.CPU); p != nil && p.Summary != nil {
				return Exactly(share(c, p.Summary), p.Blocks, p.Blocks)
			}
			return stat.None()
		}
	}
	all = []Metric{
		{"profile_cpu_per_gb", "s/GB", Lower, "CPU time per GB of delivered payload, of the samples of a CPU profile",
			of(func(_ *Cell, s *result.Summary) float64 { return part(s.Total, s.Delivered) })}, // ns for a byte are s for a GB
		{"profile_server", "1", "", "the server's part of the CPU time", of(func(_ *Cell, s *result.Summary) float64 {
			server := int64(0)
			for _, split := range s.Phases {
				server += split.Server
			}
			return s.Share(server)
		})},
		{"profile_sampled", "1", "", "the samples' part of the CPU time that the kernel counted", of((*Cell).sampled)},
		{"profile_attributed", "1", "", "the part of the samples in transport code that has a phase",
			of(func(_ *Cell, s *result.Summary) float64 { return part(s.Attributed, s.Transport) })},
		{"memmove_copies", "1", Lower, "an estimate: the CPU time in memmove × the floor copy; what libraries copy is in it",
			of(func(c *Cell, s *result.Summary) float64 {
				f := c.Floor(FloorCopy)
				if f == nil || !c.Of("kernel_copies").Known() { // half the truth would look like more of it
					return math.NaN()
				}
				return part(s.Memmove, s.Delivered) / 1e9 * stat.Of(f.Blocks).Center
			})},
	}
	for _, k := range capture.Kinds() {
		all = append(all, Metric{"slowdown_" + k.Name, "1", Lower, "a round while profile " + k.Name + " is taken ÷ a round that is not",
			derived(func(c *Cell) stat.Interval {
				p := c.Profiled(k.Name)
				if p == nil {
					return stat.None()
				}
				return stat.Ratio(c.Medians("round"), stat.Medians(c.samples("round", c.watched(p))))
			})})
	}
	return all
}

// part is x as a share of all, and NaN if there is nothing.
func part(x, all int64) float64 { return given(all != 0, float64(x)/float64(all)) }

// sampled is which part of the CPU time that the kernel counted in the blocks of a CPU
// profile is in its samples.
func (c *Cell) sampled(s *result.Summary) float64 {
	used := time.Duration(0)
	blocks := c.watched(c.Profiled(capture.CPU))
	for i := range blocks {
		for _, process := range processes(&blocks[i]) {
			used += process.Usage.CPU()
		}
	}
	return part(s.Total, int64(used))
}

// HeaviestPhase returns the phase of a CPU profile that takes most of its time,
// besides training and folding, which all transports have alike. It is empty if
// that is less than 1 %.
func HeaviestPhase(s *result.Summary) result.Split {
	for _, p := range s.Phases {
		if !p.Rest && p.Flat > 0 && p.Name != phase.Train.String() && p.Name != phase.Fold.String() {
			if s.Share(p.Flat) < 0.01 {
				break
			}
			return p
		}
	}
	return result.Split{}
}

// Tally adds up the counters with a prefix over all blocks, by the rest of their names.
func (c *Cell) Tally(prefix string) map[string]int64 {
	sums := map[string]int64{}
	for i := range c.timed {
		for name, n := range c.counts(&c.timed[i]) {
			if rest, ok := strings.CutPrefix(name, prefix); ok && n > 0 {
				sums[rest] += n
			}
		}
	}
	return sums
}
