package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"ipcbench/bench"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// limit is the largest comment that GitHub takes, in characters.
const limit = 65536

// A part is a piece of a Markdown document that may be left out.
type part struct {
	name string
	text string
}

// writeMarkdown writes a result as a pull request shows it: the verdict, what
// puts it in doubt, and the tables, folded.
func writeMarkdown(w io.Writer, r *bench.Result) error {
	v := analysis.New(r)
	head, err := markdownHead(v)
	if err != nil {
		return err
	}
	var parts []part
	for i, s := range sections(v, "cells", "floors", "phases", "costs", "profiles", "copies", "crossover", "workers", "calls", "environment", "spans") {
		p, err := folded(s, i == 0 && len(v.Groups()) <= 2)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	_, err = io.WriteString(w, fit(head, parts))
	return err
}

// markdownHead is what no document leaves out.
func markdownHead(v *analysis.Result) (string, error) {
	var b bytes.Buffer
	s := verdicts(v)
	for i, p := range s.lead {
		if i == 0 {
			fmt.Fprintf(&b, "**%s**\n", doc.EscapeParagraph(p))
			continue
		}
		fmt.Fprintf(&b, "\n- %s", doc.EscapeParagraph(p))
	}
	if len(s.lead) > 1 {
		b.WriteByte('\n')
	}
	for _, t := range s.tables {
		if len(t.rows) > 20 {
			continue // hundreds of verdicts: the tables below tell them too
		}
		b.WriteByte('\n')
		if err := t.markdown(&b); err != nil {
			return "", err
		}
	}
	findings := findingsSection(v).lead
	for i, f := range findings {
		if i == 20 {
			fmt.Fprintf(&b, "\n> %d more findings.\n", len(findings)-i)
			break
		}
		fmt.Fprintf(&b, "\n> %s\n", doc.EscapeParagraph(f))
	}
	charts := roundCharts(v)
	for _, c := range charts[:min(len(charts), mostCharts)] {
		b.WriteByte('\n')
		if err := c.write(&b); err != nil {
			return "", err
		}
	}
	if more := len(charts) - mostCharts; more > 0 {
		fmt.Fprintf(&b, "\nCharts of what moves most only, and not of another %s: the tables have all.\n", plural(more, "group"))
	}
	return b.String(), nil
}

// mostCharts is how many charts are looked at.
const mostCharts = 4

// roundCharts returns a chart for each group that has one, that which moves most
// first.
func roundCharts(v *analysis.Result) []chart {
	groups := v.Groups()
	slices.SortStableFunc(groups, func(a, b []*analysis.Cell) int { return cmp.Compare(b[0].Payload(), a[0].Payload()) })
	var all []chart
	for _, g := range groups {
		if c := roundChart(g); !c.empty() {
			all = append(all, c)
		}
	}
	return all
}

// folded writes a section, closed unless open.
func folded(s section, open bool) (part, error) {
	if s.empty() {
		return part{}, nil
	}
	var b bytes.Buffer
	attribute := ""
	if open {
		attribute = " open"
	}
	fmt.Fprintf(&b, "\n<details%s><summary>%s</summary>\n", attribute, doc.EscapeParagraph(s.title))
	if err := s.markdown(&b); err != nil {
		return part{}, err
	}
	fmt.Fprint(&b, "\n</details>\n")
	return part{s.title, b.String()}, nil
}

// markdown writes the section without its title.
func (s section) markdown(w io.Writer) error {
	if s.made != nil {
		return s.made.Markdown(w)
	}
	for _, p := range s.lead {
		fmt.Fprintf(w, "\n%s\n", doc.EscapeParagraph(p))
	}
	for _, t := range s.tables {
		if t.caption != "" {
			fmt.Fprintf(w, "\n%s\n", doc.EscapeParagraph(t.caption))
		}
		fmt.Fprintln(w)
		if err := t.markdown(w); err != nil {
			return err
		}
	}
	for _, p := range s.tail {
		fmt.Fprintf(w, "\n%s\n", doc.EscapeParagraph(p))
	}
	return nil
}

// fit joins the parts that fit GitHub's limit, in order of importance, and says
// which do not.
func fit(head string, parts []part) string {
	const reserve = 400 // for saying so
	var b strings.Builder
	b.WriteString(head)
	n := utf8.RuneCountInString(head)
	var left []string
	for _, p := range parts {
		m := utf8.RuneCountInString(p.text)
		if n+m > limit-reserve {
			left = append(left, p.name)
			continue
		}
		n += m
		b.WriteString(p.text)
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "\nLeft out, to stay below GitHub's limit of %d characters: %s. The text format has them.\n", limit, list(left))
	}
	return b.String()
}
