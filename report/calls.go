package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// callTable lists which requests a round makes, of transports that make any, and
// what they cost a client that waits and the server.
func callTable(v *view) section {
	t := table{
		header: []string{"transport", "model", "build", "workers", "clients", "calls a round", "connections a round", "connecting, ms", "retries a round", "down, ms", "its p99, ms", "queued a client, ms",
			"server, CPU s a round", "server, MB", "of these calls"},
		words: 2, endnote: true,
	}
	for _, c := range v.cells {
		rpcs := c.of("rpcs")
		if !rpcs.Known() {
			continue
		}
		queued := c.of("phase." + phase.Queue.String()).Map(func(s float64) float64 { return s / float64(c.Clients) })
		t.add(c.Variant, c.Model.Label(), c.Build, fmt.Sprint(c.Workers), fmt.Sprint(c.Clients), calls(rpcs.Center), unlessZero(calls, c.of("connections")), unlessZero(milliseconds.number, c.of("connecting")), unlessZero(calls, c.of("retries")),
			milliseconds.show(c.of("down")), milliseconds.value(c.of("down_p99")), milliseconds.value(queued),
			plain.value(c.of("cpu_server")), megabytes.value(c.of("peak_rss_server")), c.callMix())
	}
	if len(t.rows) == 0 {
		return section{}
	}
	t.trim()
	connecting := ""
	if slices.Contains(t.header, "connecting, ms") {
		connecting = " connecting: how long workers waited for connections of single calls, added up."
	}
	return section{title: "Requests", tables: []table{t}, tail: []string{
		"down: a client's way to the model, the median and, where there are enough of them, the 99th percentile. " +
			"queued: how long its requests waited for one of the server's threads, where they are bounded. server: CPU time and peak resident memory." + connecting}}
}

// unlessZero writes an estimate, if there is anything to write of.
func unlessZero(written func(float64) string, i stat.Interval) string {
	if !i.Known() || i.Center == 0 {
		return none
	}
	return written(i.Center)
}

// callMix says which methods were called how often a round, the most frequent
// first.
func (c *cell) callMix() string {
	type method struct {
		name string
		n    int64
	}
	sums := map[string]int64{}
	total := int64(0)
	for _, b := range c.timed {
		for name, n := range b.Counts() {
			if m, ok := strings.CutPrefix(name, phase.Calls); ok {
				sums[m] += n
				total += n
			}
		}
	}
	var methods []method
	for name, n := range sums {
		if n > 0 {
			methods = append(methods, method{name, n})
		}
	}
	slices.SortFunc(methods, func(a, b method) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	var parts []string
	for _, m := range methods {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", calls(float64(m.n)/float64(c.rounds())), m.name, share(float64(m.n)/float64(total))))
	}
	return strings.Join(parts, ", ")
}

// calls writes a number of calls a round. It is whole, but for a request that
// was made before the first of the rounds or answered after the last.
func calls(x float64) string { return strings.TrimSuffix(fixed(x, 2), ".00") }
