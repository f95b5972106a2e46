package table

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/phase"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// Phases is the view of the parts of a client's round trip, with the speed-up relative to the
// default of a process pool.
func Phases(r *metrics.Result) doc.Section {
	return perGroup(r, "Where a client's round trip goes", `±overhead | ±moving_share%=of the round | ±transfer | ±down | ±train | ±uplink |
		±communication% | ±copy_decode=copy and decode | ±reconstruct |
		±speedup_transfer=speed-up of the transfer | ±speedup_round=speed-up of the round`)
}

func Spreads(r *metrics.Result) doc.Section {
	return perGroup(r, "How rounds spread", `±round | round_mad=distance from the median | round_p90=p90 | round_p99=p99 |
		round_p99.9=p99.9 | rtt_p99=round trip, p99 | !round_outliers=outliers`)
}

// CostTables is the view of costs other than time, and of the cold first round. Some costs are
// per delivered GB, so that models can be compared.
func CostTables(r *metrics.Result) doc.Section {
	return perGroup(r, "Costs", `goodput | cpu_user_per_gb=CPU, user | cpu_system_per_gb=CPU, system | minor_faults=page faults |
		voluntary_switches=switches | queue_wait=waiting for a processor | wire_ratio=on the wire, × payload |
		cache_growth=caches grew by | cache_hits=found in caches | allocs=objects allocated | alloc_bytes=allocated | gc_time=garbage collection |
		peak_rss=peak RSS | pss=PSS | shmem=shared memory | ±handshake | ±spawn | ±cold_round | cold_faults | recorder_share%=recorder | machine_busy%`)
}

// Spans is the view of all phases of a round, beside the time that this machine takes to copy
// the model or to write it to new memory.
func Spans(r *metrics.Result) doc.Section {
	spec := ""
	for _, p := range phase.Phases() {
		spec += "-phase." + p.String() + "=" + p.String() + " | "
	}
	return doc.Section{Title: "All phases of a round", Tables: groupTables(r, "", append(columns(spec+"unattributed"),
		moveOnce(metrics.FloorCopy, "one copy", "copying the model once"),
		moveOnce(metrics.FloorTouch, "first touch", "writing the model once to new shared memory"))...),
		Tail: doc.Say("Each is the sum of all spans of that phase in all processes, so with several workers the sum exceeds the round. " +
			"The phases of a transport, from encode on, are inside the phases of the calls that made them.")}
}

// moveOnce is the time of one thread to move the model of a cell at the rate of a floor.
func moveOnce(floor, name, what string) field {
	column := doc.Column{Name: name, Key: "floor_" + strings.ReplaceAll(floor, "-", "_"), Unit: "s", Help: "for comparison, " + what + " with one thread: the floor " + floor}
	return field{column, func(c *metrics.Cell) any {
		return c.FloorValue(floor).Map(func(rate float64) float64 { return float64(c.Model.Bytes) / rate })
	}}
}

// CallTable is the view of requests, for transports that make any: their number per round,
// waiting times, and the cost at the server.
func CallTable(r *metrics.Result) doc.Section {
	calling := Only(r.Cells, func(c *metrics.Cell) bool { return c.Of("rpcs").Known() })
	return oneTable("Requests", calling, append(columns(`rpcs=requests | !connections | !connecting | !handshakes | !handshaking | !retries |
		±down | down_p99=down, p99 | ±in_service | in_service_most=in service, most | ±queued_share%=requests queued | queued |
		cpu_server=CPU of the server | peak_rss_server=memory of the server`), callsByKind)...)
}

// callsByKind lists the requests of a round by kind, the most frequent first.
var callsByKind = field{doc.Column{Name: "requests by kind", List: true, Wrap: true}, func(c *metrics.Cell) any {
	calls, total, kinds := c.Tally(phase.Calls), int64(0), []string{}
	for _, n := range calls {
		total += n
	}
	for _, method := range slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b))
	}) {
		n := float64(calls[method])
		perRound := strconv.FormatFloat(math.Round(100*n/float64(c.Rounds()))/100, 'f', -1, 64)
		kinds = append(kinds, perRound+" "+method+" ("+doc.Percent(n/float64(total))+")")
	}
	return kinds
}}

// Workers is the view of clients per second, and of the time to start the workers.
func Workers(r *metrics.Result) doc.Section {
	started := Only(r.Cells, func(c *metrics.Cell) bool { return !c.IsControl() && c.Of("spawn").Known() })
	fields := columns(`±-client_rate=clients per second | ±spawn=starting the workers | ±import=of it importing | ±cold_work=cold round |
		±start_ratio=start ÷ cold round | ±restart%=starting and ending, of the round`)
	fields[3].Help = Column("cold_round").Help
	fields[4].Help = "if the whole interval is above 1, a session that is started for every round spends most of its time on starting " +
		"the workers"
	s := oneTable("Workers", started, fields...)
	fresh := Only(started, func(c *metrics.Cell) bool { return c.Respawn })
	var most []string
	for _, c := range fresh {
		if r := c.Of("restart"); r.Sure() && r.Low > 0.5 {
			most = append(most, Variant(c)+" ("+GroupTitle(c.Group())+")")
		}
	}
	say := "If each round has fresh workers, the cold round is the round without starting them. "
	switch {
	case len(fresh) == 0:
		return s
	case most == nil:
		say += "Starting and ending them is not shown to take most of a round in any cell."
	case len(most) == len(fresh):
		say += "Starting and ending them takes most of every round."
	default:
		say += "Starting and ending them takes most of the rounds of " + strings.Join(most, "; ") + ". For the other cells, that is not shown."
	}
	s.Tail = doc.Say(say)
	return s
}
