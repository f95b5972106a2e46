package report

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
)

// ComparisonFormats returns the names of the formats that a comparison can be
// written in.
func ComparisonFormats() []string { return []string{"text", "md", "json"} }

// Write writes the comparison in one of them.
func (c *Comparison) Write(w io.Writer, format string) error {
	switch format {
	case "text":
		return c.text(w)
	case "md":
		return c.markdown(w)
	case "json":
		return c.json(w)
	}
	return fmt.Errorf("unknown format %q: want one of %s", format, list(ComparisonFormats()))
}

// rowTable shows rows with both medians, the change, and how sure it is.
func (c *Comparison) rowTable(rows []Row) table {
	t := table{
		header: []string{"transport", "model", "workers", "clients", "metric", "base", "head", "change", "p", "n", "would have shown"},
		words:  2,
	}
	several := false
	for _, r := range rows {
		several = several || r.Metric != "round"
	}
	for _, r := range rows {
		u, unit := r.scale()
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
		t.add(r.Transport, r.label(), fmt.Sprint(r.Workers), fmt.Sprint(r.Clients), metric, u.show(r.Base)+unit, u.show(r.Head)+unit,
			change, pText(r.P), fmt.Sprintf("%d+%d", r.Base.Blocks, r.Head.Blocks), shown)
	}
	t.trim()
	return t
}

// scale returns the unit in which both medians are shown, and how it is written
// behind them.
func (r Row) scale() (scale, string) {
	switch r.Unit {
	case "s", "s/round":
		u := timeScale(r.Base.Center, r.Head.Center)
		return u, " " + u.name
	case "B":
		return megabytes, " MB"
	}
	return plain, " " + r.Unit
}

// how explains the columns of rowTable. Few blocks give bounds that are less sure.
func (c *Comparison) how() string {
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
func (c *Comparison) warnings() []string {
	var all []string
	for _, d := range c.Environment {
		all = append(all, "differs: "+d)
	}
	if !c.Interleaved {
		all = append(all, "The two runs were not interleaved: a drift of the machine looks like a change.")
	}
	return append(all, clipFindings(c.Findings)...)
}

func clipFindings(findings []Finding) []string {
	var lines []string
	for _, f := range findings {
		lines = append(lines, f.String())
	}
	return clip(lines, 20)
}

// missing are the cells that only one of them has.
func (c *Comparison) missing() []string {
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
func changes(v *view) section {
	c, err := Compare(v.Result, nil, CompareOptions{})
	if err != nil {
		return section{} // it holds one build only
	}
	return c.section()
}

func (c *Comparison) section() section {
	s := section{title: "base " + c.Base + ", head " + c.Head, lead: c.warnings(), tail: []string{c.how()}}
	s.tables = []table{c.rowTable(c.Rows)}
	if len(c.Rows) == 0 {
		s.tables, s.tail = nil, nil
	}
	s.tail = append(s.tail, c.missing()...)
	s.tail = append(s.tail, c.sentence())
	return s
}

func (c *Comparison) text(w io.Writer) error {
	var b bytes.Buffer
	if err := c.section().text(&b); err != nil {
		return err
	}
	_, err := w.Write(bytes.TrimPrefix(b.Bytes(), []byte("\n")))
	return err
}

func (c *Comparison) markdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "**%s**\n\nBase is %s, head is %s.\n", doc.EscapeParagraph(c.sentence()), doc.Escape(c.Base), doc.Escape(c.Head))
	for _, text := range c.warnings() {
		fmt.Fprintf(&b, "\n> %s\n", doc.EscapeParagraph(text))
	}
	changed := append(c.worse(), c.better()...)
	if len(changed) > 0 {
		most := min(len(changed), 30)
		fmt.Fprintln(&b)
		if err := c.rowTable(changed[:most]).markdown(&b); err != nil {
			return err
		}
		if most < len(changed) {
			fmt.Fprintf(&b, "\n%d more below.\n", len(changed)-most)
		}
	}
	for _, text := range c.missing() {
		fmt.Fprintf(&b, "\n- %s", doc.EscapeParagraph(text))
	}
	if len(c.OnlyBase)+len(c.OnlyHead) > 0 {
		fmt.Fprintln(&b)
	}
	var parts []part
	if len(c.Rows) > 0 {
		p, err := folded(section{title: "All comparisons", tables: []table{c.rowTable(c.Rows)}, tail: []string{c.how()}}, false)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	_, err := io.WriteString(w, fit(b.String(), parts))
	return err
}

// json writes the comparison with what is unknown or infinite as null.
func (c *Comparison) json(w io.Writer) error {
	type row struct {
		Row
		Detectable *float64 `json:"detectable_ratio"`
	}
	j := struct {
		*Comparison
		Alpha   float64 `json:"alpha"`
		Verdict string  `json:"verdict"`
		Rows    []row   `json:"rows"`
	}{Comparison: c, Alpha: c.alpha, Verdict: c.sentence()}
	for _, r := range c.Rows {
		j.Rows = append(j.Rows, row{Row: r})
		if !math.IsInf(r.Detectable, 1) {
			j.Rows[len(j.Rows)-1].Detectable = &r.Detectable
		}
	}
	return doc.WriteJSON(w, j, "\t")
}
