package doc

import (
	"cmp"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// TextOptions describe a terminal.
type TextOptions struct {
	Width   int  // in columns; 0 means 100, and 1 to 7 mean 8
	Colour  bool // show tones
	Unicode bool // else ASCII only
}

const (
	defaultWidth = 100
	leastWidth   = 8
	between      = 2  // width of the space between two columns of a table
	leastTable   = 80 // width of the narrowest terminal that shows tables in columns
	leastWrap    = 12 // narrowest column of wrapped words
	leastBar     = 6  // width of bars, at least and at most
	mostBar      = 40
)

// Text writes the document for a terminal.
func (d Document) Text(w io.Writer, o TextOptions) error {
	o.Width = max(cmp.Or(o.Width, defaultWidth), leastWidth)
	t := &textWriter{TextOptions: o, left: o.Width}
	t.paragraphs(Strong.Say(d.Title))
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
	t.paragraphs(Strong.Say(title))
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
		t.lines(wrap(t.printable(p.Text), t.left), p.Tone)
	}
}

// ansi has the escape sequences that begin a tone.
var ansi = map[Tone]string{Strong: "\x1b[1m", Good: "\x1b[1;32m", Bad: "\x1b[31m", Dim: "\x1b[2m"}

func (t *textWriter) lines(all []string, tone Tone) {
	for _, text := range all {
		t.line(text, tone)
	}
}

func (t *textWriter) line(text string, tone Tone) {
	text = strings.TrimRight(t.indent+text, " ")
	if t.Colour && tone != Plain && text != "" {
		text = ansi[tone] + text + "\x1b[0m"
	}
	t.out.WriteString(text + "\n")
}

func (t *textWriter) blank() { t.line("", Plain) }

// table writes a table in columns, or as one line of label and value per number if the terminal
// is narrow or the columns do not fit.
func (t *textWriter) table(table Table) {
	s := table.sheet(t.printable)
	if len(s.columns) == 0 {
		return
	}
	rows := t.inLines(s)
	room := sort.Search(t.left, func(room int) bool { return t.grid(s, room+1).wide > t.left })
	if g := t.grid(s, room); t.Width >= leastTable && g.wide <= t.left {
		rows = g.lines()
	}
	wide := widest(slices.Concat(rows...))
	t.lines(rows[0], Dim)
	for r, row := range s.rows {
		if row.Rule {
			t.rule(row.Heading, wide)
		}
		lines, note := rows[1+r], t.printable(row.Note)
		if len(lines) == 1 {
			if beside := strings.TrimRight(lines[0], " ") + padded(between) + note; width(beside) <= t.left {
				lines[0], note = beside, ""
			}
		}
		t.lines(lines, row.Tone)
		t.paragraphs(row.Tone.Say(note))
	}
}

// inLines returns no header, and for each row a line for each of its cells.
func (t *textWriter) inLines(s sheet) [][]string {
	rows := make([][]string, 1+len(s.rows))
	for r := range s.rows {
		indent := ""
		for _, col := range s.columns {
			if text := col.cells[r].text; text != "" {
				label := strings.TrimPrefix(col.header+": ", ": ")
				for _, line := range wrap(t.printable(label+text), t.left-len(indent)) {
					rows[1+r] = append(rows[1+r], indent+line)
				}
				indent = padded(between)
			}
		}
	}
	return rows
}

// A grid has the cells of a table in columns, below those of the header.
type grid struct {
	align   tw.Alignment
	cells   [][]string
	heights []int // of rows, in lines
	wide    int
}

func (g *grid) add(side tw.Align, texts []string) {
	wide := 1 // tablewriter has no narrower columns
	for r, text := range texts {
		lines := strings.Split(text, "\n")
		wide, g.heights[r] = max(wide, widest(lines)), max(g.heights[r], len(lines))
		g.cells[r] = append(g.cells[r], text)
	}
	g.align, g.wide = append(g.align, side), g.wide+between+wide
}

// lines returns the lines of the header and of each row.
func (g *grid) lines() (rows [][]string) {
	plain := tw.Rendition{
		Borders:  tw.BorderNone,
		Settings: tw.Settings{Lines: tw.LinesNone},
		Symbols:  tw.NewSymbolCustom("").WithColumn(padded(between)),
	}
	all := strings.Split(tabulated(g.align, g.cells, tablewriter.WithRenderer(renderer.NewBlueprint(plain)),
		tablewriter.WithPadding(tw.PaddingNone), tablewriter.WithTrimSpace(tw.Off)), "\n")
	for _, height := range g.heights {
		rows, all = append(rows, all[:height]), all[height:]
	}
	return rows
}

// grid lays out a table in columns. Bars, headers, and words that may be broken get lines of room
// columns, or what they need at least; headers get more, because a narrow bar is better than a high header.
func (t *textWriter) grid(s sheet, room int) *grid {
	g := &grid{cells: make([][]string, 1+len(s.rows)), heights: make([]int, 1+len(s.rows)), wide: -between}
	for _, col := range s.columns {
		texts := []string{broken(col.header, max(room+min(room, leastBar), col.width, widest(words(col.header))))}
		bars := []string{""}
		for r, e := range col.cells {
			text := col.aligned(r)
			if col.Wrap {
				text = broken(text, max(room, leastWrap))
			}
			texts, bars = append(texts, text), append(bars, t.bar(e.value, col.most, min(room, mostBar)))
		}
		g.add(col.align(), texts)
		if col.Bar && room >= leastBar {
			g.add(tw.AlignLeft, bars)
		}
	}
	return g
}

// broken breaks a text into lines of at most limit columns. Unlike tablewriter, it also breaks
// long words, and neither separates a number from its unit nor adds a sign.
func broken(text string, limit int) string { return strings.Join(wrap(text, limit), "\n") }

// rule draws a line of that width with a heading in it.
func (t *textWriter) rule(heading string, wide int) {
	dash := t.printable("─")
	if heading != "" {
		heading = wrap(dash+dash+" "+t.printable(heading), t.left)[0] + " "
	}
	t.line(heading+strings.Repeat(dash, max(0, wide-width(heading))), Dim)
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
