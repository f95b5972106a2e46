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

// answerVersion is the version of the format json. It changes if a key is removed or changes
// its meaning, not if keys are added.
const answerVersion = 5

// An answer has the first keys of the format json. The tables of all views that have a key
// follow. It has no samples. Keys that the result file also has hold the same values.
type answer struct {
	Answer      int                 `json:"answer"` // the version; a result file has the key schema instead, which prevents confusion
	Kind        string              `json:"kind"`   // always result
	Command     []string            `json:"command"`
	Started     time.Time           `json:"started"`
	Elapsed     float64             `json:"elapsed_s"`
	Partial     string              `json:"partial,omitempty"` // why the run ended early
	Plan        result.Plan         `json:"plan"`
	Environment machine.Environment `json:"environment"`
	Doctor      []machine.Check     `json:"doctor,omitempty"`
	Programs    []result.Program    `json:"programs,omitempty"` // the programs that ran blocks in processes of their own
	Hosts       []result.Host       `json:"hosts,omitempty"`
}

func writeJSON(w io.Writer, r *result.Result, _ Options) error {
	head := answer{answerVersion, "result", r.Command, r.Started, r.Elapsed.Seconds(), r.Partial, r.Plan, r.Environment, r.Doctor, r.Programs, r.Hosts}
	return data(metrics.New(r)).JSON(w, head, everyAnswer...)
}

// everyAnswer are the keys of the tables that each answer has, even without rows.
var everyAnswer = []string{"verdict", "ranking", "findings", "crossings", "floors", "metrics"}

// writeCSV writes the tables of the answer, with a line for each number.
func writeCSV(w io.Writer, r *result.Result, _ Options) error {
	return data(metrics.New(r)).CSV(w, axisNames(axes())...)
}

// data returns a document with the tables of all views and of all metrics.
func data(r *metrics.Result) doc.Document {
	var d doc.Document
	for _, v := range Views() {
		d.Sections = append(d.Sections, v.make(r))
	}
	d.Sections = append(d.Sections, allMetrics(r))
	return d
}

// axes returns the dimensions of cells, except some.
func axes(except ...string) []metrics.Axis {
	return slices.DeleteFunc(metrics.Axes(), func(a metrics.Axis) bool { return slices.Contains(except, a.Name) })
}

// groupAxes returns the dimensions in which cells that did the same work are equal.
func groupAxes() []metrics.Axis { return axes("transport", "codec", "language") }

// keyed returns a table for programs. Its rows begin with the values of a cell on these axes.
func keyed(key, help string, of []metrics.Axis, columns ...doc.Column) doc.Table {
	return doc.Table{Key: key, Help: help, For: doc.Programs, Keys: len(of), Columns: append(axisColumns(of), columns...)}
}

func axisColumns(of []metrics.Axis) []doc.Column {
	return each(of, func(a metrics.Axis) doc.Column {
		return doc.Column{Name: axisName(a.Name), For: doc.Programs, Unit: counted[a.Name], Always: a.Name != "program"}
	})
}

func axisNames(of []metrics.Axis) []string {
	return each(of, func(a metrics.Axis) string { return axisName(a.Name) })
}

// axisName returns the name of an axis for programs. Two axes are renamed, because up and
// train are also names of metrics.
func axisName(name string) string {
	return cmp.Or(map[string]string{"up": "update", "train": "function"}[name], strings.ReplaceAll(name, "-", "_"))
}

// counted are the axes whose values are numbers for programs, with their units.
var counted = map[string]string{"workers": "1", "clients": "1", "train-ms": "1"}

// axisCells returns the values of a cell on these axes.
func axisCells(of []metrics.Axis, c *metrics.Cell) (all []doc.Cell) {
	for _, a := range of {
		all = append(all, axisCell(a.Name, a.Of(c)))
	}
	return all
}

// axisCell returns a value of an axis, as a number if the axis counts something.
func axisCell(name, value string) doc.Cell {
	if n, err := strconv.Atoi(value); err == nil && counted[name] != "" {
		return doc.Number(float64(n))
	}
	return doc.Words(value)
}

