package table

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A field is a column of a table that has a row for each cell, and the function that fills it.
type field struct {
	doc.Column
	of func(c *metrics.Cell) any // see [doc.Cells]
}

func words(name string, text func(c *metrics.Cell) string) field {
	return field{doc.Column{Name: name}, func(c *metrics.Cell) any { return text(c) }}
}

// columns returns the columns of a spec, such as "±round | cpu_per_gb=CPU | !retries". Its
// entries are explained at column.
func columns(spec string) []field { return doc.Each(strings.Split(spec, "|"), Column) }

// Column returns the column of an entry: marks, the name of a metric, then % and =NAME if
// needed. ± shows the interval. ! leaves out zeros, and so a column without other numbers. -
// leaves out the explanation, if another column has it. % shows percent, and NAME replaces the
// metric's name. An unknown metric panics.
func Column(entry string) field {
	entry = strings.TrimSpace(entry)
	name := strings.TrimLeft(entry, "±!-")
	marks := strings.TrimSuffix(entry, name)
	name, label, _ := strings.Cut(name, "=")
	name, percent := strings.CutSuffix(name, "%")
	m, ok := metrics.MetricNamed(name)
	if !ok {
		panic("report: no metric " + name)
	}
	shown := doc.Column{
		Name: cmp.Or(label, strings.ReplaceAll(name, "_", " ")), Unit: m.Unit, Help: m.Help, Middle: !strings.Contains(marks, "±"),
	}
	if percent {
		shown.Unit = "%"
	}
	if strings.Contains(marks, "-") {
		shown.Help = ""
	}
	return field{shown, func(c *metrics.Cell) any {
		if i := c.Of(name); i.Center != 0 || !strings.Contains(marks, "!") {
			return i
		}
		return nil
	}}
}

// perGroup returns a section with a table for each group, with the columns of a spec.
func perGroup(r *metrics.Result, title, spec string) doc.Section {
	return doc.Section{Title: title, Tables: groupTables(r, "", columns(spec)...)}
}

// groupTables returns a table for each group, with a row for each cell that has a value in
// some field. Its caption is the parameter caption and the group's title.
func groupTables(r *metrics.Result, caption string, fields ...field) (all []doc.Table) {
	for _, cells := range r.Groups() {
		t := cellTable([]field{words("transport", Variant)}, cells, fields...)
		t.Caption = caption + GroupTitle(cells[0].Group())
		all = append(all, t)
	}
	return all
}

// oneTable returns a section with one table for cells of several groups, or an empty section
// if there are no cells.
func oneTable(title string, cells []*metrics.Cell, fields ...field) doc.Section {
	if len(cells) == 0 {
		return doc.Section{}
	}
	keys := []field{words("transport", Variant), words("model",
		func(c *metrics.Cell) string { return c.Model.Label() }), words("program", (*metrics.Cell).Build),
		{doc.Column{Name: "workers", Unit: "1"}, func(c *metrics.Cell) any { return c.Workers }},
		{doc.Column{Name: "clients", Unit: "1"}, func(c *metrics.Cell) any { return c.Clients }},
		words("work", func(c *metrics.Cell) string { return strings.Join(c.Group().Headings(), ", ") })}
	return doc.Section{Title: title, Tables: []doc.Table{cellTable(keys, cells, fields...)}}
}

// cellTable returns a table with a row for each cell that has a value in some field, besides the keys.
func cellTable(keys []field, cells []*metrics.Cell, fields ...field) doc.Table {
	fields = slices.Concat(keys, fields)
	t := doc.Table{Keys: len(keys), Columns: headers(fields)}
	for _, c := range cells {
		row := cellsOf(fields, c)
		if slices.ContainsFunc(row[len(keys):], func(cell doc.Cell) bool { return !cell.Empty() }) {
			t.Add(row)
		}
	}
	return t
}

func headers(fields []field) []doc.Column {
	return doc.Each(fields, func(f field) doc.Column { return f.Column })
}

func cellsOf(fields []field, c *metrics.Cell) []doc.Cell {
	return doc.Cells(doc.Each(fields, func(f field) any { return f.of(c) })...)
}

// Keyed returns a table for programs. Its rows begin with the values of a cell on these axes.
func Keyed(key, help string, axes []metrics.Axis, columns ...[]doc.Column) doc.Table {
	return doc.Table{Key: key, Help: help, ForPrograms: true, Keys: len(axes),
		Columns: slices.Concat(AxisColumns(axes), slices.Concat(columns...))}
}

func AxisColumns(axes []metrics.Axis) []doc.Column {
	return doc.Each(axes, func(a metrics.Axis) doc.Column {
		return doc.Column{Key: axisName(a.Name), Unit: counted[a.Name], Always: a.Name != "program"}
	})
}

func AxisNames(axes []metrics.Axis) []string {
	return doc.Each(axes, func(a metrics.Axis) string { return axisName(a.Name) })
}

// axisName returns the name of an axis for programs. Two axes are renamed, because up and
// train are also names of metrics.
func axisName(name string) string {
	return cmp.Or(map[string]string{"up": "update", "train": "function"}[name], strings.ReplaceAll(name, "-", "_"))
}

// counted are the axes whose values are numbers for programs, with their units.
var counted = map[string]string{"workers": "1", "clients": "1", "train-ms": "1"}

// AxisCells returns the values of a cell on these axes.
func AxisCells(axes []metrics.Axis, c *metrics.Cell) []doc.Cell {
	return doc.Cells(doc.Each(axes, func(a metrics.Axis) any { return axisValue(a.Name, a.Of(c)) })...)
}

// axisValue returns a value of an axis, as a number if the axis counts something.
func axisValue(name, value string) any {
	if n, err := strconv.Atoi(value); err == nil && counted[name] != "" {
		return n
	}
	return value
}

// Finite returns x, or nothing if it is infinite or unknown.
func Finite(x float64) any {
	if math.IsInf(x, 1) || math.IsNaN(x) {
		return nil
	}
	return x
}

// PText writes a probability.
func PText(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// JudgedColumns are the columns for programs of a contrast that was tested.
var JudgedColumns = []doc.Column{
	{Key: "p", Unit: "1", Help: "the probability of such a difference by chance, corrected by Holm's method for the family"},
	{Key: "shown", Help: "yes or no; absent if nothing was tested"},
	{Key: "family", Help: "what was tested together"},
	{Key: "marks", List: true, Help: "what a reader must know beside the difference"},
}

// JudgedCells are the cells of JudgedColumns; empty without a contrast.
func JudgedCells(j *contrast.Judged) []doc.Cell {
	if j == nil {
		return make([]doc.Cell, len(JudgedColumns))
	}
	marks := doc.Each(j.Marks, func(m contrast.Mark) string { return Variant(m.Cell) + ": " + m.Text })
	return doc.Cells(Finite(j.P), map[bool]string{true: "yes", false: "no"}[j.Shown], j.Family(),
		append(slices.Compact(marks), j.Forbids...))
}

// MarkNotes writes the marks of contrasts, each once with the cells that have it.
func MarkNotes(all []contrast.Judged) []string {
	marks := slices.Concat(doc.Each(all, func(j contrast.Judged) []contrast.Mark { return j.Marks })...)
	return doc.Each(metrics.GroupBy(marks, func(m contrast.Mark) string { return m.Text }), func(alike []contrast.Mark) string {
		names := metrics.GroupBy(alike, func(m contrast.Mark) string { return Variant(m.Cell) })
		return FewNames(names, func(cell []contrast.Mark) string { return Variant(cell[0].Cell) }) + ": " + alike[0].Text + "."
	})
}
