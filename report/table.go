package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"ipcbench/report/doc"
)

// noteWidth is how long a line of notes beside numbers becomes.
const noteWidth = 60

// A table is a header and rows of the same length. The first columns are words
// and the others numbers.
type table struct {
	caption string
	header  []string
	rows    [][]string
	words   int  // columns that are words
	endnote bool // the last column is words too
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// trim removes columns in which no row has anything to say.
func (t *table) trim() {
	for c := len(t.header) - 1; c >= t.words; c-- {
		empty := true
		for _, r := range t.rows {
			empty = empty && (r[c] == none || r[c] == "")
		}
		if !empty {
			continue
		}
		if t.endnote && c == len(t.header)-1 {
			t.endnote = false
		}
		t.header = without(t.header, c)
		for i := range t.rows {
			t.rows[i] = without(t.rows[i], c)
		}
	}
}

func without(row []string, c int) []string {
	return append(append([]string{}, row[:c]...), row[c+1:]...)
}

// text writes the table for a terminal, its notes in several lines if they are
// long.
func (t table) text(w io.Writer) error {
	t = t.with(doc.Visible)
	if last := len(t.header) - 1; t.endnote {
		for _, r := range t.rows {
			r[last] = strings.TrimSuffix(wrap(r[last], noteWidth), "\n")
		}
	}
	var b bytes.Buffer
	err := t.render(&b, renderer.NewBlueprint(tw.Rendition{
		Borders:  tw.BorderNone,
		Settings: tw.Settings{Lines: tw.Lines{ShowHeaderLine: tw.On}, Separators: tw.SeparatorsNone},
	}))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(b.Bytes()) {
		if _, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// markdown writes the table as GitHub reads it.
func (t table) markdown(w io.Writer) error {
	return t.with(doc.Escape).render(w, renderer.NewMarkdown())
}

func (t table) render(w io.Writer, r tw.Renderer) error {
	align := make(tw.Alignment, len(t.header))
	for c := range align {
		align[c] = tw.AlignRight
		if c < t.words || t.endnote && c == len(align)-1 {
			align[c] = tw.AlignLeft
		}
	}
	// Left alone, tablewriter rewrites headers, wraps cells, and lets the
	// locale decide how wide "±" is.
	tab := tablewriter.NewTable(w,
		tablewriter.WithRenderer(r), tablewriter.WithAlignment(align),
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithHeaderAutoWrap(tw.WrapNone), tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithEastAsian(tw.Off))
	tab.Header(t.header)
	for _, row := range t.rows {
		if err := tab.Append(row); err != nil {
			return fmt.Errorf("report: table %q: %w", t.caption, err)
		}
	}
	if err := tab.Render(); err != nil {
		return fmt.Errorf("report: table %q: %w", t.caption, err)
	}
	return nil
}

// with returns a copy of the table with its texts as a document writes them.
func (t table) with(written func(string) string) table {
	all := func(row []string) []string {
		row = slices.Clone(row)
		for i, text := range row {
			row[i] = written(text)
		}
		return row
	}
	t.header, t.rows = all(t.header), slices.Clone(t.rows)
	for i, row := range t.rows {
		t.rows[i] = all(row)
	}
	return t
}
