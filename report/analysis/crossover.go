package analysis

import (
	"cmp"
	"slices"

	"ipcbench/bench/stat"
)

// fastPath is what the name of a transport has behind it if it goes around itself
// on the same host.
const fastPath = "-shm"

// A Meeting is two transports that did the same work.
type Meeting struct {
	A, B  *Cell
	Ratio stat.Interval // round of B over that of A: above 1 where A is faster
}

// Crossovers returns pairs of transports, each at all of its models, the smallest
// payload first. First come those of a transport's fast path with the transport: they
// say from which size on the fast path pays. Then come those of which each is shown
// to be faster than the other at some model; A is the faster one at the largest.
func (r *Result) Crossovers() [][]Meeting {
	type line struct {
		build            string
		workers, clients int
		variant          string
	}
	cells := slices.DeleteFunc(slices.Clone(r.Cells), (*Cell).IsControl)
	lines := GroupBy(cells, func(c *Cell) line { return line{c.Build, c.Workers, c.Clients, c.Variant} })
	var fast, others [][]Meeting
	for _, as := range lines {
		for _, bs := range lines {
			met := meetings(as, bs)
			if len(met) < 2 {
				continue
			}
			won := slices.ContainsFunc(met, func(m Meeting) bool { return m.Ratio.Excludes(1) && m.Ratio.Center > 1 })
			lost := slices.ContainsFunc(met, func(m Meeting) bool { return m.Ratio.Excludes(1) && m.Ratio.Center < 1 })
			switch a, b := as[0].Variant, bs[0].Variant; {
			case a == b+fastPath:
				fast = append(fast, met)
			case won && lost && b != a+fastPath && met[len(met)-1].Ratio.Center > 1:
				others = append(others, met)
			}
		}
	}
	return append(fast, others...)
}

// meetings pairs cells that did the same work, the smallest first.
func meetings(as, bs []*Cell) []Meeting {
	var all []Meeting
	for _, a := range as {
		for _, b := range bs {
			if a.Group() == b.Group() {
				all = append(all, Meeting{a, b, b.Ratio("round", a)})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y Meeting) int {
		return cmp.Or(cmp.Compare(x.A.Model.Payload(), y.A.Model.Payload()), cmp.Compare(x.A.Model.Tensors, y.A.Model.Tensors))
	})
	return all
}
