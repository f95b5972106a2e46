package report

import (
	"fmt"
	"slices"
	"strings"

	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A View is a part of the report of a result that has a name: a user asks for it by
// that, and a committed Markdown file can hold it between markers.
type View struct {
	Name string
	Help string
	make func(r *metrics.Result) doc.Section
}

// Views returns all views, in the order of a document.
func Views() []View {
	return []View{
		{"verdict", "which transport to use for each model, and what the wrong choice costs", verdicts},
		{"findings", "what is wrong with a result, or puts it in doubt", findings},
		{"cells", "the first table of each comparison: round, bandwidth, CPU time, and what to know about them", cellTables},
		{"floors", "what this machine can do without any transport, and how far each cell is from it", floors},
		{"phases", "where a client's round trip goes, and the speed-up against " + metrics.Baseline, phases},
		{"spread", "how far rounds lie apart: percentiles and outliers", spreads},
		{"costs", "CPU time, page faults, switches, allocations, memory, and the cold first round", costTables},
		{"crossover", "where transports change places as a size or a number grows", sweeps},
		{"break-even", "below which rate of a network each codec pays, and what it makes of the data (run --codec)", breakEvens},
		{"tls", "what TLS adds to a round: time, CPU time and bytes, and what its handshakes take", tlsPrices},
		{"hosts", "the hosts of a run with agents: what ran where, and their links", hosts},
		{"gain", "what BlazeFL, OpenFL, Flower and AReaL would gain by another transport, in Python", gains},
		{"workers", "clients a second, and where starting the workers dominates", workers},
		{"calls", "the requests of a round, and how long a client and its requests wait", callTable},
		{"profiles", "CPU time by phase, the heaviest functions, and where memory is allocated (run --profile)", profiles},
		{"copies", "how often a byte is copied: by our code, by the kernel, by libraries", copyTables},
		{"spans", "all phases of a round that were recorded", spans},
		{"change", "what changed from base to head (run --against)", changes},
		{"environment", "machine, build and settings", environment},
	}
}

// CheckViews returns an error if one of the names is neither that of a view nor all.
func CheckViews(names []string) error {
	var all []string
	for _, v := range Views() {
		all = append(all, v.Name)
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(all, name) {
			return fmt.Errorf("unknown view %q: want all or some of %s", name, strings.Join(all, ","))
		}
	}
	return nil
}

// view returns the view of that name, which must be one of Views or be refused
// by CheckViews.
func view(r *metrics.Result, name string) doc.Section {
	for _, v := range Views() {
		if v.Name == name {
			s := v.make(r)
			s.Name = name
			return s
		}
	}
	panic("report: no view " + name)
}

// sections returns views by name, in that order.
func sections(r *metrics.Result, names []string) []doc.Section {
	if slices.Contains(names, "all") {
		names = nil
		for _, v := range Views() {
			names = append(names, v.Name)
		}
	}
	var all []doc.Section
	for _, name := range names {
		all = append(all, view(r, name))
	}
	return all
}

// A field is a column of a table that has a row for each cell.
type field struct {
	doc.Column
	of func(c *metrics.Cell) doc.Cell
}

// interval is the column of a metric with its interval, under a label of its own or
// the metric's name.
func interval(metric, label string) field {
	m, ok := metrics.MetricNamed(metric)
	if !ok {
		panic("report: no metric " + metric)
	}
	if label == "" {
		label = strings.ReplaceAll(m.Name, "_", " ")
	}
	return field{doc.Column{Name: label, Unit: m.Unit, Help: m.Help}, func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.Of(metric)) }}
}

// median is the column of a metric without its interval.
func median(metric, label string) field {
	f := interval(metric, label)
	f.Middle = true
	return f
}

// in sets the unit of a column.
func (f field) in(unit string) field {
	f.Unit = unit
	return f
}

// groupTables returns a table for each group, with a row for each of its cells of
// which a field knows something. What stands before the group's title is caption.
func groupTables(r *metrics.Result, caption string, fields ...field) []doc.Table {
	var all []doc.Table
	for _, cells := range r.Groups() {
		t := cellTable([]doc.Column{{Name: "transport"}}, func(c *metrics.Cell) []doc.Cell { return []doc.Cell{doc.Words(variant(c))} }, cells, fields...)
		t.Caption = caption + groupTitle(cells[0].Group())
		all = filled(all, t)
	}
	return all
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

// cellColumns are the keys of a table with rows of several groups.
func cellColumns() []doc.Column {
	return []doc.Column{{Name: "transport"}, {Name: "model"}, {Name: "build"}, {Name: "workers", Unit: "1"}, {Name: "clients", Unit: "1"}, {Name: "work"}}
}

func cellKeys(c *metrics.Cell) []doc.Cell {
	return []doc.Cell{doc.Words(variant(c)), doc.Words(c.Model.Label()), doc.Words(c.Build), doc.Number(float64(c.Workers)), doc.Number(float64(c.Clients)),
		doc.Words(strings.Join(c.Group().Headings(), ", "))}
}
