package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
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
	metrics.Yardstick
	Over  Quantity
	Group metrics.Group // of the first step: what the quantity says of it holds of no other
	At    []float64     // the steps: values of the quantity, in ascending order
	Lines []Line        // in the order of the result
}

// A Line is the cells of one transport in a sweep.
type Line struct {
	Variant string          // as Cell.Label has it
	Cells   []*metrics.Cell // one for each step; nil where no round was timed
}

// IsControl reports whether the line is that of the control, which takes no part in
// crossings.
func (l *Line) IsControl() bool {
	return slices.ContainsFunc(l.Cells, func(c *metrics.Cell) bool { return c != nil && c.IsControl() })
}

// Unproved reports whether some of the line is of a peer that could not prove its rounds:
// such a line takes no part in crossings either.
func (l *Line) Unproved() bool {
	return slices.ContainsFunc(l.Cells, func(c *metrics.Cell) bool { return c != nil && c.Unproved != "" })
}

// TakesPart reports whether the line is one of those of which one is the fastest.
func (l *Line) TakesPart() bool {
	return !slices.ContainsFunc(l.Cells, func(c *metrics.Cell) bool { return c != nil && !c.TakesPart() })
}

// vary returns what is left of a group without a quantity, and how much of it the
// group has; ok is false if it has none that could be swept.
func (q Quantity) vary(g metrics.Group) (rest metrics.Group, at float64, ok bool) {
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

// sweepsOf returns all sweeps of the result, those with the most steps first.
func sweepsOf(r *metrics.Result) []*Sweep {
	var all []*Sweep
	for _, q := range []Quantity{Size, UpdateSize, Clients, Workers} {
		cells := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool {
			_, _, ok := q.vary(c.Group())
			return !ok || !(c.Of("round").Center > 0)
		})
		for _, same := range metrics.GroupBy(cells, func(c *metrics.Cell) metrics.Group { rest, _, _ := q.vary(c.Group()); return rest }) {
			if s := newSweep(q, same); s != nil {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Sweep) int { return len(b.At) - len(a.At) })
	return all
}

// newSweep returns the sweep of the cells, or nil if they are none.
func newSweep(q Quantity, cells []*metrics.Cell) *Sweep {
	at := func(c *metrics.Cell) float64 {
		_, x, _ := q.vary(c.Group())
		return x
	}
	s := &Sweep{Yardstick: metrics.YardstickOf(cells), Over: q}
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
	for _, of := range metrics.GroupBy(cells, (*metrics.Cell).Label) {
		line := Line{Variant: of[0].Label(), Cells: make([]*metrics.Cell, len(s.At))}
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
func (s *Sweep) cells(step int) []*metrics.Cell {
	var all []*metrics.Cell
	for _, l := range s.Lines {
		if c := l.Cells[step]; c != nil {
			all = append(all, c)
		}
	}
	return all
}

// Has reports whether a group is one of the steps.
func (s *Sweep) Has(g metrics.Group) bool {
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
		v, ok := metrics.DecideBy(s.cells(i), s.Yardstick)
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

// mostSweeps is how many a view shows. The format json has all.
const mostSweeps = 6

// sweeps shows how rounds depend on what a run varied, and where transports change
// places.
func sweeps(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "Crossings"}
	for i, of := range sweepsOf(r) {
		t := envelope(of)
		if i >= mostSweeps {
			t.For = doc.Programs
		} else {
			s.Plots = append(s.Plots, curves(of))
		}
		s.Tables = append(s.Tables, t)
	}
	if left := len(s.Tables) - mostSweeps; left > 0 {
		s.Tail = doc.Say(doc.Plural(left, "more sweep") + ": report --format json has all.")
	}
	return s
}

// sweepTitle says what the cells of a sweep have in common, and what they differ in.
func sweepTitle(s *Sweep) string {
	m := s.Group.Model
	model := fmt.Sprintf("%s, %s in %s", m.Name, size(m.Bytes), doc.Plural(m.Tensors, "tensor"))
	up, workers, clients := "", doc.Plural(s.Group.Workers, "worker"), doc.Plural(s.Group.Clients, "client")
	if m.Up != "" {
		up = ", up " + m.Up
	}
	all := steps(s, 0, len(s.At)-1)
	switch s.Over {
	case Size:
		model = "uniform, " + all + " in " + doc.Plural(m.Tensors, "tensor")
	case UpdateSize:
		up = ", up " + all + " in " + doc.Plural(m.UpTensors, "tensor")
	case Workers:
		workers = all
	case Clients:
		clients = all
	}
	parts := []string{model + up, workers, clients}
	if s.Group.Build != "" {
		parts = append(parts, s.Group.Build)
	}
	return strings.Join(append(parts, s.Group.Headings()...), ", ")
}

// unitOf is the unit of what a sweep varies.
func unitOf(q Quantity) string {
	if q == Size || q == UpdateSize {
		return "iB"
	}
	return "1"
}

// step names a step of a sweep.
func step(s *Sweep, i int) string {
	if unitOf(s.Over) == "iB" {
		return doc.Quantity("iB", s.At[i])
	}
	return strconv.Itoa(int(s.At[i]))
}

// steps names neighbouring steps.
func steps(s *Sweep, from, to int) string {
	text := step(s, from)
	if to > from {
		text += " to " + step(s, to)
	}
	switch {
	case unitOf(s.Over) != "1":
		return text
	case s.At[to] == 1:
		return "1 " + strings.TrimSuffix(string(s.Over), "s")
	}
	return text + " " + string(s.Over)
}

// curves draws the rounds of all transports, with marks where another one becomes the
// fastest.
func curves(s *Sweep) doc.Plot {
	p := doc.Plot{
		Caption: sweepTitle(s), Kind: doc.Curves,
		At: doc.Axis{Name: string(s.Over), Unit: unitOf(s.Over), Log: true}, Value: doc.Axis{Name: s.By, Unit: "s", Log: true},
	}
	for _, l := range s.Lines {
		of := doc.Series{Name: l.Variant, Dim: !l.TakesPart()}
		if l.Unproved() {
			of.Name += " (unproved)"
		}
		for i, c := range l.Cells {
			if c != nil {
				of.Points = append(of.Points, doc.Point{At: s.At[i], Value: c.Of(s.By), Text: c.Name()})
			}
		}
		p.Series = append(p.Series, of)
		if l.IsControl() {
			p.Notes = []string{l.Variant + ": " + controlNote + "."}
		}
	}
	for _, of := range s.Envelope() {
		if c := of.Since; c != nil {
			p.Marks = append(p.Marks, doc.Mark{At: c.At.Center, Value: c.Round, Text: c.After.Variant + " overtakes " + c.Before.Variant + " at " + crossing(s, c)})
		}
	}
	return p
}

// envelope says who is the fastest from where on.
func envelope(s *Sweep) doc.Table {
	varied := map[Quantity]string{Size: "model", UpdateSize: "up", Clients: "clients", Workers: "workers"}[s.Over]
	of := axes("transport", "codec", "language", varied)
	t := doc.Table{Key: "crossings", Help: "steps of a sweep at all of which the same transports may be the fastest", Caption: sweepTitle(s) + ": the best", Keys: 2 + len(of) + 1, Columns: slices.Concat(
		[]doc.Column{{Name: "from"}, {Name: "to"}}, axisColumns(of), []doc.Column{{Name: "over", For: doc.Programs, Help: "what the cells differ in: size, update size, clients or workers"},
			{Name: "best", For: doc.People, Wrap: true, Help: "what no other transport is shown to beat at any of these steps"},
			{Name: s.By, For: doc.People, Wrap: true, Help: "of the best, or the first of them, at the first of these steps and at the last"},
			{Name: "next", For: doc.People, Wrap: true, Help: "of the others, and its round as a multiple of that of the best"},
			{Name: "takes over at", For: doc.People, Wrap: true, Help: "where both take as long, on a line between two steps in logarithms; and the range in which neither is shown to be faster"},
			{Name: "best", For: doc.Programs, Help: "what no other transport is shown to beat at any of these steps, the fastest first"},
			{Name: "next", For: doc.Programs, Help: "the fastest of the others"}, {Name: "next_low", For: doc.Programs, Unit: "1", Help: "the least that it takes, as a multiple of the best"},
			{Name: "next_high", For: doc.Programs, Unit: "1", Help: "the most"}, {Name: "overtakes", For: doc.Programs, Help: "the best of the steps before"},
			{Name: "at", For: doc.Programs, Unit: unitOf(s.Over), Help: "where both take as long; a bound is null beyond the end of the sweep"}})}
	first := s.Lines[slices.IndexFunc(s.Lines, func(l Line) bool { return l.Cells[0] != nil })].Cells[0]
	for _, stretch := range s.Envelope() {
		var fastest []string
		for _, l := range stretch.Best {
			fastest = append(fastest, l.Variant)
		}
		row := slices.Concat([]doc.Cell{doc.Words(step(s, stretch.From)), doc.Words(step(s, stretch.To))}, axisCells(of, first), []doc.Cell{doc.Words(string(s.Over)), doc.Words(best(stretch)), doc.Words(bestRounds(s, stretch))})
		next, more, at, since := "", []doc.Cell{{}, {}, {}}, "", []doc.Cell{{}, {}}
		if stretch.Next != nil {
			next = stretch.Next.Variant + ", " + times(stretch)
			more = []doc.Cell{doc.Words(stretch.Next.Variant), doc.Number(stretch.NextLow), doc.Number(stretch.NextHigh)}
		}
		if stretch.Since != nil {
			at = crossing(s, stretch.Since)
			since = []doc.Cell{doc.Words(stretch.Since.Before.Variant), doc.Estimate(stretch.Since.At)}
		}
		t.Add(slices.Concat(row, []doc.Cell{doc.Words(next), doc.Words(at), words(fastest)}, more, since)...)
	}
	return t
}

func best(of Stretch) string {
	return either(of.Best, func(l *Line) string { return l.Variant })
}

// bestRounds says how long the best takes at both ends of a stretch.
func bestRounds(s *Sweep, of Stretch) string {
	round := func(i int) string { return doc.Quantity("s", of.Best[0].Cells[i].Of(s.By).Center) }
	if first, last := round(of.From), round(of.To); first != last {
		return first + " to " + last
	}
	return round(of.From)
}

// times says how often the fastest round fits into the next one.
func times(of Stretch) string {
	low, high := doc.Quantity("1", of.NextLow), doc.Quantity("1", of.NextHigh)
	if low == high {
		return low + " times"
	}
	return low + " to " + high + " times"
}

// mostStretches is how many a screen names.
const mostStretches = 3

// envelopeLines are the envelope in sentences.
func envelopeLines(s *Sweep) []doc.Paragraph {
	all := s.Envelope()
	more := len(all) - mostStretches
	var lines []doc.Paragraph
	if why := yardstickText(s.Yardstick); why != "" {
		lines = doc.Say(why)
	}
	for _, of := range all[:min(len(all), mostStretches)] {
		text := steps(s, of.From, of.To) + ": nothing beats " + best(of)
		if of.Next != nil {
			text += "; the next, " + of.Next.Variant + ", takes " + times(of) + " as long"
		}
		text += "."
		lines = append(lines, doc.Paragraph{Text: text})
	}
	if more > 0 {
		lines = append(lines, doc.Paragraph{Text: doc.Plural(more, "more change") + ": --view crossover"})
	}
	return lines
}

// sweepTable is the envelope of a sweep, without what its columns mean.
func sweepTable(s *Sweep) doc.Section {
	t := envelope(s)
	t.Caption = ""
	for i := range t.Columns {
		t.Columns[i].Help = ""
	}
	of := doc.Section{Title: sweepTitle(s), Tables: []doc.Table{t}}
	if why := yardstickText(s.Yardstick); why != "" {
		of.Lead = doc.Say(why)
	}
	return of
}

// sweptOf returns the sweeps of a result, and whether a group is in one of them.
func sweptOf(r *metrics.Result) (all []*Sweep, swept func(metrics.Group) bool) {
	all = sweepsOf(r)
	return all, func(g metrics.Group) bool {
		return slices.ContainsFunc(all, func(s *Sweep) bool { return s.Has(g) })
	}
}

// crossing says where a crossing is: as a bound where the sweep ends before one of the
// two is shown to be faster.
func crossing(s *Sweep, c *Crossing) string {
	unit := unitOf(s.Over)
	low, high := doc.Quantity(unit, c.At.Low), doc.Quantity(unit, c.At.High)
	switch {
	case math.IsInf(c.At.Low, 0):
		return high + " or below"
	case math.IsInf(c.At.High, 0):
		return low + " or above"
	}
	return doc.Bounded(unit, c.At)
}
