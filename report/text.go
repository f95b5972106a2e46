package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"ipcbench/bench"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// writeText writes a result for a terminal. What matters most comes last, next
// to the prompt.
func writeText(w io.Writer, r *bench.Result) error {
	v := analysis.New(r)
	b := bufio.NewWriter(w)
	e := v.Environment
	fmt.Fprintln(b, doc.Visible(fmt.Sprintf("ipcbench %s: %s, %s, kernel %s, %s", v.Plan.Mode, e.CPU, plural(e.CPUs, "processor"), e.Kernel, e.Go)))
	for _, s := range sections(v, "cells", "floors", "phases", "costs", "profiles", "copies", "workers", "calls", "crossover", "findings", "verdict") {
		if err := s.text(b); err != nil {
			return err
		}
	}
	return b.Flush()
}

// text writes the section for a terminal.
func (s section) text(w io.Writer) error {
	if s.empty() {
		return nil
	}
	if s.made != nil {
		return doc.Document{Title: s.title, Sections: []doc.Section{*s.made}}.Text(w, doc.TextOptions{Unicode: true})
	}
	title := doc.Visible(s.title)
	fmt.Fprintf(w, "\n%s\n%s\n", title, strings.Repeat("=", utf8.RuneCountInString(title)))
	for _, p := range s.lead {
		fmt.Fprint(w, "\n", wrap(doc.Visible(p), width))
	}
	for _, t := range s.tables {
		fmt.Fprintln(w)
		if t.caption != "" {
			fmt.Fprintln(w, doc.Visible(t.caption))
		}
		if err := t.text(w); err != nil {
			return err
		}
	}
	for _, p := range s.tail {
		fmt.Fprint(w, "\n", wrap(doc.Visible(p), width))
	}
	return nil
}

// width is how long a line of words becomes.
const width = 110

// wrap breaks a paragraph into lines of at most width characters, if its words
// allow that.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
	return b.String()
}
