package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// ComparisonFormats returns the names of the formats of WriteComparison.
func ComparisonFormats() []string { return []string{"text", "md", "html", "csv", "json"} }

// ComparisonOptions apply to the format text.
type ComparisonOptions struct {
	Details bool            // write everything, as the other formats do
	Text    doc.TextOptions // abilities of the terminal
}

// WriteComparison writes a comparison in one of [ComparisonFormats]. Another format is an
// error.
func WriteComparison(w io.Writer, format string, c *Comparison, o ComparisonOptions) error {
	d := c.document()
	switch format {
	case "text":
		if last := len(d.Sections) - 1; len(c.Rows) > 0 && !o.Details {
			d.Sections[last] = doc.Section{Lead: doc.Say("Intervals, p and blocks of every cell: ipcbench compare --details")}
		}
		return d.Text(w, o.Text)
	case "md":
		return d.Markdown(w)
	case "html":
		d.Title, d.Terms = "ipcbench: what changed", terms()
		return d.HTML(w)
	case "csv":
		return c.data().CSV(w, append(table.AxisNames(table.Axes("program")), "metric", "what", "severity", "rule",
			"cell")...)
	case "json":
		head := struct {
			Answer int    `json:"answer"` // answerVersion
			Kind   string `json:"kind"`
			*Comparison
		}{answerVersion, "comparison", c}
		return c.data().JSON(w, head, "changes", "differences", "findings")
	}
	return fmt.Errorf("unknown format %q: must be one of %s", format, doc.List(ComparisonFormats()))
}

// document returns the verdict, the gate's decision and warnings, then the table of changes
// and all details.
func (c *Comparison) document() doc.Document {
	d := doc.Document{Lead: doc.Strong.Say(c.Verdict.Text)}
	if c.Decision != nil {
		d.Lead = append(d.Lead, c.Decision.paragraphs()...)
	}
	d.Lead = append(d.Lead, doc.Say("Base is "+sourceText(c.Base)+"; head is "+sourceText(c.Head)+".")...)
	d.Lead = append(d.Lead, doc.Bad.Say(warnings(c)...)...)
	if len(c.Rows) > 0 {
		d.Sections = append(d.Sections, changeSection(c))
	}
	d.Sections = append(d.Sections, detailSection(c)) // must be last: text may leave it out
	return d
}

func (c *Comparison) data() doc.Document {
	return doc.Document{Sections: []doc.Section{{Tables: append(c.tables(), differenceTable(c), answer.FindingTable(c.Findings))}}}
}

// changes is the view change, which compares the two builds of an interleaved result.
func changes(v *metrics.Result) doc.Section {
	c, err := Compare(v.Result, nil, CompareOptions{})
	if err != nil {
		return doc.Section{Tables: []doc.Table{new(Comparison).table("s", nil)}} // the result has one build only
	}
	s := changeSection(c)
	s.Lead, s.Title = c.document().Lead, "What changed"
	for _, t := range c.tables() {
		t.ForPrograms = true
		s.Tables = append(s.Tables, t)
	}
	return s
}

// mostRows is the largest number of rows in the table of changes. The details have all rows.
const mostRows = 40

