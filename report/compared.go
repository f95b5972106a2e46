package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// ComparisonFormats returns the names of the formats that a comparison can be
// written in.
func ComparisonFormats() []string { return []string{"text", "md", "json"} }

// WriteComparison writes the comparison in one of them.
func WriteComparison(w io.Writer, format string, c *analysis.Comparison) error {
	switch format {
	case "text":
		return comparisonText(w, c)
	case "md":
		return comparisonMarkdown(w, c)
	case "json":
		return comparisonJSON(w, c)
	}
	return fmt.Errorf("unknown format %q: want one of %s", format, list(ComparisonFormats()))
}

// rowTable shows rows with both medians, the change, and how sure it is.
func rowTable(rows []analysis.Row) table {
	t := table{
		header: []string{"transport", "model", "workers", "clients", "metric", "base", "head", "change", "p", "n", "would have shown"},
		words:  2,
	}
	several := false
	for _, r := range rows {
		several = several || r.Metric != "round"
	}
	for _, r := range rows {
		u, unit := rowScale(r)
		metric := r.Metric
		if !several {
			metric = none // the column is left out
		}
		change := change(r.Ratio)
		if !r.Significant {
			change = "no difference shown (" + signed(r.Ratio.Low-1) + " to " + signed(r.Ratio.High-1) + ")"
			if r.Ratio.Confidence == 0 {
				change = "no difference shown"
			}
		}
		shown := none
		if !math.IsInf(r.Detectable, 1) {
			shown = "±" + share(r.Detectable-1)
		}
		t.add(r.Transport, rowLabel(r), fmt.Sprint(r.Workers), fmt.Sprint(r.Clients), metric, u.show(r.Base)+unit, u.show(r.Head)+unit,
			change, pText(r.P), fmt.Sprintf("%d+%d", r.Base.Blocks, r.Head.Blocks), shown)
	}
	t.trim()
	return t
}

// rowScale returns the unit in which both medians are shown, and how it is written
// behind them.
func rowScale(r analysis.Row) (scale, string) {
	switch r.Unit {
	case "s", "s/round":
		u := timeScale(r.Base.Center, r.Head.Center)
		return u, " " + u.name
	case "B":
		return megabytes, " MB"
	}
	return plain, " " + r.Unit
}

// comparisonLegend explains the columns of rowTable. Few blocks give bounds that are less sure.
func comparisonLegend(c *analysis.Comparison) string {
	sure, detects := 1.0, false
	for _, r := range c.Rows {
		if r.Ratio.Confidence > 0 {
			sure = min(sure, r.Ratio.Confidence)
		}
		detects = detects || !math.IsInf(r.Detectable, 1)
	}
	bounds := "95 %"
	if sure < stat.Confidence {
		bounds = share(sure) + " only, as there are few blocks,"
	}
	text := "change: head over base, in percent, with bounds that hold with " + bounds + " for a row by itself. " +
		"p: Mann-Whitney over blocks, corrected by Holm's method for the number of rows. n: blocks of base and head."
	if detects {
		text += " would have shown: the smallest change that four of five such runs would have found."
	}
	return text
}

// warnings are what a reader must know before any number.
func warnings(c *analysis.Comparison) []string {
	var all []string
	for _, d := range c.Differences {
		all = append(all, "differs: "+differenceText(d))
	}
	if !c.Interleaved {
		all = append(all, "The two runs were not interleaved: a drift of the machine looks like a change.")
	}
	return append(all, clipFindings(c.Findings)...)
}

func clipFindings(findings []analysis.Finding) []string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, FindingLine(f))
	}
	return clip(lines, 20)
}

// missing are the cells that only one of them has.
func missing(c *analysis.Comparison) []string {
	var all []string
	for _, id := range clip(c.OnlyBase, 20) {
		all = append(all, "only in base: "+id)
	}
	for _, id := range clip(c.OnlyHead, 20) {
		all = append(all, "only in head: "+id)
	}
	return all
}

// changes compares the two builds of an interleaved result.
func changes(v *analysis.Result) section {
	c, err := analysis.Compare(v.Result, nil, analysis.CompareOptions{})
	if err != nil {
		return section{} // it holds one build only
	}
	return comparisonSection(c)
}

func comparisonSection(c *analysis.Comparison) section {
	s := section{title: "base " + sourceText(c.Base) + ", head " + sourceText(c.Head), lead: warnings(c), tail: []string{comparisonLegend(c)}}
	s.tables = []table{rowTable(c.Rows)}
	if len(c.Rows) == 0 {
		s.tables, s.tail = nil, nil
	}
	s.tail = append(s.tail, missing(c)...)
	s.tail = append(s.tail, comparisonSentence(c))
	return s
}

func comparisonText(w io.Writer, c *analysis.Comparison) error {
	var b bytes.Buffer
	if err := comparisonSection(c).text(&b); err != nil {
		return err
	}
	_, err := w.Write(bytes.TrimPrefix(b.Bytes(), []byte("\n")))
	return err
}

