package report

import (
	"ipcbench/report/answer"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// hosts is the view of a run with agents: the placement of processes, and the machines and
// links.
func hosts(r *metrics.Result) doc.Section {
	f := table.FleetOf(r)
	about := func(f answer.Finding) bool { return f.Rule == answer.OneMachine || f.Rule == answer.UnequalHosts }
	return doc.Section{
		Title:  "Hosts",
		Lead:   append(doc.Say(answer.FleetLines(r)...), answer.FindingLines(r, about, doc.Bad)...),
		Plots:  table.Drawn(nil, table.LinkPlot(r, f)),
		Tables: []doc.Table{table.HostTable(r, f), table.PlaceTable(r), table.SpentTable(r, f)},
		Tail:   doc.Say(table.ClockNotes(f)...),
	}
}
