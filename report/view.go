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
}

// Views returns all views, in the order of a document.
func Views() []View {
	return []View{
		{"verdict", "which transport to use for each model, and what the wrong choice costs", verdicts},
		{"findings", "what is wrong with a result, or puts it in doubt", findings},
		{"cells", "the first table of each comparison: round, bandwidth, CPU time, and what to know about them", cellTables},
		{"floors", "what this machine can do without any transport, and how far each cell is from it", floors},
		{"phases", "where a client's round trip goes, and the speed-up against " + metrics.Baseline, phases},
		{"spread", "how far rounds lie apart: percentiles and outliers", spreads},
		{"costs", "CPU time, page faults, switches, allocations, memory, and the cold first round", costTables},
		{"crossover", "where transports change places as a size or a number grows", sweeps},
		{"break-even", "below which rate of a network each codec pays, and what it makes of the data (run --codec)", breakEvens},
		{"tls", "what TLS adds to a round: time, CPU time and bytes, and what its handshakes take", tlsPrices},
		{"hosts", "the hosts of a run with agents: what ran where, and their links", hosts},
		{"gain", "what BlazeFL, OpenFL, Flower and AReaL would gain by another transport, in Python", gains},
		{"workers", "clients a second, and where starting the workers dominates", workers},
		{"calls", "the requests of a round, and how long a client and its requests wait", callTable},
		{"profiles", "CPU time by phase, the heaviest functions, and where memory is allocated (run --profile)", profiles},
		{"copies", "how often a byte is copied: by our code, by the kernel, by libraries", copyTables},
		{"spans", "all phases of a round that were recorded", spans},
		{"change", "what changed from base to head (run --against)", changes},
		{"environment", "machine, build and settings", environment},
	}
}

// CheckViews returns an error if one of the names is neither that of a view nor all.
func CheckViews(names []string) error {
	var all []string
	for _, v := range Views() {
		all = append(all, v.Name)
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(all, name) {
			return fmt.Errorf("unknown view %q: want all or some of %s", name, strings.Join(all, ","))
		}
	}
	return nil
}

// view returns the view of that name, which must be one of Views or be refused
// by CheckViews.
func view(r *metrics.Result, name string) doc.Section {
	for _, v := range Views() {
		if v.Name == name {
			s := v.make(r)
			s.Name = name
			return s
		}
	}
	panic("report: no view " + name)
}

// sections returns views by name, in that order.
func sections(r *metrics.Result, names []string) []doc.Section {
	if slices.Contains(names, "all") {
		names = nil
		for _, v := range Views() {
			names = append(names, v.Name)
		}
	}
	var all []doc.Section
	for _, name := range names {
		all = append(all, view(r, name))
	}
	return all
}