func comparisonMarkdown(w io.Writer, c *analysis.Comparison) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "**%s**\n\nBase is %s, head is %s.\n", doc.EscapeParagraph(comparisonSentence(c)), doc.Escape(sourceText(c.Base)), doc.Escape(sourceText(c.Head)))
	for _, text := range warnings(c) {
		fmt.Fprintf(&b, "\n> %s\n", doc.EscapeParagraph(text))
	}
	changed := append(c.Worse(), c.Better()...)
	if len(changed) > 0 {
		most := min(len(changed), 30)
		fmt.Fprintln(&b)
		if err := rowTable(changed[:most]).markdown(&b); err != nil {
			return err
		}
		if most < len(changed) {
			fmt.Fprintf(&b, "\n%d more below.\n", len(changed)-most)
		}
	}
	for _, text := range missing(c) {
		fmt.Fprintf(&b, "\n- %s", doc.EscapeParagraph(text))
	}
	if len(c.OnlyBase)+len(c.OnlyHead) > 0 {
		fmt.Fprintln(&b)
	}
	var parts []part
	if len(c.Rows) > 0 {
		p, err := folded(section{title: "All comparisons", tables: []table{rowTable(c.Rows)}, tail: []string{comparisonLegend(c)}}, false)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	_, err := io.WriteString(w, fit(b.String(), parts))
	return err
}

// comparisonJSON writes the comparison with what is unknown or infinite as null.
func comparisonJSON(w io.Writer, c *analysis.Comparison) error {
	type finding struct {
		Severity analysis.Severity `json:"severity"`
		Cell     string            `json:"cell,omitempty"`
		Text     string            `json:"text"`
	}
	type row struct {
		analysis.Row
		Detectable *float64 `json:"detectable_ratio"`
	}
	j := struct {
		Base        string    `json:"base"`
		Head        string    `json:"head"`
		Environment []string  `json:"environment_differences"`
		Interleaved bool      `json:"interleaved"`
		OnlyBase    []string  `json:"only_base"`
		OnlyHead    []string  `json:"only_head"`
		Findings    []finding `json:"findings"`
		Alpha       float64   `json:"alpha"`
		Verdict     string    `json:"verdict"`
		Rows        []row     `json:"rows"`
	}{Base: sourceText(c.Base), Head: sourceText(c.Head), Interleaved: c.Interleaved, OnlyBase: c.OnlyBase, OnlyHead: c.OnlyHead, Alpha: c.Alpha, Verdict: comparisonSentence(c)}
	for _, d := range c.Differences {
		j.Environment = append(j.Environment, differenceText(d))
	}
	for _, f := range c.Findings {
		j.Findings = append(j.Findings, finding{f.Severity, f.Cell, findingText(f)})
	}
	for _, r := range c.Rows {
		j.Rows = append(j.Rows, row{Row: r})
		if !math.IsInf(r.Detectable, 1) {
			j.Rows[len(j.Rows)-1].Detectable = &r.Detectable
		}
	}
	return doc.WriteJSON(w, j, "\t")
}

// rowLabel names model and update.
func rowLabel(r analysis.Row) string { return bench.Model{Name: r.Model, Up: r.Up}.Label() }

// rowName says whose row it is.
func rowName(r analysis.Row) string {
	n := fmt.Sprintf("%s, %s, %s, %s", r.Transport, rowLabel(r), plural(r.Workers, "worker"), plural(r.Clients, "client"))
	if r.Metric != "round" {
		n += ", " + r.Metric
	}
	return n
}

// sourceText names what was measured.
func sourceText(s analysis.Source) string {
	name := cmp.Or(s.Build, s.Commit)
	if s.Dirty {
		name += ", changed"
	}
	if !s.Started.IsZero() {
		name += " of " + s.Started.UTC().Format("2006-01-02 15:04")
	}
	return name
}

func differenceText(d analysis.Difference) string {
	text := d.String()
	if len(d.Cells) > 0 {
		text += " (" + list(clip(d.Cells, 3)) + ")"
	}
	return text
}

// comparisonSentence is the verdict.
func comparisonSentence(c *analysis.Comparison) string {
	n := len(c.Rows)
	if n == 0 {
		return "Nothing can be compared: the two have no cell in common."
	}
	worse, better := c.Worse(), c.Better()
	if len(worse)+len(better) == 0 {
		text := fmt.Sprintf("No difference shown in %s", plural(n, "comparison"))
		smallest := c.Detectable()
		if math.IsInf(smallest, 1) {
			return text + fmt.Sprintf(", and there are too few blocks to show one: comparing %s takes %d blocks of each.", plural(n, "cell"), c.NeededBlocks())
		}
		return text + fmt.Sprintf("; half of them would have shown a change of %s %%.", signed(smallest-1))
	}
	var parts []string
	if len(worse) > 0 {
		parts = append(parts, fmt.Sprintf("%d worse, by up to %s", len(worse), share(worse[0].Worse()-1)))
	}
	if len(better) > 0 {
		parts = append(parts, fmt.Sprintf("%d better, by up to %s", len(better), share(1-better[0].Worse())))
	}
	return fmt.Sprintf("Of %s: %s; no difference shown in %d.", plural(n, "comparison"), strings.Join(parts, "; "), n-len(worse)-len(better))
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
	return fixed(p, 3)
}
