package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// phases are the parts of a client's round trip side by side, with the speed-up
// against what a process pool does by default.
func phases(r *metrics.Result) doc.Section {
	baselines := map[metrics.Group]*metrics.Cell{}
	for _, c := range r.Cells {
		if c.Variant == metrics.Baseline {
			baselines[c.Group()] = c
		}
	}
	speedup := func(metric string) field {
		return field{
			doc.Column{Name: "speed-up of the " + metric, Unit: "1", Help: "the " + metric + " of " + metrics.Baseline + " ÷ that of this transport"},
			func(c *metrics.Cell) doc.Cell {
				base := baselines[c.Group()]
				if base == nil || base == c || c.Unproved != "" {
					return doc.Cell{}
				}
				return doc.Estimate(base.Ratio(metric, c))
			},
		}
	}
	moving := field{doc.Column{Name: "of the round", Unit: "%", Help: "overhead ÷ round: the part of a round that moving tensors takes"}, func(c *metrics.Cell) doc.Cell {
		if !c.Of("overhead").Known() {
			return doc.Cell{}
		}
		return doc.Estimate(c.Control.Ratio("round", c).Map(func(x float64) float64 { return 1 - x }))
	}}
	return doc.Section{Title: "Where a client's round trip goes", Tables: groupTables(r, "",
		interval("overhead", ""), moving, interval("transfer", ""), interval("down", ""), interval("train", ""), interval("uplink", ""), interval("communication", "").in("%"), interval("copy_decode", "copy and decode"), interval("reconstruct", ""),
		speedup("transfer"), speedup("round"))}
}

// spans are all phases that were recorded.
func spans(r *metrics.Result) doc.Section {
	var fields []field
	for _, p := range phase.Phases() {
		f := median("phase."+p.String(), p.String())
		f.Help = ""
		fields = append(fields, f)
	}
	return doc.Section{Title: "All phases of a round", Tables: groupTables(r, "", append(fields, median("unattributed", ""))...),
		Tail: doc.Say("Each is the sum of all spans of that phase in all processes: with several workers, the sum is more than the round. " +
			"The phases of a transport, from encode on, lie inside those of the calls that made them.")}
}

// spreads say how far the rounds of a cell lie apart.
func spreads(r *metrics.Result) doc.Section {
	return doc.Section{Title: "How rounds spread", Tables: groupTables(r, "",
		interval("round", ""), median("round_mad", "distance from the median"), median("round_p90", "p90"), median("round_p99", "p99"), median("round_p99.9", "p99.9"), median("rtt_p99", "round trip, p99"), nonZero(median("round_outliers", "outliers")))}
}

// costTables hold what a round costs besides time: per delivered GB, so that models
// can be compared, and the cold first round.
func costTables(r *metrics.Result) doc.Section {
	wire := field{doc.Column{Name: "on the wire, × payload", Unit: "1", Help: "bytes handed to sockets and files ÷ payload", Middle: true}, func(c *metrics.Cell) doc.Cell {
		return doc.Estimate(c.Of("wire_bytes").Map(func(n float64) float64 { return n / float64(c.Payload()) }))
	}}
	return doc.Section{Title: "Costs", Tables: groupTables(r, "",
		median("goodput", ""), median("cpu_user_per_gb", "CPU, user"), median("cpu_system_per_gb", "CPU, system"), median("minor_faults", "page faults"), median("voluntary_switches", "switches"),
		median("queue_wait", "waiting for a processor"), wire, median("cache_growth", "caches grew by"), median("cache_hits", "found in caches"), median("allocs", "objects allocated"), median("alloc_bytes", "allocated"), median("gc_time", "garbage collection"),
		median("peak_rss", "peak RSS"), median("pss", "PSS"), median("shmem", "shared memory"),
		interval("handshake", ""), interval("cold_round", ""), median("cold_faults", ""), median("recorder_share", "recorder").in("%"), median("machine_busy", "").in("%"))}
}

// floors are the limits of the machine, and how far the cells are from them.
func floors(r *metrics.Result) doc.Section {
	if len(r.Floors) == 0 {
		return doc.Section{}
	}
	s := doc.Section{Title: "Floors", Lead: doc.Say("What this machine could do between the blocks, without any transport.")}
	helped := map[string]bool{}
	for _, same := range metrics.GroupBy(r.Floors, func(f result.Floor) [2]string { return [2]string{f.Unit, strings.Repeat(f.Name, min(1, len(f.Model)))} }) {
		name := "time"
		if same[0].Unit == "B/s" {
			name = "bandwidth"
		}
		s.Tables = append(s.Tables, floorTable(same[0].Unit, same))
		t := doc.Table{Keys: 2, Columns: []doc.Column{{Name: "floor"}, {Name: "of"}, {Name: name, Unit: same[0].Unit}}}
		for _, f := range same {
			t.Add(doc.Words(f.Name), doc.Words(floorSubject(f)), doc.Estimate(stat.Of(f.Blocks)))
			if f.Help != "" && !helped[f.Name] {
				helped[f.Name] = true
				t.Notes = append(t.Notes, f.Name+": "+f.Help+".")
			}
		}
		s.Tables = append(s.Tables, t)
	}
	bound := field{doc.Column{Name: "floor"}, func(c *metrics.Cell) doc.Cell { name, _ := c.Bound(); return doc.Words(name) }}
	s.Tables = append(s.Tables, groupTables(r, "", bound, interval("floor_ratio", "× floor"))...)
	return s
}

