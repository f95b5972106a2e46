package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// mostSweeps is how many a view shows. The format json has all.
const mostSweeps = 6

// sweeps shows how rounds depend on what a run varied, and where transports change
// places.
func sweeps(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Crossings"}
	for i, of := range r.Sweeps() {
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
func sweepTitle(s *analysis.Sweep) string {
	m := s.Group.Model
	model := fmt.Sprintf("%s, %s in %s", m.Name, size(m.Bytes), doc.Plural(m.Tensors, "tensor"))
	up, workers, clients := "", doc.Plural(s.Group.Workers, "worker"), doc.Plural(s.Group.Clients, "client")
	if m.Up != "" {
		up = ", up " + m.Up
	}
	all := steps(s, 0, len(s.At)-1)
	switch s.Over {
	case analysis.Size:
		model = "uniform, " + all + " in " + doc.Plural(m.Tensors, "tensor")
	case analysis.UpdateSize:
		up = ", up " + all + " in " + doc.Plural(m.UpTensors, "tensor")
	case analysis.Workers:
		workers = all
	case analysis.Clients:
		clients = all
	}
	parts := []string{model + up, workers, clients}
	if s.Group.Build != "" {
		parts = append(parts, s.Group.Build)
	}
	return strings.Join(append(parts, s.Group.Headings()...), ", ")
}

// unitOf is the unit of what a sweep varies.
func unitOf(q analysis.Quantity) string {
	if q == analysis.Size || q == analysis.UpdateSize {
		return "iB"
	}
	return "1"
}

// step names a step of a sweep.
func step(s *analysis.Sweep, i int) string {
	if unitOf(s.Over) == "iB" {
		return doc.Quantity("iB", s.At[i])
	}
	return strconv.Itoa(int(s.At[i]))
}

// steps names neighbouring steps.
func steps(s *analysis.Sweep, from, to int) string {
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
func curves(s *analysis.Sweep) doc.Plot {
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
func envelope(s *analysis.Sweep) doc.Table {
	varied := map[analysis.Quantity]string{analysis.Size: "model", analysis.UpdateSize: "up", analysis.Clients: "clients", analysis.Workers: "workers"}[s.Over]
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
	first := s.Lines[slices.IndexFunc(s.Lines, func(l analysis.Line) bool { return l.Cells[0] != nil })].Cells[0]
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

func best(of analysis.Stretch) string {
	return either(of.Best, func(l *analysis.Line) string { return l.Variant })
}

// bestRounds says how long the best takes at both ends of a stretch.
func bestRounds(s *analysis.Sweep, of analysis.Stretch) string {
	round := func(i int) string { return doc.Quantity("s", of.Best[0].Cells[i].Of(s.By).Center) }
	if first, last := round(of.From), round(of.To); first != last {
		return first + " to " + last
	}
	return round(of.From)
}

// times says how often the fastest round fits into the next one.
func times(of analysis.Stretch) string {
	low, high := doc.Quantity("1", of.NextLow), doc.Quantity("1", of.NextHigh)
	if low == high {
		return low + " times"
	}
	return low + " to " + high + " times"
}

// mostStretches is how many a screen names.
const mostStretches = 3

// envelopeLines are the envelope in sentences.
func envelopeLines(s *analysis.Sweep) []doc.Paragraph {
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
func sweepTable(s *analysis.Sweep) doc.Section {
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
func sweptOf(r *analysis.Result) (all []*analysis.Sweep, swept func(analysis.Group) bool) {
	all = r.Sweeps()
	return all, func(g analysis.Group) bool {
		return slices.ContainsFunc(all, func(s *analysis.Sweep) bool { return s.Has(g) })
	}
}

// crossing says where a crossing is: as a bound where the sweep ends before one of the
// two is shown to be faster.
func crossing(s *analysis.Sweep, c *analysis.Crossing) string {
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
