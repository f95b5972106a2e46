package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// ComparisonFormats returns the names of the formats that a comparison can be
// written in.
func ComparisonFormats() []string { return []string{"text", "md", "html", "csv", "json"} }

// ComparisonOptions say how a comparison is written.
type ComparisonOptions struct {
	Gate    *Gate           // what a gate made of it, or nil
	Details bool            // in text: everything, as the other formats have it
	Text    doc.TextOptions // of text: what the terminal can show
}

// WriteComparison writes a comparison in one of them.
func WriteComparison(w io.Writer, format string, c *Comparison, o ComparisonOptions) error {
	g := o.Gate
	switch format {
	case "text":
		d := comparisonDocument(c, g)
		if last := len(d.Sections) - 1; len(c.Rows) > 0 && !o.Details {
			d.Sections[last] = doc.Section{Lead: doc.Say("Intervals, p and blocks of every cell: ipcbench compare --details")}
		}
		return d.Text(w, o.Text)
	case "md":
		return comparisonDocument(c, g).Markdown(w)
	case "html":
		d := comparisonDocument(c, g)
		d.Title, d.Terms = "ipcbench: what changed", terms()
		return d.HTML(w)
	case "csv":
		return comparisonData(c, g).CSV(w, axisNames(axes("build"))...)
	case "json":
		return comparisonData(c, g).JSON(w, comparisonHead(c, g), "changes", "differences", "findings")
	}
	return fmt.Errorf("unknown format %q: want one of %s", format, doc.List(ComparisonFormats()))
}

// comparisonDocument is the verdict, the gate's decision, and what a reader must
// know before any number; then the table of changes, and all details.
func comparisonDocument(c *Comparison, g *Gate) doc.Document {
	d := doc.Document{Lead: []doc.Paragraph{{Text: comparisonSentence(c), Tone: doc.Strong}}}
	if g != nil {
		d.Lead = append(d.Lead, g.paragraphs()...)
	}
	d.Lead = append(d.Lead, doc.Say("Base is "+sourceText(c.Base)+"; head is "+sourceText(c.Head)+".")...)
	for _, text := range warnings(c) {
		d.Lead = append(d.Lead, doc.Paragraph{Text: text, Tone: doc.Bad})
	}
	if len(c.Rows) > 0 {
		d.Sections = append(d.Sections, changeSection(c))
	}
	if details := detailSection(c); !details.Empty() {
		d.Sections = append(d.Sections, details) // the last, which text may leave out
	}
	return d
}

// changes compares the two builds of an interleaved result.
func changes(v *metrics.Result) doc.Section {
	c, err := Compare(v.Result, nil, CompareOptions{})
	if err != nil {
		return doc.Section{} // it holds one build only
	}
	made := changeSection(c)
	made.Lead = comparisonDocument(c, nil).Lead
	made.Title = "What changed"
	return made
}

// mostRows is how many rows of a table are looked at. The details have all.
const mostRows = 40

// changeSection is what changed, the largest changes first, and then the cells in
// which no difference is shown, if there are few enough.
func changeSection(c *Comparison) doc.Section {
	s := doc.Section{Name: "change"}
	rows := slices.Concat(c.Worse(), c.Better())
	changed := len(rows)
	for _, r := range c.Rows {
		if !r.Significant {
			rows = append(rows, r)
		}
	}
	s.Plots = changePlots(c.Rows, rows[:min(len(rows), mostRows)])
	if len(rows) > mostRows {
		rows = rows[:min(changed, mostRows)]
		s.Tail = doc.Say(doc.Plural(len(c.Rows)-len(rows), "more cell") + ": see the details.")
	}
	s.Tables = append(rowTables(c.Rows, rows, func(r Row) doc.Row {
		change, tone := "none shown", doc.Plain
		if r.Significant {
			change, tone = signedChange(r.Ratio), doc.Good
			if r.Worse() > 1 {
				tone = doc.Bad
			}
		}
		return doc.Row{Tone: tone, Cells: []doc.Cell{doc.Number(r.Base.Center), doc.Number(r.Head.Center), doc.Words(change), visibleChange(r)}}
	}, doc.Column{Name: "change, %", Help: changeHelp(c)}, doc.Column{Name: "would show", Unit: "%", Help: "the smallest change that four of five such runs would have found"}), changeTables(c, nil)...)
	return s
}

