package metrics

import (
	"math"
	"strconv"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// Resources that a process used: in seconds, in bytes or as a number; NaN if unknown.
func cpu(p *result.Process) float64    { return p.Usage.CPU().Seconds() }
func user(p *result.Process) float64   { return p.Usage.User.Seconds() }
func system(p *result.Process) float64 { return p.Usage.System.Seconds() }
func faults(p *result.Process) float64 { return float64(p.Usage.MinorFaults) }
func waits(p *result.Process) float64  { return float64(p.Usage.VoluntarySwitches) }
func shmem(p *result.Process) float64  { return float64(p.Memory.Shmem) }
func peak(p *result.Process) float64   { return knownIf(!p.StalePeak, float64(p.Memory.Peak)) }
func pss(p *result.Process) float64 {
	return valueOf(p.Memory.PSS, func(n *int64) float64 { return float64(*n) })
}

// queued returns the time, in seconds, for which runnable threads had no processor.
func queued(p *result.Process) float64 {
	if p.Usage.Queue == nil {
		return math.NaN()
	}
	return p.Usage.Queue.Wait.Seconds()
}

// moved returns the bytes that went through read, write and similar calls.
func moved(p *result.Process) float64 {
	if p.Usage.IO == nil {
		return math.NaN()
	}
	return float64(p.Usage.IO.ReadBytes + p.Usage.IO.WrittenBytes)
}

// held says for how long a request for tensors is in service.
const held = "A request with hold=call is in service until gRPC has encoded the reply and handed it to its transport"

// costs returns the metrics of the resources that server and workers used in the timed rounds.
func costs() []Metric {
	return []Metric{
		{"cpu_per_gb", "s/GB", Lower, "CPU time per GB of delivered payload, server and workers together, training included", sum(cpu)},
		{"cpu_transport", "s/GB", Lower, "CPU time per GB of delivered payload, less that of " + Control + ", which trains and averages the " +
			"same; known if overhead is", beyond("cpu_per_gb")},
		{"cpu_user_per_gb", "s/GB", Lower, "the part of cpu_per_gb outside the kernel", sum(user)},
		{"cpu_system_per_gb", "s/GB", Lower, "the part of cpu_per_gb in the kernel", sum(system)},
		{"cpu_per_round", "s/round", Lower, "CPU time per round, server and workers together", sum(cpu)},
		{"cpu_server", "s/round", Lower, "CPU time per round in the server", server(cpu)},
		{"minor_faults", "1/GB", Lower, "page faults that needed no disk, per delivered GB", sum(faults)},
		{"voluntary_switches", "1/GB", Lower, "times that a thread had to wait, per delivered GB", sum(waits)},
		{"queue_wait", "s/round", Lower, "time per round in which threads could have run but had no processor, summed over threads",
			sum(queued)},
		{"rpcs", "1/round", Lower, "requests per round (gRPC, HTTP)", counters(phase.Calls, func(string) bool { return true })},
		{"rpcs_tensors", "1/round", Lower, "requests per round that bring tensors of the model to workers; the others are for jobs and results",
			counters(phase.Calls, phase.Fetches)},
		{"in_service", "1", "", "requests in service at the server when it starts one, including that one: the mean over all requests for " +
			"tensors and with results. Each message of a stream counts as a start, unless the stream holds a thread. " + held,
			number(func(_ *Cell, b *result.Block) float64 { n, sum, _ := inService(b); return sum / n })},
		{"in_service_most", "1", "", "the most requests in service at the server at the same time in a block",
			number(func(_ *Cell, b *result.Block) float64 { n, _, most := inService(b); return knownIf(n > 0, most) })},
		{"queued_share", "1", Lower, "share of the requests for tensors and with results that waited for a thread of the server, if " +
			"threads are bounded. A stream may wait with each of its messages, unless it holds a thread. " + held, number(queuedShare)},
		{"queued", "s", Lower, "time for which the requests of one client waited for a thread of the server, in total, if " +
			"threads are bounded", ratio(spent(phase.Queue), clientRounds)},
		{"connections", "1/round", Lower, "connections that workers opened per round; only transports that count them", counter(phase.Dialled)},
		{"connecting", "s/round", Lower, "time per round for which workers waited for connections of single calls, summed over workers",
			timer(phase.DialTime)},
		{"handshakes", "1/round", Lower, "TLS handshakes that workers made per round: none if connections stay open", counter(phase.Handshakes)},
		{"handshaking", "s/round", Lower, "time per round for which workers waited for TLS handshakes, summed over workers",
			timer(phase.HandshakeTime)},
		{"retries", "1/round", Lower, "calls that workers repeated per round; only transports that count them", counter(phase.Retries)},
		{"wire_bytes", "B/round", Lower, "bytes handed to sockets and files per round", counter(phase.WireSent)},
		{"wire_ratio", "1", Lower, "bytes handed to sockets and files ÷ payload", ratio(counter(phase.WireSent), payload)},
		{"copied_bytes", "B/round", Lower, "tensor bytes per round that ipcbench's own code declares to have copied in user space", counter(phase.Copied)},
		{"cache_growth", "B/round", Lower, "growth of the workers' caches per round, in bytes; only with cache=on",
			cached(phase.CacheBytes)},
		{"cache_hits", "1/round", Higher, "tensors that workers found in their caches per round; only with cache=on", cached(phase.CacheHits)},
		{"allocs", "1/round", Lower, "Go objects allocated per round, server and workers together",
			inGo(sum(func(p *result.Process) float64 { return float64(p.Usage.AllocObjects) }))},
		{"alloc_bytes", "B/round", Lower, "Go bytes allocated per round, server and workers together",
			inGo(sum(func(p *result.Process) float64 { return float64(p.Usage.AllocBytes) }))},
		{"gc_time", "s/round", Lower, "CPU time of garbage collection per round",
			inGo(sum(func(p *result.Process) float64 { return p.Usage.GCTime.Seconds() }))},
		{"peak_rss", "B", Lower, "peak resident memory, summed over processes: a page that several processes map counts in each of them",
			sum(peak)},
		{"peak_rss_server", "B", Lower, "peak resident memory of the server", server(peak)},
		{"peak_rss_workers", "B", Lower, "peak resident memory of the largest worker process", number(func(_ *Cell, b *result.Block) float64 {
			largest := most(processes(b)[1:], func(p *result.Process) float64 { return float64(p.Memory.Peak) })
			return knownIf(len(b.Processes) > 0, largest)
		})},
		{"pss", "B", Lower, "resident memory at the end of a block, summed over processes; shared pages count once", sum(pss)},
		{"shmem", "B", Lower, "shared memory resident at the end of a block, in the process that has most of it",
			number(func(_ *Cell, b *result.Block) float64 { return most(processes(b), shmem) })},
		{"huge_share", "1", "", "share of the tensors' memory, in whole ranges of 2 MiB, that is in huge pages", number(hugeShare)},
	}
}

// hugeShare is summed over processes, each of which counts the memory that it maps.
func hugeShare(_ *Cell, b *result.Block) float64 {
	whole, huge := int64(0), int64(0)
	for _, p := range processes(b) {
		whole, huge = whole+p.Memory.Whole, huge+p.Memory.Huge
	}
	return knownIf(whole > 0, float64(huge)/float64(whole))
}

// inService returns the number of requests that a server has started. At each start, a number
// of requests is in service; inService also returns the sum and the maximum of these numbers.
func inService(b *result.Block) (n, sum, most float64) {
	for name, times := range b.Server.Counts {
		if level, ok := strings.CutPrefix(name, phase.InService); ok && times > 0 {
			if k, err := strconv.ParseUint(level, 10, 16); err == nil && k > 0 {
				n, sum, most = n+float64(times), sum+float64(k)*float64(times), max(most, float64(k))
			}
		}
	}
	return n, sum, most
}

// queuedShare returns the share of requests that waited for a thread. It is NaN if the server
// does not bound its threads.
func queuedShare(c *Cell, b *result.Block) float64 {
	n, _, _ := inService(b)
	bound := c.Settings["threads"]
	return knownIf(n > 0 && bound != "" && bound != "0", float64(b.Server.Counts[phase.Queued])/n)
}

// cached is a counter of caches, NaN without cache=on. A block without the counter counts as 0,
// because blocks omit counters that have not changed.
func cached(name string) number {
	return func(c *Cell, b *result.Block) float64 {
		return knownIf(c.Settings["cache"] == "on", float64(c.counts(b)[name]))
	}
}

// facts returns the metrics of a cell that belong to no other list.
func facts() []Metric {
	return []Metric{
		{"copies", "1", Lower, "copies of each payload byte that ipcbench's own code declares, in user space; copies inside libraries are not included",
			ratio(func(c *Cell, b *result.Block) float64 { return float64(c.counts(b)[phase.Copied]) }, payload)},
		{"kernel_copies", "1", Lower, "bytes through read, write and similar calls ÷ payload bytes: writing a byte and reading it again are two copies",
			ratio(inGo(sum(moved)), payload)},
		{"attested", "1", Higher, "share of tensors that were transferred in the way that the transport is named for", number(attested)},
		{"proved", "1", Higher, "1 if the updates and models of every block were checked, else 0", derived(func(c *Cell) stat.Interval {
			return Exactly(map[bool]float64{true: 1}[c.Proved()], len(c.Blocks), len(c.Blocks))
		})},
		{"cold_round", "s", Lower, "the first round of a block, with the TLS handshakes before it; it is not counted in round. What a transport " +
			"makes and touches before it, such as shared memory, is in spawn", number(coldRound)},
		{"cold_work", "s", Lower, "cold_round; with --respawn, where every round is cold, a round without the start of its workers", number(coldWork)},
		{"handshake", "s", Lower, "time of the TLS handshakes before the cold round, in the worker process that needed most",
			number(func(_ *Cell, b *result.Block) float64 {
				return valueOf(b.TLS, func(t *result.TLS) float64 { return knownIf(t.Time > 0, float64(t.Time)/1e9) })
			})},
		{"cold_faults", "1", Lower, "page faults in the cold round, server and workers together", number(func(_ *Cell, b *result.Block) float64 {
			n := b.Cold.Server.MinorFaults + b.Cold.Server.MajorFaults
			for _, w := range b.Cold.Processes {
				n += w.MinorFaults + w.MajorFaults
			}
			return knownIf(b.Cold.Round > 0, float64(n))
		})},
		{"spawn", "s", Lower, "time from the start of the workers until all of them are connected", number(spawn)},
		{"start_ratio", "1", Lower, "spawn ÷ cold_work", derived(func(c *Cell) stat.Interval {
			return stat.Ratio(c.Medians("cold_work"), c.Medians("spawn"))
		})},
		{"restart", "1", Lower, "share of a round that is spent starting and ending its workers; only with --respawn", number(restart)},
		{"import", "s", Lower, "time for importing the modules of a worker in Python, in the process that needed most: a part of spawn",
			number(func(_ *Cell, b *result.Block) float64 {
				longest := most(processes(b)[1:], func(p *result.Process) float64 { return p.Import.Seconds() })
				return knownIf(longest > 0, longest)
			})},
		{"recorder_share", "1", Lower, "share of the rounds that is spent recording spans: number of spans × cost of one",
			number(func(_ *Cell, b *result.Block) float64 {
				return knownIf(b.SpanCost > 0, float64(b.Spans)*float64(b.SpanCost)/float64(b.RoundTime()))
			})},
		{"machine_busy", "1", "", "share of the machine's CPU time that any process used while a block ran",
			number(func(_ *Cell, b *result.Block) float64 {
				if b.System == nil {
					return math.NaN()
				}
				busy := float64(b.System.Busy + b.System.Steal)
				return busy / (busy + float64(b.System.Idle)) // NaN if there is neither
			})},
		{"stolen", "1", Lower, "share of the processors' time that other virtual machines on the same hardware took while a block ran; absent if " +
			"the block was too short for the kernel to count it", number(stolen)},
	}
}

// quietTime is the least processor time, in seconds, that the kernel's ticks of 10 ms can measure.
const quietTime = 0.5

// stolen returns the share of the processors' time that other virtual machines took.
func stolen(_ *Cell, b *result.Block) float64 {
	if b.System == nil {
		return math.NaN()
	}
	all := (b.System.Busy + b.System.Idle + b.System.Steal).Seconds()
	return knownIf(all >= quietTime, b.System.Steal.Seconds()/all)
}

// coldRound returns the duration of a block's first round, in seconds, with the TLS handshakes
// before it.
func coldRound(c *Cell, b *result.Block) float64 {
	ns := b.Cold.Round
	if b.TLS != nil && !c.Respawn { // with --respawn, a round includes them
		ns += b.TLS.Time
	}
	return knownIf(b.Cold.Round > 0, float64(ns)/1e9)
}

// coldWork returns the duration of a cold round without the start of its workers. With
// --respawn, every round is cold.
func coldWork(c *Cell, b *result.Block) float64 {
	if !c.Respawn {
		return coldRound(c, b)
	}
	return stat.Median(durations(roundTimes)(c, b)) - spawn(c, b)
}

// spawn returns the time, in seconds, in which the workers start.
func spawn(_ *Cell, b *result.Block) float64 { return knownIf(b.Spawn > 0, b.Spawn.Seconds()) }

// restart returns the share of a block's rounds that is spent starting and ending workers.
func restart(c *Cell, b *result.Block) float64 {
	start, started := b.Phases[phase.Spawn.String()]
	stop, ended := b.Phases[phase.Stop.String()]
	return knownIf(c.Respawn && started && ended, float64(start+stop)/float64(b.RoundTime()))
}

// attested returns the share of tensors that were transferred in the way that the transport is
// named for. The others are tensors that it counts as fallbacks and, if it hands over any
// tensor, tensors whose bytes it moved, unless a setting says that updates are serialized.
func attested(c *Cell, b *result.Block) float64 {
	counts, others := c.counts(b), int64(0)
	for name, n := range counts {
		if strings.HasPrefix(name, phase.Fallback) {
			others += n
		}
	}
	handles, bodies := counts[phase.HandleTensors], counts[phase.BodyTensors]
	if handles > 0 && c.Settings["pass"] != "pickle" {
		others = max(others, bodies)
	}
	total := float64(handles + bodies)
	return knownIf(total > 0, max(0, 1-float64(others)/total))
}
