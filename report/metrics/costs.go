package metrics

import (
	"math"
	"strconv"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// What a process spent.
func cpu(p *result.Process) float64    { return p.Usage.CPU().Seconds() }
func user(p *result.Process) float64   { return p.Usage.User.Seconds() }
func system(p *result.Process) float64 { return p.Usage.System.Seconds() }
func faults(p *result.Process) float64 { return float64(p.Usage.MinorFaults) }
func waits(p *result.Process) float64  { return float64(p.Usage.VoluntarySwitches) }
func shmem(p *result.Process) float64  { return float64(p.Memory.Shmem) }
func peak(p *result.Process) float64   { return given(!p.StalePeak, float64(p.Memory.Peak)) }
func pss(p *result.Process) float64 {
	return from(p.Memory.PSS, func(n *int64) float64 { return float64(*n) })
}

// queued is how long threads waited for a processor.
func queued(p *result.Process) float64 {
	if p.Usage.Queue == nil {
		return math.NaN()
	}
	return p.Usage.Queue.Wait.Seconds()
}

// moved is what went through read, write and the like.
func moved(p *result.Process) float64 {
	if p.Usage.IO == nil {
		return math.NaN()
	}
	return float64(p.Usage.IO.ReadBytes + p.Usage.IO.WrittenBytes)
}

// costs are what server and workers spent in the timed rounds.
func costs() []Metric {
	return []Metric{
		{"cpu_per_gb", "s/GB", Lower, "CPU time per GB of delivered payload, server and workers together", sum(cpu)},
		{"cpu_user_per_gb", "s/GB", Lower, "the part of cpu_per_gb outside the kernel", sum(user)},
		{"cpu_system_per_gb", "s/GB", Lower, "the part of cpu_per_gb in the kernel", sum(system)},
		{"cpu_per_round", "s/round", Lower, "CPU time of a round, server and workers together", sum(cpu)},
		{"cpu_server", "s/round", Lower, "CPU time of a round in the server", server(cpu)},
		{"minor_faults", "1/GB", Lower, "page faults that needed no disk, per delivered GB", sum(faults)},
		{"voluntary_switches", "1/GB", Lower, "how often a thread had to wait, per delivered GB", sum(waits)},
		{"queue_wait", "s/round", Lower, "time of a round in which threads could have run but had no processor, added up over threads",
			sum(queued)},
		{"rpcs", "1/round", Lower, "requests a round (gRPC, HTTP)", counters(phase.Calls, func(string) bool { return true })},
		{"rpcs_tensors", "1/round", Lower, "requests a round that bring tensors of the model to workers; the others are for jobs and results",
			counters(phase.Calls, phase.Fetches)},
		{"in_service", "1", "", "requests that the server worked on when it began to work on one, that one included: the mean over all " +
			"requests for tensors and with results. A stream begins anew with each of its messages, unless it holds a thread. Sending the answer " +
			"to a unary request is not in it", number(func(_ *Cell, b *result.Block) float64 { n, sum, _ := inService(b); return sum / n })},
		{"in_service_most", "1", "", "the most requests that the server worked on at once in a block",
			number(func(_ *Cell, b *result.Block) float64 { n, _, most := inService(b); return given(n > 0, most) })},
		{"queued_share", "1", Lower, "share of the requests for tensors and with results that waited for a thread of the server, where " +
			"threads are bounded; a stream may wait with each of its messages, unless it holds a thread. A thread is free again before the " +
			"answer to a unary request is sent, which is not in it", number(queuedShare)},
		{"queued", "s", Lower, "how long the requests of one client waited for a thread of the server, all of them together, where " +
			"threads are bounded", ratio(spent(phase.Queue), clientRounds)},
		{"connections", "1/round", Lower, "connections that workers opened a round; only transports that count them", counter(phase.Dialled)},
		{"connecting", "s/round", Lower, "time of a round that workers waited for connections of single calls, added up over workers",
			timer(phase.DialTime)},
		{"handshakes", "1/round", Lower, "TLS handshakes that workers made a round: none where connections stay", counter(phase.Handshakes)},
		{"handshaking", "s/round", Lower, "time of a round that workers waited for TLS handshakes, added up over workers",
			timer(phase.HandshakeTime)},
		{"retries", "1/round", Lower, "calls that workers made again, a round; only transports that count them", counter(phase.Retries)},
		{"wire_bytes", "B/round", Lower, "bytes handed to sockets and files, a round", counter(phase.WireSent)},
		{"wire_ratio", "1", Lower, "bytes handed to sockets and files ÷ payload", ratio(counter(phase.WireSent), payload)},
		{"copied_bytes", "B/round", Lower, "tensor bytes that our own code copied in user space, a round", counter(phase.Copied)},
		{"cache_growth", "B/round", Lower, "bytes that the caches of workers grew by, a round; only of workers that keep what they fetched",
			cached(phase.CacheBytes)},
		{"cache_hits", "1/round", Higher, "tensors that workers found in their caches, a round; likewise", cached(phase.CacheHits)},
		{"allocs", "1/round", Lower, "Go objects allocated a round, server and workers together",
			inGo(sum(func(p *result.Process) float64 { return float64(p.Usage.AllocObjects) }))},
		{"alloc_bytes", "B/round", Lower, "Go bytes allocated a round, server and workers together",
			inGo(sum(func(p *result.Process) float64 { return float64(p.Usage.AllocBytes) }))},
		{"gc_time", "s/round", Lower, "CPU time of garbage collection, a round",
			inGo(sum(func(p *result.Process) float64 { return p.Usage.GCTime.Seconds() }))},
		{"peak_rss", "B", Lower, "peak resident memory, added up over processes: a page that several processes map counts in each of them",
			sum(peak)},
		{"peak_rss_server", "B", Lower, "peak resident memory of the server", server(peak)},
		{"peak_rss_workers", "B", Lower, "peak resident memory of the largest worker process", number(func(_ *Cell, b *result.Block) float64 {
			largest := most(processes(b)[1:], func(p *result.Process) float64 { return float64(p.Memory.Peak) })
			return given(len(b.Processes) > 0, largest)
		})},
		{"pss", "B", Lower, "resident memory at the end of a block, added up over processes; shared pages count once", sum(pss)},
		{"shmem", "B", Lower, "shared memory resident at the end of a block, in the process that has most of it",
			number(func(_ *Cell, b *result.Block) float64 { return most(processes(b), shmem) })},
	}
}

// inService returns how many requests a server began to work on, the sum of how many it
// worked on each time, and the most.
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

// queuedShare is known of servers that work on so many requests at once at most.
func queuedShare(c *Cell, b *result.Block) float64 {
	n, _, _ := inService(b)
	bound := c.Settings["threads"]
	return given(n > 0 && bound != "" && bound != "0", float64(b.Server.Counts[phase.Queued])/n)
}

// cached is a counter of caches. A block in which it stayed what it was does not hold it.
func cached(name string) number {
	return func(c *Cell, b *result.Block) float64 {
		return given(c.Settings["cache"] == "on", float64(c.counts(b)[name]))
	}
}

// facts are what else is known of a cell.
func facts() []Metric {
	return []Metric{
		{"copies", "1", Lower, "copies of a payload byte by our own code in user space; what libraries copy is not in it",
			ratio(func(c *Cell, b *result.Block) float64 { return float64(c.counts(b)[phase.Copied]) }, payload)},
		{"kernel_copies", "1", Lower, "bytes through read, write and the like ÷ payload bytes: in and out again are two copies",
			ratio(inGo(sum(moved)), payload)},
		{"attested", "1", Higher, "share of tensors that went the way the transport is named for", number(attested)},
		{"proved", "1", Higher, "1 if the updates and models of every block were checked, 0 if not", derived(func(c *Cell) stat.Interval {
			return Exactly(map[bool]float64{true: 1}[c.Proved()], len(c.Blocks), len(c.Blocks))
		})},
		{"cold_round", "s", Lower, "the first round of a block, in which memory is touched for the first time, with the TLS handshakes " +
			"before it; it counts nowhere else", number(coldRound)},
		{"cold_work", "s", Lower, "cold_round; with --respawn a round, which is cold, without starting its workers", number(coldWork)},
		{"handshake", "s", Lower, "TLS handshakes before the cold round, of the worker process whose own took longest",
			number(func(_ *Cell, b *result.Block) float64 {
				return from(b.TLS, func(t *result.TLS) float64 { return given(t.Time > 0, float64(t.Time)/float64(time.Second)) })
			})},
		{"cold_faults", "1", Lower, "page faults of the cold round, server and workers together", number(func(_ *Cell, b *result.Block) float64 {
			n := b.Cold.Server.MinorFaults + b.Cold.Server.MajorFaults
			for _, w := range b.Cold.Processes {
				n += w.MinorFaults + w.MajorFaults
			}
			return given(b.Cold.Round > 0, float64(n))
		})},
		{"spawn", "s", Lower, "starting the workers, until all of them are connected", number(spawn)},
		{"start_ratio", "1", Lower, "spawn ÷ cold_work", derived(func(c *Cell) stat.Interval {
			return stat.Ratio(c.Medians("cold_work"), c.Medians("spawn"))
		})},
		{"restart", "1", Lower, "share of a round in which its workers start and end; only with --respawn", number(restart)},
		{"import", "s", Lower, "importing the modules of a worker in Python, of the process that took longest: a part of spawn",
			number(func(_ *Cell, b *result.Block) float64 {
				longest := most(processes(b)[1:], func(p *result.Process) float64 { return p.Import.Seconds() })
				return given(longest > 0, longest)
			})},
		{"recorder_share", "1", Lower, "share of the rounds that recording spans took: number of spans × cost of one",
			number(func(_ *Cell, b *result.Block) float64 {
				return given(b.SpanCost > 0, float64(b.Spans)*float64(b.SpanCost)/float64(b.RoundTime()))
			})},
		{"machine_busy", "1", "", "share of the machine's CPU time that anybody used while a block ran",
			number(func(_ *Cell, b *result.Block) float64 {
				if b.System == nil {
					return math.NaN()
				}
				busy := float64(b.System.Busy + b.System.Steal)
				return busy / (busy + float64(b.System.Idle)) // NaN if there is neither
			})},
	}
}

// coldRound is the first round of a block.
func coldRound(c *Cell, b *result.Block) float64 {
	ns := b.Cold.Round
	if b.TLS != nil && !c.Respawn { // whose rounds begin before them
		ns += b.TLS.Time
	}
	return given(b.Cold.Round > 0, float64(ns)/float64(time.Second))
}

// coldWork is a cold round without starting the workers.
func coldWork(c *Cell, b *result.Block) float64 {
	if !c.Respawn {
		return coldRound(c, b)
	}
	return stat.Median(durations(roundTimes)(c, b)) - spawn(c, b)
}

// spawn is the time in which the workers start.
func spawn(_ *Cell, b *result.Block) float64 { return given(b.Spawn > 0, b.Spawn.Seconds()) }

// restart is the share of the rounds of a block in which their workers start and end.
func restart(c *Cell, b *result.Block) float64 {
	start, started := b.Phases[phase.Spawn.String()]
	stop, ended := b.Phases[phase.Stop.String()]
	return given(c.Respawn && started && ended, float64(start+stop)/float64(b.RoundTime()))
}

// attested is the share of tensors that went the way the transport is named for. One that
// hands over handles is named for them; tensors whose bytes were moved instead, or that it
// counts as fallbacks, did not go that way.
func attested(c *Cell, b *result.Block) float64 {
	counts, astray := c.counts(b), int64(0)
	for name, n := range counts {
		if strings.HasPrefix(name, phase.Fallback) {
			astray += n
		}
	}
	handles, bodies := counts[phase.HandleTensors], counts[phase.BodyTensors]
	if handles > 0 {
		astray = max(astray, bodies)
	}
	total := float64(handles + bodies)
	return given(total > 0, max(0, 1-float64(astray)/total))
}
