package report

import (
	"cmp"
	"slices"
	"strings"

	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A field is a column of a table that has a row for each cell, and the function that fills it.
type field struct {
	doc.Column
	of func(c *metrics.Cell) doc.Cell
}

// columns returns the columns of a spec, such as "±round | cpu_per_gb=CPU | !retries". Its
// entries are explained at column.
func columns(spec string) []field { return each(strings.Split(spec, "|"), column) }

// column returns the column of an entry: marks, the name of a metric, then % and =NAME if
// needed. ± shows the interval. ! leaves out zeros, and so a column without other numbers. -
// leaves out the explanation, if another column has it. % shows percent, and NAME replaces the
// metric's name. An unknown metric panics.
func column(entry string) field {
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
	return field{shown, func(c *metrics.Cell) doc.Cell {
		if i := c.Of(name); i.Center != 0 || !strings.Contains(marks, "!") {
			return doc.Estimate(i)
		}
		return doc.Cell{}
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
		row := func(c *metrics.Cell) []doc.Cell { return []doc.Cell{doc.Words(variant(c))} }
		t := cellTable([]doc.Column{{Name: "transport"}}, row, cells, fields...)
		t.Caption = caption + groupTitle(cells[0].Group())
		all = filled(all, t)
	}
	return all
}

// oneTable returns a section with one table for cells of several groups, or an empty section
// if there are no cells.
func oneTable(title string, cells []*metrics.Cell, fields ...field) doc.Section {
	if len(cells) == 0 {
		return doc.Section{}
	}
	keys := []doc.Column{
		{Name: "transport"}, {Name: "model"}, {Name: "program"}, {Name: "workers", Unit: "1"}, {Name: "clients", Unit: "1"}, {Name: "work"},
	}
	return doc.Section{Title: title, Tables: []doc.Table{cellTable(keys, func(c *metrics.Cell) []doc.Cell {
		return []doc.Cell{
			doc.Words(variant(c)), doc.Words(c.Model.Label()), doc.Words(c.Build()), doc.Number(float64(c.Workers)), doc.Number(float64(c.Clients)),
			doc.Words(strings.Join(c.Group().Headings(), ", ")),
		}
	}, cells, fields...)}}
}

func filled(all []doc.Table, tables ...doc.Table) []doc.Table {
	return append(all, slices.DeleteFunc(tables, func(t doc.Table) bool { return len(t.Rows) == 0 })...)
}

// cellTable returns a table with a row for each cell that has a value in some field. keysOf
// returns the first columns of a row, as described by keys.
func cellTable(keys []doc.Column, keysOf func(c *metrics.Cell) []doc.Cell, cells []*metrics.Cell, fields ...field) doc.Table {
	t := doc.Table{Keys: len(keys), Columns: keys}
	for _, f := range fields {
		t.Columns = append(t.Columns, f.Column)
	}
	for _, c := range cells {
		row := keysOf(c)
		for _, f := range fields {
			row = append(row, f.of(c))
		}
		if slices.ContainsFunc(row[len(keys):], func(cell doc.Cell) bool { return !cell.Empty() }) {
			t.Add(row...)
		}
	}
	return t
}
