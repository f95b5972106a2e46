// Package doc represents and writes reports. A [Document] has sections, paragraphs and
// tables whose cells hold values. [Document.Text] writes it for terminals,
// [Document.Markdown] for GitHub and [Document.HTML] for browsers. [Document.JSON] and
// [Document.CSV] write its tables for programs.
//
// The package chooses units, digits and widths; it knows nothing about benchmarks. Any
// text in a document may come from an untrusted source: the writers escape all of them.
package doc

import (
	"cmp"
	"fmt"
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

// A Term is a word and its definition.
type Term struct{ Word, Means string }

// A Section is a part of a document. An empty one is left out.
type Section struct {
	Name   string // by which users select it; Text shows it after the title
	Title  string
	Lead   []Paragraph // before the tables
	Plots  []Plot      // before the tables
	Tables []Table
	Tail   []Paragraph // after the tables
	Folded bool        // in Markdown and HTML: collapsed until it is clicked
}

// Empty reports whether people see nothing of the section except its title.
func (s Section) Empty() bool { return len(s.Lead)+len(s.Plots)+len(s.shown())+len(s.Tail) == 0 }

// shown returns the tables for people that have rows.
func (s Section) shown() []Table {
	return slices.DeleteFunc(slices.Clone(s.Tables),
		func(t Table) bool { return t.ForPrograms || len(t.Rows) == 0 })
}

// A Paragraph is text that is broken into lines to fit.
type Paragraph struct {
	Text string
	Tone Tone
}

// Say makes a plain paragraph of each text.
func Say(texts ...string) []Paragraph { return Plain.Say(texts...) }

// Say makes a paragraph in this tone of each text.
func (t Tone) Say(texts ...string) []Paragraph {
	return Each(texts, func(text string) Paragraph { return Paragraph{text, t} })
}

// A Tone is a kind of emphasis. Text shows it only with colour.
type Tone int

// The tones.
const (
	Plain  Tone = iota
	Strong      // bold
	Good        // bold and green; bold in Markdown
	Bad         // red; in Markdown a quotation, and a row whose first cell is bold
	Dim         // pale
)

// A Table has rows of cells. Its first columns are keys: a table that is too wide for GitHub is
// split into several, and each of them has the keys.
type Table struct {
	Key         string // name for programs; tables with one key have rows of one kind, and tables without are only for people
	Help        string // description of a row, for programs
	ForPrograms bool   // people do not see it
	Caption     string
	Keys        int  // number of columns that are keys; 0 means 1
	More        bool // rows may have columns of values that are not in Columns while there are no rows
	Columns     []Column
	Rows        []Row
	Notes       []string // paragraphs below the table
}

// A Column is a column of a table. All of its values are shown in one unit that suits them,
// which its header names. A column without any content is left out.
type Column struct {
	Name string // for people; may be empty
	// Key is its name for programs. If it is empty, that is Name with _ between its words. A column with
	// a key alone is not for people, and one with the key - is not for programs.
	Key string
	// Middle leaves out bounds: people see only the median.
	Middle bool
	// Unit is the unit in which values are kept: s, B, iB (bytes in powers of 1024), B/s, bit/s,
	// 1 (a number) or % (a share: 0.5 is 50 %), or one of them per round or GB, such as s/GB.
	// A column of words has none.
	Unit   string
	Help   string // definition, written once below the tables of a section; HTML also shows it next to the name
	Bar    bool   // of numbers: Text and HTML draw bars next to them, and Markdown draws a chart
	Wrap   bool   // of words: may be broken into lines
	List   bool   // for programs: each of its cells is a list
	Always bool   // for programs: every row has it
}

func (c Column) key() string { return cmp.Or(c.Key, strings.ReplaceAll(c.Name, " ", "_")) }

// A Row has one cell for each column, or fewer: missing cells are left blank.
type Row struct {
	Cells   []Cell
	Note    string // text in place of the missing cells
	Rule    bool   // a line above separates it
	Heading string // heading of this row and the following ones, on that line
	Tone    Tone
}

// Add adds a row of [Cells].
func (t *Table) Add(values ...any) { t.Rows = append(t.Rows, Row{Cells: Cells(values...)}) }

// A Cell holds text, a list of texts, or a value in the unit of its column. In a column of values, an empty cell is written as a dash.
type Cell struct {
	Text      string
	List      []string
	Value     *stat.Interval // nil if there is none
	ForPeople string         // text that people see in place of the rest, which only programs get; see [As]
}

// Empty reports whether a cell holds nothing for programs.
func (c Cell) Empty() bool { return c.Text == "" && len(c.List) == 0 && c.Value == nil }

// Cells returns a cell for each value: a text, a list of texts, a number, an interval, or nil for an
// empty cell. A [Cell], or several, are themselves. It panics if a value is none of these.
func Cells(values ...any) (all []Cell) {
	for _, value := range values {
		cells, ok := value.([]Cell)
		if !ok {
			cells = []Cell{cellOf(value)}
		}
		all = append(all, cells...)
	}
	return all
}

func cellOf(value any) Cell {
	switch x := value.(type) {
	case nil:
		return Cell{}
	case Cell:
		return x
	case string:
		return Cell{Text: x}
	case []string:
		return Cell{List: x}
	case int:
		return cellOf(float64(x))
	case float64:
		return Cell{Value: &stat.Interval{Center: x, Low: x, High: x}}
	case stat.Interval:
		if !x.Known() {
			return Cell{}
		}
		return Cell{Value: &x}
	}
	panic(fmt.Sprintf("doc: no cell holds a %T", value))
}

// As returns a cell whose value only programs get. People see the text, and a column of words.
func As(value any, forPeople string) Cell {
	cell := cellOf(value)
	cell.ForPeople = forPeople
	return cell
}

// none is shown for an empty cell in a column of values.
const none = "—"

// Each returns the results of of for all elements.
func Each[T, U any](all []T, of func(T) U) []U {
	var made []U
	for _, x := range all {
		made = append(made, of(x))
	}
	return made
}
