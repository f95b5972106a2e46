// Package doc is what a report is made of, and how that is written for people: a
// [Document] of sections, paragraphs and tables whose cells hold values,
// [Document.Text] for terminals, [Document.Markdown] for GitHub, and
// [Document.HTML] for browsers.
//
// It chooses units, digits and widths; it knows nothing of benchmarks. Every text
// in a document may come from a stranger: the writers let none of it act.
package doc

import (
	"cmp"
	"slices"
	"strings"

	"ipcbench/bench/stat"
)

// A Document is a title, some paragraphs and sections.
type Document struct {
	Title    string
	Lead     []Paragraph
	Sections []Section
	Terms    []Term // a glossary, for HTML
}

// A Term is a word with a meaning of its own.
type Term struct{ Word, Means string }

// A Section is a part of a document. An empty one is not written.
type Section struct {
	Name   string // by which a user asks for it; Text shows it behind the title
	Title  string
	Lead   []Paragraph // before the tables
	Plots  []Plot      // before the tables
	Tables []Table
	Tail   []Paragraph // after them
	Folded bool        // in Markdown and HTML: closed until it is clicked on
}

// Empty reports whether people see nothing of the section but a title.
func (s Section) Empty() bool { return len(s.Lead)+len(s.Plots)+len(s.shown())+len(s.Tail) == 0 }

// shown are the tables that people see.
func (s Section) shown() []Table {
	return slices.DeleteFunc(slices.Clone(s.Tables), func(t Table) bool { return t.For == Programs })
}

// A Paragraph is text that is broken into lines as they fit.
type Paragraph struct {
	Text string
	Tone Tone
}

// Say makes plain paragraphs of texts.
func Say(texts ...string) []Paragraph {
	return each(texts, func(text string) Paragraph { return Paragraph{Text: text} })
}

// A Tone is how much something stands out. Text needs colour to show it.
type Tone int

// The tones.
const (
	Plain  Tone = iota
	Strong      // bold
	Good        // bold and green; bold in Markdown
	Bad         // red; in Markdown a quotation, and a row whose first cell is bold
	Dim         // pale
)

// A Table is rows of cells. Its first columns are keys: where a table is too wide
// it becomes several, and each of them has the keys.
type Table struct {
	Key     string  // by which programs know it; those of one key have rows of one kind, and tables without are for people alone
	Help    string  // what a row is, for programs
	For     Readers // whether people see it
	Caption string
	Keys    int  // columns that are keys; 0 means 1
	More    bool // rows may have columns of values that a table without rows lacks
	Columns []Column
	Rows    []Row
	Notes   []string // paragraphs below the table
}

// Readers are whom something is for.
type Readers int

// The readers.
const (
	Everyone Readers = iota
	People
	Programs
)

// A Column is a name, which may be empty, and the unit that its values are kept in. It is shown in one
// unit, which suits all of its values and stands in its header. A column without
// any content is left out.
type Column struct {
	Name string
	Key  string  // its name for programs; the name with _ between its words if empty
	For  Readers // whether people see it, and programs
	// Middle leaves out bounds: people see the median alone.
	Middle bool
	// Unit is s, B, iB (bytes in powers of 1024), B/s, bit/s, 1 (a number) or % (a share: 0.5 is 50 %), or one of them
	// per round or GB, such as s/GB. A column of words has none.
	Unit   string
	Help   string // what it means; written once below the tables of a section; HTML also shows it beside the name
	Bar    bool   // of numbers: Text and HTML draw bars beside them, and Markdown a chart
	Wrap   bool   // of words: may be broken into lines
	List   bool   // each of its cells is a list, for programs
	Always bool   // no row lacks it
}

func (c Column) key() string { return cmp.Or(c.Key, strings.ReplaceAll(c.Name, " ", "_")) }

// A Row is one cell for each column, or fewer: what is missing is left blank.
type Row struct {
	Cells   []Cell
	Note    string // words in place of the missing cells
	Rule    bool   // a line above it sets it apart
	Heading string // of this row and those below it, on that line
	Tone    Tone
}

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, Row{Cells: cells}) }

// A Cell holds words, a list of them, a value in the unit of its column, or a value and
// words that stand behind it. An empty one is written as a dash in a column of values.
type Cell struct {
	Text  string
	List  []string
	Value *stat.Interval // nil where there is none
}

// Empty reports whether a cell holds nothing.
func (c Cell) Empty() bool { return c.Text == "" && c.List == nil && c.Value == nil }

// Words is a cell of words.
func Words(text string) Cell { return Cell{Text: text} }

// Number is a cell with a value that has no interval.
func Number(x float64) Cell { return Cell{Value: &stat.Interval{Center: x, Low: x, High: x}} }

// Estimate is a cell with a value and its interval, or an empty one if i is not
// known.
func Estimate(i stat.Interval) Cell {
	if !i.Known() {
		return Cell{}
	}
	return Cell{Value: &i}
}

// none stands where a column of values has no value.
const none = "—"
