package doc

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/tw"

	"ipcbench/bench/stat"
)

// A sheet is a table converted to texts. Each of its columns has one unit, and columns without
// any content are removed.
type sheet struct {
	keys    int
	columns []column
	rows    []Row
}

// A column has the texts of one column. A number has three parts, so that decimal points and
// bounds can be aligned.
type column struct {
	Column
	header string
	cells  []entry
	width  int     // of the widest cell
	whole  int     // width of the longest part before the point
	part   int     // width of the longest part from the point on
	bounds int     // width of the longest bounds
	most   float64 // the largest value
}

// An entry is the text of one cell.
type entry struct {
	text                string  // all of it
	whole, part, bounds string  // of a number
	value               float64 // of a number
}

// keys returns the number of columns that are keys.
func (t Table) keys() int { return min(max(t.Keys, 1), len(t.Columns)) }

// sheet converts the table to texts, and applies printable to each.
func (t Table) sheet(printable func(string) string) sheet {
	s := sheet{rows: t.Rows}
	for c, col := range t.Columns {
		if col.Name == "" && col.Key != "" || !slices.ContainsFunc(t.Rows, func(r Row) bool { return !t.cell(r, c).Empty() }) {
			continue
		}
		s.columns = append(s.columns, t.column(c, printable))
		if c < t.keys() {
			s.keys++
		}
	}
	s.keys = min(max(s.keys, 1), len(s.columns))
	return s
}

// cell returns the cell that people see in column c of a row.
func (t Table) cell(r Row, c int) Cell {
	if c >= len(r.Cells) {
		return Cell{}
	}
	cell := r.Cells[c]
	switch {
	case cell.ForPeople != "":
		return Cell{Text: cell.ForPeople, ForPeople: cell.ForPeople}
	case t.Columns[c].Middle && cell.Value != nil:
		return cellOf(cell.Value.Center)
	}
	return cell
}

// column converts column c to texts.
func (t Table) column(c int, printable func(string) string) column {
	cells := Each(t.Rows, func(r Row) Cell { return t.cell(r, c) })
	var values []float64 // centers, and the larger bound of each interval
	confidence, whole := 1.0, true
	shown := column{Column: t.Columns[c]}
	for _, cell := range cells {
		if cell.ForPeople != "" {
			shown.Unit = "" // people see words
		}
		i := cell.Value
		if i == nil {
			continue
		}
		if values = append(values, i.Center); i.Confidence > 0 {
			values = append(values, max(math.Abs(i.Low), math.Abs(i.High)))
		}
		whole = whole && i.Center == math.Trunc(i.Center) && i.Confidence == 0
		if i.Blocks > 0 && (i.Confidence > 0 || i.Blocks == 1) {
			confidence = min(confidence, i.Confidence)
		}
	}
	u := scaleOf(shown.Unit, values...)
	shown.header = printable(shown.headerText(u, confidence))
	digits := 9 // after the point, at most
	if strings.HasPrefix(shown.Unit, "1") && len(values) > 0 {
		digits = u.decimals(slices.Max(values)) + 2 // much smaller values have no smaller unit
		if whole {
			digits = 0
		}
	}
	for r, cell := range cells {
		e := cell.entry(u, digits, printable)
		if cell.Empty() && shown.Unit != "" && c < len(t.Rows[r].Cells) {
			e.text = printable(none)
		}
		shown.cells, shown.most = append(shown.cells, e), max(shown.most, e.value)
		if e.whole == "" {
			shown.width = max(shown.width, width(e.text))
			continue
		}
		shown.whole, shown.part, shown.bounds = max(shown.whole, width(e.whole)), max(shown.part, width(e.part)),
			max(shown.bounds, width(e.bounds))
		shown.width = max(shown.width, shown.whole+shown.part+shown.bounds)
	}
	return shown
}

// headerText returns the name of the column with its unit, and with the lowest confidence of its
// intervals if that is lower than usual.
func (c Column) headerText(u scale, confidence float64) string {
	header := cmp.Or(c.Name, u.Name)
	if c.Name != "" && u.Name != "" {
		header += ", " + u.Name
	}
	switch {
	case confidence == 0:
		header += " (no interval)"
	case confidence < stat.Confidence:
		header += " (" + Percent(confidence) + " sure)"
	}
	return header
}

// entry converts a cell to texts.
func (c Cell) entry(u scale, digits int, printable func(string) string) entry {
	if c.Value == nil {
		return entry{text: printable(cmp.Or(c.Text, strings.Join(c.List, ", ")))}
	}
	number, bounds := u.parts(*c.Value, digits)
	e := entry{whole: printable(number), bounds: printable(bounds), value: c.Value.Center}
	if i := strings.IndexByte(e.whole, '.'); i >= 0 {
		e.whole, e.part = e.whole[:i], e.whole[i:]
	}
	e.text = e.whole + e.part + e.bounds
	return e
}