// changeTables have all rows for programs, a table for each metric, and which of them failed
// a gate, unless that is nil.
func changeTables(c *Comparison, g *Gate) (all []doc.Table) {
	of := axes("build")
	for _, same := range metrics.GroupBy(c.Rows, func(r Row) string { return r.Metric.Name }) {
		unit := same[0].Metric.Unit
		t := doc.Table{Key: "changes", Help: "a metric of a cell that both have", For: doc.Programs, Keys: len(of) + 1, Columns: append(axisColumns(of), doc.Column{Name: "metric"}, doc.Column{Name: "better", Help: "lower, higher, or absent where neither is"}, doc.Column{Name: "verdict", Help: "worse, better, or none shown"},
			doc.Column{Name: "base", Unit: unit}, doc.Column{Name: "head", Unit: unit}, doc.Column{Name: "ratio", Unit: "1", Help: "head over base"},
			doc.Column{Name: "p", Unit: "1", Help: "the probability of such a difference by chance, corrected for the number of rows"},
			doc.Column{Name: "would_show", Unit: "1", Help: "the smallest ratio that four of five such runs would have found"},
			doc.Column{Name: "gate", Help: "failed, where it did"})}
		for _, r := range same {
			change, gate, visible := "none shown", "", doc.Cell{}
			switch {
			case r.Significant && r.Worse() > 1:
				change = "worse"
			case r.Significant:
				change = "better"
			}
			if g != nil && slices.ContainsFunc(g.Worse, r.Same) {
				gate = "failed"
			}
			if !math.IsInf(r.Detectable, 1) {
				visible = doc.Number(r.Detectable)
			}
			t.Add(append(axisCells(of, r.Cell), doc.Words(r.Metric.Name), doc.Words(r.Metric.Better), doc.Words(change), doc.Estimate(r.Base), doc.Estimate(r.Head),
				doc.Estimate(r.Ratio), doc.Number(r.P), visible, doc.Words(gate))...)
		}
		all = append(all, t)
	}
	return all
}

// A comparisonAnswer is what the format json begins with for a comparison; tables follow.
type comparisonAnswer struct {
	Answer      int               `json:"answer"` // the version
	Kind        string            `json:"kind"`   // comparison
	Base        Source            `json:"base"`
	Head        Source            `json:"head"`
	Interleaved bool              `json:"interleaved"` // blocks of both took turns
	Alpha       float64           `json:"alpha"`       // the probability of any false claim
	Verdict     comparisonVerdict `json:"verdict"`
	Gate        *answerGate       `json:"gate,omitempty"` // with --fail-above
	OnlyBase    []string          `json:"only_base"`      // cells that the head lacks
	OnlyHead    []string          `json:"only_head"`
}

type comparisonVerdict struct {
	Worse    int    `json:"worse"` // rows
	Better   int    `json:"better"`
	NotShown int    `json:"none_shown"`
	Text     string `json:"text"`
}

type answerGate struct {
	FailAbove float64      `json:"fail_above"`
	Failed    bool         `json:"failed"`
	Reasons   []string     `json:"reasons"` // why it failed, and what it could not see
	Canary    *canaryTrial `json:"canary,omitempty"`
}

type canaryTrial struct {
	Slowdown float64 `json:"slowdown"` // of the slow copy
	Works    bool    `json:"works"`    // the gate passed the copy that is the same and failed the slow one
}

func comparisonHead(c *Comparison, g *Gate) comparisonAnswer {
	worse, better := len(c.Worse()), len(c.Better())
	a := comparisonAnswer{Answer: answerVersion, Kind: "comparison", Base: c.Base, Head: c.Head, Interleaved: c.Interleaved, Alpha: c.Alpha,
		Verdict:  comparisonVerdict{worse, better, len(c.Rows) - worse - better, comparisonSentence(c)},
		OnlyBase: append([]string{}, c.OnlyBase...), OnlyHead: append([]string{}, c.OnlyHead...)}
	if g != nil {
		a.Gate = &answerGate{FailAbove: g.FailAbove, Failed: g.Failed, Reasons: append([]string{}, g.Reasons()...)}
		if g.Trial != nil {
			a.Gate.Canary = &canaryTrial{g.Trial.Slowdown, g.Trial.Works()}
		}
	}
	return a
}