// floorSubject says whose floor it is.
func floorSubject(f result.Floor) string {
	var parts []string
	if f.Variant != "" {
		parts = append(parts, f.Variant)
	}
	if f.Model != "" {
		parts = append(parts, result.Model{Name: f.Model, Up: f.Up}.Label())
	}
	parts = append(parts, f.Headings()...)
	if f.Host != "" {
		parts = append(parts, "to "+f.Host)
	}
	if len(parts) == 0 {
		parts = []string{"this machine"}
	}
	if f.Bytes > 0 {
		parts = append(parts, doc.Quantity("B", float64(f.Bytes)))
	}
	if f.Clients > 0 {
		parts = append(parts, doc.Plural(f.Clients, "client"))
	}
	if f.Gap > 0 {
		parts = append(parts, "after "+doc.Quantity("s", float64(f.Gap)/1e9)+" of work")
	}
	if f.Condition != "" {
		parts = append(parts, f.Condition)
	}
	return strings.Join(parts, ", ")
}

// callTable lists the requests of a round, of transports that make any, and what
// they cost a client that waits and the server.
func callTable(r *metrics.Result) doc.Section {
	queued := field{doc.Column{Name: "queued", Unit: "s", Help: "how long the requests of one client waited for a thread of the server, all of them together, where threads are bounded", Middle: true}, func(c *metrics.Cell) doc.Cell {
		return doc.Estimate(c.Of("phase." + phase.Queue.String()).Map(func(s float64) float64 { return s / float64(c.Clients) }))
	}}
	fields := []field{
		median("rpcs", "requests"), nonZero(median("connections", "")), nonZero(median("connecting", "")), nonZero(median("handshakes", "")), nonZero(median("handshaking", "")), nonZero(median("retries", "")),
		interval("down", ""), median("down_p99", "down, p99"), interval("in_service", "in service"), median("in_service_most", "in service, most"), interval("queued_share", "requests queued").in("%"), queued, median("cpu_server", "CPU of the server"), median("peak_rss_server", "memory of the server"),
		callsByKind,
	}
	calling := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return !c.Of("rpcs").Known() })
	return oneTable("Requests", calling, fields...)
}

// callsByKind are the requests of a round.
var callsByKind = field{doc.Column{Name: "requests by kind", Wrap: true}, func(c *metrics.Cell) doc.Cell {
	var all []string
	for _, call := range c.Calls() {
		all = append(all, strconv.FormatFloat(math.Round(100*call.PerRound)/100, 'f', -1, 64)+" "+call.Method+" ("+doc.Percent(call.Share)+")")
	}
	return words(all)
}}

// nonZero leaves out zeros, so that a column with nothing else vanishes.
func nonZero(f field) field {
	of := f.of
	f.of = func(c *metrics.Cell) doc.Cell {
		if cell := of(c); cell.Value != nil && cell.Value.Center != 0 {
			return cell
		}
		return doc.Cell{}
	}
	return f
}

// workers shows how the work scales, and what starting the workers costs.
func workers(r *metrics.Result) doc.Section {
	cold := interval("cold_round", "")
	cold.of = func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.ColdRound()) }
	started := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return c.IsControl() || !c.Of("spawn").Known() })
	s := oneTable("Workers", started,
		field{doc.Column{Name: "clients per second", Unit: "1"}, func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.ClientRate()) }},
		interval("spawn", "starting the workers"), interval("import", "of it importing"), cold,
		field{doc.Column{Name: "start ÷ cold round", Unit: "1", Help: "where all of the interval is above 1, a session that is started for every round spends most of its time on starting the workers"},
			func(c *metrics.Cell) doc.Cell { return doc.Estimate(c.StartRatio()) }},
		interval("restart", "starting and ending, of the round").in("%"))
	var fresh, most []string
	for _, c := range started {
		if !c.Respawn {
			continue
		}
		name := variant(c) + " (" + groupTitle(c.Group()) + ")"
		if fresh = append(fresh, name); c.StartDominates() {
			most = append(most, name)
		}
	}
	if fresh == nil {
		return s
	}
	say := "Where each round has fresh workers, the cold round is the round without starting them. "
	switch {
	case most == nil:
		say += "Starting and ending them is nowhere shown to take most of a round."
	case len(most) == len(fresh):
		say += "Starting and ending them takes most of every round."
	default:
		say += "Starting and ending them takes most of the rounds of " + strings.Join(most, "; ") + ". Elsewhere that is not shown."
	}
	s.Tail = doc.Say(say)
	return s
}

// oneTable is a section with a row for each cell, or an empty one if there is none.
func oneTable(title string, cells []*metrics.Cell, fields ...field) doc.Section {
	if len(cells) == 0 {
		return doc.Section{}
	}
	return doc.Section{Title: title, Tables: []doc.Table{cellTable(cellColumns(), cellKeys, cells, fields...)}}
}
