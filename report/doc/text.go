package doc

import (
	"bufio"
	"cmp"
	"io"
	"strconv"
	"strings"
)

// TextOptions say what a terminal can do.
type TextOptions struct {
	Width   int  // in columns: no line but those of tables is wider; less than 8 counts as 8, and 0 as 100
	Colour  bool // tones are shown
	Unicode bool // else ASCII only
}

const (
	defaultWidth = 100
	leastWidth   = 8
	between      = 2  // columns of a terminal between two of a table
	leastWrap    = 24 // as narrow as words are wrapped in a table
	leastKey     = 12 // likewise, where keys are too
	leastBar     = 6
	mostBar      = 40
	indented     = 40 // the width from which on sections are indented
)

// Text writes the document for a terminal.
func (d Document) Text(w io.Writer, o TextOptions) error {
	if o.Width == 0 {
		o.Width = defaultWidth
	}
	t := &textWriter{out: bufio.NewWriter(w), TextOptions: o, left: max(o.Width, leastWidth)}
	t.paragraphs([]Paragraph{{d.Title, Strong}})
	t.paragraphs(d.Lead)
	for _, s := range d.Sections {
		s.Plots = nil // there are no pictures on a terminal
		if !s.Empty() {
			t.section(s)
		}
	}
	return t.out.Flush()
}

// A textWriter writes lines. Errors are kept until the end.
type textWriter struct {
	TextOptions
	out    *bufio.Writer
	indent string
	left   int  // columns behind the indent
	begun  bool // something was written
}

func (t *textWriter) section(s Section) {
	t.blank()
	title := s.Title
	if s.Name != "" && title != "" && !strings.EqualFold(s.Name, title) {
		title += " (" + s.Name + ")"
	}
	t.paragraphs([]Paragraph{{title, Strong}})
	if s.Title != "" && t.left >= indented {
		t.indent, t.left = "  ", t.left-2
		defer func() { t.indent, t.left = "", t.left+2 }()
	}
	t.paragraphs(s.Lead)
	above := len(s.Lead) > 0
	for _, table := range s.shown() {
		if above {
			t.blank()
		}
		above = true
		t.paragraphs(Say(table.Caption))
		t.table(table)
		t.paragraphs(Say(table.Notes...))
	}
	if help := s.help(); len(s.shown()) > 0 && len(help)+len(s.Tail) > 0 {
		t.blank()
		for _, h := range help {
			t.paragraphs(Say(h[0] + ": " + h[1]))
		}
	}
	t.paragraphs(s.Tail)
}

// help returns names and definitions of the columns that the tables show, each
// once.
func (s Section) help() [][2]string {
	var all [][2]string
	seen := map[string]bool{}
	for _, t := range s.shown() {
		for c, col := range t.Columns {
			made, empty := t.column(c, col, Visible)
			name := cmp.Or(col.Name, made.header)
			if !empty && col.Help != "" && !seen[name] {
				seen[name] = true
				all = append(all, [2]string{name, col.Help})
			}
		}
	}
	return all
}

