package report

import (
	"cmp"
	"slices"
	"strings"

	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A field is a column of a table that has a row for each cell.
type field struct {
	doc.Column
	of func(c *metrics.Cell) doc.Cell
}

// columns are those of metrics, in a spec such as "±round | cpu_per_gb=CPU | !retries".
func columns(spec string) (all []field) {
	for entry := range strings.SplitSeq(spec, "|") {
		all = append(all, column(strings.TrimSpace(entry)))
	}
	return all
}

// column is that of a metric, as an entry says: ± before its name is with its interval, ! is
// without zeros, so that a column of nothing else vanishes, and - is without its definition,
// where another column has it. % behind the name shows it in percent, and =NAME is another
// name than the metric's.
func column(entry string) field {
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

// perGroup is a section with a table for each group, of the columns of a spec.
func perGroup(r *metrics.Result, title, spec string) doc.Section {
	return doc.Section{Title: title, Tables: groupTables(r, "", columns(spec)...)}
}

// groupTables returns a table for each group, with a row for each of its cells of
// which a field knows something. What stands before the group's title is caption.
func groupTables(r *metrics.Result, caption string, fields ...field) (all []doc.Table) {
	for _, cells := range r.Groups() {
		row := func(c *metrics.Cell) []doc.Cell { return []doc.Cell{doc.Words(variant(c))} }
		t := cellTable([]doc.Column{{Name: "transport"}}, row, cells, fields...)
		t.Caption = caption + groupTitle(cells[0].Group())
		all = filled(all, t)
	}
	return all
}

// oneTable is a section with a row for each cell of several groups, or an empty one if there is none.
func oneTable(title string, cells []*metrics.Cell, fields ...field) doc.Section {
	if len(cells) == 0 {
		return doc.Section{}
	}
	keys := []doc.Column{
		{Name: "transport"}, {Name: "model"}, {Name: "build"}, {Name: "workers", Unit: "1"}, {Name: "clients", Unit: "1"}, {Name: "work"},
	}
	return doc.Section{Title: title, Tables: []doc.Table{cellTable(keys, func(c *metrics.Cell) []doc.Cell {
		return []doc.Cell{
			doc.Words(variant(c)), doc.Words(c.Model.Label()), doc.Words(c.Build), doc.Number(float64(c.Workers)), doc.Number(float64(c.Clients)),
			doc.Words(strings.Join(c.Group().Headings(), ", ")),
		}
	}, cells, fields...)}}
}

// filled adds those of the tables that have rows.
func filled(all []doc.Table, tables ...doc.Table) []doc.Table {
	return append(all, slices.DeleteFunc(tables, func(t doc.Table) bool { return len(t.Rows) == 0 })...)
}

// cellTable returns a table with a row for each of the cells of which a field knows
// something, behind its keys.
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