// changeSection returns the changes, largest first, then the cells without a shown difference,
// if there are few enough.
func changeSection(c *Comparison) doc.Section {
	s := doc.Section{Name: "change"}
	rows := slices.Concat(c.Worse(), c.Better())
	for _, r := range c.Rows {
		if !r.Shown {
			rows = append(rows, r)
		}
	}
	n := c.naming()
	s.Plots = changePlots(n, rows[:min(len(rows), mostRows)])
	if len(rows) > mostRows {
		rows = rows[:mostRows]
		s.Tail = doc.Say(doc.Plural(len(c.Rows)-len(rows), "more cell") + ": see the details.")
	}
	for _, rows := range byMetric(rows) {
		unit := rows[0].Metric.Unit
		t := doc.Table{Caption: rowTitle(n, rows[0]), Columns: []doc.Column{{Name: "cell"}, {Name: "base", Unit: unit},
			{Name: "head", Unit: unit}, {Name: "change, %", Help: changeHelp(c)},
			{Name: "would show", Unit: "%", Help: "the smallest change that four of five such runs would have found"}}}
		for _, r := range rows {
			change, tone := signedChange(r.Ratio), doc.Plain
			switch r.verdict() {
			case "worse":
				tone = doc.Bad
			case "better":
				tone = doc.Good
			default:
				change = "not shown, " + doc.Signed(r.Ratio.Low-1) + " to " + doc.Signed(r.Ratio.High-1)
			}
			t.Rows = append(t.Rows, doc.Row{Tone: tone, Cells: doc.Cells(table.Described(r.Cell.Label(), n.Apart, r.Cell),
				r.Base.Center, r.Head.Center, change, table.Finite(r.Detectable-1))})
		}
		t.Notes = table.MarkNotes(doc.Each(rows, func(r Row) contrast.Judged { return r.Judged }))
		s.Tables = append(s.Tables, t)
	}
	return s
}

// table has a row for each row of the comparison, with all columns. They are of one metric.
func (c *Comparison) table(unit string, rows []Row) doc.Table {
	keys, test := table.Axes("program"), len(table.JudgedColumns)-1
	t := doc.Table{Key: "changes", Help: "a metric of a cell that base and head both have", Keys: len(keys) + 2}
	t.Columns = slices.Concat(table.AxisColumns(keys),
		[]doc.Column{{Key: "metric"}, {Name: "cell", Key: "-"},
			{Key: "better", Help: "whether lower or higher is better; absent if neither is"},
			{Key: "verdict", Help: "worse, better, or none shown"},
			{Name: "base", Unit: unit}, {Name: "head", Unit: unit},
			{Name: "change, %", Key: "ratio", Unit: "1", Help: "head relative to base"},
			{Name: "p", Unit: "1", Help: "the probability of such a difference by chance: Mann-Whitney over blocks, corrected by Holm's method for the number of rows"},
			{Key: "would_show", Unit: "1",
				Help: "the smallest ratio that four of five such runs would have found"},
			{Name: "blocks", Key: "-", Help: "blocks of base + blocks of head"},
			{Key: "gate", Help: "failed if the gate failed because of this row"},
			table.JudgedColumns[test]})
	naming := c.naming()
	for _, r := range rows {
		gate := ""
		if c.Decision != nil && r.worseBy(c.Decision.FailAbove) {
			gate = "failed"
		}
		t.Add(table.AxisCells(keys, r.Cell), r.Metric.Name, table.Described(r.Cell.Label(), naming.Apart, r.Cell),
			r.Metric.Better, r.verdict(),
			r.Base, r.Head, doc.As(r.Ratio, signedChange(r.Ratio)), doc.As(r.P, table.PText(r.P)),
			table.Finite(r.Detectable),
			fmt.Sprintf("%d + %d", r.Base.Blocks, r.Head.Blocks), gate, table.JudgedCells(&r.Judged)[test])
		t.Caption = rowTitle(naming, r)
	}
	return t
}

// tables returns a table for each metric.
func (c *Comparison) tables() []doc.Table {
	return doc.Each(byMetric(c.Rows), func(rows []Row) doc.Table { return c.table(rows[0].Metric.Unit, rows) })
}

func byMetric(rows []Row) [][]Row {
	return metrics.GroupBy(rows, func(r Row) string { return r.Metric.Name })
}

func differenceTable(c *Comparison) doc.Table {
	t := doc.Table{Key: "differences", Help: "another difference between base and head, which may explain a change", Caption: "Differences in addition to the build", Columns: []doc.Column{
		{Name: "what", Wrap: true}, {Name: "base", Wrap: true}, {Name: "head", Wrap: true},
		{Name: "cells", List: true, Wrap: true}}}
	for _, d := range c.Differences {
		t.Add(d.What, d.Base, d.Head, doc.As(d.Cells, doc.List(table.Clip(d.Cells, 3))))
	}
	return t
}

