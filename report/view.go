package report

import (
	"slices"

	"ipcbench/internal/near"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
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
		{"verdict", "which transport to use for each model, and what a slower one costs", verdicts, open, open, nil, briefVerdicts, nil},
		{"findings", "contradictions in a result, and reasons to doubt it", findings, absent, open, nil, briefFindings, nil},
		{"answers", "the questions of a run (--questions), with a sentence for each claim", answers, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(r.Questions) > 0 }},
		{"change", "changes from base to head (run --against)", changes, absent, open, nil, nil, nil},
		{"hosts", "the hosts of a run with agents: their processes and links", hosts, folded, open, nil, nil,
			func(r *metrics.Result) bool { return fleetOf(r) != nil }},
		{"break-even", "the link rate below which each codec pays, and its effect on the data (run --codec)", breakEvens, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(pathsOf(r, true))+len(pathsOf(r, false)) > 0 }},
		{"tls", "what TLS adds to a round: time, CPU time, bytes and handshakes", tlsPrices, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(tlsOnScreen(r)) > 0 }},
		{"gain", "what BlazeFL, OpenFL, Flower and AReaL would gain from another transport, with workers in Python", gains, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(gainsOf(r)) > 0 }},
		{"crossover", "where transports swap ranks as a size or a number grows", sweeps, folded, open, nil, nil,
			func(r *metrics.Result) bool { return len(sweepsOf(r)) > 0 }},
		{"tensors", "what one more tensor costs, over models of equal size", perTensor, folded, open, nil, nil,
			func(r *metrics.Result) bool { return len(ofCounts(r)) > 0 }},
		{"cells", "the first table of each comparison: round, bandwidth, CPU time, and remarks", cellTables, absent, open, roundPlots, nil, tablesLeftOut},
		{"phases", "the parts of a client's round trip, and the speed-up relative to " + metrics.Baseline, phases, folded, open, tripPlots, nil, always},
		{"spread", "how much rounds vary: percentiles and outliers", spreads, absent, open, spreadPlots, nil, nil},
		{"floors", "limits of this machine without any transport, and how near each cell is to them", floors, folded, open, floorPlots, nil, nil},
		{"costs", "CPU time, page faults, switches, allocations, memory, and the cold first round", costTables, folded, folded, nil, nil, always},
		{"profiles", "CPU time by phase, the heaviest functions, and where memory is allocated (run --profile)", profiles, folded, folded, nil, nil,
			func(r *metrics.Result) bool {
				return slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return len(c.Profiles) > 0 })
			}},
		{"copies", "copies per byte: by ipcbench, by the kernel, by libraries", copyTables, folded, folded, nil, nil, nil},
		{"workers", "clients per second, and the time to start the workers", workers, folded, folded, nil, nil, nil},
		{"calls", "the requests of a round, and how long a client and its requests wait", callTable, folded, folded, nil, nil, nil},
		{"environment", "machine, build and settings", environment, folded, folded, nil, nil, nil},
		{"spans", "all recorded phases of a round", spans, folded, folded, nil, nil, nil},
	}
}

func viewNames() []string { return each(Views(), func(v View) string { return v.Name }) }

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
