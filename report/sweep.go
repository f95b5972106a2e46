package report

import (
	"fmt"
	"math"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// What a view shows of sweeps. The format json has all.
const (
	mostSweeps    = 6
	mostCrossings = 12 // of a sweep
)

// sweeps shows how rounds depend on what a run varied, and where transports change
// places.
func sweeps(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Crossings"}
	all := r.Sweeps()
	if left := len(all) - mostSweeps; left > 0 {
		all, s.Tail = all[:mostSweeps], doc.Say(doc.Plural(left, "more sweep")+": report --format json has all.")
	}
	for _, of := range all {
		if of.Over != analysis.Models {
			s.Plots = append(s.Plots, curves(of))
			s.Tables = append(s.Tables, envelope(of))
		}
		if t := crossings(of); len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
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
	last := len(s.At) - 1
	steps := step(s, 0) + " to " + step(s, last)
	switch s.Over {
	case analysis.Size:
		model = "uniform, " + steps + " in " + doc.Plural(m.Tensors, "tensor")
	case analysis.UpdateSize:
		up = ", up " + steps + " in " + doc.Plural(m.UpTensors, "tensor")
	case analysis.Workers:
		workers = steps + " workers"
	case analysis.Clients:
		clients = steps + " clients"
	case analysis.Models:
		model = doc.Plural(len(s.At), "model")
	}
	title := model + up + ", " + workers + ", " + clients
	if s.Group.Build != "" {
		title += ", " + s.Group.Build
	}
	return title
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
	if s.Over != analysis.Models {
		return strings.TrimSuffix(doc.Quantity(unitOf(s.Over), s.At[i]), ".00")
	}
	for _, l := range s.Lines {
		if c := l.Cells[i]; c != nil {
			return c.Model.Label()
		}
	}
	return ""
}

// curves draws the rounds of all transports, with marks where another one becomes the
// fastest.
func curves(s *analysis.Sweep) doc.Plot {
	p := doc.Plot{
		Caption: sweepTitle(s), Kind: doc.Curves,
		At: doc.Axis{Name: string(s.Over), Unit: unitOf(s.Over), Log: true}, Value: doc.Axis{Name: "round", Unit: "s", Log: true},
	}
	for _, l := range s.Lines {
		of := doc.Series{Name: l.Variant}
		for i, c := range l.Cells {
			if c != nil {
				of.Points = append(of.Points, doc.Point{At: s.At[i], Value: c.Of("round"), Text: c.Name()})
			}
		}
		p.Series = append(p.Series, of)
		if l.IsControl() {
			p.Notes = []string{l.Variant + ": the same work without leaving the process."}
		}
	}
	for _, of := range s.Envelope() {
		if c := of.Since; c != nil {
			p.Marks = append(p.Marks, doc.Mark{At: c.At.Center, Value: c.Round, Text: c.After.Variant + " overtakes " + c.Before.Variant + " at " + crossing(s, c)})
		}
	}
	return p
}

// envelope says who is the best from where on.
func envelope(s *analysis.Sweep) doc.Table {
	t := doc.Table{Caption: sweepTitle(s) + ": the fastest", Columns: []doc.Column{
		{Name: "from"}, {Name: "to"}, {Name: "fastest", Wrap: true},
		{Name: "changes at", Help: "where both take as long: on a line between two steps, in logarithms; and the range in which neither is shown to be faster"},
	}}
	for _, of := range s.Envelope() {
		at := ""
		if of.Since != nil {
			at = crossing(s, of.Since)
		}
		t.Add(doc.Words(step(s, of.From)), doc.Words(step(s, of.To)), doc.Words(either(of.Best, func(l *analysis.Line) string { return l.Variant })), doc.Words(at))
	}
	return t
}

// crossings are those of all pairs.
func crossings(s *analysis.Sweep) doc.Table {
	all := s.Crossings()
	t := doc.Table{Caption: sweepTitle(s) + ": all crossings", Keys: 2, Columns: []doc.Column{
		{Name: "faster below"}, {Name: "faster above"}, {Name: "crossing", Wrap: true},
	}}
	if left := len(all) - mostCrossings; left > 0 {
		all = all[:mostCrossings]
		t.Notes = []string{doc.Plural(left, "more crossing") + ", of slower transports: report --format json has all."}
	}
	for _, c := range all {
		t.Add(doc.Words(c.Before.Variant), doc.Words(c.After.Variant), doc.Words(crossing(s, &c)))
	}
	return t
}

// crossing says where a crossing is.
func crossing(s *analysis.Sweep, c *analysis.Crossing) string {
	if !c.At.Known() {
		return "between " + step(s, c.Steps[0]) + " and " + step(s, c.Steps[1])
	}
	unit := unitOf(s.Over)
	low, high := doc.Quantity(unit, c.At.Low), doc.Quantity(unit, c.At.High)
	switch {
	case math.IsInf(c.At.Low, 0):
		return doc.Quantity(unit, c.At.Center) + " (from below " + step(s, c.Steps[0]) + " to " + high + ")"
	case math.IsInf(c.At.High, 0):
		return doc.Quantity(unit, c.At.Center) + " (from " + low + ", not separated up to " + step(s, c.Steps[1]) + ")"
	}
	return doc.Bounded(unit, c.At)
}