// comparisonData is what programs get of a comparison.
func comparisonData(c *Comparison, g *Gate) doc.Document {
	return doc.Document{Sections: []doc.Section{{Tables: append(changeTables(c, g), differenceTable(c), findingTable(c.Findings))}}}
}

// differenceTable says in what else the two differ, and in which cells.
func differenceTable(c *Comparison) doc.Table {
	t := doc.Table{Key: "differences", Help: "in what else the two differ, which may explain a change", Caption: "Besides the build, these differ.", Columns: []doc.Column{
		{Name: "what", Wrap: true}, {Name: "base", Wrap: true}, {Name: "head", Wrap: true}, {Name: "cells", For: doc.People, Wrap: true}, {Name: "cells", For: doc.Programs}}}
	for _, d := range c.Differences {
		t.Add(doc.Words(d.What), doc.Words(d.Base), doc.Words(d.Head), doc.Words(doc.List(clip(d.Cells, 3))), words(d.Cells))
	}
	return t
}

// rowTables are a table for each metric of rows, which are some of all: the cell,
// base, head, and further columns.
func rowTables(all, rows []Row, row func(r Row) doc.Row, columns ...doc.Column) []doc.Table {
	var tables []doc.Table
	of := cellNames(all)
	for _, same := range metrics.GroupBy(rows, func(r Row) string { return r.Metric.Name }) {
		unit := same[0].Metric.Unit
		t := doc.Table{Caption: of.caption(same[0]), Columns: append([]doc.Column{{Name: "cell"}, {Name: "base", Unit: unit}, {Name: "head", Unit: unit}}, columns...)}
		for _, r := range same {
			made := row(r)
			made.Cells = append([]doc.Cell{doc.Words(of.join(r.Cell.Label(), r, true))}, made.Cells...)
			t.Rows = append(t.Rows, made)
		}
		tables = append(tables, t)
	}
	return tables
}

// detailSection has all rows with all that is known of them, and in what else the
// two differ.
func detailSection(c *Comparison) doc.Section {
	s := doc.Section{Name: "details", Title: "All cells, and what else differs", Folded: true}
	s.Tables = filled(s.Tables, differenceTable(c))
	for _, only := range []struct {
		of    string
		cells []string
	}{{"base", c.OnlyBase}, {"head", c.OnlyHead}} {
		if len(only.cells) > 0 {
			s.Lead = append(s.Lead, doc.Say("Only in "+only.of+": "+doc.List(clip(only.cells, 20))+".")...)
		}
	}
	s.Tables = append(s.Tables, rowTables(c.Rows, c.Rows, func(r Row) doc.Row {
		return doc.Row{Cells: []doc.Cell{doc.Estimate(r.Base), doc.Estimate(r.Head), doc.Words(signedChange(r.Ratio)), doc.Words(pText(r.P)),
			doc.Words(fmt.Sprintf("%d + %d", r.Base.Blocks, r.Head.Blocks))}}
	}, doc.Column{Name: "change, %"},
		doc.Column{Name: "p", Help: "the probability of such a difference by chance: Mann-Whitney over blocks, corrected by Holm's method for the number of rows"},
		doc.Column{Name: "blocks", Help: "those of base and of head"})...)
	return s
}

// names are the axes in which cells of rows differ.
type names map[string]bool

// identity returns the axes that a cell's label does not tell, but for the build.
func identity() []metrics.Axis {
	told := []string{"transport", "codec", "language", "build"}
	return slices.DeleteFunc(metrics.Axes(), func(a metrics.Axis) bool { return slices.Contains(told, a.Name) })
}

func cellNames(rows []Row) names {
	n := names{}
	for _, a := range identity() {
		n[a.Name] = slices.ContainsFunc(rows, func(r Row) bool { return a.Of(r.Cell) != a.Of(rows[0].Cell) })
	}
	return n
}

// join writes first and what the row's cell is on the axes that differ; or on the others,
// unless that is as usual.
func (n names) join(first string, r Row, differ bool) string {
	for _, a := range identity() {
		if n[a.Name] == differ && (differ || a.Of(r.Cell) != a.Usual) {
			first += ", " + phrase(a, r.Cell)
		}
	}
	return first
}

// caption says what all rows of a metric have in common.
func (n names) caption(r Row) string {
	what := r.Metric.Name
	if what == "round" {
		what = "A round's median time"
	}
	return n.join(what, r, false)
}

