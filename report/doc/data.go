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

// Programs get the tables of a document that have a key. In JSON a row is an object; in CSV it
// is one line for each of its columns. Nothing is rounded or scaled: units are s, B, B/s, bit/s
// and 1, or one of them per round or GB.

// tables returns the tables for programs.
func (d Document) tables() []Table {
	all := slices.Concat(Each(d.Sections, func(s Section) []Table { return s.Tables })...)
	return slices.DeleteFunc(all, func(t Table) bool { return t.Key == "" })
}

// A number is a value for programs. NaN and infinity mean that it is unknown.
type number float64

func (n number) unknown() bool { return math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) }

// MarshalJSON writes null for an unknown number.
func (n number) MarshalJSON() ([]byte, error) {
	if n.unknown() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// String rounds to 12 digits, to hide rounding errors. An unknown number is empty.
func (n number) String() string {
	if n.unknown() {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', 12, 64)
}

// An estimate is a value with its interval, for programs.
type estimate struct {
	Unit       string `json:"unit"`
	Median     number `json:"median"`
	Low        number `json:"low"`
	High       number `json:"high"`
	Confidence number `json:"confidence"`
	Blocks     int    `json:"blocks"`
	N          int    `json:"n"`
}

// estimate returns the value of a cell, and whether it was computed from measurements.
func (c Cell) estimate(unit string) (e estimate, measured bool) {
	i := *c.Value
	e = estimate{unit, number(i.Center), number(i.Low), number(i.High), number(i.Confidence), i.Blocks, i.N}
	if i.Confidence == 0 {
		e.Low, e.High = number(math.NaN()), number(math.NaN())
	}
	return e, i.Confidence != 0 || i.Blocks != 0 || i.N != 0
}

// baseUnits has the units for programs of values that are kept in another unit.
var baseUnits = map[string]string{"%": "1", "iB": "B"}

func (c Column) baseUnit() string { return cmp.Or(baseUnits[c.Unit], c.Unit) }

// JSON writes one object: the members of head, a struct with at least one, and then a list of
// rows for each key of tables, one row per line. Tables with one key share a list. A list
// without rows is only written if its key is in always.
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

// json returns a row as an object. Empty cells and columns for people are absent.
func (t Table) json(r Row) ([]byte, error) {
	var members [][]byte
	for c, cell := range r.Cells {
		col := t.Columns[c]
		if col.Key == "-" || cell.Empty() {
			continue
		}
		member, err := json.Marshal(map[string]any{col.key(): cell.data(col.baseUnit())})
		if err != nil {
			return nil, err
		}
		members = append(members, member[1:len(member)-1]) // without the braces, to keep the order of columns
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
}

// data returns the value of a cell for JSON.
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

// CSV writes a line for each cell outside of key columns: the key of its table, a field for each
// key column of any table with rows, the name of the cell's column, and its numbers or its text. The key
// columns in first always have a field.
func (d Document) CSV(w io.Writer, first ...string) error {
	keys := slices.Clone(first)
	for _, t := range d.tables() {
		for _, col := range t.Columns[:t.keys()] {
			if len(t.Rows) > 0 && col.Key != "-" && !slices.Contains(keys, col.key()) {
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
	values := make([]string, len(keys))
	for c, cell := range r.Cells {
		switch col := t.Columns[c]; {
		case col.Key == "-" || cell.Empty():
		case c < t.keys():
			values[slices.Index(keys, col.key())] = cell.csvText()
		default:
			_ = out.Write(slices.Concat([]string{t.Key}, values, []string{col.key(), Literal(col.baseUnit())}, cell.csv()))
		}
	}
}

// csv returns the fields for the numbers of a cell and for its text.
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

// csvText returns a cell as one field.
func (c Cell) csvText() string {
	if c.Value != nil {
		return number(c.Value.Center).String()
	}
	return Literal(cmp.Or(c.Text, strings.Join(c.List, ";")))
}
