package doc

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"ipcbench/bench/stat"
)

// A sheet is a table as texts: its columns have one unit each, and those without
// any content are gone.
type sheet struct {
	keys    int
	columns []column
	rows    []Row
}

// A column is the texts of one column. Those of numbers are in three parts, so that
// points and bounds can stand below each other.
type column struct {
	Column
	header string
	cells  []entry
	whole  int // width of the longest part before the point
	part   int // and behind it
	bounds int // and of the longest bounds
	most   float64
}

// An entry is the text of one cell.
type entry struct {
	text                string  // all of it
	whole, part, bounds string  // of a number
	value               float64 // of a number in a column with bars, else 0
}

// sheet makes texts of the table, with written applied to each.
func (t Table) sheet(written func(string) string) sheet {
	s := sheet{keys: max(t.Keys, 1), rows: t.Rows}
	for c, col := range t.Columns {
		made, empty := t.column(c, col, written)
		switch {
		case !empty:
			s.columns = append(s.columns, made)
		case c < max(t.Keys, 1):
			s.keys--
		}
	}
	s.keys = min(max(s.keys, 1), len(s.columns))
	return s
}

// cell returns what people see in column c of a row.
func (t Table) cell(r Row, c int) Cell {
	if c >= len(r.Cells) {
		return Cell{}
	}
	cell := r.Cells[c]
	if t.Columns[c].Middle && cell.Value != nil {
		cell.Value = Number(cell.Value.Center).Value
	}
	return cell
}

// numbers returns those of column c, with the larger of their bounds.
func (t Table) numbers(c int) (all []float64) {
	for _, r := range t.Rows {
		i := t.cell(r, c).Value
		if i == nil {
			continue
		}
		if all = append(all, i.Center); i.Confidence > 0 {
			all = append(all, max(math.Abs(i.Low), math.Abs(i.High)))
		}
	}
	return all
}

// column makes texts of column c, and reports whether it holds anything.
func (t Table) column(c int, col Column, written func(string) string) (made column, empty bool) {
	if col.For == Programs {
		return made, true
	}
	values := t.numbers(c)
	least, whole := 1.0, true
	for _, r := range t.Rows {
		i := t.cell(r, c).Value
		if i == nil {
			continue
		}
		whole = whole && i.Center == math.Trunc(i.Center) && i.Confidence == 0
		if i.Blocks > 0 && (i.Confidence > 0 || i.Blocks == 1) {
			least = min(least, i.Confidence)
		}
	}
	u := scaleOf(col.Unit, values...)
	made = column{Column: col, header: col.Name}
	switch {
	case col.Name == "":
		made.header = u.name
	case u.name != "":
		made.header += ", " + u.name
	}
	switch {
	case least == 0:
		made.header += " (no interval)"
	case least < stat.Confidence:
		made.header += " (" + Percent(least) + " sure)"
	}
	made.header = written(made.header)
	digits := 9 // after the point, at most
	if strings.HasPrefix(col.Unit, "1") && len(values) > 0 {
		digits = u.decimals(slices.Max(values)) + 2 // there is no smaller unit for what is much smaller
		if whole {
			digits = 0
		}
	}
	empty = true
	for _, r := range t.Rows {
		e := entry{}
		if c < len(r.Cells) {
			cell := t.cell(r, c)
			empty = empty && cell.Empty()
			e = cell.entry(u, digits, written)
			if cell.Empty() && col.Unit != "" {
				e.text = written(none)
			}
			if col.Bar && cell.Value != nil {
				e.value = cell.Value.Center
				made.most = max(made.most, e.value)
			}
		}
		made.cells = append(made.cells, e)
		if e.whole != "" {
			made.whole, made.part, made.bounds = max(made.whole, width(e.whole)), max(made.part, width(e.part)), max(made.bounds, width(e.bounds))
		}
	}
	return made, empty
}

func (c Cell) entry(u scale, digits int, written func(string) string) entry {
	if c.Value == nil {
		return entry{text: written(cmp.Or(c.Text, strings.Join(c.List, ", ")))}
	}
	number, bounds := u.parts(*c.Value, digits)
	if c.Text != "" {
		bounds += " " + c.Text
	}
	e := entry{whole: written(number), bounds: written(bounds)}
	if i := strings.IndexByte(e.whole, '.'); i >= 0 {
		e.whole, e.part = e.whole[:i], e.whole[i:]
	}
	e.text = e.whole + e.part + e.bounds
	return e
}

// aligned returns the text of a cell in which the point of a number stands where
// those of the others stand.
func (c column) aligned(row int) string {
	e := c.cells[row]
	if e.whole == "" {
		return e.text
	}
	return padded(c.whole-width(e.whole)) + e.whole + e.part + padded(c.part-width(e.part)) + e.bounds + padded(c.bounds-width(e.bounds))
}

// width is that of the widest cell.
func (c column) width() int {
	w := c.whole + c.part + c.bounds
	for _, e := range c.cells {
		if e.whole == "" {
			w = max(w, width(e.text))
		}
	}
	return w
}

// split returns the sheets into which s must be split so that the widths of the
// columns of each, with what lies between them, are at most limit. It returns none
// if the keys and some other column are too wide already.
func (s sheet) split(widths []int, between, limit int) []sheet {
	best := s.cut(widths, between, limit)
	for n := len(best); n > 1; { // as many sheets of like widths, rather than wide ones and a narrow rest
		limit--
		next := s.cut(widths, between, limit)
		if len(next) != n {
			break
		}
		best = next
	}
	return best
}

// cut fills one sheet after the other up to the limit.
func (s sheet) cut(widths []int, between, limit int) []sheet {
	keys := 0
	for _, w := range widths[:s.keys] {
		keys += w + between
	}
	if s.keys == len(s.columns) && keys-between <= limit {
		return []sheet{s}
	}
	var all []sheet
	used := limit + 1 // of the last sheet: there is none yet
	for c := s.keys; c < len(s.columns); c++ {
		if used+between+widths[c] > limit {
			all = append(all, sheet{keys: s.keys, columns: slices.Clone(s.columns[:s.keys]), rows: s.rows})
			if used = keys - between; used+between+widths[c] > limit {
				return nil
			}
		}
		last := &all[len(all)-1]
		last.columns = append(last.columns, s.columns[c])
		used += between + widths[c]
	}
	return all
}

// width is how many columns of a terminal a text takes. What is ambiguous, such as
// ± and µ, takes one, whatever the locale.
func width(text string) int {
	if !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return len(text) // which is most texts, and faster
	}
	return twwidth.WidthWithOptions(text, twwidth.Options{})
}

func padded(n int) string { return strings.Repeat(" ", max(n, 0)) }

// unitWord matches what stays with the number before it.
var unitWord = regexp.MustCompile(`^([kMG]?(B|bit)(/s)?|[mµn]?s|%)[^\pL]*$`)

// words returns the words of a text. A number and its unit are one.
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

// wrap breaks a text into lines of at most limit columns, and words that are longer
// than that: before a colon, where a setting begins, if there is one.
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
			end, used, colon := 0, 0, 0
			for i, r := range word {
				w := width(string(r))
				if r == ':' && i > 0 {
					colon = i
				}
				if i > 0 && used+w > limit {
					break
				}
				end, used = i+len(string(r)), used+w
			}
			if colon > 0 {
				end = colon
			}
			lines, word = append(lines, word[:end]), Visible(word[end:]) // a line begins here
		}
		line = word
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}
