package table

import (
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"maps"
	"slices"
)

// entries returns the keys with their values after a separator, sorted.
func entries(values map[string]string, separator string) []string {
	return doc.Each(slices.Sorted(maps.Keys(values)), func(key string) string { return key + separator + values[key] })
}

// AllMetrics returns the table metrics, for programs: the settings and all metrics of each
// cell.
func AllMetrics(r *metrics.Result) doc.Section {
	t := Keyed("metrics", "a cell, with all of its metrics", Axes(),
		[]doc.Column{
			{Name: "settings", List: true, Help: "settings of the transport, as key=value"},
			{Name: "hosts", Help: "number of processes on each host, in a run with agents"},
			{Name: "place", Help: "how the processes were placed on hosts"},
			{Name: "model_tensors", Unit: "1", Help: "tensors of the model"},
			{Name: "model_bytes", Unit: "B", Help: "bytes of these tensors"},
			{Name: "payload_bytes", Unit: "B", Help: "payload of a round: models and updates of all clients"},
			{Name: "software", List: true, Help: "versions of the software that workers in Python, or a peer, run on, as key=value"},
			{Name: "peer", Help: "the command of a peer"},
			{Name: "unproved", Help: "why the rounds of a peer are not proved; such a peer is in no verdict and has no overhead"},
			{Name: "tensors", Help: "moved or handed over; a transport that hands over has no bandwidth"},
			{Name: "bound", Help: "the floor that the metric floor_ratio compares with"},
			{Name: "stopped", Help: "why the measurement of the cell ended"},
			{Name: "marks", List: true, Help: "remarks about the numbers"},
			callsByKind.Column,
		},
		doc.Each(metrics.Metrics(), func(m metrics.Metric) doc.Column {
			return doc.Column{Name: m.Name, Unit: m.Unit,
				Help: m.Help}
		}))
	for _, c := range r.Cells {
		bound, _ := c.Bound()
		t.Add(AxisCells(Axes(), c), entries(c.Settings, "="), c.Hosts, c.Place, c.Model.Tensors,
			float64(c.Model.Bytes), float64(c.Payload()),
			entries(c.Versions(), "="), c.Command(), c.Unproved,
			Unless(c.HandsOver(), "moved")+Unless(!c.HandsOver(), "handed over"), bound, c.Stopped,
			details(c, r.Plan), callsByKind.of(c), doc.Cells(doc.Each(metrics.Metrics(),
				func(m metrics.Metric) any { return c.Of(m.Name) })...))
	}
	return doc.Section{Tables: []doc.Table{t}}
}
