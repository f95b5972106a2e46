package report

import (
	"fmt"
	"slices"

	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// mostOpen is the largest number of comparisons that a pull request or a page shows unfolded.
const mostOpen = 4

// request returns a result for a pull request: errors, sweeps, the verdict with warnings, the
// tables, the largest model first, and the machine. All else is folded.
func request(r *metrics.Result, _ Options) doc.Document {
	r = inSight(r)
	d := doc.Document{Lead: answer.ErrorLines(r)}
	swept, inSweep := table.SweptOf(r)
	for i, s := range swept[:min(len(swept), table.MostSweeps)] {
		d.Sections = append(d.Sections, sweepSection(s))
		d.Sections[i].Folded = i >= mostOpen
	}
	var closed, groups []doc.Section
	var explained doc.Section
	for i, cells := range r.Groups() {
		t := table.GroupTable(cells)
		explained.Tables = append(explained.Tables, t)
		s := table.GroupSection(cells[0].Group(), t)
		s.Folded = i >= mostOpen || inSweep(cells[0].Group())
		groups = append(groups, s)
	}
	for _, v := range Views() {
		s := v.section(r)
		if v.Name == "verdict" {
			if !slices.ContainsFunc(r.Groups(), func(cells []*metrics.Cell) bool { return !inSweep(cells[0].Group()) }) {
				s.Tables = nil // the sweeps say the same
			}
			s.Lead = slices.Concat(s.Lead, doc.Say(answer.FleetLines(r)...), answer.OtherLines(r, 20))
		}
		switch s.Folded = s.Folded || v.place >= pageOpen; v.place {
		case open:
			d.Sections = append(d.Sections, s)
		case pageOpen, folded:
			closed = append(closed, s)
		}
	}
	columns := doc.Section{Title: "Columns", Folded: true}
	for _, t := range explained.Help() {
		columns.Lead = append(columns.Lead, doc.Say(t.Word+": "+t.Means)...)
	}
	legend := doc.Section{Tail: append(table.Legend(r), doc.Say(table.Heading(r))...)}
	d.Sections = slices.Concat(d.Sections, groups, []doc.Section{legend, columns}, closed)
	return d
}

// sweepSection describes a sweep in sentences.
func sweepSection(s *table.Sweep) doc.Section {
	return doc.Section{Title: table.SweepTitle(s), Lead: table.EnvelopeLines(s)}
}

// inSight returns a result whose cells are in the order of a page: the largest model first, and
// of each model the fastest transport.
func inSight(r *metrics.Result) *metrics.Result {
	var cells []*metrics.Cell
	for _, group := range bySize(r, -1) {
		v, _ := contrast.Decide(group)
		cells = append(cells, table.InOrder(group, v)...)
	}
	return r.With(cells)
}

// page returns a result as a page of HTML: the verdict, then pictures with the tables of their
// numbers, the largest model first. All else is folded. names selects views; if it is empty,
// all are shown.
func page(r *metrics.Result, names []string) doc.Document {
	sorted := inSight(r)
	label := func(c *metrics.Cell) string { return c.Model.Label() }
	byModel := metrics.GroupBy(sorted.Cells, label)
	models := doc.Each(byModel, func(cells []*metrics.Cell) string { return label(cells[0]) })
	title := doc.List(models)
	if n := len(models); n == 0 || n > mostOpen {
		title = doc.Plural(len(models), "model")
	}
	return doc.Document{
		Terms: terms(), Title: "ipcbench: " + title,
		Lead:     slices.Concat(answer.ErrorLines(r), doc.Say(table.Heading(r)), doc.Say(answer.FleetLines(r)...)),
		Sections: chosen(names, func(v View) []doc.Section { return v.pictured(sorted) }),
	}
}

// plots are the pictures of groups, for the views that have some.
var plots = map[string]func(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot{
	"cells": table.RoundPlots, "phases": table.TripPlots, "spread": table.SpreadPlots, "floors": table.FloorPlots,
}

// pictured returns a view with its pictures. If it has more than mostOpen groups, the rest is
// in a second, folded section.
func (v View) pictured(r *metrics.Result) (all []doc.Section) {
	groups, draw := r.Groups(), plots[v.Name]
	parts := [][][]*metrics.Cell{groups}
	if draw != nil && len(groups) > mostOpen {
		parts = [][][]*metrics.Cell{groups[:mostOpen], groups[mostOpen:]}
	}
	for i, part := range parts {
		s := v.section(r.With(slices.Concat(part...)))
		switch {
		case v.Name == "verdict" && len(groups) > mostOpen:
			s.Lead, s.Tables = briefVerdicts(r)
		case v.Name == "findings" && len(s.Lead) > mostOpen: // errors are also above all sections
			s.Title, s.Folded = doc.Plural(len(s.Lead), "finding"), true
		}
		s.Folded = s.Folded || v.place == folded
		if draw != nil && !s.Empty() {
			s.Plots = append(draw(r, part), s.Plots...)
		}
		if i > 0 && !s.Empty() {
			s.Title, s.Folded = fmt.Sprintf("%s: %s", s.Title, doc.Plural(len(part), "more comparison")), true
			s.Lead = nil // the leads, and tables without a caption, are about all groups
			s.Tables = slices.DeleteFunc(s.Tables, func(t doc.Table) bool { return t.Caption == "" })
		}
		all = append(all, s)
	}
	return all
}

// briefVerdicts returns a table in the place of many sentences, below the sentences of a sweep.
func briefVerdicts(r *metrics.Result) ([]doc.Paragraph, []doc.Table) {
	s := answer.VerdictSection(r, 0)
	if swept := table.SweepsOf(r); len(swept) > 0 { // the one with the most steps sums up most
		first := sweepSection(swept[0])
		lines := first.Lead[:min(len(first.Lead), table.MostStretches)]
		s.Lead = slices.Concat([]doc.Paragraph{{Text: first.Title, Tone: doc.Strong}}, lines, s.Lead)
	}
	return s.Lead, s.Tables
}

func terms() []doc.Term {
	return doc.Each(Words(), func(w Word) doc.Term { return doc.Term{Word: w.Word, Means: w.Means} })
}
