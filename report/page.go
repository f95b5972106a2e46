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
func request(r *metrics.Result) doc.Document {
	r = inSight(r)
	d := doc.Document{Lead: answer.ErrorLines(r)}
	swept, inSweep := table.SweptOf(r)
	for i, of := range swept[:min(len(swept), table.MostSweeps)] {
		d.Sections = append(d.Sections, doc.Section{Title: table.SweepTitle(of), Lead: table.EnvelopeLines(of), Folded: i >= mostOpen})
	}
	var closed []doc.Section
	for _, v := range Views() {
		s := v.section(r)
		if v.Name == "verdict" {
			if !slices.ContainsFunc(r.Groups(), func(cells []*metrics.Cell) bool { return !inSweep(cells[0].Group()) }) {
				s.Tables = nil // the sweeps say the same
			}
			s.Lead = slices.Concat(s.Lead, doc.Say(answer.FleetLines(r)...), answer.OtherLines(r, 20))
		}
		switch v.request {
		case open:
			d.Sections = append(d.Sections, s)
		case folded:
			s.Folded = true
			closed = append(closed, s)
		}
	}
	var explained doc.Section
	for i, cells := range r.Groups() {
		g, t := cells[0].Group(), table.GroupTable(cells)
		explained.Tables = append(explained.Tables, t)
		s := table.GroupSection(g, t)
		s.Folded = i >= mostOpen || inSweep(g)
		d.Sections = append(d.Sections, s)
	}
	d.Sections = append(d.Sections, doc.Section{Tail: append(table.Legend(r), doc.Say(table.Heading(r))...)})
	d.Sections = append(d.Sections, doc.Section{Title: "Columns", Folded: true, Lead: table.Each(explained.Help(), func(t doc.Term) doc.Paragraph {
		return doc.Paragraph{Text: t.Word + ": " + t.Means}
	})})
	d.Sections = append(d.Sections, closed...)
	return d
}

// inSight returns a result whose cells are in the order of a page: the largest model first, and
// of each model the fastest transport.
func inSight(r *metrics.Result) *metrics.Result {
	var cells []*metrics.Cell
	for _, of := range bySize(r, -1) {
		v, _ := contrast.Decide(of)
		cells = append(cells, table.InOrder(of, v)...)
	}
	return r.With(cells)
}

// page returns a result as a page of HTML: the verdict, then pictures with the tables of their
// numbers, the largest model first. All else is folded. names selects views; if it is empty,
// all are shown.
func page(r *metrics.Result, names []string) doc.Document {
	sorted := inSight(r)
	label := func(c *metrics.Cell) string { return c.Model.Label() }
	models := table.Each(metrics.GroupBy(sorted.Cells, label), func(of []*metrics.Cell) string { return label(of[0]) })
	title := doc.List(models)
	if len(models) > mostOpen {
		title = doc.Plural(len(models), "model")
	}
	return doc.Document{
		Terms: terms(), Title: "ipcbench: " + title,
		Lead:     append(answer.ErrorLines(r), doc.Say(append([]string{table.Heading(r)}, answer.FleetLines(r)...)...)...),
		Sections: chosen(names, func(v View) []doc.Section { return v.pictured(sorted) }),
	}
}

// pictured returns a view with its pictures. If it has more than mostOpen groups, the rest is
// in a second, folded section.
func (v View) pictured(r *metrics.Result) (all []doc.Section) {
	groups := r.Groups()
	parts := [][][]*metrics.Cell{groups}
	if v.draw != nil && len(groups) > mostOpen {
		parts = [][][]*metrics.Cell{groups[:mostOpen], groups[mostOpen:]}
	}
	for i, of := range parts {
		s := v.section(r.With(slices.Concat(of...)))
		if v.brief != nil {
			s = v.brief(r, s)
		}
		s.Folded = s.Folded || v.page == folded
		if v.draw != nil && !s.Empty() {
			s.Plots = append(v.draw(r, of), s.Plots...)
		}
		if i > 0 && !s.Empty() {
			s.Title, s.Folded = fmt.Sprintf("%s: %s", s.Title, doc.Plural(len(of), "more comparison")), true
			s.Lead, s.Tables = nil, slices.DeleteFunc(s.Tables, func(t doc.Table) bool { return t.Caption == "" }) // these are about all groups
		}
		all = append(all, s)
	}
	return all
}

// briefVerdicts replaces many sentences by a table, below the sentences of a sweep.
func briefVerdicts(r *metrics.Result, s doc.Section) doc.Section {
	if len(r.Groups()) <= mostOpen {
		return s
	}
	brief := answer.VerdictSection(r, 0)
	s.Lead, s.Tables = brief.Lead, brief.Tables
	if swept := table.SweepsOf(r); len(swept) > 0 { // as on a screen: the sweep with the most steps is the shortest summary
		lines := table.EnvelopeLines(swept[0])
		s.Lead = slices.Concat([]doc.Paragraph{{Text: table.SweepTitle(swept[0]), Tone: doc.Strong}}, lines[:min(len(lines), table.MostStretches)], s.Lead)
	}
	return s
}

// briefFindings folds many findings. Errors are also above all sections.
func briefFindings(_ *metrics.Result, s doc.Section) doc.Section {
	if len(s.Lead) > mostOpen {
		s.Title, s.Folded = doc.Plural(len(s.Lead), "finding"), true
	}
	return s
}

func terms() []doc.Term {
	return table.Each(Words(), func(w Word) doc.Term { return doc.Term{Word: w.Word, Means: w.Means} })
}
