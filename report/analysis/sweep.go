package analysis

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/result"
)

// A Quantity is what the cells of a sweep differ in.
type Quantity string

// The quantities.
const (
	Size       Quantity = "size"        // bytes of models named uniform, which have as many tensors
	UpdateSize Quantity = "update size" // bytes of updates named uniform
	Clients    Quantity = "clients"
	Workers    Quantity = "workers"
)

// leastSteps is how many values make a curve.
const leastSteps = 3

// A Sweep is cells that share everything but one quantity.
type Sweep struct {
	Yardstick
	Over  Quantity
	Group Group     // of the first step: what the quantity says of it holds of no other
	At    []float64 // the steps: values of the quantity, in ascending order
	Lines []Line    // in the order of the result
}

// A Line is the cells of one transport in a sweep.
type Line struct {
	Variant string  // as Cell.Label has it
	Cells   []*Cell // one for each step; nil where no round was timed
}

// IsControl reports whether the line is that of the control, which takes no part in
// crossings.
func (l *Line) IsControl() bool {
	return slices.ContainsFunc(l.Cells, func(c *Cell) bool { return c != nil && c.IsControl() })
}

// Unproved reports whether some of the line is of a peer that could not prove its rounds:
// such a line takes no part in crossings either.
func (l *Line) Unproved() bool {
	return slices.ContainsFunc(l.Cells, func(c *Cell) bool { return c != nil && c.Unproved != "" })
}

// TakesPart reports whether the line is one of those of which one is the fastest.
func (l *Line) TakesPart() bool {
	return !slices.ContainsFunc(l.Cells, func(c *Cell) bool { return c != nil && !c.TakesPart() })
}

// vary returns what is left of a group without a quantity, and how much of it the
// group has; ok is false if it has none that could be swept.
func (q Quantity) vary(g Group) (rest Group, at float64, ok bool) {
	m := g.Model
	uniform := func(name string) bool { return strings.HasPrefix(name, "uniform:") }
	rest, ok = g, true
	switch q {
	case Size:
		rest.Model = result.Model{Name: "uniform", Tensors: m.Tensors, Up: m.Up}
		at, ok = float64(m.Bytes), uniform(m.Name)
	case UpdateSize:
		rest.Model.Up, rest.Model.UpBytes = "uniform", 0
		at, ok = float64(m.UpBytes), uniform(m.Up)
	case Clients:
		rest.Clients, at = 0, float64(g.Clients)
	case Workers:
		rest.Workers, at = 0, float64(g.Workers)
	}
	return rest, at, ok && at > 0
}

