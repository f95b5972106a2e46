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

// Profiled returns the cell's profile of a kind, which package capture lists, or nil.
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

// profiledBlocks returns the blocks in which p was taken.
func (c *Cell) profiledBlocks(p *result.Profile) []result.Block {
	return slices.DeleteFunc(slices.Clone(c.Blocks[p.First:p.First+p.Blocks]), func(b result.Block) bool {
		return !b.Profiled // an edited file may name blocks without a profile
	})
}

// profiled returns the metrics of profiles.
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
		{"profile_cpu_per_gb", "s/GB", Lower, "CPU time per GB of delivered payload, from the samples of a CPU profile",
			of(func(_ *Cell, s *result.Summary) float64 { return part(s.Total, s.Delivered) })}, // ns per byte equals s per GB
		{"profile_server", "1", "", "the server's share of the CPU time", of(func(_ *Cell, s *result.Summary) float64 {
			server := int64(0)
			for _, split := range s.Phases {
				server += split.Server
			}
			return s.Share(server)
		})},
		{"profile_sampled", "1", "", "CPU time in the samples ÷ CPU time that the kernel counted", of((*Cell).sampled)},
		{"profile_attributed", "1", "", "share of the samples in transport code that have a phase",
			of(func(_ *Cell, s *result.Summary) float64 { return part(s.Attributed, s.Transport) })},
		{"memmove_copies", "1", Lower, "an estimate: CPU time in memmove × bandwidth of the floor copy ÷ payload; copies inside libraries are included",
			of(func(c *Cell, s *result.Summary) float64 {
				copied := c.FloorValue(FloorCopy)
				if !copied.Known() || !c.Of("kernel_copies").Known() { // the profile lacks processes that are not in Go
					return math.NaN()
				}
				return part(s.Memmove, s.Delivered) / 1e9 * copied.Center
			})},
	}
	for _, k := range capture.Kinds() {
		all = append(all, Metric{"slowdown_" + k.Name, "1", Lower, "round while profile " + k.Name + " is taken ÷ round without a profile",
			derived(func(c *Cell) stat.Interval {
				p := c.Profiled(k.Name)
				if p == nil {
					return stat.None()
				}
				return stat.Ratio(c.Medians("round"), stat.Medians(c.samples("round", c.profiledBlocks(p))))
			})})
	}
	return all
}

// part returns x ÷ all, or NaN if all is 0.
func part(x, all int64) float64 { return knownIf(all != 0, float64(x)/float64(all)) }

// sampled returns the CPU time in the samples of a CPU profile ÷ the CPU time that the kernel
// counted in its blocks.
func (c *Cell) sampled(s *result.Summary) float64 {
	used := time.Duration(0)
	blocks := c.profiledBlocks(c.Profiled(capture.CPU))
	for i := range blocks {
		for _, process := range processes(&blocks[i]) {
			used += process.Usage.CPU()
		}
	}
	return part(s.Total, int64(used))
}

// HeaviestPhase returns the phase with the most time of a CPU profile, except training and
// folding, which are the same for all transports. It returns an empty Split if that phase has
// less than 1 % of the time.
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

// Tally sums the counters with a prefix over all timed blocks, keyed by the rest of their names.
// Counters of 0 are left out.
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
