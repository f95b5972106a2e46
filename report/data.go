package report

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// answerVersion is that of what the format json writes. Keys are added to it; it changes
// where one goes or means something else.
const answerVersion = 3

// An answer is what the format json begins with; the tables of all views that have a key
// follow. No samples are in it. Keys that the result file has too hold the same.
type answer struct {
	Answer      int                  `json:"answer"` // the version; a result file has a schema instead, so that nobody takes one for the other
	Kind        string               `json:"kind"`   // result
	Command     []string             `json:"command"`
	Started     time.Time            `json:"started"`
	Elapsed     float64              `json:"elapsed_s"`
	Partial     string               `json:"partial,omitempty"` // why the run ended early
	Plan        result.Plan          `json:"plan"`
	Environment machine.Environment  `json:"environment"`
	Doctor      []machine.Check      `json:"doctor,omitempty"`
	Against     *machine.Environment `json:"against,omitempty"` // that of the build base, of an interleaved run
	Hosts       []result.Host        `json:"hosts,omitempty"`
}

// writeJSON writes what a result says for programs.
func writeJSON(w io.Writer, r *result.Result, _ Options) error {
	head := answer{answerVersion, "result", r.Command, r.Started, r.Elapsed.Seconds(), r.Partial, r.Plan, r.Environment, r.Doctor, r.Against, r.Hosts}
	return data(metrics.New(r)).JSON(w, head, everyAnswer...)
}

// everyAnswer are the keys of the tables that each answer has, also without rows.
var everyAnswer = []string{"verdict", "ranking", "findings", "crossings", "floors", "metrics"}

// writeCSV writes the same tables, a line for each number.
func writeCSV(w io.Writer, r *result.Result, _ Options) error {
	return data(metrics.New(r)).CSV(w, axisNames(axes())...)
}

// data is a document of all views and of all metrics.
func data(r *metrics.Result) doc.Document {
	var d doc.Document
	for _, v := range Views() {
		d.Sections = append(d.Sections, v.make(r))
	}
	d.Sections = append(d.Sections, allMetrics(r))
	return d
}

// axes are the dimensions of cells, but for some.
func axes(but ...string) []metrics.Axis {
	return slices.DeleteFunc(metrics.Axes(), func(a metrics.Axis) bool { return slices.Contains(but, a.Name) })
}

// groupAxes are the dimensions of cells that did the same work.
func groupAxes() []metrics.Axis { return axes("transport", "codec", "language") }

// keyed is a table for programs: its rows begin with what a cell is on these axes.
func keyed(key, help string, of []metrics.Axis, columns ...doc.Column) doc.Table {
	return doc.Table{Key: key, Help: help, For: doc.Programs, Keys: len(of), Columns: append(axisColumns(of), columns...)}
}

func axisColumns(of []metrics.Axis) []doc.Column {
	return each(of, func(a metrics.Axis) doc.Column {
		return doc.Column{Name: axisName(a.Name), For: doc.Programs, Unit: counted[a.Name], Always: a.Name != "build"}
	})
}

func axisNames(of []metrics.Axis) []string {
	return each(of, func(a metrics.Axis) string { return axisName(a.Name) })
}

// axisName is what programs call a dimension of cells. Two have a name that is not that of
// a metric: up and train are times too.
func axisName(name string) string {
	return cmp.Or(map[string]string{"up": "update", "train": "function"}[name], strings.ReplaceAll(name, "-", "_"))
}

// counted are the axes on which programs get a number, with its unit.
var counted = map[string]string{"workers": "1", "clients": "1", "train-ms": "1"}

// axisCells say what a cell is on these axes.
func axisCells(of []metrics.Axis, c *metrics.Cell) (all []doc.Cell) {
	for _, a := range of {
		all = append(all, axisCell(a.Name, a.Of(c)))
	}
	return all
}

// axisCell is a value of a dimension, as a number if it counts something.
func axisCell(name, value string) doc.Cell {
	if n, err := strconv.Atoi(value); err == nil && counted[name] != "" {
		return doc.Number(float64(n))
	}
	return doc.Words(value)
}

// words is a cell with a list, or an empty one.
func words(all []string) doc.Cell {
	if len(all) == 0 {
		return doc.Cell{}
	}
	return doc.Cell{List: all}
}

// settings are key=value, sorted.
func settings(of map[string]string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		all = append(all, k+"="+of[k])
	}
	return all
}