// detailSection returns all rows with all columns, the other differences, and the cells that
// only one of the two has.
func detailSection(c *Comparison) doc.Section {
	s := doc.Section{Name: "details", Title: "All cells, and other differences", Folded: true}
	s.Tables = append([]doc.Table{differenceTable(c)}, c.tables()...)
	for i, cells := range [][]string{c.OnlyBase, c.OnlyHead} {
		if len(cells) > 0 {
			s.Lead = append(s.Lead, doc.Say("Only in "+[]string{"base", "head"}[i]+": "+doc.List(table.Clip(cells, 20))+".")...)
		}
	}
	return s
}

// naming compares the cells of all rows.
func (c *Comparison) naming() table.Naming {
	return table.NamingOf(doc.Each(c.Rows, func(r Row) *metrics.Cell { return r.Cell }), table.LabelAxes...)
}

// title names the metric of r and the settings that all rows have in common.
func rowTitle(n table.Naming, r Row) string {
	what := r.Metric.Name
	if what == "round" {
		what = "Median round"
	}
	return table.Described(what, n.Common, r.Cell)
}

// signedChange writes a ratio as a change in a column of percent.
func signedChange(i stat.Interval) string { return strings.Replace(doc.Change(i), " %", "", 1) }

// changeHelp explains the column of changes and the confidence of its bounds.
func changeHelp(c *Comparison) string {
	sure := 1.0
	for _, r := range c.Rows {
		if r.Ratio.Confidence > 0 {
			sure = min(sure, r.Ratio.Confidence)
		}
	}
	text := "head relative to base, with a 95 % confidence interval for each row alone"
	if sure < stat.Confidence {
		text = "head relative to base, with a confidence interval of only " + doc.Percent(sure) + " for each row alone, because there are few blocks"
	}
	return text + fmt.Sprintf("; a change is shown only if the probability of any false claim in the table is at most %s", doc.Percent(c.Alpha))
}

// warnings returns sentences that a reader must know before any number.
func warnings(c *Comparison) []string {
	var all []string
	if !c.Interleaved {
		all = append(all, "Base and head were not measured in turn, so anything else that changed on the machine can look like a change of the build.")
	}
	if len(c.Differences) > 0 {
		texts := doc.Each(c.Differences, func(d Difference) string { return fmt.Sprintf("%s (%s, then %s)", d.What, d.Base, d.Head) })
		all = append(all, "These also differ and may explain a change: "+doc.List(table.Clip(texts, 4))+".")
	}
	if n := len(c.OnlyBase) + len(c.OnlyHead); n > 0 {
		all = append(all, fmt.Sprintf("%s in only one of the two: %s.", doc.Plural(n, "cell"), doc.List(table.Clip(slices.Concat(c.OnlyBase, c.OnlyHead), 4))))
	}
	if c.without != nil {
		all = append(all, fmt.Sprintf("Left out, because base or head lacks the metric or counts 0: %s.", doc.List(table.Clip(c.without, 4))))
	}
	lines := doc.Each(answer.Grouped(c.Findings, doc.Bad), func(p doc.Paragraph) string { return p.Text })
	return append(all, table.Clip(lines, 6)...)
}

func rowName(r Row) string {
	n := table.Described(r.Cell.Label(), table.NamingOf([]*metrics.Cell{r.Cell}, table.LabelAxes...).Common, r.Cell)
	if r.Metric.Name != "round" {
		n += ", " + r.Metric.Name
	}
	return n
}

func sourceText(s Source) string {
	name := cmp.Or(s.Build, s.Commit, "unknown")
	if s.Dirty {
		name += ", changed"
	}
	if !s.Started.IsZero() {
		name += " of " + s.Started.UTC().Format("2006-01-02 15:04")
	}
	return name
}