// aligned returns the text of a cell, padded so that the decimal points of the column are
// aligned.
func (c column) aligned(row int) string {
	e := c.cells[row]
	if e.whole == "" {
		return e.text
	}
	return padded(c.whole-width(e.whole)) + e.whole + e.part + padded(c.part-width(e.part)) + e.bounds + padded(c.bounds-width(e.bounds))
}

func (c column) align() tw.Align {
	if c.Unit == "" {
		return tw.AlignLeft
	}
	return tw.AlignRight
}

// tabulated lets tablewriter lay out a header and rows. By default, it rewrites headers, wraps
// cells, and takes the width of ± from the locale.
func tabulated(align tw.Alignment, cells [][]string, more ...tablewriter.Option) string {
	var b strings.Builder
	tab := tablewriter.NewTable(&b, append(more,
		tablewriter.WithAlignment(align), tablewriter.WithEastAsian(tw.Off), tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone), tablewriter.WithRowAutoWrap(tw.WrapNone))...)
	tab.Header(cells[0])
	_ = tab.Bulk(cells[1:]) // slices of strings are always accepted
	_ = tab.Render()        // writing to a builder never fails
	return b.String()
}

// split splits s into sheets whose columns, with between columns of space between two, are at
// most limit wide. least is the width that the keys and the widest other column need; sheets
// are wider than limit only if least is.
func (s sheet) split(widths []int, between, limit int) (parts []sheet, least int) {
	keys := -between
	for _, w := range widths[:s.keys] {
		keys += w + between
	}
	least = keys
	for _, w := range widths[s.keys:] {
		least = max(least, keys+between+w)
	}
	empty := sheet{columns: slices.Clip(s.columns[:s.keys]), rows: s.rows}
	cut := func(limit int) []sheet { // fills one sheet after the other
		all, used := []sheet{empty}, keys // used by the last sheet
		for c := s.keys; c < len(s.columns); c++ {
			if used+between+widths[c] > limit {
				all, used = append(all, empty), keys
			}
			last := &all[len(all)-1]
			last.columns = append(last.columns, s.columns[c])
			used += between + widths[c]
		}
		return all
	}
	fewest := len(cut(max(limit, least)))
	// Use the narrowest width with the fewest sheets, to avoid wide sheets and a narrow rest.
	more := sort.Search(max(limit-least, 0), func(more int) bool { return len(cut(least+more)) <= fewest })
	return cut(least + more), least
}

// width returns the width of a text in columns of a terminal. Characters of ambiguous width,
// such as ± and µ, count as one, whatever the locale.
func width(text string) int {
	if !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return len(text) // faster, and true of most texts
	}
	return twwidth.WidthWithOptions(text, twwidth.Options{})
}

func padded(n int) string { return strings.Repeat(" ", max(n, 0)) }

// widest returns the width of the widest text.
func widest(texts []string) (w int) {
	for _, text := range texts {
		w = max(w, width(text))
	}
	return w
}

// unitWord matches a unit, which stays on one line with the number before it.
var unitWord = regexp.MustCompile(`^([kMG]?(B|bit)(/s)?|[mµn]?s|%)[^\pL]*$`)

// words returns the words of a text. A number and its unit are one word.
func words(text string) []string {
	var all []string
	for _, word := range strings.Fields(text) {
		if last := len(all) - 1; last >= 0 && unitWord.MatchString(word) && (word[0] == '%' || unicode.IsDigit(rune(all[last][len(all[last])-1]))) {
			all[last] += " " + word
			continue
		}
		all = append(all, word)
	}
	return all
}

// wrap breaks a text into lines of at most limit columns. Longer words are broken too: before
// a colon, where a setting begins, if there is one.
func wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for _, word := range words(text) {
		if line != "" && width(line)+1+width(word) <= limit {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for width(word) > limit {
			end := fitting(word, limit)
			if colon := strings.LastIndexByte(word[1:min(end+1, len(word))], ':'); colon >= 0 {
				end = colon + 1
			}
			lines, word = append(lines, word[:end]), Visible(word[end:]) // again, because a line begins here
		}
		line = word
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// Fold breaks the lines of text that are longer than limit columns between words, as wrap does.
// What continues a line is indented like it.
func Fold(text string, limit int) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		body, newline := strings.CutSuffix(line, "\n")
		if width(body) > limit {
			indent := body[:len(body)-len(strings.TrimLeft(body, " \t"))]
			body = indent + strings.Join(wrap(body, max(20, limit-width(indent))), "\n"+indent)
		}
		all.WriteString(body)
		if newline {
			all.WriteString("\n")
		}
	}
	return all.String()
}

// fitting returns the number of bytes of a too long word that fit into that many columns: at
// least one character.
func fitting(word string, columns int) int {
	for i, r := range word {
		if columns -= width(string(r)); i > 0 && columns < 0 {
			return i
		}
	}
	return len(word)
}
