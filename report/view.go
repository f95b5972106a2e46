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
	Name, Help string
	make       func(r *metrics.Result) doc.Section
	hint       bool // the first screen recommends it if the result has something to show
	place      place
}

// A place is how a pull request and a page show a view.
type place int

const (
	open     place = iota // in both
	pageOnly              // open on a page
	pageOpen              // open on a page, folded in a pull request
	folded                // in both
)

// Views returns all views, in the order of a document.
func Views() []View {
	return []View{
		{"verdict", "which transport to use for each model, and what a slower one costs",
			answer.Verdicts, false, open},
		{"findings", "contradictions in a result, and reasons to doubt it",
			answer.FindingSection, false, pageOnly},
		{answersView, "the questions of a run (--questions), with a sentence for each claim",
			answer.Answers, true, open},
		{"change", "changes from base to head (run --against)", changes, false, pageOnly},
		{"hosts", "the hosts of a run with agents: their processes and links", hosts, true, pageOpen},
		{"break-even", "the link rate below which each codec pays, and its effect on the data (run --codec)",
			table.BreakEvens, true, open},
		{"tls", "what TLS adds to a round: time, CPU time, bytes and handshakes",
			table.TlsPrices, true, open},
		{"gain", "what BlazeFL, OpenFL, Flower and AReaL would gain from another transport, with workers in Python",
			table.Gains, true, open},
		{"crossover", "where transports swap ranks as a size or a number grows", table.Sweeps, true, pageOpen},
		{"tensors", "what one more tensor costs, over models of equal size", table.PerTensor, true, pageOpen},
		{"cells", "the first table of each comparison: round, bandwidth, CPU time, and remarks",
			table.CellTables, true, pageOnly},
		{"phases", "the parts of a client's round trip, and the speed-up relative to " + metrics.Baseline,
			table.Phases, true, pageOpen},
		{"spread", "how much rounds vary: percentiles and outliers",
			table.Spreads, false, pageOnly},
		{"floors", "limits of this machine without any transport, and how near each cell is to them",
			table.Floors, false, pageOpen},
		{"costs", "CPU time, page faults, switches, allocations, memory, and the cold first round",
			table.CostTables, true, folded},
		{"profiles", "CPU time by phase, the heaviest functions, and where memory is allocated (run --profile)",
			table.Profiles, true, folded},
		{"copies", "copies per byte: declared by ipcbench, by the kernel, by libraries",
			table.CopyTables, false, folded},
		{"workers", "clients per second, and the time to start the workers", table.Workers, false, folded},
		{"calls", "the requests of a round, and how long a client and its requests wait",
			table.CallTable, false, folded},
		{"environment", "machine, build and settings", table.Environment, false, folded},
		{"spans", "all recorded phases of a round", table.Spans, false, folded},
	}
}

func viewNames() []string { return doc.Each(Views(), func(v View) string { return v.Name }) }

// CheckViews returns an error if a name is neither all nor the name of a view.
func CheckViews(names []string) error {
	all := append(viewNames(), "all")
	for _, name := range names {
		if !slices.Contains(all, name) {
			return near.Unknown("view", name, all)
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

// viewNamed returns the named view. It panics if there is no such view.
func viewNamed(name string) View { return Views()[slices.Index(viewNames(), name)] }

// chosen returns the sections of the named views, or of all views if names is empty or
// contains all. A view that was named and is empty says so.
func chosen(names []string, sections func(v View) []doc.Section) (all []doc.Section) {
	if len(names) == 0 || slices.Contains(names, "all") {
		for _, v := range Views() {
			all = append(all, sections(v)...)
		}
		return all
	}
	for _, name := range names {
		parts := sections(viewNamed(name))
		if !slices.ContainsFunc(parts, func(s doc.Section) bool { return !s.Empty() }) {
			parts = []doc.Section{{Name: name, Lead: doc.Say(name + ": this result has nothing to show.")}}
		}
		all = append(all, parts...)
	}
	return all
}