// comparisonSentence returns the verdict: the number of changes, the largest ones, and what
// would have shown.
func comparisonSentence(c *Comparison) string {
	n := len(c.Rows)
	switch {
	case n == 0 && c.without != nil:
		return "Nothing can be compared: base or head lacks the metric, or counts 0, in each cell."
	case n == 0:
		return "Nothing can be compared: base and head have no cell in common."
	}
	what, kinds := "cell", [2]string{"slower", "faster"}
	if slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Metric.Name != "round" }) {
		what, kinds = "comparison", [2]string{"worse", "better"}
	}
	var parts []string
	for i, rows := range [][]Row{c.Worse(), c.Better()} {
		if len(rows) == 0 {
			continue
		}
		r, most := rows[0], []string{":", ", most of all"}[min(len(rows)-1, 1)]
		work := strings.Join(append([]string{r.Cell.Model.Label()}, r.Cell.Group().Headings()...), ", ")
		parts = append(parts, fmt.Sprintf("%d %s%s %s with %s, %s", len(rows), kinds[i], most, r.Cell.Label(), work, doc.Change(r.Ratio)))
	}
	all := doc.Each(c.Rows, func(r Row) float64 { return r.Detectable - 1 })
	slices.Sort(all)
	switch seen := all[n/2]; { // infinite if half of the rows could show nothing
	case len(parts) == 0 && math.IsInf(seen, 1):
		return fmt.Sprintf("No difference shown, but there are too few blocks to show one: comparing %s needs %s of each.",
			doc.Plural(n, what), doc.Plural(c.Rows[0].Needed(), "block"))
	case !slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Forbids == nil }):
		return fmt.Sprintf("No difference is shown in %s: %s.%s", doc.Plural(n, what), doc.List(c.Rows[0].Forbids),
			table.Unless(c.Interleaved || c.separate, " Measure them with run --against, or accept it with --allow-separate."))
	case len(parts) == 0:
		return fmt.Sprintf("No difference shown in %s; a change of %s would have shown in half of them.", doc.Plural(n, what), doc.Percent(seen))
	case c.Verdict.NotShown > 0:
		parts = append(parts, fmt.Sprintf("no difference shown in %d", c.Verdict.NotShown))
	}
	return fmt.Sprintf("Of %s: %s.", doc.Plural(n, what), strings.Join(parts, "; "))
}

// changePlots shows, for each metric of rows, base and head side by side, and their
// difference.
func changePlots(n table.Naming, rows []Row) (all []doc.Plot) {
	for _, rows := range byMetric(rows) {
		m := rows[0].Metric
		both := doc.Plot{Caption: rowTitle(n, rows[0]), Kind: doc.Dots, Value: doc.Axis{Name: m.Name, Unit: m.Unit},
			Series: []doc.Series{{Name: "base", Dim: true}, {Name: "head"}}}
		change := doc.Plot{Caption: table.Described("Change of "+m.Name, n.Common, rows[0].Cell), Kind: doc.Dots, Rule: new(0.0),
			Value:  doc.Axis{Name: "head relative to base", Unit: "%", Change: true},
			Series: []doc.Series{{Name: "shown"}, {Name: "none shown", Dim: true}}}
		var values []float64
		for _, r := range rows {
			draw := func(s *doc.Series, x stat.Interval, text string) {
				s.Points = append(s.Points, doc.Point{Name: table.Described(r.Cell.Label(), n.Apart, r.Cell), Value: x, Text: text})
			}
			values = append(values, r.Base.Center, r.Head.Center)
			draw(&both.Series[0], r.Base, "")
			draw(&both.Series[1], r.Head, "")
			share := r.Ratio.Map(func(x float64) float64 { return x - 1 })
			draw(&change.Series[int(table.OneIf(!r.Shown))], share, "p "+table.PText(r.P))
		}
		both.Value.Log = table.Logarithmic(values)
		all = append(all, both, change)
	}
	return all
}
