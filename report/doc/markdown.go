package doc

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
)

const (
	// limit is the largest comment that GitHub accepts, in characters.
	limit = 65536
	// page is the width of the widest table that GitHub's page shows without scrolling,
	// in characters, with margins for the margins of a cell.
	page    = 100
	margins = 3
	// narrowest is the width, in characters, to which a browser narrows a column of
	// words that may be broken.
	narrowest = 30
)

// Markdown writes the document for a comment on GitHub: no table scrolls sideways. Sections
// that would exceed GitHub's limit are left out and named.
func (d Document) Markdown(w io.Writer) error {
	var b strings.Builder
	if d.Title != "" {
		fmt.Fprintf(&b, "## %s\n", paragraph(d.Title))
	}
	paragraphs(&b, d.Lead)
	const reserve, mostLeft = 400, 200 // characters: for the sentence that names omitted sections, and for their names
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
		names := []rune(List(left))
		if len(names) > mostLeft {
			names = append(names[:mostLeft], '…')
		}
		fmt.Fprintf(&b, "\nLeft out, to stay below GitHub's limit of %d characters: %s. "+
			"The format text has them, with --view all or, of a comparison, --details.\n", limit, escape(string(names)))
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// folded returns the section with its title, collapsed if Folded is set.
func (s Section) folded() string {
	var b strings.Builder
	s.Plots = nil // tables have the same numbers
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
	return b.String() + s.Markdown() + end
}

// Markdown returns the section without its title.
func (s Section) Markdown() string {
	b := new(strings.Builder)
	paragraphs(b, s.Lead)
	for _, p := range s.Plots {
		p.markdown(b)
	}
	for _, t := range s.shown() {
		paragraphs(b, Say(t.Caption))
		t.markdown(b, cmp.Or(t.Caption, s.Title))
		paragraphs(b, Say(t.Notes...))
	}
	if help := s.Help(); len(help) > 0 {
		b.WriteByte('\n')
		for _, h := range help {
			fmt.Fprintf(b, "- **%s**: %s\n", escape(h.Word), escape(h.Means))
		}
	}
	paragraphs(b, s.Tail)
	return b.String()
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

// markdown writes the charts of the table, and then the table, in several parts if it is too
// wide.
func (t Table) markdown(b *strings.Builder, title string) {
	s := t.sheet(Visible)
	widths := make([]int, len(s.columns))
	for c, col := range s.columns {
		widths[c] = col.width
		if col.Wrap {
			widths[c] = min(widths[c], narrowest)
		}
		widths[c] = max(widths[c], widest(words(col.header))) // browsers break headers into lines
		if col.Bar {
			s.chart(b, c, title)
		}
	}
	parts, least := s.split(widths, margins, page)
	if least > page { // a column is wider than the page, so splitting does not help
		parts = []sheet{s}
	}
	for _, part := range parts {
		if len(part.columns) > 0 {
			b.WriteByte('\n')
			b.WriteString(part.markdown())
		}
	}
	for r, row := range t.Rows {
		if row.Note != "" && len(s.columns) > 0 {
			paragraphs(b, Say(s.columns[0].cells[r].text+": "+row.Note))
		}
	}
}

func (s sheet) markdown() string {
	cells := [][]string{Each(s.columns, func(c column) string { return escape(c.header) })}
	for r, row := range s.rows {
		if row.Heading != "" {
			cells = append(cells, append([]string{"*" + escape(row.Heading) + "*"}, make([]string, len(s.columns)-1)...))
		}
		texts := Each(s.columns, func(c column) string { return escape(c.cells[r].text) })
		if texts[0] != "" && (row.Tone == Strong || row.Tone == Good || row.Tone == Bad) {
			texts[0] = "**" + texts[0] + "**"
		}
		cells = append(cells, texts)
	}
	return tabulated(Each(s.columns, column.align), cells, tablewriter.WithRenderer(renderer.NewMarkdown()))
}

// chart writes the bars of column c in Mermaid's notation, which GitHub draws. The axis begins
// at 0, so that bars are in proportion, and ends with the longest bar. It has no labels,
// because Mermaid would move its beginning for them: names include the values instead. All
// versions of Mermaid know the name xychart-beta.
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

// lineColours are the lines of a chart in Mermaid's notation, which has no legend: a paragraph names them.
var lineColours = [][2]string{{"blue", "#4c78a8"}, {"orange", "#f58518"}, {"red", "#e45756"}, {"green", "#54a24b"}, {"brown", "#9d755d"}}

// markdown writes curves with the same positions in Mermaid's notation, which has no logarithmic axis for values and no
// gaps. Others are not drawn: tables have the same numbers.
func (p Plot) markdown(b *strings.Builder) {
	if p.Kind != Curves || p.Value.Log || p.Steps || p.Apart || len(p.Series) < 2 || len(p.Series) > len(lineColours) {
		return
	}
	at := func(s Series) []string {
		return Each(s.Points, func(q Point) string { return label(Quantity(p.At.Unit, q.At)) })
	}
	var all []float64
	for _, s := range p.Series {
		if !slices.Equal(at(s), at(p.Series[0])) {
			return
		}
		all = append(all, Each(s.Points, func(q Point) float64 { return q.Value.Center })...)
	}
	if slices.ContainsFunc(all, math.IsNaN) || len(p.Series[0].Points) < 2 {
		return
	}
	unit, lines, palette, names := scaleOf(p.Value.Unit, all...), "", []string(nil), []string(nil)
	for i, s := range p.Series {
		numbers := Each(s.Points, func(q Point) string { return unit.number(q.Value.Center) })
		lines += "    line [" + strings.Join(numbers, ", ") + "]\n"
		palette, names = append(palette, lineColours[i][1]), append(names, lineColours[i][0]+": "+s.Name)
	}
	const form = "\n```mermaid\n" +
		`%%%%{init: {"xyChart": {"width": 800, "height": 400}, "themeVariables": {"xyChart": {"plotColorPalette": "%s"}}}}%%%%` +
		"\nxychart-beta\n    title %s\n    x-axis %s [%s]\n    y-axis %s 0 --> %s\n%s```\n"
	fmt.Fprintf(b, form, strings.Join(palette, ", "), label(p.Caption), label(p.At.Name), strings.Join(at(p.Series[0]), ", "),
		label(p.Value.Name+", "+unit.Name), unit.number(slices.Max(all)), lines)
	paragraphs(b, Say(strings.Join(names, "; ")+"."))
}

// label quotes a text for Mermaid, which has no escapes inside quotes, and obeys directives in
// braces anywhere.
func label(text string) string {
	return `"` + strings.NewReplacer(`"`, "'", "`", "'", ";", ",", "#", "", "{", "(", "}", ")").Replace(Visible(text)) + `"`
}
