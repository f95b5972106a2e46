package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A quantity is the dimension of cells that a sweep varies.
type quantity struct {
	Name  string // in titles and tables
	axis  string // the dimension of cells
	Unit  string
	of    func(metrics.Group) float64 // its value in a group; 0 if it cannot be swept
	clear func(*metrics.Group)        // makes all groups of a sweep equal
}

var quantities = []*quantity{
	{"size", "model", "iB", func(g metrics.Group) float64 { return uniformBytes(g.Model.Name, g.Model.Bytes) }, func(g *metrics.Group) {
		g.Model = result.Model{Name: "uniform", Tensors: g.Model.Tensors, Up: g.Model.Up}
	}},
	{"update size", "up", "iB", func(g metrics.Group) float64 { return uniformBytes(g.Model.Up, g.Model.UpBytes) }, func(g *metrics.Group) {
		g.Model.Up, g.Model.UpBytes = "uniform", 0
	}},
	{"clients", "clients", "1", func(g metrics.Group) float64 { return float64(g.Clients) }, func(g *metrics.Group) { g.Clients = 0 }},
	{"workers", "workers", "1", func(g metrics.Group) float64 { return float64(g.Workers) }, func(g *metrics.Group) { g.Workers = 0 }},
}

// uniformBytes returns the size of a model or an update that is named uniform. It returns 0
// for others, which differ in more than their size.
func uniformBytes(name string, bytes int64) float64 {
	if !strings.HasPrefix(name, "uniform:") {
		return 0
	}
	return float64(bytes)
}

// without returns g without the quantity, which is equal for all groups of a sweep.
func (q *quantity) without(g metrics.Group) metrics.Group {
	q.clear(&g)
	return g
}

// leastSteps is the smallest number of values that make a curve.
const leastSteps = 3

// A Sweep is cells that differ in one quantity only.
type Sweep struct {
	metrics.Yardstick
	Over  *quantity
	Group metrics.Group // of all cells, without the quantity
	At    []float64     // values of the quantity, ascending: the steps
	Lines []*line       // in the order of the result
}

type line struct {
	Variant string          // the cells' label
	Cells   []*metrics.Cell // one per step; nil if no round was timed
}

func (l *line) name() string { return l.Variant }

// Ranked reports whether the line can be the fastest and can have crossings. The control
// and unproved lines cannot.
func (l *line) Ranked() bool {
	return !slices.ContainsFunc(l.Cells, func(c *metrics.Cell) bool { return c != nil && !c.Ranked() })
}