// allMetrics are all that is known of each cell, for programs.
func allMetrics(r *metrics.Result) doc.Section {
	text := func(name, help string, of func(c *metrics.Cell) string) field {
		return field{doc.Column{Name: name, Help: help}, func(c *metrics.Cell) doc.Cell { return doc.Words(of(c)) }}
	}
	count := func(name, unit, help string, of func(c *metrics.Cell) int64) field {
		return field{doc.Column{Name: name, Unit: unit, Help: help}, func(c *metrics.Cell) doc.Cell { return doc.Number(float64(of(c))) }}
	}
	fields := []field{
		{doc.Column{Name: "settings", List: true, Help: "of the transport, as key=value"}, func(c *metrics.Cell) doc.Cell { return words(settings(c.Settings)) }},
		text("hosts", "of a run with agents: how many processes were on each", func(c *metrics.Cell) string { return c.Hosts }),
		text("place", "how they were placed", func(c *metrics.Cell) string { return c.Place }),
		count("model_tensors", "1", "tensors of the model", func(c *metrics.Cell) int64 { return int64(c.Model.Tensors) }),
		count("model_bytes", "B", "bytes in them", func(c *metrics.Cell) int64 { return c.Model.Bytes }),
		count("payload_bytes", "B", "what a round delivers: down and up, of all clients", (*metrics.Cell).Payload),
		{doc.Column{Name: "software", List: true, Help: "what workers in Python, or a peer, run on, as key=value"}, func(c *metrics.Cell) doc.Cell { return words(settings(c.Software)) }},
		text("peer", "the command of a peer", func(c *metrics.Cell) string { return c.Peer }),
		text("unproved", "why a peer could not prove its rounds: then it is in no verdict, and has no overhead", func(c *metrics.Cell) string { return c.Unproved }),
		text("tensors", "moved or handed over: what hands over has no bandwidth", func(c *metrics.Cell) string {
			if c.HandsOver() {
				return "handed over"
			}
			return "moved"
		}),
		text("bound", "the floor of the metric floor_ratio", func(c *metrics.Cell) string { name, _ := c.Bound(); return name }),
		text("stopped", "why the cell was measured no longer", func(c *metrics.Cell) string { return c.Stopped }),
		{doc.Column{Name: "marks", List: true, Help: "what to know about the numbers"}, func(c *metrics.Cell) doc.Cell { return words(details(c, r.Plan)) }},
		callsByKind,
	}
	for _, m := range metrics.Metrics() {
		fields = append(fields, field{doc.Column{Name: m.Name, Unit: m.Unit, Help: m.Help}, func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.Of(m.Name)) }})
	}
	t := keyed("metrics", "a cell: what was measured, and all that is known of it", axes())
	made := cellTable(t.Columns, func(c *metrics.Cell) []doc.Cell { return axisCells(axes(), c) }, r.Cells, fields...)
	t.Columns, t.Rows = made.Columns, made.Rows
	return doc.Section{Tables: []doc.Table{t}}
}

// floorTable has the floors for programs, a table for each unit.
func floorTable(unit string, floors []result.Floor) doc.Table {
	keys := []doc.Column{{Name: "floor"}, {Name: "condition", Help: "in which it was measured, where there are several"}, {Name: "model"}, {Name: "update"}, {Name: "clients", Unit: "1"}, {Name: "transport"},
		{Name: "host", Help: "the other end, of a floor between hosts"}, {Name: "bytes", Unit: "B", Help: "at once"}, {Name: "gap", Unit: "s", Help: "other work before it"}}
	t := doc.Table{Key: "floors", Help: "what this machine could do between the blocks, without any transport. Only what a floor depends on is there",
		For: doc.Programs, Keys: len(keys) + len(result.Dims),
		Columns: slices.Concat(keys, each(result.Dims, func(d result.Dim) doc.Column { return doc.Column{Name: axisName(d.Key), Unit: counted[d.Key]} }),
			[]doc.Column{{Name: "help", Help: "what was measured"}, {Name: "value", Unit: unit, Help: "in the floor's own unit"}})}
	number := func(x float64) doc.Cell {
		if x == 0 {
			return doc.Cell{}
		}
		return doc.Number(x)
	}
	for _, f := range floors {
		row := []doc.Cell{doc.Words(f.Name), doc.Words(f.Condition), doc.Words(f.Model), doc.Words(f.Up), number(float64(f.Clients)), doc.Words(f.Variant),
			doc.Words(f.Host), number(float64(f.Bytes)), number(float64(f.Gap) / 1e9)}
		for _, d := range result.Dims {
			row = append(row, axisCell(d.Key, d.Of(f.Setup)))
		}
		t.Add(append(row, doc.Words(f.Help), doc.Estimate(stat.Of(f.Blocks)))...)
	}
	return t
}