// written makes text of a terminal of anything.
func (t *textWriter) written(text string) string {
	text = Visible(text)
	if t.Unicode {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if ascii, ok := inASCII[r]; ok {
			b.WriteString(ascii)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		if r < 0x80 {
			q = " " + string(r) + " "
		}
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// inASCII are the signs that this program uses itself.
var inASCII = map[rune]string{'±': "+-", '×': "x", '÷': "/", 'µ': "u", '—': "-", '−': "-", '…': "..."}

func (t *textWriter) paragraphs(all []Paragraph) {
	for _, p := range all {
		if p.Text == "" {
			continue
		}
		for _, line := range wrap(t.written(p.Text), t.left) {
			t.line(line, p.Tone)
		}
	}
}

// ansi are the sequences that begin a tone.
var ansi = map[Tone]string{Strong: "\x1b[1m", Good: "\x1b[1;32m", Bad: "\x1b[31m", Dim: "\x1b[2m"}

func (t *textWriter) line(text string, tone Tone) {
	text = strings.TrimRight(t.indent+text, " ")
	if t.Colour && tone != Plain && text != "" {
		text = ansi[tone] + text + "\x1b[0m"
	}
	t.out.WriteString(text + "\n")
	t.begun = true
}

func (t *textWriter) blank() {
	if t.begun {
		t.line("", Plain)
	}
}

// table writes a table: as it is if it fits; else with headers and words in several
// lines; else with keys too, as several tables if need be: these may be wider than a
// very narrow terminal.
func (t *textWriter) table(of Table) {
	s := of.sheet(t.written)
	if len(s.columns) == 0 {
		return
	}
	for _, try := range []struct {
		bar     int
		headers bool // may be broken into lines
	}{{leastBar, false}, {leastBar, true}, {0, true}} {
		widths, sum := t.widths(s, try.headers, false, try.bar), -between
		for _, w := range widths {
			sum += w + between
		}
		if sum <= t.left {
			bar := try.bar
			if bar > 0 {
				bar = min(bar+t.left-sum, mostBar)
				widths = t.widths(s, try.headers, false, bar)
			}
			t.grid(s, widths, bar)
			return
		}
	}
	widths := t.widths(s, true, true, 0)
	parts := s.split(widths, between, t.left)
	for limit := t.left; parts == nil; limit++ {
		parts = s.split(widths, between, limit)
	}
	for i, part := range parts {
		if i > 0 {
			t.blank()
			part.rows = withoutNotes(part.rows)
		}
		t.grid(part, t.widths(part, true, true, 0), 0)
	}
}

func withoutNotes(rows []Row) []Row {
	rows = append([]Row{}, rows...)
	for i := range rows {
		rows[i].Note = ""
	}
	return rows
}

// widths returns those of the columns. Where headers may be broken, columns of words
// that may be too, and keys if they may, share what the others leave.
func (t *textWriter) widths(s sheet, headers, keys bool, bar int) []int {
	widths := make([]int, len(s.columns))
	rest, wraps := t.left+between, 0
	least := func(c int) int {
		if c < s.keys {
			return leastKey
		}
		return leastWrap
	}
	wrapped := func(c int) bool {
		col := s.columns[c]
		return headers && (col.Wrap || keys && c < s.keys && col.Unit == "") && widths[c] > least(c)
	}
	for c, col := range s.columns {
		w := col.width()
		if col.Bar && bar > 0 {
			w += between + bar
		}
		if headers {
			for _, word := range words(col.header) {
				w = max(w, width(word))
			}
		} else {
			w = max(w, width(col.header))
		}
		widths[c] = w
		if wrapped(c) {
			wraps++
		} else {
			rest -= w + between
		}
	}
	for c, col := range s.columns {
		if wrapped(c) {
			most := min(widths[c], max(least(c), rest/wraps-between))
			widths[c] = min(width(col.header), most)
			for _, e := range col.cells {
				for _, line := range wrap(e.text, most) {
					widths[c] = max(widths[c], width(line))
				}
			}
		}
	}
	return widths
}

// grid writes a table of these widths.
func (t *textWriter) grid(s sheet, widths []int, bar int) {
	header := make([]string, len(s.columns))
	for c, col := range s.columns {
		header[c] = col.header
		if col.Bar && bar > 0 { // above the numbers
			header[c] = padded(col.width()-width(col.header)) + col.header
		}
	}
	wide := t.row(s, widths, bar, header, "", Dim)
	for r, row := range s.rows {
		texts := make([]string, len(s.columns))
		for c, col := range s.columns {
			texts[c] = col.aligned(r)
			if col.Bar && bar > 0 {
				texts[c] = padded(col.width()-width(texts[c])) + texts[c] + padded(between) + t.bar(col.cells[r].value, col.most, bar)
			}
		}
		t.rule(row, wide)
		t.row(s, widths, bar, texts, t.written(row.Note), row.Tone)
	}
}

// rule writes the line above a row that is set apart, with its heading on it.
func (t *textWriter) rule(row Row, wide int) {
	if !row.Rule {
		return
	}
	dash, heading := t.sign("─", "-"), ""
	if row.Heading != "" {
		heading = wrap(dash+dash+" "+t.written(row.Heading), t.left)[0] + " "
	}
	t.line(heading+strings.Repeat(dash, max(0, wide-width(heading))), Dim)
}

// row writes a row of a grid, in several lines if its words take them, with a note
// behind or below it. It returns how wide a full row is.
func (t *textWriter) row(s sheet, widths []int, bar int, texts []string, note string, tone Tone) (wide int) {
	cells := make([][]string, len(texts))
	n := 0
	for c, text := range texts {
		cells[c] = []string{text}
		if width(text) > widths[c] {
			cells[c] = wrap(text, widths[c])
		}
		n = max(n, len(cells[c]))
	}
	for k := range n {
		line := ""
		wide = 0
		for c, col := range s.columns {
			text := ""
			if k < len(cells[c]) {
				text = cells[c][k]
			}
			if col.Unit != "" && !(col.Bar && bar > 0) {
				text = padded(widths[c]-width(text)) + text
			}
			line += padded(wide-width(line)) + text
			wide += widths[c] + between
		}
		if line = strings.TrimRight(line, " "); k == 0 && note != "" && width(line)+between+width(note) <= t.left {
			line, note = line+padded(between)+note, ""
		}
		t.line(line, tone)
	}
	t.paragraphs([]Paragraph{{note, tone}})
	return wide - between
}

func (t *textWriter) sign(unicode, ascii string) string {
	if t.Unicode {
		return unicode
	}
	return ascii
}

// bar draws value as a bar. The longest, that of most, takes all of the columns.
func (t *textWriter) bar(value, most float64, columns int) string {
	if !(value > 0 && value/most > 0) {
		return ""
	}
	if !t.Unicode {
		return strings.Repeat("#", max(1, int(value/most*float64(columns)+0.5)))
	}
	eighths := max(1, int(value/most*float64(columns)*8+0.5))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}
