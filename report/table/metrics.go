package table

import (
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"maps"
	"slices"
)

// entries returns the keys with their values after a separator, sorted.
func entries(values map[string]string, separator string) []string {
	return Each(slices.Sorted(maps.Keys(values)), func(key string) string { return key + separator + values[key] })
}

// AllMetrics returns the table metrics, for programs: the settings and all metrics of each
// cell.
func AllMetrics(r *metrics.Result) doc.Section {
	text := func(name, help string, of func(c *metrics.Cell) string) field {
		return field{doc.Column{Name: name, Help: help}, func(c *metrics.Cell) doc.Cell { return doc.Words(of(c)) }}
	}
	count := func(name, unit, help string, of func(c *metrics.Cell) int64) field {
		return field{doc.Column{Name: name, Unit: unit, Help: help}, func(c *metrics.Cell) doc.Cell { return doc.Number(float64(of(c))) }}
	}
	fields := []field{
		{doc.Column{Name: "settings", List: true, Help: "settings of the transport, as key=value"}, func(c *metrics.Cell) doc.Cell { return ListCell(entries(c.Settings, "=")) }},
		text("hosts", "number of processes on each host, in a run with agents", func(c *metrics.Cell) string { return c.Hosts }),
		text("place", "how the processes were placed on hosts", func(c *metrics.Cell) string { return c.Place }),
		count("model_tensors", "1", "tensors of the model", func(c *metrics.Cell) int64 { return int64(c.Model.Tensors) }),
		count("model_bytes", "B", "bytes of these tensors", func(c *metrics.Cell) int64 { return c.Model.Bytes }),
		count("payload_bytes", "B", "payload of a round: models and updates of all clients", (*metrics.Cell).Payload),
		{doc.Column{Name: "software", List: true, Help: "versions of the software that workers in Python, or a peer, run on, as key=value"}, func(c *metrics.Cell) doc.Cell { return ListCell(entries(c.Versions(), "=")) }},
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
		{doc.Column{Name: "marks", List: true, Help: "remarks about the numbers"}, func(c *metrics.Cell) doc.Cell { return ListCell(details(c, r.Plan)) }},
		callsByKind,
	}
	for _, m := range metrics.Metrics() {
		fields = append(fields, field{doc.Column{Name: m.Name, Unit: m.Unit, Help: m.Help}, func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.Of(m.Name)) }})
	}
	t := Keyed("metrics", "a cell, with all of its metrics", Axes())
	made := cellTable(t.Columns, func(c *metrics.Cell) []doc.Cell { return AxisCells(Axes(), c) }, r.Cells, fields...)
	t.Columns, t.Rows = made.Columns, made.Rows
	return doc.Section{Tables: []doc.Table{t}}
}
