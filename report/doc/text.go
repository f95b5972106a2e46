package doc

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// TextOptions describe a terminal.
type TextOptions struct {
	Width   int  // in columns; only tables may be wider. 0 means 100, and 1 to 7 mean 8
	Colour  bool // show tones
	Unicode bool // else ASCII only
}

const (
	defaultWidth = 100
	leastWidth   = 8
	between      = 2  // width of the space between two columns of a table
	leastWrap    = 24 // narrowest column of wrapped words
	leastKey     = 12 // narrowest column of wrapped keys
	leastBar     = 6  // width of bars, at least and at most
	mostBar      = 40
)

// Text writes the document for a terminal.
func (d Document) Text(w io.Writer, o TextOptions) error {
	t := &textWriter{TextOptions: o, left: max(cmp.Or(o.Width, defaultWidth), leastWidth)}
	t.paragraphs([]Paragraph{{d.Title, Strong}})
	t.paragraphs(d.Lead)
	for _, s := range d.Sections {
		s.Plots = nil // terminals show no plots
		if !s.Empty() {
			t.section(s)
		}
	}
	_, err := io.WriteString(w, strings.TrimPrefix(t.out.String(), "\n"))
	return err
}

// A textWriter collects lines.
type textWriter struct {
	TextOptions
	out    strings.Builder
	indent string
	left   int // columns after the indent
}

func (t *textWriter) section(s Section) {
	t.blank()
	title := s.Title
	if s.Name != "" && title != "" && !strings.EqualFold(s.Name, title) {
		title += " (" + s.Name + ")"
	}
	t.paragraphs([]Paragraph{{title, Strong}})
	if s.Title != "" {
		t.indent, t.left = "  ", t.left-2
		defer func() { t.indent, t.left = "", t.left+2 }()
	}
	t.paragraphs(s.Lead)
	for i, table := range s.shown() {
		if i > 0 || len(s.Lead) > 0 {
			t.blank()
		}
		t.paragraphs(Say(table.Caption))
		t.table(table)
		t.paragraphs(Say(table.Notes...))
	}
	if help := s.Help(); len(s.shown()) > 0 && len(help)+len(s.Tail) > 0 {
		t.blank()
		for _, h := range help {
			t.paragraphs(Say(h.Word + ": " + h.Means))
		}
	}
	t.paragraphs(s.Tail)
}

// Help returns the definitions of the columns that the tables show, each once.
func (s Section) Help() []Term {
	var all []Term
	for _, t := range s.shown() {
		for _, col := range t.sheet(Visible).columns {
			name := cmp.Or(col.Name, col.header)
			if col.Help != "" && !slices.ContainsFunc(all, func(h Term) bool { return h.Word == name }) {
				all = append(all, Term{name, col.Help})
			}
		}
	}
	return all
}

// printable returns text as the terminal can show it.
func (t *textWriter) printable(text string) string {
	if text = Visible(text); t.Unicode {
		return text
	}
	return nonASCII.ReplaceAllStringFunc(inASCII.Replace(text), func(s string) string { return strings.Trim(strconv.QuoteToASCII(s), `"`) })
}

// inASCII replaces the characters that this program uses itself, nonASCII matches all others.
var (
	inASCII  = strings.NewReplacer("±", "+-", "×", "x", "÷", "/", "µ", "u", "—", "-", "−", "-", "…", "...", "─", "-")
	nonASCII = regexp.MustCompile(`[^\x00-\x7f]`)
)

func (t *textWriter) paragraphs(all []Paragraph) {
	for _, p := range all {
		if p.Text == "" {
			continue
		}
		for _, line := range wrap(t.printable(p.Text), t.left) {
			t.line(line, p.Tone)
		}
	}
}

// ansi has the escape sequences that begin a tone.
var ansi = map[Tone]string{Strong: "\x1b[1m", Good: "\x1b[1;32m", Bad: "\x1b[31m", Dim: "\x1b[2m"}

func (t *textWriter) line(text string, tone Tone) {
	text = strings.TrimRight(t.indent+text, " ")
	if t.Colour && tone != Plain && text != "" {
		text = ansi[tone] + text + "\x1b[0m"
	}
	t.out.WriteString(text + "\n")
}

func (t *textWriter) blank() { t.line("", Plain) }

// A layout is a way to make a table fit.
type layout struct {
	bar    int  // the width of bars; 0 leaves them out
	broken bool // break headers into lines, and words of columns with Wrap
	keys   bool // break keys too
}