// SweepsOf returns all sweeps of the result, the ones with the most steps first.
func SweepsOf(r *metrics.Result) []*Sweep {
	var all []*Sweep
	for _, q := range quantities {
		cells := Only(r.Cells, func(c *metrics.Cell) bool { return q.of(c.Group()) > 0 && c.Of("round").Center > 0 })
		for _, same := range metrics.GroupBy(cells, func(c *metrics.Cell) metrics.Group { return q.without(c.Group()) }) {
			if s := newSweep(q, same); len(s.At) >= leastSteps {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Sweep) int { return len(b.At) - len(a.At) })
	return all
}

// newSweep returns the sweep of the cells, which may have fewer than leastSteps steps. A value
// with the control alone is no step.
func newSweep(q *quantity, cells []*metrics.Cell) *Sweep {
	s := &Sweep{Yardstick: metrics.YardstickOf(cells), Over: q, Group: q.without(cells[0].Group())}
	for _, c := range cells {
		if !c.IsControl() {
			s.At = append(s.At, q.of(c.Group()))
		}
	}
	slices.Sort(s.At)
	s.At = slices.Compact(s.At)
	for _, variant := range metrics.GroupBy(cells, (*metrics.Cell).Label) {
		l := &line{Variant: variant[0].Label(), Cells: make([]*metrics.Cell, len(s.At))}
		for _, c := range variant {
			if i, ok := slices.BinarySearch(s.At, q.of(c.Group())); ok && l.Cells[i] == nil {
				l.Cells[i] = c
			}
		}
		s.Lines = append(s.Lines, l)
	}
	return s
}

// A stretch is consecutive steps of a sweep at which the same transports may be the fastest.
type stretch struct {
	From, To int       // first and last step
	Best     []*line   // the fastest first
	Since    *crossing // crossing with the stretch before; nil if there is none or it is unknown
	Next     *line     // the fastest other line with a cell at all of these steps; nil if none
	NextLow  float64   // smallest and largest ratio of its times to the best
	NextHigh float64
}

// Envelope returns the fastest transports along the sweep, in as few stretches as the verdicts
// of the steps allow.
func (s *Sweep) Envelope() []*stretch {
	var all []*stretch
	last := &stretch{} // without transports
	for i := range s.At {
		cells := doc.Each(s.Lines, func(l *line) *metrics.Cell { return l.Cells[i] })
		v, ok := contrast.DecideBy(Only(cells, func(c *metrics.Cell) bool { return c != nil }), s.Yardstick)
		if !ok {
			continue
		}
		fastest := func(lines []*line) []*line {
			return Only(lines, func(l *line) bool { return slices.Contains(v.Fastest(), l.Cells[i]) })
		}
		if still := fastest(last.Best); len(still) > 0 {
			last.To, last.Best = i, still
			continue
		}
		last = &stretch{From: i, To: i, Best: fastest(s.Lines)}
		all = append(all, last)
	}
	for i, part := range all {
		s.order(part)
		if i > 0 {
			part.Since = s.between(all[i-1], part)
		}
	}
	return all
}

// order sorts the best of a stretch and finds the next transport. A line's level is the sum of
// the logarithms of its times in the stretch.
func (s *Sweep) order(part *stretch) {
	level := func(l *line) (sum float64) {
		for _, c := range l.Cells[part.From : part.To+1] {
			sum += math.Log(c.Of(s.By).Center)
		}
		return sum
	}
	faster := func(a, b *line) int { return cmp.Compare(level(a), level(b)) }
	slices.SortStableFunc(part.Best, faster)
	others := Only(s.Lines, func(l *line) bool {
		return l.Ranked() && !slices.Contains(part.Best, l) && !slices.Contains(l.Cells[part.From:part.To+1], nil)
	})
	if len(others) == 0 {
		return
	}
	part.Next, part.NextLow = slices.MinFunc(others, faster), math.Inf(1)
	for k := part.From; k <= part.To; k++ {
		times := part.Next.Cells[k].Of(s.By).Center / part.Best[0].Cells[k].Of(s.By).Center
		part.NextLow, part.NextHigh = min(part.NextLow, times), max(part.NextHigh, times)
	}
}

// between returns the crossing of two neighbouring stretches, of their fastest lines if
// possible, or nil.
func (s *Sweep) between(a, b *stretch) *crossing {
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

// MostSweeps is the largest number of sweeps that a view shows. The format json has all.
const MostSweeps = 6

// Sweeps is the view crossover: rounds as a function of the quantity, and where transports
// swap ranks.
func Sweeps(r *metrics.Result) doc.Section {
	s, all := doc.Section{Title: "Crossings"}, SweepsOf(r)
	if len(all) == 0 {
		s.Tables = []doc.Table{envelope(&Sweep{Over: &quantity{Unit: "B"}})}
	}
	for i, sweep := range all {
		t := envelope(sweep)
		t.Caption = SweepTitle(sweep) + ": the fastest"
		if i >= MostSweeps {
			t.ForPrograms = true
		} else {
			s.Plots = append(s.Plots, curves(sweep))
			if sweep.Over.axis == "model" {
				s.Plots = append(s.Plots, sweep.plot("goodput", doc.Axis{Name: "goodput", Unit: "B/s"}))
			}
			s.Lead = append(s.Lead, doc.Say(fasterSince(sweep))...)
		}
		s.Tables = append(s.Tables, t)
	}
	if left := len(all) - MostSweeps; left > 0 {
		s.Tail = doc.Say(doc.Plural(left, "more sweep") + ": ipcbench report --format json has all.")
	}
	return s
}

// fasterSince says from which step on the fastest transport of the last step is shown to be faster
// than each other one. The steps of all of them are one family.
func fasterSince(s *Sweep) string {
	stretches := s.Envelope()
	if len(stretches) == 0 {
		return ""
	}
	fastest := stretches[len(stretches)-1].Best[0]
	var lines []*line // of the contrasts of the family, with their steps
	var at []int
	var family []contrast.Contrast
	for _, l := range s.Lines {
		if l == fastest || !l.Ranked() {
			continue
		}
		for _, m := range s.meetings(fastest, l) {
			lines, at, family = append(lines, l), append(at, m.step), append(family, m.Contrast)
		}
	}
	all := contrast.Judge("of these", contrast.Alpha, family)
	if len(all) == 0 {
		return ""
	}
	if j := all[0]; !slices.ContainsFunc(all, func(j contrast.Judged) bool { return !j.Blind() }) {
		return fmt.Sprintf("%s: too few blocks to show from which step on one transport is faster, %s: use --blocks %d.", SweepTitle(s), j.Family(), j.Needed())
	}
	since, open := map[*line]int{}, map[*line]bool{} // the step from which on a line is slower; where it is not
	for k, j := range slices.Backward(all) {
		if open[lines[k]] = open[lines[k]] || !j.Shown || j.More.Center <= 0; !open[lines[k]] {
			since[lines[k]] = at[k]
		}
	}
	var parts []string
	for i := range s.At {
		slower := Only(s.Lines, func(l *line) bool { first, ok := since[l]; return ok && first == i })
		if len(slower) > 0 {
			parts = append(parts, "than "+doc.List(doc.Each(slower, (*line).name))+" from "+step(s, i)+" on"+Unless(i > 0,
				", the smallest measured"))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return SweepTitle(s) + ": " + fastest.Variant + " is shown to be faster " + strings.Join(parts, "; ") + "."
}

// Step returns the step at which c was measured, or -1.
func (s *Sweep) Step(c *metrics.Cell) int {
	for _, l := range s.Lines {
		if i := slices.Index(l.Cells, c); i >= 0 {
			return i
		}
	}
	return -1
}

// FasterFrom says from which step on one of a pair of transports is faster. winners has 1 for each step at which the
// first is shown to be faster, -1 if the second is, and 0 if neither is.
func FasterFrom(s *Sweep, pair [2]string, winners map[int]int) string {
	last := len(s.At) - 1
	first, winner := last, winners[last]
	if winner == 0 {
		return fmt.Sprintf("At %s, the last of %d, neither %s nor %s is shown to be faster.", steps(s, last, last), last+1, pair[0], pair[1])
	}
	for first > 0 && winners[first-1] == winner {
		first--
	}
	if winner < 0 {
		pair = [2]string{pair[1], pair[0]}
	}
	from := "below " + steps(s, 0, 0) + " on, the first"
	if s.Over.Unit != "iB" { // nothing is below one worker or client
		from = steps(s, 0, 0) + " on, the first"
	}
	if first > 0 {
		from = steps(s, first, first) + " on, one"
	}
	return fmt.Sprintf("%s is shown to be faster than %s from %s of %d up to %s.", pair[0], pair[1], from, last+1, steps(s, last, last))
}

// SweepTitle names the settings that the cells of a sweep have in common, and the range of the
// quantity.
func SweepTitle(s *Sweep) string {
	m := s.Group.Model
	of := map[string]string{
		"model": sizeOf(m, m.Bytes), "up": m.Up, "workers": doc.Plural(s.Group.Workers, "worker"), "clients": doc.Plural(s.Group.Clients, "client"),
	}
	of[s.Over.axis] = steps(s, 0, len(s.At)-1)
	if s.Over.axis == "up" {
		of["up"] += " in " + doc.Plural(m.UpTensors, "tensor")
	}
	parts := []string{m.Name, of["model"] + " in " + doc.Plural(m.Tensors, "tensor"), "up " + of["up"], of["workers"], of["clients"], s.Group.Program}
	parts = Only(parts, func(part string) bool { return part != "" && part != "up " })
	return strings.Join(append(parts, s.Group.Headings()...), ", ")
}

// step names a step of a sweep.
func step(s *Sweep, i int) string {
	if s.Over.Unit == "iB" {
		return doc.Quantity("iB", s.At[i])
	}
	return strconv.Itoa(int(s.At[i]))
}

func steps(s *Sweep, from, to int) string {
	if s.Over.Unit == "iB" {
		return span(step(s, from), step(s, to))
	}
	return Between(int(s.At[from]), int(s.At[to]), strings.TrimSuffix(s.Over.Name, "s"))
}

// plot has a curve of a metric for each transport.
func (s *Sweep) plot(metric string, value doc.Axis) doc.Plot {
	p := doc.Plot{Caption: SweepTitle(s), Kind: doc.Curves, At: doc.Axis{Name: s.Over.Name, Unit: s.Over.Unit, Log: true}, Value: value}
	for _, l := range s.Lines {
		of := doc.Series{Name: l.Variant, Dim: !l.Ranked()}
		control := false
		for i, c := range l.Cells {
			if c != nil {
				of.Points = append(of.Points, doc.Point{At: s.At[i], Value: c.Of(metric), Text: c.Name()})
				control = c.IsControl()
			}
		}
		switch {
		case control:
			p.Notes = []string{l.Variant + ": " + controlNote + "."}
		case of.Dim:
			of.Name += " (unproved)"
		}
		p.Series = append(p.Series, of)
	}
	return p
}

// curves plots the rounds of all transports, with marks where another one becomes the fastest.
func curves(s *Sweep) doc.Plot {
	p := s.plot(s.By, doc.Axis{Name: s.By, Unit: "s", Log: true})
	for _, of := range s.Envelope() {
		if c := of.Since; c != nil {
			text := c.After.Variant + " overtakes " + c.Before.Variant + " at " + crossingText(s, c)
			p.Marks = append(p.Marks, doc.Mark{At: c.At.Center, Value: s.round(c.Before, c.At.Center), Text: text})
		}
	}
	return p
}

// envelope has a row for each stretch of a sweep.
func envelope(s *Sweep) doc.Table {
	shared := Axes("transport", "codec", "language", s.Over.axis)
	t := doc.Table{
		Key: "crossings", Help: "a stretch of a sweep: steps in a row with the same fastest transports",
		Keys: 2 + len(shared) + 1, Columns: slices.Concat([]doc.Column{{Name: "from"}, {Name: "to"}}, AxisColumns(shared), []doc.Column{
			{Key: "over", Help: "the quantity that varies: size, update size, clients or workers"},
			{Name: "best", List: true, Wrap: true, Help: "the transports that no other is shown to beat at any of these steps"},
			{Name: s.By, Key: "-", Wrap: true,
				Help: "the time of the first of the best, at the first and at the last of these steps"},
			{Name: "next", Wrap: true, Help: "the fastest of the others, and its time as a multiple of the best"},
			{Key: "next_low", Unit: "1", Help: "the smallest of its times at these steps, each as a multiple of the best"},
			{Key: "next_high", Unit: "1", Help: "the largest of them"},
			{Key: "overtakes", Help: "the best transport of the steps before"},
			{Name: "takes over at", Key: "at", Unit: s.Over.Unit, Wrap: true,
				Help: "where both take equally long, interpolated between steps " +
					"on logarithmic scales; and the range in which neither is shown to be faster"},
		})}
	for i := range t.Columns {
		t.Columns[i].Always = false // a sweep has no column for the dimension that it varies
	}
	for _, part := range s.Envelope() {
		row := doc.Cells(step(s, part.From), step(s, part.To), AxisCells(shared, part.Best[0].Cells[part.From]),
			s.Over.Name,
			doc.As(doc.Each(part.Best, (*line).name), best(part)), bestRounds(s, part), make([]doc.Cell, 5))
		next, since := row[len(row)-5:], row[len(row)-2:]
		if l := part.Next; l != nil {
			copy(next, doc.Cells(doc.As(l.Variant, l.Variant+", "+times(part)), part.NextLow, part.NextHigh))
		}
		if c := part.Since; c != nil {
			copy(since, doc.Cells(c.Before.Variant, doc.As(c.At, crossingText(s, c))))
		}
		t.Add(row)
	}
	return t
}

func best(part *stretch) string { return FewNames(part.Best, (*line).name) }

func bestRounds(s *Sweep, part *stretch) string {
	round := func(step int) string { return doc.Quantity("s", part.Best[0].Cells[step].Of(s.By).Center) }
	return span(round(part.From), round(part.To))
}

// times returns the range of the ratio of the next transport to the best.
func times(part *stretch) string {
	return span(doc.Quantity("1", part.NextLow), doc.Quantity("1", part.NextHigh)) + " times"
}

// MostStretches is the largest number of stretches that a screen names.
const MostStretches = 3

// EnvelopeLines returns the envelope in sentences.
func EnvelopeLines(s *Sweep) []doc.Paragraph {
	lines, all := YardstickText(s.Yardstick), s.Envelope()
	for _, part := range all[:min(len(all), MostStretches)] {
		text := steps(s, part.From, part.To) + ": nothing is shown to be faster than " + best(part)
		if part.Next != nil {
			text += "; the next, " + part.Next.Variant + ", takes " + times(part) + " as long"
		}
		lines = append(lines, text+".")
	}
	if more := len(all) - MostStretches; more > 0 {
		lines = append(lines, doc.Plural(more, "more change")+": --view crossover")
	}
	return doc.Say(lines...)
}

func SweepTable(s *Sweep) doc.Section {
	return doc.Section{Title: SweepTitle(s), Lead: doc.Say(YardstickText(s.Yardstick)...),
		Tables: []doc.Table{unexplained(envelope(s))}}
}

// SweptOf returns the sweeps of a result, and a function that reports whether a group is in
// one of them.
func SweptOf(r *metrics.Result) (all []*Sweep, swept func(metrics.Group) bool) {
	all = SweepsOf(r)
	return all, func(g metrics.Group) bool {
		return slices.ContainsFunc(all, func(s *Sweep) bool { return s.Over.of(g) > 0 && s.Over.without(g) == s.Group })
	}
}

// crossingText returns the value of a crossing. It is a bound if the sweep ends before one of
// the two is shown to be faster.
func crossingText(s *Sweep, c *crossing) string {
	switch {
	case math.IsInf(c.At.Low, 0):
		return doc.Quantity(s.Over.Unit, c.At.High) + " or below"
	case math.IsInf(c.At.High, 0):
		return doc.Quantity(s.Over.Unit, c.At.Low) + " or above"
	}
	return doc.Bounded(s.Over.Unit, c.At)
}
