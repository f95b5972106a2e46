package doc

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What programs read of a document is its tables that have a key. A row is an object in
// JSON, and a line for each of its columns in CSV. Nothing is rounded or scaled: units
// are s, B, B/s, bit/s and 1, or one of them per round or GB.

// tables are those for programs.
func (d Document) tables() []Table {
	all := slices.Concat(each(d.Sections, func(s Section) []Table { return s.Tables })...)
	return slices.DeleteFunc(all, func(t Table) bool { return t.Key == "" })
}

// A number is one that programs read, or what is unknown, which is not a number.
type number float64

func (n number) unknown() bool { return math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) }

// MarshalJSON writes null for what JSON cannot hold.
func (n number) MarshalJSON() ([]byte, error) {
	if n.unknown() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// String leaves out the digits that arithmetic made.
func (n number) String() string {
	if n.unknown() {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', 12, 64)
}

// An estimate is what programs read of a value with its interval.
type estimate struct {
	Unit       string `json:"unit"`
	Median     number `json:"median"`
	Low        number `json:"low"`
	High       number `json:"high"`
	Confidence number `json:"confidence"`
	Blocks     int    `json:"blocks"`
	N          int    `json:"n"`
}

// estimate returns the value of a cell, and whether anything was measured for it.
func (c Cell) estimate(unit string) (e estimate, measured bool) {
	i := *c.Value
	e = estimate{unit, number(i.Center), number(i.Low), number(i.High), number(i.Confidence), i.Blocks, i.N}
	if i.Confidence == 0 {
		e.Low, e.High = number(math.NaN()), number(math.NaN())
	}
	return e, i.Confidence != 0 || i.Blocks != 0 || i.N != 0
}

// baseUnits are the units in which programs get what is kept in another for readers.
var baseUnits = map[string]string{"%": "1", "iB": "B"}

func (c Column) baseUnit() string { return cmp.Or(baseUnits[c.Unit], c.Unit) }

// JSON writes the members of head, a struct that has some, and then the rows of all
// tables, a line each: those of one key are one list. A list without rows is there if its
// key is one of always.
func (d Document) JSON(w io.Writer, head any, always ...string) error {
	lists, keys := map[string][][]byte{}, slices.Clone(always)
	for _, t := range d.tables() {
		for _, r := range t.Rows {
			row, err := t.json(r)
			if err != nil {
				return err
			}
			lists[t.Key] = append(lists[t.Key], row)
		}
		if !slices.Contains(keys, t.Key) && len(t.Rows) > 0 {
			keys = append(keys, t.Key)
		}
	}
	first, err := json.MarshalIndent(head, "", "\t")
	if err != nil {
		return err
	}
	b := bytes.NewBuffer(bytes.TrimSuffix(first, []byte("\n}")))
	for _, key := range keys {
		fmt.Fprintf(b, ",\n\t%q: [\n\t\t%s\n\t]", key, bytes.Join(lists[key], []byte(",\n\t\t")))
	}
	b.WriteString("\n}\n")
	_, err = w.Write(EscapedJSON(b.Bytes()))
	return err
}

// json is a row as an object. What it does not have is absent.
func (t Table) json(r Row) ([]byte, error) {
	var members [][]byte
	for c, cell := range r.Cells {
		col := t.Columns[c]
		if col.For == People || cell.Empty() {
			continue
		}
		member, err := json.Marshal(map[string]any{col.key(): cell.data(col.baseUnit())})
		if err != nil {
			return nil, err
		}
		members = append(members, member[1:len(member)-1]) // without the braces: they are in order
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
}

// data is what JSON holds of a cell.
func (c Cell) data(unit string) any {
	switch {
	case c.List != nil:
		return c.List
	case c.Value == nil:
		return c.Text
	}
	if e, measured := c.estimate(unit); measured {
		return e
	}
	return number(c.Value.Center)
}

// CSV writes a line for each cell that is no key: the key of its table, a column for each
// key of any table, the name of the cell's column, and its numbers
// or its text. first are the keys that always have a column.
func (d Document) CSV(w io.Writer, first ...string) error {
	keys := slices.Clone(first)
	for _, t := range d.tables() {
		for _, col := range t.Columns[:t.keys()] {
			if col.For != People && !slices.Contains(keys, col.key()) {
				keys = append(keys, col.key())
			}
		}
	}
	out := csv.NewWriter(w)
	values := []string{"column", "unit", "median", "low", "high", "confidence", "blocks", "n", "text"}
	_ = out.Write(slices.Concat([]string{"table"}, keys, values)) // errors are kept until Flush
	for _, t := range d.tables() {
		for _, r := range t.Rows {
			t.csv(out, keys, r)
		}
	}
	out.Flush()
	return out.Error()
}

func (t Table) csv(out *csv.Writer, keys []string, r Row) {
	of := make([]string, len(keys))
	for c, cell := range r.Cells {
		switch col := t.Columns[c]; {
		case col.For == People || cell.Empty():
		case c < t.keys():
			of[slices.Index(keys, col.key())] = cell.csvText()
		default:
			_ = out.Write(slices.Concat([]string{t.Key}, of, []string{col.key(), Literal(col.baseUnit())}, cell.csv()))
		}
	}
}

// csv are the numbers of a cell, or its text.
func (c Cell) csv() []string {
	if c.Value == nil {
		return []string{"", "", "", "", "", "", c.csvText()}
	}
	e, measured := c.estimate("")
	if !measured {
		return []string{e.Median.String(), "", "", "", "", "", ""}
	}
	return []string{e.Median.String(), e.Low.String(), e.High.String(), e.Confidence.String(), strconv.Itoa(e.Blocks), strconv.Itoa(e.N), ""}
}

// csvText is a cell in one column.
func (c Cell) csvText() string {
	if c.Value != nil {
		return number(c.Value.Center).String()
	}
	return Literal(cmp.Or(c.Text, strings.Join(c.List, ";")))
}
