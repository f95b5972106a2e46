package doc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

const (
	// limit is the largest comment that GitHub takes, in characters.
	limit = 65536
	// page is how many characters of a table GitHub's page shows side by side, with
	// those that take the place of a cell's margins.
	page    = 100
	margins = 3
	// narrowest is how narrow a browser makes a column of words that may be broken.
	narrowest = 30
)

// Markdown writes the document as GitHub shows it in a comment: no table scrolls
// sideways, and sections that would make it larger than GitHub takes are left out
// and named.
func (d Document) Markdown(w io.Writer) error {
	var b strings.Builder
	if d.Title != "" {
		fmt.Fprintf(&b, "## %s\n", paragraph(d.Title))
	}
	paragraphs(&b, d.Lead)
	const reserve = 400 // for saying what is left out
	var left []string
	for _, s := range d.Sections {
		text := s.folded()
		if utf8.RuneCountInString(b.String()+text) > limit-reserve {
			left = append(left, s.Title)
			continue
		}
		b.WriteString(text)
	}
	if len(left) > 0 {
		fmt.Fprintf(&b, "\nLeft out, to stay below GitHub's limit of %d characters: %s. The text format has them.\n", limit, escape(clipped(List(left), 200)))
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

func clipped(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n]) + "…"
	}
	return text
}

// folded is the section with its title, closed if it is to be.
func (s Section) folded() string {
	var b strings.Builder
	s.Plots = nil // the tables have their numbers
	end := ""
	switch {
	case s.Empty():
		return ""
	case s.Folded:
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n", paragraph(s.Title))
		end = "\n</details>\n"
	case s.Title != "":
		fmt.Fprintf(&b, "\n### %s\n", paragraph(s.Title))
	}
	s.body(&b)
	return b.String() + end
}

// Markdown writes the section without its title.
func (s Section) Markdown(w io.Writer) error {
	var b strings.Builder
	s.body(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Section) body(b *strings.Builder) {
	paragraphs(b, s.Lead)
	for _, t := range s.shown() {
		paragraphs(b, Say(t.Caption))
		t.markdown(b, cmp.Or(t.Caption, s.Title))
		paragraphs(b, Say(t.Notes...))
	}
	if help := s.help(); len(help) > 0 {
		b.WriteByte('\n')
		for _, h := range help {
			fmt.Fprintf(b, "- **%s**: %s\n", escape(h.Word), escape(h.Means))
		}
	}
	paragraphs(b, s.Tail)
}

func paragraphs(b *strings.Builder, all []Paragraph) {
	for _, p := range all {
		switch text := paragraph(p.Text); {
		case text == "":
		case p.Tone == Strong || p.Tone == Good:
			fmt.Fprintf(b, "\n**%s**\n", text)
		case p.Tone == Bad:
			fmt.Fprintf(b, "\n> %s\n", text)
		default:
			fmt.Fprintf(b, "\n%s\n", text)
		}
	}
}

// markdown writes the charts of the table and the table, in several parts if it is
// too wide.
func (t Table) markdown(b *strings.Builder, title string) {
	s := t.sheet(Visible)
	widths := make([]int, len(s.columns))
	for c, col := range s.columns {
		widths[c] = col.width
		if col.Wrap {
			widths[c] = min(widths[c], narrowest)
		}
		widths[c] = max(widths[c], widest(words(col.header))) // a browser breaks headers
		if col.Bar {
			s.chart(b, c, title)
		}
	}
	parts, least := s.split(widths, margins, page)
	if least > page { // some cell is wider than the page: nothing helps
		parts = []sheet{s}
	}
	for _, part := range parts {
		if len(part.columns) > 0 {
			b.WriteByte('\n')
			b.Write(part.markdown())
		}
	}
	for r, row := range t.Rows {
		if row.Note != "" && len(s.columns) > 0 {
			paragraphs(b, Say(s.columns[0].cells[r].text+": "+row.Note))
		}
	}
}

func (s sheet) markdown() []byte {
	align := each(s.columns, func(c column) tw.Align {
		if c.Unit == "" {
			return tw.AlignLeft
		}
		return tw.AlignRight
	})
	var b bytes.Buffer
	// Left alone, tablewriter rewrites headers, wraps cells, and lets the locale decide
	// how wide ± is.
	tab := tablewriter.NewTable(&b, tablewriter.WithRenderer(renderer.NewMarkdown()), tablewriter.WithAlignment(align), tablewriter.WithEastAsian(tw.Off),
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithHeaderAutoWrap(tw.WrapNone), tablewriter.WithRowAutoWrap(tw.WrapNone))
	tab.Header(each(s.columns, func(c column) string { return escape(c.header) }))
	for r, row := range s.rows {
		if row.Heading != "" {
			_ = tab.Append(append([]string{"*" + escape(row.Heading) + "*"}, make([]string, len(s.columns)-1)...))
		}
		texts := each(s.columns, func(c column) string { return escape(c.cells[r].text) })
		if texts[0] != "" && (row.Tone == Strong || row.Tone == Good || row.Tone == Bad) {
			texts[0] = "**" + texts[0] + "**"
		}
		_ = tab.Append(texts) // a slice of strings is always taken
	}
	_ = tab.Render() // a buffer takes everything
	return b.Bytes()
}

// chart draws the bars of column c, which GitHub makes of Mermaid's notation. The
// axis begins at 0, ends with the longest bar and has no labels, for which Mermaid
// would move its beginning: only so are bars in proportion. Their values stand with
// the names. The kind has the name which all versions of Mermaid understand.
func (s sheet) chart(b *strings.Builder, c int, title string) {
	var names, values []string
	col := s.columns[c]
	for r, e := range col.cells {
		if e.value <= 0 {
			continue
		}
		text := scale{"", 1}.number(e.value)
		names, values = append(names, label(s.columns[0].cells[r].text+" "+text)), append(values, text)
	}
	if len(names) < 2 {
		return
	}
	const form = "\n```mermaid\n" +
		`%%%%{init: {"xyChart": {"width": 800, "height": %d, "yAxis": {"showLabel": false, "showTick": false}}, ` +
		`"themeVariables": {"xyChart": {"plotColorPalette": "#4c78a8"}}}}%%%%` +
		"\nxychart-beta horizontal\n    title %s\n    x-axis [%s]\n    y-axis %s 0 --> %s\n    bar [%s]\n```\n"
	top := scale{"", 1}.number(col.most)
	fmt.Fprintf(b, form, 90+32*len(names), label(title), strings.Join(names, ", "), label(col.Name), top, strings.Join(values, ", "))
}

// label quotes a text for Mermaid, which knows no escapes inside quotes, and takes
// directives in braces from anywhere.
func label(text string) string {
	return `"` + strings.NewReplacer(`"`, "'", "`", "'", ";", ",", "#", "", "{", "(", "}", ")").Replace(Visible(text)) + `"`
}
