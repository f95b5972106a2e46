package report

import (
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// open are the views that a page shows unfolded, in this order; the others follow.
var open = []string{"verdict", "findings", "change", "hosts", "break-even", "tls", "gain", "cells", "crossover", "phases", "spread", "floors"}

// page is a result as a page of HTML: what to use and how sure that is, then pictures
// with the tables that hold their numbers, the largest model first; all else is
// folded. Names of views, if there are any, choose among them.
func page(r *metrics.Result, names []string) doc.Document {
	chosen := len(names) > 0 && !slices.Contains(names, "all")
	if !chosen {
		names = slices.Clone(open)
		for _, v := range Views() {
			if !slices.Contains(names, v.Name) {
				names = append(names, v.Name)
			}
		}
	}
	sorted := *r
	sorted.Cells = nil
	for _, cells := range bySize(r, -1) {
		sorted.Cells = append(sorted.Cells, ranked(cells)...)
	}
	var models []string
	for _, c := range sorted.Cells {
		if !slices.Contains(models, c.Model.Label()) {
			models = append(models, c.Model.Label())
		}
	}
	title := doc.List(models)
	if len(models) > mostOpen {
		title = doc.Plural(len(models), "model")
	}
	d := doc.Document{Terms: terms(), Title: "ipcbench: " + title, Lead: append(errorLines(r), doc.Say(append([]string{machineLine(r)}, fleetLines(r)...)...)...)}
	for _, name := range names {
		made := pictured(&sorted, name)
		if chosen && !slices.ContainsFunc(made, func(s doc.Section) bool { return !s.Empty() }) {
			made = []doc.Section{blank(name)}
		}
		for _, s := range made {
			at := len(d.Sections)
			if name == "crossover" && len(s.Plots) > 0 { // of a sweep, it says more than all single sizes
				at = max(0, slices.IndexFunc(d.Sections, func(s doc.Section) bool { return s.Name == "cells" }))
			}
			d.Sections = slices.Insert(d.Sections, at, s)
		}
	}
	return d
}

// terms are the glossary as a page has it.
func terms() []doc.Term {
	var all []doc.Term
	for _, w := range Words() {
		all = append(all, doc.Term{Word: w.Word, Means: w.Means})
	}
	return all
}

// ranked returns the cells of a group, the fastest first and the control last.
func ranked(cells []*metrics.Cell) []*metrics.Cell {
	v, _ := metrics.Decide(cells)
	return inOrder(cells, v)
}

// pictured returns a view with its pictures: in two sections, of which the second one
// is folded, if it has more groups than a reader looks at.
func pictured(r *metrics.Result, name string) []doc.Section {
	groups := r.Groups()
	if plots[name] == nil || len(groups) <= mostOpen {
		s := view(r, name)
		s.Folded = !slices.Contains(open, name)
		switch {
		case name == "verdict" && len(groups) > mostOpen:
			s = verdictSection(r, 0)
			s.Name = name
			if swept := sweepsOf(r); len(swept) > 0 { // as on a screen: the sweep with the most steps says it shortest
				lines := envelopeLines(swept[0])
				s.Lead = slices.Concat([]doc.Paragraph{{Text: sweepTitle(swept[0]), Tone: doc.Strong}}, lines[:min(len(lines), mostStretches)], s.Lead)
			}
		case name == "findings" && len(s.Lead) > mostOpen: // errors stand above all sections too
			s.Title, s.Folded = doc.Plural(len(s.Lead), "finding"), true
		}
		if draw := plots[name]; draw != nil && !s.Empty() {
			s.Plots = append(draw(r, groups), s.Plots...)
		}
		return []doc.Section{s}
	}
	var all []doc.Section
	for i, of := range [][][]*metrics.Cell{groups[:mostOpen], groups[mostOpen:]} {
		part := *r
		part.Cells = slices.Concat(of...)
		s := view(&part, name)
		if s.Empty() {
			continue
		}
		s.Plots = append(plots[name](r, of), s.Plots...)
		if i > 0 {
			s.Title, s.Folded = fmt.Sprintf("%s: %s", s.Title, doc.Plural(len(of), "more comparison")), true
			s.Lead, s.Tables = nil, slices.DeleteFunc(s.Tables, func(t doc.Table) bool { return t.Caption == "" }) // of all groups
		}
		all = append(all, s)
	}
	return all
}

// plots are the pictures of views that have some for each group. r is the whole
// result, of which all pictures share the points that a page may have.
var plots = map[string]func(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot{
	"cells":  roundPlots,
	"phases": tripPlots,
	"spread": spreadPlots,
	"floors": floorPlots,
}

// wide is from which ratio on values stand on a logarithmic axis.
const wide = 10

// logarithmic reports whether the values need such an axis.
func logarithmic(values []float64) bool {
	return len(values) > 1 && slices.Min(values) > 0 && slices.Max(values)/slices.Min(values) > wide
}

// dots is a plot with a row for each cell in which a metric is known, in the colour of
// its transport. row names them.
func dots(r *metrics.Result, cells []*metrics.Cell, metric string, row func(c *metrics.Cell) string) doc.Plot {
	m, _ := metrics.MetricNamed(metric)
	p := doc.Plot{Caption: groupTitle(cells[0].Group()), Kind: doc.Dots, Value: doc.Axis{Name: m.Name, Unit: m.Unit}}
	var values []float64
	for _, c := range cells {
		if i := c.Of(metric); i.Known() {
			values = append(values, i.Center)
			p.Series = append(p.Series, doc.Series{Name: variant(c), Dim: !c.TakesPart(), Points: []doc.Point{{Name: row(c), Value: i, Text: strings.Join(details(c, r.Plan), "; ")}}})
		}
	}
	p.Value.Log = logarithmic(values)
	return p
}

// roundPlots are the rounds of each group side by side.
func roundPlots(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	var all []doc.Plot
	for _, cells := range groups {
		all = drawn(all, dots(r, cells, metrics.YardstickOf(cells).By, func(c *metrics.Cell) string { return variant(c) }))
	}
	return all
}

// floorPlots are how far the cells of each group are from the floors that bound them.
func floorPlots(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	var all []doc.Plot
	for _, cells := range groups {
		p := dots(r, cells, "floor_ratio", func(c *metrics.Cell) string { name, _ := c.Bound(); return variant(c) + ", " + name })
		limit := 1.0
		p.Rule, p.Value.Name = &limit, "× floor"
		all = drawn(all, p)
	}
	if len(all) > 0 {
		all[len(all)-1].Notes = append(all[len(all)-1].Notes, "The line is the floor. Of streams, which are bandwidths, a share is shown: left of the line is slower. Of the others, which are times, a multiple: right of it is slower.")
	}
	return all
}

// drawn adds a plot that has points.
func drawn(all []doc.Plot, p doc.Plot) []doc.Plot {
	if !slices.ContainsFunc(p.Series, func(s doc.Series) bool { return len(s.Points) > 0 }) {
		return all
	}
	return append(all, p)
}

// tripPlots are the parts of a client's round trip, which add up to it.
func tripPlots(_ *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	var all []doc.Plot
	for _, cells := range groups {
		p := doc.Plot{Caption: groupTitle(cells[0].Group()), Kind: doc.Bars, Value: doc.Axis{Name: "a client's round trip", Unit: "s"}}
		p.Series = []doc.Series{{Name: "down"}, {Name: "between"}, {Name: "train"}, {Name: "uplink"}}
		for _, c := range cells {
			t, ok := tripOf(c)
			if !ok {
				continue
			}
			for k, x := range []float64{t.Down, t.Between, t.Train, t.Uplink} {
				p.Series[k].Points = append(p.Series[k].Points, doc.Point{Name: variant(c), Value: stat.Interval{Center: x}})
			}
		}
		all = drawn(all, p)
	}
	if len(all) > 0 {
		all[len(all)-1].Notes = []string{"The parts of a bar add up to the round trip: each is the mean over the middle half of all round trips by their length. Tables hold medians, which need not add up. " +
			"between: the worker has the model, and has not yet reserved the memory of its update. What the server does before and after, such as folding, is in no client's round trip."}
	}
	return all
}

// What pictures of rounds may hold on one page, in points, and in one curve: more
// would not be seen, and take longer to open.
const (
	mostShares, leastShares   = 6_000, 15
	mostSamples, leastSamples = 6_000, 3
	sharesOfCurve             = 100
	samplesOfBlock            = 24
)

// spreadPlots are the distribution of rounds, and their course in time.
func spreadPlots(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	blocks := 0
	for _, c := range r.Cells {
		blocks += len(c.Timed())
	}
	shares := max(leastShares, min(sharesOfCurve, mostShares/max(len(r.Cells), 1)))
	samples := max(leastSamples, min(samplesOfBlock, mostSamples/max(blocks, 1)))
	since := doc.Axis{Name: "since the run began", Unit: "s"}
	timed := slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool {
		return slices.ContainsFunc(c.Timed(), func(b result.Block) bool { return b.At > 0 })
	})
	if !timed { // in a file that does not know when
		since = doc.Axis{Name: "block", Unit: "1"}
	}
	var all []doc.Plot
	for _, cells := range groups {
		title := groupTitle(cells[0].Group())
		parts := doc.Plot{Caption: "Distribution of rounds, " + title, At: doc.Axis{Name: "round", Unit: "s"}, Value: doc.Axis{Name: "rounds that took at most that long", Unit: "%"}, Steps: true}
		times := doc.Plot{Caption: "Rounds in the course of the run, " + title, At: since, Value: doc.Axis{Name: "round", Unit: "s", Log: true}, Apart: true}
		var rounds []float64
		for _, c := range cells {
			d, k := doc.Series{Name: variant(c), Dim: c.IsControl()}, doc.Series{Name: variant(c), Dim: c.IsControl()}
			for _, s := range distribution(c, shares) {
				rounds = append(rounds, s.Round)
				d.Points = append(d.Points, doc.Point{At: s.Round, Value: stat.Interval{Center: s.Part}})
			}
			for _, s := range course(c, samples) {
				if !timed {
					s.At = float64(s.Index + 1)
				}
				k.Points = append(k.Points, doc.Point{At: s.At, Value: stat.Interval{Center: s.Median}, Samples: s.Rounds})
			}
			if len(d.Points) > 0 {
				parts.Series, times.Series = append(parts.Series, d), append(times.Series, k)
			}
		}
		parts.At.Log = logarithmic(rounds)
		all = drawn(drawn(all, parts), times)
	}
	if len(all) > 0 {
		all[len(all)-1].Notes = []string{fmt.Sprintf("A curve has at most %d steps of a distribution. A line joins the medians of blocks, and the small dots are rounds: at most %d of a block, "+
			"the fastest, the slowest, and of the others some at even distances. Each panel has a scale of its own.", shares, samples)}
	}
	return all
}

// changePlots are, for each metric of rows, base and head side by side, and by how much
// they differ.
func changePlots(of naming, rows []Row) []doc.Plot {
	var made []doc.Plot
	for _, same := range byMetric(rows) {
		m, none := same[0].Metric, 0.0
		both := doc.Plot{Caption: of.title(same[0]), Kind: doc.Dots, Value: doc.Axis{Name: m.Name, Unit: m.Unit},
			Series: []doc.Series{{Name: "base", Dim: true}, {Name: "head"}}}
		change := doc.Plot{Caption: said("Change of "+m.Name, of.common, same[0].Cell), Kind: doc.Dots, Rule: &none,
			Value: doc.Axis{Name: "head against base", Unit: "%", Change: true}, Series: []doc.Series{{Name: "shown"}, {Name: "none shown", Dim: true}}}
		var values []float64
		for _, r := range same {
			name := said(r.Cell.Variant, of.apart, r.Cell)
			values = append(values, r.Base.Center, r.Head.Center)
			for i, x := range []stat.Interval{r.Base, r.Head} {
				both.Series[i].Points = append(both.Series[i].Points, doc.Point{Name: name, Value: x})
			}
			i := 1
			if r.Significant {
				i = 0
			}
			change.Series[i].Points = append(change.Series[i].Points, doc.Point{Name: name, Value: r.Ratio.Map(func(x float64) float64 { return x - 1 }), Text: "p " + pText(r.P)})
		}
		both.Value.Log = logarithmic(values)
		made = append(made, both, change)
	}
	return made
}