// table writes a table as it is if it fits, else with headers and words broken into lines. If
// it still does not fit, keys are broken too and the table is split into several. These may be
// wider than a very narrow terminal.
func (t *textWriter) table(of Table) {
	s := of.sheet(t.printable)
	if len(s.columns) == 0 {
		return
	}
	for _, l := range []layout{{bar: leastBar}, {bar: leastBar, broken: true}, {broken: true}} {
		widths := t.widths(s, l)
		left := t.left + between
		for _, w := range widths {
			left -= w + between
		}
		if left < 0 {
			continue
		}
		if l.bar > 0 {
			l.bar = min(l.bar+left, mostBar)
			widths = t.widths(s, l)
		}
		t.grid(s, widths, l.bar)
		return
	}
	l := layout{broken: true, keys: true}
	parts, _ := s.split(t.widths(s, l), between, t.left)
	for _, part := range parts {
		if part.follows {
			t.blank()
		}
		t.grid(part, t.widths(part, l), 0)
	}
}

// widths returns the widths of the columns. Columns that are broken into lines share the space
// that the others leave.
func (t *textWriter) widths(s sheet, l layout) []int {
	widths, least := make([]int, len(s.columns)), make([]int, len(s.columns))
	rest, wraps := t.left+between, 0
	for c, col := range s.columns {
		widths[c] = col.width
		if col.Bar && l.bar > 0 {
			widths[c] += between + l.bar
		}
		header := []string{col.header}
		if l.broken {
			header = words(col.header)
		}
		widths[c] = max(widths[c], widest(header))
		least[c] = widths[c]
		switch {
		case l.broken && c < s.keys && (col.Wrap || l.keys && col.Unit == ""):
			least[c] = leastKey
		case l.broken && col.Wrap:
			least[c] = leastWrap
		}
		if widths[c] > least[c] {
			wraps++
		} else {
			rest -= widths[c] + between
		}
	}
	for c, col := range s.columns {
		if widths[c] > least[c] {
			most := min(widths[c], max(least[c], rest/wraps-between))
			widths[c] = min(width(col.header), most)
			for _, e := range col.cells {
				widths[c] = max(widths[c], widest(wrap(e.text, most)))
			}
		}
	}
	return widths
}

// grid writes a table with columns of these widths.
func (t *textWriter) grid(s sheet, widths []int, bar int) {
	texts := make([]string, len(s.columns))
	for c, col := range s.columns {
		texts[c] = col.header
		if col.Bar && bar > 0 { // above the numbers
			texts[c] = right(col.header, col.width)
		}
	}
	wide := t.row(s, widths, bar, texts, "", Dim)
	for r, row := range s.rows {
		for c, col := range s.columns {
			texts[c] = col.aligned(r)
			if col.Bar && bar > 0 {
				texts[c] = right(texts[c], col.width) + padded(between) + t.bar(col.cells[r].value, col.most, bar)
			}
		}
		if row.Rule {
			t.rule(row.Heading, wide)
		}
		if s.follows {
			row.Note = ""
		}
		t.row(s, widths, bar, texts, t.printable(row.Note), row.Tone)
	}
}

// rule draws a line of that width with a heading in it.
func (t *textWriter) rule(heading string, wide int) {
	dash := t.printable("─")
	if heading != "" {
		heading = wrap(dash+dash+" "+t.printable(heading), t.left)[0] + " "
	}
	t.line(heading+strings.Repeat(dash, max(0, wide-width(heading))), Dim)
}

// row writes a row of a grid, in several lines if its words need them, with a note after or
// below it. It returns the width of a full row.
func (t *textWriter) row(s sheet, widths []int, bar int, texts []string, note string, tone Tone) (wide int) {
	var lines []string
	for c, text := range texts {
		cell := []string{text}
		if width(text) > widths[c] {
			cell = wrap(text, widths[c])
		}
		for k, text := range cell {
			if k == len(lines) {
				lines = append(lines, "")
			}
			if col := s.columns[c]; col.Unit != "" && !(col.Bar && bar > 0) {
				text = right(text, widths[c])
			}
			lines[k] += padded(wide-width(lines[k])) + text
		}
		wide += widths[c] + between
	}
	for k, line := range lines {
		if line = strings.TrimRight(line, " "); k == 0 && note != "" && width(line)+between+width(note) <= t.left {
			line, note = line+padded(between)+note, ""
		}
		t.line(line, tone)
	}
	t.paragraphs([]Paragraph{{note, tone}})
	return wide - between
}

// bar draws value as a bar. The bar of most fills all columns.
func (t *textWriter) bar(value, most float64, columns int) string {
	if !(value > 0 && value/most > 0) {
		return ""
	}
	if !t.Unicode {
		return strings.Repeat("#", max(1, int(value/most*float64(columns)+0.5)))
	}
	eighths := max(1, int(value/most*float64(columns)*8+0.5))
	return strings.Repeat("█", eighths/8) + strings.TrimSpace(string([]rune(" ▏▎▍▌▋▊▉")[eighths%8]))
}
