package doc

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"sort"
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
	follows bool // another one with the same rows, which has their notes
}

// A column is the texts of one column. Those of numbers are in three parts, so that
// points and bounds can stand below each other.
type column struct {
	Column
	header string
	cells  []entry
	width  int // of the widest cell
	whole  int // width of the longest part before the point
	part   int // and behind it
	bounds int // and of the longest bounds
	most   float64
}

// An entry is the text of one cell.
type entry struct {
	text                string  // all of it
	whole, part, bounds string  // of a number
	value               float64 // of a number
}

// keys is how many of the columns are keys.
func (t Table) keys() int { return min(max(t.Keys, 1), len(t.Columns)) }

// sheet makes texts of the table, with written applied to each.
func (t Table) sheet(written func(string) string) sheet {
	s := sheet{rows: t.Rows}
	for c, col := range t.Columns {
		if col.For == Programs || !slices.ContainsFunc(t.Rows, func(r Row) bool { return !t.cell(r, c).Empty() }) {
			continue
		}
		s.columns = append(s.columns, t.column(c, written))
		if c < t.keys() {
			s.keys++
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

// column makes texts of column c.
func (t Table) column(c int, written func(string) string) column {
	cells := each(t.Rows, func(r Row) Cell { return t.cell(r, c) })
	var values []float64 // with the larger of the bounds
	sure, whole := 1.0, true
	for _, cell := range cells {
		i := cell.Value
		if i == nil {
			continue
		}
		if values = append(values, i.Center); i.Confidence > 0 {
			values = append(values, max(math.Abs(i.Low), math.Abs(i.High)))
		}
		whole = whole && i.Center == math.Trunc(i.Center) && i.Confidence == 0
		if i.Blocks > 0 && (i.Confidence > 0 || i.Blocks == 1) {
			sure = min(sure, i.Confidence)
		}
	}
	u := scaleOf(t.Columns[c].Unit, values...)
	made := column{Column: t.Columns[c]}
	made.header = written(made.headed(u, sure))
	digits := 9 // after the point, at most
	if strings.HasPrefix(made.Unit, "1") && len(values) > 0 {
		digits = u.decimals(slices.Max(values)) + 2 // there is no smaller unit for what is much smaller
		if whole {
			digits = 0
		}
	}
	for r, cell := range cells {
		e := cell.entry(u, digits, written)
		if cell.Empty() && made.Unit != "" && c < len(t.Rows[r].Cells) {
			e.text = written(none)
		}
		made.add(e)
	}
	return made
}

// headed is the name of the column with its unit, and with how sure its values are if they
// are less so than others.
func (c Column) headed(u scale, sure float64) string {
	header := cmp.Or(c.Name, u.Name)
	if c.Name != "" && u.Name != "" {
		header += ", " + u.Name
	}
	switch {
	case sure == 0:
		header += " (no interval)"
	case sure < stat.Confidence:
		header += " (" + Percent(sure) + " sure)"
	}
	return header
}

// add adds a cell.
func (c *column) add(e entry) {
	c.cells = append(c.cells, e)
	c.most = max(c.most, e.value)
	if e.whole == "" {
		c.width = max(c.width, width(e.text))
		return
	}
	c.whole, c.part, c.bounds = max(c.whole, width(e.whole)), max(c.part, width(e.part)), max(c.bounds, width(e.bounds))
	c.width = max(c.width, c.whole+c.part+c.bounds)
}

// entry makes texts of a cell.
func (c Cell) entry(u scale, digits int, written func(string) string) entry {
	if c.Value == nil {
		return entry{text: written(cmp.Or(c.Text, strings.Join(c.List, ", ")))}
	}
	number, bounds := u.parts(*c.Value, digits)
	if c.Text != "" {
		bounds += " " + c.Text
	}
	e := entry{whole: written(number), bounds: written(bounds), value: c.Value.Center}
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
	return right(e.whole, c.whole) + e.part + padded(c.part-width(e.part)) + e.bounds + padded(c.bounds-width(e.bounds))
}

// split returns the sheets into which s must be split so that the widths of the
// columns of each, with what lies between them, are at most limit. They are wider only if
// the keys and one other column are: least is how wide a sheet must be for these.
func (s sheet) split(widths []int, between, limit int) (parts []sheet, least int) {
	keys := -between
	for _, w := range widths[:s.keys] {
		keys += w + between
	}
	least = keys
	for _, w := range widths[s.keys:] {
		least = max(least, keys+between+w)
	}
	cut := func(limit int) []sheet { // fills one sheet after the other
		all := []sheet{{keys: s.keys, columns: slices.Clip(s.columns[:s.keys]), rows: s.rows}}
		used := keys // of the last sheet
		for c := s.keys; c < len(s.columns); c++ {
			if used+between+widths[c] > limit {
				all = append(all, sheet{keys: s.keys, columns: slices.Clip(s.columns[:s.keys]), rows: s.rows, follows: true})
				used = keys
			}
			last := &all[len(all)-1]
			last.columns = append(last.columns, s.columns[c])
			used += between + widths[c]
		}
		return all
	}
	fewest := len(cut(max(limit, least)))
	// As many sheets as narrow as they can be, rather than wide ones and a narrow rest.
	more := sort.Search(max(limit-least, 0), func(more int) bool { return len(cut(least+more)) <= fewest })
	return cut(least + more), least
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

// right returns a text at the right of so many columns.
func right(text string, columns int) string { return padded(columns-width(text)) + text }

// widest is the width of the widest text.
func widest(texts []string) (w int) {
	for _, text := range texts {
		w = max(w, width(text))
	}
	return w
}

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
			end := fitting(word, limit)
			if colon := strings.LastIndexByte(word[1:min(end+1, len(word))], ':'); colon >= 0 {
				end = colon + 1
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

// fitting is how many bytes of a word that is too long are in a line of that many columns:
// one sign at least.
func fitting(word string, columns int) int {
	for i, r := range word {
		if columns -= width(string(r)); i > 0 && columns < 0 {
			return i
		}
	}
	return len(word)
}
