package report

import (
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/phase"
	"ipcbench/report/analysis"
)

// callTable lists which requests a round makes, of transports that make any, and
// what they cost a client that waits and the server.
func callTable(v *analysis.Result) section {
	t := table{
		header: []string{"transport", "model", "build", "workers", "clients", "calls a round", "connections a round", "connecting, ms", "retries a round", "down, ms", "its p99, ms", "queued a client, ms",
			"server, CPU s a round", "server, MB", "of these calls"},
		words: 2, endnote: true,
	}
	for _, c := range v.Cells {
		rpcs := c.Of("rpcs")
		if !rpcs.Known() {
			continue
		}
		queued := c.Of("phase." + phase.Queue.String()).Map(func(s float64) float64 { return s / float64(c.Clients) })
		t.add(c.Variant, c.Model.Label(), c.Build, fmt.Sprint(c.Workers), fmt.Sprint(c.Clients), calls(rpcs.Center), unlessZero(calls, c.Of("connections")), unlessZero(milliseconds.number, c.Of("connecting")), unlessZero(calls, c.Of("retries")),
			milliseconds.show(c.Of("down")), milliseconds.value(c.Of("down_p99")), milliseconds.value(queued),
			plain.value(c.Of("cpu_server")), megabytes.value(c.Of("peak_rss_server")), callMix(c))
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
func callMix(c *analysis.Cell) string {
	var parts []string
	for _, m := range c.Calls() {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", calls(m.PerRound), m.Method, share(m.Share)))
	}
	return strings.Join(parts, ", ")
}

// calls writes a number of calls a round. It is whole, but for a request that
// was made before the first of the rounds or answered after the last.
func calls(x float64) string { return strings.TrimSuffix(fixed(x, 2), ".00") }