// Sweeps returns all sweeps of the result, those with the most steps first.
func (r *Result) Sweeps() []*Sweep {
	var all []*Sweep
	for _, q := range []Quantity{Size, UpdateSize, Clients, Workers} {
		cells := slices.DeleteFunc(slices.Clone(r.Cells), func(c *Cell) bool {
			_, _, ok := q.vary(c.Group())
			return !ok || !(c.Of("round").Center > 0)
		})
		for _, same := range GroupBy(cells, func(c *Cell) Group { rest, _, _ := q.vary(c.Group()); return rest }) {
			if s := newSweep(q, same); s != nil {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Sweep) int { return len(b.At) - len(a.At) })
	return all
}

// newSweep returns the sweep of the cells, or nil if they are none.
func newSweep(q Quantity, cells []*Cell) *Sweep {
	at := func(c *Cell) float64 {
		_, x, _ := q.vary(c.Group())
		return x
	}
	s := &Sweep{Yardstick: YardstickOf(cells), Over: q}
	steps := map[float64]bool{}
	for _, c := range cells {
		if !c.IsControl() {
			steps[at(c)] = true
		}
	}
	if len(steps) < leastSteps {
		return nil
	}
	s.At = slices.Sorted(maps.Keys(steps))
	for _, of := range GroupBy(cells, (*Cell).Label) {
		line := Line{Variant: of[0].Label(), Cells: make([]*Cell, len(s.At))}
		for _, c := range of {
			if i, ok := slices.BinarySearch(s.At, at(c)); ok && line.Cells[i] == nil {
				line.Cells[i] = c
				if i == 0 {
					s.Group = c.Group()
				}
			}
		}
		s.Lines = append(s.Lines, line)
	}
	return s
}

// cells returns those of a step.
func (s *Sweep) cells(step int) []*Cell {
	var all []*Cell
	for _, l := range s.Lines {
		if c := l.Cells[step]; c != nil {
			all = append(all, c)
		}
	}
	return all
}

// Has reports whether a group is one of the steps.
func (s *Sweep) Has(g Group) bool {
	rest, _, ok := s.Over.vary(g)
	own, _, _ := s.Over.vary(s.Group)
	return ok && rest == own
}

// A Stretch is neighbouring steps at all of which the same transports may be the
// fastest.
type Stretch struct {
	From, To int       // steps
	Best     []*Line   // the one with the fastest rounds first
	Since    *Crossing // with the stretch before; nil if there is none, or if it cannot be told
	Next     *Line     // the fastest of the others at all of these steps; nil if there is none
	NextLow  float64   // the least and the most that its round is of that of the best, as a multiple
	NextHigh float64
}

// Envelope returns which transports are the fastest from where on, in as few
// stretches as the verdicts of the steps allow.
func (s *Sweep) Envelope() []Stretch {
	var all []Stretch
	for i := range s.At {
		v, ok := decide(s.cells(i), s.Yardstick)
		if !ok {
			continue
		}
		fastest := func(l *Line) bool { return l.Cells[i] != nil && slices.Contains(v.Fastest(), l.Cells[i]) }
		if n := len(all); n > 0 && slices.ContainsFunc(all[n-1].Best, fastest) {
			last := &all[n-1]
			last.To, last.Best = i, slices.DeleteFunc(last.Best, func(l *Line) bool { return !fastest(l) })
			continue
		}
		next := Stretch{From: i, To: i}
		for k := range s.Lines {
			if fastest(&s.Lines[k]) {
				next.Best = append(next.Best, &s.Lines[k])
			}
		}
		all = append(all, next)
	}
	for i := range all {
		of := &all[i]
		slices.SortStableFunc(of.Best, func(a, b *Line) int { return cmp.Compare(s.level(a, of), s.level(b, of)) })
		if i > 0 {
			of.Since = s.between(all[i-1], *of)
		}
		s.follow(of)
	}
	return all
}

// follow finds who comes next in a stretch.
func (s *Sweep) follow(of *Stretch) {
	for i := range s.Lines {
		l := &s.Lines[i]
		if !l.TakesPart() || slices.Contains(of.Best, l) || slices.Contains(l.Cells[of.From:of.To+1], nil) {
			continue
		}
		if of.Next == nil || s.level(l, of) < s.level(of.Next, of) {
			of.Next = l
		}
	}
	if of.Next == nil {
		return
	}
	of.NextLow = math.Inf(1)
	for k := of.From; k <= of.To; k++ {
		times := of.Next.Cells[k].Of(s.By).Center / of.Best[0].Cells[k].Of(s.By).Center
		of.NextLow, of.NextHigh = min(of.NextLow, times), max(of.NextHigh, times)
	}
}

// level is the sum of the logarithms of a line's times in a stretch, of which it has all.
func (s *Sweep) level(l *Line, of *Stretch) float64 {
	sum := 0.0
	for _, c := range l.Cells[of.From : of.To+1] {
		sum += math.Log(c.Of(s.By).Center)
	}
	return sum
}

// between returns the crossing of two neighbouring stretches, that of their fastest
// if these have one.
func (s *Sweep) between(a, b Stretch) *Crossing {
	for _, before := range a.Best {
		for _, after := range b.Best {
			for _, c := range s.cross(before, after) {
				if c.Before == before && c.Steps[0] <= a.To && b.From <= c.Steps[1] {
					return &c
				}
			}
		}
	}
	return nil
}