// signedChange writes a ratio as a change in a column of percent.
func signedChange(i stat.Interval) string { return strings.Replace(doc.Change(i), " %", "", 1) }

func visibleChange(r Row) doc.Cell {
	if math.IsInf(r.Detectable, 1) {
		return doc.Cell{}
	}
	return doc.Number(r.Detectable - 1)
}

// changeHelp says how sure the bounds of changes are.
func changeHelp(c *Comparison) string {
	sure := 1.0
	for _, r := range c.Rows {
		if r.Ratio.Confidence > 0 {
			sure = min(sure, r.Ratio.Confidence)
		}
	}
	text := "head against base, with a 95 % confidence interval for each row by itself"
	if sure < stat.Confidence {
		text = "head against base, with a confidence interval of only " + doc.Percent(sure) + " for each row by itself, as there are few blocks"
	}
	return text + fmt.Sprintf("; a change is shown where the probability of any false claim in the table is at most %s", doc.Percent(c.Alpha))
}

// warnings are what a reader must know before any number.
func warnings(c *Comparison) []string {
	var all []string
	if !c.Interleaved {
		all = append(all, "The two were not measured in turn: what else the machine did meanwhile looks like a change.")
	}
	if len(c.Differences) > 0 {
		var texts []string
		for _, d := range c.Differences {
			texts = append(texts, fmt.Sprintf("%s (%s, then %s)", d.What, d.Base, d.Head))
		}
		all = append(all, "These differ too, and may explain a change: "+doc.List(clip(texts, 4))+".")
	}
	if n := len(c.OnlyBase) + len(c.OnlyHead); n > 0 {
		all = append(all, fmt.Sprintf("%s in one of the two only: %s.", doc.Plural(n, "cell"), doc.List(clip(slices.Concat(c.OnlyBase, c.OnlyHead), 4))))
	}
	var findings []string
	for _, f := range c.Findings {
		findings = append(findings, FindingLine(f))
	}
	return append(all, clip(findings, 6)...)
}

// rowName says whose row it is.
func rowName(r Row) string {
	n := names{}.join(r.Cell.Label(), r, false)
	if r.Metric.Name != "round" {
		n += ", " + r.Metric.Name
	}
	return n
}

// sourceText names what was measured.
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

// comparisonSentence says what changed, by how much at most, and how sure that is.
func comparisonSentence(c *Comparison) string {
	n := len(c.Rows)
	if n == 0 {
		return "Nothing can be compared: the two have no cell in common."
	}
	what, worse, better := "cell", "slower", "faster"
	if slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Metric.Name != "round" }) {
		what, worse, better = "comparison", "worse", "better"
	}
	var parts []string
	for _, k := range []struct {
		word string
		rows []Row
	}{{worse, c.Worse()}, {better, c.Better()}} {
		if len(k.rows) == 0 {
			continue
		}
		r, most := k.rows[0], ":"
		if len(k.rows) > 1 {
			most = ", most of all"
		}
		parts = append(parts, fmt.Sprintf("%d %s%s %s with %s, %s", len(k.rows), k.word, most, r.Cell.Label(), strings.Join(append([]string{r.Cell.Model.Label()}, r.Cell.Group().Headings()...), ", "), doc.Change(r.Ratio)))
	}
	none := n - len(c.Worse()) - len(c.Better())
	switch {
	case len(parts) == 0 && math.IsInf(c.Detectable(), 1):
		return fmt.Sprintf("No difference shown, and there are too few blocks to show one: to compare %s takes %s of each.",
			doc.Plural(n, what), doc.Plural(c.NeededBlocks(), "block"))
	case len(parts) == 0:
		return fmt.Sprintf("No difference shown in %s; half of them would have shown a change of %s.", doc.Plural(n, what), doc.Percent(c.Detectable()-1))
	case none > 0:
		parts = append(parts, fmt.Sprintf("no difference shown in %d", none))
	}
	return fmt.Sprintf("Of %s: %s.", doc.Plural(n, what), strings.Join(parts, "; "))
}

// clip cuts a list that nobody would read to its end.
func clip(items []string, most int) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), fmt.Sprintf("%d more", len(items)-most))
}

// pText writes a probability.
func pText(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", p)
}
