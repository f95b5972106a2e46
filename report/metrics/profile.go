package metrics

import (
	"cmp"
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

// Slowdown returns the round in the blocks of a profile of a kind over the round
// without it. It is not Known if there is no such profile.
func (c *Cell) Slowdown(kind string) stat.Interval {
	p := c.Profiled(kind)
	if p == nil {
		return stat.None()
	}
	return stat.Ratio(c.Medians("round"), stat.Medians(c.samples("round", c.watched(p))))
}

// Sampled returns which part of the CPU time that the kernel counted in the
// blocks of a CPU profile is in its samples. It is not known if there was none.
func (c *Cell) Sampled(p *result.Profile) (part float64, known bool) {
	var used time.Duration
	blocks := c.watched(p)
	for i := range blocks {
		for _, process := range processes(&blocks[i]) {
			used += process.Usage.CPU()
		}
	}
	return float64(p.Summary.Total) / float64(used), used > 0
}

// HeaviestPhase returns the phase of a CPU profile that takes most of its time,
// besides training and folding, which all transports have alike. It is nil if
// that is less than 1 %.
func HeaviestPhase(s *result.Summary) *result.Split {
	i := slices.IndexFunc(s.Phases, func(p result.Split) bool {
		return !p.Rest && p.Flat > 0 && p.Name != phase.Train.String() && p.Name != phase.Fold.String()
	})
	if i < 0 || s.Share(s.Phases[i].Flat) < 0.01 {
		return nil
	}
	return &s.Phases[i]
}

// Copies say how often a byte of the payload is copied on its way.
type Copies struct {
	Ours, Kernel stat.Interval // the metrics copies and kernel_copies
	Memmove      float64       // estimated from the CPU profile: the time in memmove × the floor copy; below 0 if not known
	Zero         bool          // none of the tensors is copied
	InLibraries  float64       // copies that libraries make: what memmove did beyond what our code counted; 0 if that is too little to be sure
	InCache      bool          // our code counted more than memmove can have done: it copied in cache
}

const (
	// uncopied is how much of the bytes may be copied if none of the tensors is:
	// jobs, receipts, and the harness's own reads of /proc.
	uncopied = 0.02
	// copyTolerance is how well the estimate of copies is expected to agree with the
	// count, as a share of it.
	copyTolerance = 0.25
)

// Copies returns the copies of the cell, and whether both counts are known.
func (c *Cell) Copies() (Copies, bool) {
	k := Copies{Ours: c.Of("copies"), Kernel: c.Of("kernel_copies"), Memmove: -1}
	if !k.Ours.Known() || !k.Kernel.Known() {
		return k, false // half the truth would look like more of it
	}
	s := c.Summary(capture.CPU)
	if f := c.Floor(FloorCopy); s != nil && s.Delivered != 0 && f != nil {
		k.Memmove = float64(s.Memmove) / 1e9 * stat.Of(f.Blocks).Center / float64(s.Delivered)
	}
	ours, known := k.Ours.Center, k.Memmove >= 0
	k.Zero = ours < uncopied && k.Kernel.Center < uncopied && k.Memmove < uncopied
	if more := k.Memmove - ours; known && more > copyTolerance*max(ours, 1) {
		k.InLibraries = more
	} else {
		k.InCache = known && -more > copyTolerance*ours
	}
	return k, true
}

// A Call is a method that a cell's workers called.
type Call struct {
	Method   string
	PerRound float64
	Share    float64 // of all calls
}

// Calls returns which methods were called, the most frequent first.
func (c *Cell) Calls() []Call {
	sums := map[string]int64{}
	total := int64(0)
	for i := range c.timed {
		for name, n := range c.timed[i].Counts() {
			if method, ok := strings.CutPrefix(name, phase.Calls); ok && n > 0 {
				sums[method] += n
				total += n
			}
		}
	}
	calls := make([]Call, 0, len(sums))
	for method, n := range sums {
		calls = append(calls, Call{method, float64(n) / float64(c.Rounds()), float64(n) / float64(total)})
	}
	slices.SortFunc(calls, func(a, b Call) int {
		return cmp.Or(cmp.Compare(b.PerRound, a.PerRound), cmp.Compare(a.Method, b.Method))
	})
	return calls
}
