package answer

import (
	"cmp"
	"fmt"
	"strings"

	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// fleetFindings warns about hosts that are the same machine, and about differences between
// hosts with lanes.
func fleetFindings(r *metrics.Result) (all []*Finding) {
	f := table.FleetOf(r)
	for _, same := range metrics.GroupBy(f, func(h table.FleetHost) string { return cmp.Or(h.SameMachine, h.Name) }) {
		if len(same) == 1 {
			continue
		}
		why := "this says nothing about separate hosts or their network"
		if len(same) < len(f) {
			why = "they share its processors and memory"
		}
		text := strings.Join(table.HostNames(same), ", ") + " are one machine, so " + why
		all = append(all, warn(OneMachine, text, value("hosts", "1", float64(len(same))), value("all", "1", float64(len(f)))))
	}
	if texts := table.Unequal(f); len(texts) > 0 {
		all = append(all, warn(UnequalHosts, "lanes are unequal because their hosts differ: "+strings.Join(texts, "; ")))
	}
	return all
}

// otherTraining warns if training took another time than the control's, because the cost of
// the transport is unknown then.
func otherTraining(c *metrics.Cell) *Finding {
	training, control := c.Training()
	_, like := c.TrainsLike()
	here, there := Value{"training", "s", training}, Value{"control", "s", control}
	return warnIf(!like && control.Known() && c.Unproved == "", OtherTraining, fmt.Sprintf("training took %s here but %s in %s, "+
		"so cells are ranked by transfer, and overhead and bandwidth are omitted", here, there, metrics.Control), here, there)
}

// mostHosts is the largest number of hosts that a line names.
const mostHosts = 4

// FleetLines returns one line with the hosts of the workers and the kind of connection. It
// returns none for a run without agents.
func FleetLines(r *metrics.Result) []string {
	var workers []string
	for _, h := range table.FleetOf(r) {
		if !h.Server || h.Lanes[1] > 0 {
			workers = append(workers, fmt.Sprintf("%s (%d)", h.Name, h.Lanes[1]))
		}
	}
	if workers == nil {
		return nil
	}
	if more := len(workers) - mostHosts; more > 0 {
		workers = append(workers[:mostHosts], doc.Plural(more, "more host"))
	}
	return []string{"workers on " + strings.Join(workers, ", ") + overText(r)}
}

// overText returns the kind of connection to workers on other hosts.
func overText(r *metrics.Result) string {
	remote := table.Only(r.Cells, (*metrics.Cell).Remote)
	kinds := metrics.GroupBy(remote, (*metrics.Cell).TLS)
	switch words := map[string]string{metrics.NoTLS: "without TLS", metrics.MutualTLS: "with mutual TLS"}; len(kinds) {
	case 0:
		return ""
	case 1:
		return ": over TCP " + cmp.Or(words[remote[0].TLS()], "with TLS")
	}
	return ": over TCP, some of them with TLS"
}
