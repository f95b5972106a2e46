package table

import (
	"cmp"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"slices"
	"strings"
)

// floorTable returns the floors of one unit, for programs.
func floorTable(unit string, floors []result.Floor) doc.Table {
	keys := []doc.Column{{Name: "floor"}, {Name: "condition", Help: "condition of the measurement, if there are several"}, {Name: "model"}, {Name: "update"}, {Name: "clients", Unit: "1"}, {Name: "transport"},
		{Name: "host", Help: "the other host, if the floor is between hosts"}, {Name: "bytes", Unit: "B", Help: "bytes moved at once"}, {Name: "gap", Unit: "s", Help: "time of other work before it"}}
	t := doc.Table{Key: "floors", Help: "a limit of this machine without any transport, measured between blocks. It has only the columns that the floor depends on",
		ForPrograms: true, Keys: len(keys) + len(result.Dims),
		Columns: slices.Concat(keys, doc.Each(result.Dims, func(d result.Dim) doc.Column { return doc.Column{Name: axisName(d.Key), Unit: counted[d.Key]} }),
			[]doc.Column{{Name: "help", Help: "what was measured"}, {Name: "value", Unit: unit, Help: "in the floor's own unit"}})}
	number := func(x float64) any {
		if x == 0 {
			return nil
		}
		return x
	}
	for _, f := range floors {
		row := doc.Cells(f.Name, f.Condition, f.Model, f.Up, number(float64(f.Clients)), f.Variant, f.Host,
			number(float64(f.Bytes)), number(float64(f.Gap)/1e9))
		for _, d := range result.Dims {
			row = doc.Cells(row, axisValue(d.Key, d.Of(f.Setup)))
		}
		t.Add(row, f.Help, stat.Of(f.Blocks))
	}
	return t
}

// Floors is the view of the limits of the machine, and how near the cells are to them.
func Floors(r *metrics.Result) doc.Section {
	if len(r.Floors) == 0 {
		return doc.Section{Tables: []doc.Table{floorTable("s", nil)}}
	}
	s := doc.Section{Title: "Floors", Lead: doc.Say("Limits of this machine without any transport, measured between blocks.")}
	helped := map[string]bool{}
	type kind struct{ unit, name string } // floors of models have a table for each name
	for _, group := range metrics.GroupBy(r.Floors,
		func(f result.Floor) kind { return kind{f.Unit, Unless(f.Model == "", f.Name)} }) {
		unit := group[0].Unit
		value := doc.Column{Name: cmp.Or(map[string]string{"B/s": "bandwidth"}[unit], "time"), Unit: unit}
		t := doc.Table{Keys: 2, Columns: []doc.Column{{Name: "floor"}, {Name: "of"}, value}}
		for _, f := range group {
			t.Add(f.Name, floorSubject(f), stat.Of(f.Blocks))
			if f.Help != "" && !helped[f.Name] {
				helped[f.Name] = true
				t.Notes = append(t.Notes, f.Name+": "+f.Help+".")
			}
		}
		s.Tables = append(s.Tables, floorTable(unit, group), t)
	}
	bound := words("floor", func(c *metrics.Cell) string { name, _ := c.Bound(); return name })
	s.Tables = append(s.Tables, groupTables(r, "", bound, Column("±floor_ratio=× floor"))...)
	return s
}

// floorSubject names the model, the transport, the host and the conditions of a floor.
func floorSubject(f result.Floor) string {
	whose := slices.Concat([]string{f.Variant, Unless(f.Model == "", result.Model{Name: f.Model, Up: f.Up}.Label())}, f.Headings(),
		[]string{Unless(f.Host == "", "to "+f.Host)})
	what := []string{
		Unless(f.Bytes <= 0, doc.Quantity("B", float64(f.Bytes))), Unless(f.Clients <= 0, doc.Plural(f.Clients, "client")),
		Unless(f.Gap <= 0, "after "+doc.Quantity("s", float64(f.Gap)/1e9)+" of work"), f.Condition,
	}
	if strings.Join(whose, "") == "" {
		whose = []string{"this machine"}
	}
	return strings.Join(Only(append(whose, what...), func(part string) bool { return part != "" }), ", ")
}
