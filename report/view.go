package report

import (
	"slices"

	"ipcbench/internal/near"
	"ipcbench/report/answer"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// A View is a named part of the report of a result. Users choose it by name, and a committed
// Markdown file can hold it between markers.
type View struct {
	Name string
	Help string
	make func(r *metrics.Result) doc.Section

	request, page place
	draw          func(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot // its pictures of groups on a page; nil if none
	brief         func(r *metrics.Result, s doc.Section) doc.Section           // a shorter s for a page; nil shows all of s
	hint          func(r *metrics.Result) bool                                 // whether the first screen recommends it; nil means never
}

// A place is how a pull request or a page shows a view.
type place int

const (
	absent place = iota
	folded
	open
)

func always(*metrics.Result) bool { return true }

// Views returns all views, in the order of a document.
func Views() []View {
	return []View{
		{"verdict", "which transport to use for each model, and what a slower one costs", answer.Verdicts, open, open, nil, briefVerdicts, nil},
		{"findings", "contradictions in a result, and reasons to doubt it", answer.FindingSection, absent, open, nil, briefFindings, nil},
		{"answers", "the questions of a run (--questions), with a sentence for each claim", answer.Answers, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(r.Questions) > 0 }},
		{"change", "changes from base to head (run --against)", changes, absent, open, nil, nil, nil},
		{"hosts", "the hosts of a run with agents: their processes and links", hosts, folded, open, nil, nil,
			func(r *metrics.Result) bool { return table.FleetOf(r) != nil }},
		{"break-even", "the link rate below which each codec pays, and its effect on the data (run --codec)", table.BreakEvens, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(table.PathsOf(r, true))+len(table.PathsOf(r, false)) > 0 }},
		{"tls", "what TLS adds to a round: time, CPU time, bytes and handshakes", table.TlsPrices, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(tlsOnScreen(r)) > 0 }},
		{"gain", "what BlazeFL, OpenFL, Flower and AReaL would gain from another transport, with workers in Python", table.Gains, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(table.GainsOf(r)) > 0 }},
		{"crossover", "where transports swap ranks as a size or a number grows", table.Sweeps, folded, open, nil, nil,
			func(r *metrics.Result) bool { return len(table.SweepsOf(r)) > 0 }},
		{"tensors", "what one more tensor costs, over models of equal size", table.PerTensor, folded, open, nil, nil,
			func(r *metrics.Result) bool { return len(table.OfCounts(r)) > 0 }},
		{"cells", "the first table of each comparison: round, bandwidth, CPU time, and remarks", table.CellTables, absent, open, table.RoundPlots, nil, tablesLeftOut},
		{"phases", "the parts of a client's round trip, and the speed-up relative to " + metrics.Baseline, table.Phases, folded, open, table.TripPlots, nil, always},
		{"spread", "how much rounds vary: percentiles and outliers", table.Spreads, absent, open, table.SpreadPlots, nil, nil},
		{"floors", "limits of this machine without any transport, and how near each cell is to them", table.Floors, folded, open, table.FloorPlots, nil, nil},
		{"costs", "CPU time, page faults, switches, allocations, memory, and the cold first round", table.CostTables, folded, folded, nil, nil, always},
		{"profiles", "CPU time by phase, the heaviest functions, and where memory is allocated (run --profile)", table.Profiles, folded, folded, nil, nil,
			func(r *metrics.Result) bool {
				return slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return len(c.Profiles) > 0 })
			}},
		{"copies", "copies per byte: by ipcbench, by the kernel, by libraries", table.CopyTables, folded, folded, nil, nil, nil},
		{"workers", "clients per second, and the time to start the workers", table.Workers, folded, folded, nil, nil, nil},
		{"calls", "the requests of a round, and how long a client and its requests wait", table.CallTable, folded, folded, nil, nil, nil},
		{"environment", "machine, build and settings", table.Environment, folded, folded, nil, nil, nil},
		{"spans", "all recorded phases of a round", table.Spans, folded, folded, nil, nil, nil},
	}
}

func viewNames() []string { return table.Each(Views(), func(v View) string { return v.Name }) }

// CheckViews returns an error if a name is neither all nor the name of a view.
func CheckViews(names []string) error {
	for _, name := range names {
		if name != "all" && !slices.Contains(viewNames(), name) {
			return near.Unknown("view", name, append(viewNames(), "all"))
		}
	}
	return nil
}

// section returns the view of a result.
func (v View) section(r *metrics.Result) doc.Section {
	s := v.make(r)
	s.Name = v.Name
	return s
}

// view returns the named view of a result. It panics if there is no such view.
func view(r *metrics.Result, name string) doc.Section {
	return Views()[slices.Index(viewNames(), name)].section(r)
}

// chosen returns the sections of the named views, or of all views if names is empty or
// contains all. A view that was named and is empty says so.
func chosen(names []string, sections func(v View) []doc.Section) (made []doc.Section) {
	all := len(names) == 0 || slices.Contains(names, "all")
	if all {
		names = viewNames()
	}
	for _, name := range names {
		of := sections(Views()[slices.Index(viewNames(), name)])
		if !all && !slices.ContainsFunc(of, func(s doc.Section) bool { return !s.Empty() }) {
			of = []doc.Section{{Name: name, Lead: doc.Say(name + ": this result has nothing to show.")}}
		}
		made = append(made, of...)
	}
	return made
}
