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

	request, page place
	draw          func(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot // its pictures of groups on a page, if it has any
	brief         func(r *metrics.Result, s doc.Section) doc.Section           // what a page shows of it in the place of all of s; nil shows all
	hint          func(r *metrics.Result) bool                                 // whether the first screen names it among those that show more
}

// A place is how a pull request or a page shows a view.
type place int

const (
	absent place = iota
	folded
	open
)

func always(*metrics.Result) bool { return true }

// Views returns all views, in the order in which a document has them.
func Views() []View {
	return []View{
		{"verdict", "which transport to use for each model, and what the wrong choice costs", verdicts, open, open, nil, briefVerdicts, nil},
		{"findings", "what is wrong with a result, or puts it in doubt", findings, absent, open, nil, briefFindings, nil},
		{"change", "what changed from base to head (run --against)", changes, absent, open, nil, nil, nil},
		{"hosts", "the hosts of a run with agents: what ran where, and their links", hosts, folded, open, nil, nil,
			func(r *metrics.Result) bool { return fleetOf(r) != nil }},
		{"break-even", "below which rate of a network each codec pays, and what it makes of the data (run --codec)", breakEvens, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(pathsOf(r, true))+len(pathsOf(r, false)) > 0 }},
		{"tls", "what TLS adds to a round: time, CPU time and bytes, and what its handshakes take", tlsPrices, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(tlsOnScreen(r)) > 0 }},
		{"gain", "what BlazeFL, OpenFL, Flower and AReaL would gain by another transport, in Python", gains, open, open, nil, nil,
			func(r *metrics.Result) bool { return len(gainsOf(r)) > 0 }},
		{"crossover", "where transports change places as a size or a number grows", sweeps, folded, open, nil, nil,
			func(r *metrics.Result) bool { return len(sweepsOf(r)) > 0 }},
		{"cells", "the first table of each comparison: round, bandwidth, CPU time, and what to know about them", cellTables, absent, open, roundPlots, nil, tablesLeftOut},
		{"phases", "where a client's round trip goes, and the speed-up against " + metrics.Baseline, phases, folded, open, tripPlots, nil, always},
		{"spread", "how far rounds lie apart: percentiles and outliers", spreads, absent, open, spreadPlots, nil, nil},
		{"floors", "what this machine can do without any transport, and how far each cell is from it", floors, folded, open, floorPlots, nil, nil},
		{"costs", "CPU time, page faults, switches, allocations, memory, and the cold first round", costTables, folded, folded, nil, nil, always},
		{"profiles", "CPU time by phase, the heaviest functions, and where memory is allocated (run --profile)", profiles, folded, folded, nil, nil,
			func(r *metrics.Result) bool {
				return slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool { return len(c.Profiles) > 0 })
			}},
		{"copies", "how often a byte is copied: by our code, by the kernel, by libraries", copyTables, folded, folded, nil, nil, nil},
		{"workers", "clients a second, and where starting the workers dominates", workers, folded, folded, nil, nil, nil},
		{"calls", "the requests of a round, and how long a client and its requests wait", callTable, folded, folded, nil, nil, nil},
		{"environment", "machine, build and settings", environment, folded, folded, nil, nil, nil},
		{"spans", "all phases of a round that were recorded", spans, folded, folded, nil, nil, nil},
	}
}

// viewNames are those of all views.
func viewNames() []string { return each(Views(), func(v View) string { return v.Name }) }

// CheckViews returns an error if one of the names is neither that of a view nor all.
func CheckViews(names []string) error {
	for _, name := range names {
		if name != "all" && !slices.Contains(viewNames(), name) {
			return fmt.Errorf("unknown view %q: want all or some of %s", name, strings.Join(viewNames(), ","))
		}
	}
	return nil
}

// section is what the view shows of a result.
func (v View) section(r *metrics.Result) doc.Section {
	s := v.make(r)
	s.Name = v.Name
	return s
}

// view returns the view of that name, which must be one of Views or be refused
// by CheckViews.
func view(r *metrics.Result, name string) doc.Section {
	return Views()[slices.Index(viewNames(), name)].section(r)
}

// chosen makes sections of the views of these names, or of all if there is none. One that
// was asked for and has nothing to show says so.
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
