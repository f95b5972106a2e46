package doc

import (
	"bytes"
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

// An object is one of JSON, whose members are in order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var all [][]byte
	for _, m := range o {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.Concat(name, []byte(":"), value))
	}
	return slices.Concat([]byte("{"), bytes.Join(all, []byte(",")), []byte("}")), nil
}

// tables are those for programs.
func (d Document) tables() (all []Table) {
	for _, s := range d.Sections {
		all = append(all, slices.DeleteFunc(slices.Clone(s.Tables), func(t Table) bool { return t.Key == "" })...)
	}
	return all
}

// JSON writes the members of head, a struct that has some, and then the rows of all
// tables, a line each: those of one key are one list. A list without rows is there if its
// key is one of always.
func (d Document) JSON(w io.Writer, head any, always ...string) error {
	lists, keys := map[string][][]byte{}, always
	for _, t := range d.tables() {
		for _, r := range t.Rows {
			row, err := json.Marshal(t.object(r))
			if err != nil {
				return err
			}
			lists[t.Key] = append(lists[t.Key], row)
		}
		if !slices.Contains(keys, t.Key) && len(t.Rows) > 0 {
			keys = append(slices.Clip(keys), t.Key)
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

// object is a row. What it does not have is absent.
func (t Table) object(r Row) object {
	var o object
	for c, col := range t.Columns[:min(len(t.Columns), len(r.Cells))] {
		if cell := r.Cells[c]; col.For != People && !cell.Empty() {
			o = append(o, member{col.key(), cell.data(baseUnit(col.Unit))})
		}
	}
	return o
}

// data is what JSON holds of a cell.
func (c Cell) data(unit string) any {
	switch {
	case c.List != nil:
		return c.List
	case c.Value == nil:
		return c.Text
	case c.plain():
		return finite(c.Value.Center)
	}
	i := *c.Value
	o := object{{"unit", unit}, {"median", finite(i.Center)}, {"low", nil}, {"high", nil}, {"confidence", i.Confidence}, {"blocks", i.Blocks}, {"n", i.N}}
	if i.Confidence > 0 {
		o[2].value, o[3].value = finite(i.Low), finite(i.High)
	}
	return o
}

// plain reports whether a cell holds a number that nothing was measured for.
func (c Cell) plain() bool { return c.Value.Confidence == 0 && c.Value.Blocks == 0 && c.Value.N == 0 }

// finite returns nil for what JSON cannot hold.
func finite(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

// baseUnit is the unit in which programs get what is kept in another for readers.
func baseUnit(unit string) string {
	switch unit {
	case "%":
		return "1"
	case "iB":
		return "B"
	}
	return unit
}

// csvValues are the columns behind the keys of a row.
var csvValues = []string{"column", "unit", "median", "low", "high", "confidence", "blocks", "n", "text"}

// CSV writes a line for each cell that is no key: the key of its table, a column for each
// key of any table, the name of the cell's column, and its numbers
// or its text. first are the keys that always have a column.
func (d Document) CSV(w io.Writer, first ...string) error {
	keys := slices.Clone(first)
	add := func(key string) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, t := range d.tables() {
		for _, col := range t.Columns[:min(max(t.Keys, 1), len(t.Columns))] {
			if col.For != People {
				add(col.key())
			}
		}
	}
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat([]string{"table"}, keys, csvValues)) // errors are kept until Flush
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
	cells := t.Columns[:min(len(t.Columns), len(r.Cells))]
	for c, col := range cells[:min(max(t.Keys, 1), len(cells))] {
		if col.For != People {
			of[slices.Index(keys, col.key())] = r.Cells[c].csvText()
		}
	}
	for c, col := range cells {
		if cell := r.Cells[c]; c >= max(t.Keys, 1) && col.For != People && !cell.Empty() {
			_ = out.Write(slices.Concat([]string{t.Key}, of, []string{col.key(), Literal(baseUnit(col.Unit))}, cell.csvNumbers()))
		}
	}
}

// csvNumbers are the numbers of a cell, or its text.
func (c Cell) csvNumbers() []string {
	if c.Value == nil {
		return []string{"", "", "", "", "", "", c.csvText()}
	}
	i, low, high := *c.Value, "", ""
	if c.plain() {
		return []string{csvNumber(i.Center), "", "", "", "", "", ""}
	}
	if i.Confidence > 0 {
		low, high = csvNumber(i.Low), csvNumber(i.High)
	}
	return []string{csvNumber(i.Center), low, high, csvNumber(i.Confidence), strconv.Itoa(i.Blocks), strconv.Itoa(i.N), ""}
}

// csvText is a cell in one column.
func (c Cell) csvText() string {
	switch {
	case c.List != nil:
		return Literal(strings.Join(c.List, ";"))
	case c.Value != nil:
		return csvNumber(c.Value.Center)
	}
	return Literal(c.Text)
}

// csvNumber leaves out the digits that arithmetic made.
func csvNumber(x float64) string {
	if finite(x) == nil {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 12, 64)
}
