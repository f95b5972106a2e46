package analysis

import (
	"cmp"
	"slices"
	"strings"

	"ipcbench/bench/stat"
)

// fastPath is what the name of a transport has behind it if it goes around itself
// on the same host.
const fastPath = "-shm"

// A Meeting is two transports at one model, with the same workers and clients.
type Meeting struct {
	A, B  *Cell
	Ratio stat.Interval // round of B over that of A
}

// Winner is 1 where A is faster, -1 where B is, and 0 where the interval of the
// ratio includes 1.
func (m Meeting) Winner() int {
	switch {
	case !m.Ratio.Excludes(1):
		return 0
	case m.Ratio.Center > 1:
		return 1
	}
	return -1
}

// Plain returns the cell that does not go around itself, of a pair of which one
// does.
func (m Meeting) Plain() *Cell {
	if strings.HasSuffix(m.A.Variant, fastPath) {
		return m.B
	}
	return m.A
}

// A Crossover is a pair of transports over several models. A is the one that is
// ahead at the largest model, or else anywhere, if either is.
type Crossover struct {
	Build            string
	Workers, Clients int
	FastPath         bool      // B is A with a path around itself on the same host, or the other way round
	Meetings         []Meeting // two or more, the smallest payload first
}

// Ahead returns the meetings with that [Meeting.Winner].
func (x Crossover) Ahead(winner int) []Meeting {
	return slices.DeleteFunc(slices.Clone(x.Meetings), func(m Meeting) bool { return m.Winner() != winner })
}

// Ordered reports whether B wins at the smaller models and A at the larger ones,
// so that there is one point at which A overtakes B.
func (x Crossover) Ordered() bool {
	return x.Meetings[len(x.Meetings)-1].Winner() != 0 && slices.IsSortedFunc(append(x.Ahead(-1), x.Ahead(1)...), bySize)
}

// Crossovers returns the pairs of transports of which each is faster than the
// other at some model, and all pairs of a transport with its own fast path: those
// say from which size on the fast path pays.
func (r *Result) Crossovers() []Crossover {
	type work struct {
		build            string
		workers, clients int
	}
	var all []Crossover
	cells := slices.DeleteFunc(slices.Clone(r.Cells), (*Cell).IsControl)
	for _, same := range GroupBy(cells, func(c *Cell) work { return work{c.Build, c.Workers, c.Clients} }) {
		variants := GroupBy(same, func(c *Cell) string { return c.Variant })
		for i, as := range variants {
			for _, bs := range variants[i+1:] {
				a, b := as[0], bs[0]
				x := Crossover{
					Build: a.Build, Workers: a.Workers, Clients: a.Clients,
					FastPath: a.Variant+fastPath == b.Variant || b.Variant+fastPath == a.Variant,
					Meetings: meetings(as, bs),
				}
				crosses := len(x.Ahead(1)) > 0 && len(x.Ahead(-1)) > 0
				if len(x.Meetings) < 2 || !x.FastPath && !crosses {
					continue
				}
				if x.Meetings[len(x.Meetings)-1].Winner() < 0 || len(x.Ahead(1)) == 0 && len(x.Ahead(-1)) > 0 {
					x.Meetings = meetings(bs, as)
				}
				all = append(all, x)
			}
		}
	}
	return all
}

// meetings pairs cells of the same model, the smallest first.
func meetings(as, bs []*Cell) []Meeting {
	var all []Meeting
	for _, a := range as {
		for _, b := range bs {
			if a.Model == b.Model {
				all = append(all, Meeting{a, b, b.Ratio("round", a)})
			}
		}
	}
	slices.SortStableFunc(all, bySize)
	return all
}

func bySize(x, y Meeting) int {
	return cmp.Or(cmp.Compare(x.A.Model.Payload(), y.A.Model.Payload()), cmp.Compare(x.A.Model.Tensors, y.A.Model.Tensors))
}

// OverheadShare returns overhead ÷ round: the part of a round that moving tensors
// takes.
func (c *Cell) OverheadShare() stat.Interval {
	o := c.Of("overhead")
	if !o.Known() {
		return o
	}
	return quotient(o, c.Of("round"))
}