// words returns a table cell with a list, or an empty one.
func words(all []string) doc.Cell {
	if len(all) == 0 {
		return doc.Cell{}
	}
	return doc.Cell{List: all}
}

// settings returns the entries as key=value, sorted.
func settings(of map[string]string) (all []string) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		all = append(all, k+"="+of[k])
	}
	return all
}

// allMetrics returns the table metrics, for programs: the settings and all metrics of each
// cell.
func allMetrics(r *metrics.Result) doc.Section {
	text := func(name, help string, of func(c *metrics.Cell) string) field {
		return field{doc.Column{Name: name, Help: help}, func(c *metrics.Cell) doc.Cell { return doc.Words(of(c)) }}
	}
	count := func(name, unit, help string, of func(c *metrics.Cell) int64) field {
		return field{doc.Column{Name: name, Unit: unit, Help: help}, func(c *metrics.Cell) doc.Cell { return doc.Number(float64(of(c))) }}
	}
	fields := []field{
		{doc.Column{Name: "settings", List: true, Help: "settings of the transport, as key=value"}, func(c *metrics.Cell) doc.Cell { return words(settings(c.Settings)) }},
		text("hosts", "number of processes on each host, in a run with agents", func(c *metrics.Cell) string { return c.Hosts }),
		text("place", "how the processes were placed on hosts", func(c *metrics.Cell) string { return c.Place }),
		count("model_tensors", "1", "tensors of the model", func(c *metrics.Cell) int64 { return int64(c.Model.Tensors) }),
		count("model_bytes", "B", "bytes of these tensors", func(c *metrics.Cell) int64 { return c.Model.Bytes }),
		count("payload_bytes", "B", "payload of a round: models and updates of all clients", (*metrics.Cell).Payload),
		{doc.Column{Name: "software", List: true, Help: "versions of the software that workers in Python, or a peer, run on, as key=value"}, func(c *metrics.Cell) doc.Cell { return words(settings(c.Versions())) }},
		text("peer", "the command of a peer", (*metrics.Cell).Command),
		text("unproved", "why the rounds of a peer are not proved; such a peer is in no verdict and has no overhead", func(c *metrics.Cell) string { return c.Unproved }),
		text("tensors", "moved or handed over; a transport that hands over has no bandwidth", func(c *metrics.Cell) string {
			if c.HandsOver() {
				return "handed over"
			}
			return "moved"
		}),
		text("bound", "the floor that the metric floor_ratio compares with", func(c *metrics.Cell) string { name, _ := c.Bound(); return name }),
		text("stopped", "why the measurement of the cell ended", func(c *metrics.Cell) string { return c.Stopped }),
		{doc.Column{Name: "marks", List: true, Help: "remarks about the numbers"}, func(c *metrics.Cell) doc.Cell { return words(details(c, r.Plan)) }},
		callsByKind,
	}
	for _, m := range metrics.Metrics() {
		fields = append(fields, field{doc.Column{Name: m.Name, Unit: m.Unit, Help: m.Help}, func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.Of(m.Name)) }})
	}
	t := keyed("metrics", "a cell, with all of its metrics", axes())
	made := cellTable(t.Columns, func(c *metrics.Cell) []doc.Cell { return axisCells(axes(), c) }, r.Cells, fields...)
	t.Columns, t.Rows = made.Columns, made.Rows
	return doc.Section{Tables: []doc.Table{t}}
}

// floorTable returns the floors of one unit, for programs.
func floorTable(unit string, floors []result.Floor) doc.Table {
	keys := []doc.Column{{Name: "floor"}, {Name: "condition", Help: "condition of the measurement, if there are several"}, {Name: "model"}, {Name: "update"}, {Name: "clients", Unit: "1"}, {Name: "transport"},
		{Name: "host", Help: "the other host, if the floor is between hosts"}, {Name: "bytes", Unit: "B", Help: "bytes moved at once"}, {Name: "gap", Unit: "s", Help: "time of other work before it"}}
	t := doc.Table{Key: "floors", Help: "a limit of this machine without any transport, measured between blocks. It has only the columns that the floor depends on",
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
