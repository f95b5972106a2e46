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

// costs are what server and workers spent in the timed rounds.
func costs() []Metric {
	cpu := func(p *result.Process) (float64, bool) { return ns(p.Usage.CPU()) }
	return []Metric{
		{Name: "cpu_per_gb", Unit: "s/GB", Better: Lower, Help: "CPU time per GB of delivered payload, server and workers together", samples: sum(cpu, perGB)},
		{Name: "cpu_user_per_gb", Unit: "s/GB", Better: Lower, Help: "the part of cpu_per_gb outside the kernel",
			samples: sum(func(p *result.Process) (float64, bool) { return ns(p.Usage.User) }, perGB)},
		{Name: "cpu_system_per_gb", Unit: "s/GB", Better: Lower, Help: "the part of cpu_per_gb in the kernel",
			samples: sum(func(p *result.Process) (float64, bool) { return ns(p.Usage.System) }, perGB)},
		{Name: "cpu_per_round", Unit: "s/round", Better: Lower, Help: "CPU time of a round, server and workers together", samples: sum(cpu, perRound)},
		{Name: "cpu_server", Unit: "s/round", Better: Lower, Help: "CPU time of a round in the server",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				return b.Server.Usage.CPU().Seconds() / float64(len(b.Round)), true
			})},
		{Name: "minor_faults", Unit: "1/GB", Better: Lower, Help: "page faults that needed no disk, per delivered GB",
			samples: sum(func(p *result.Process) (float64, bool) { return number(p.Usage.MinorFaults) }, perGB)},
		{Name: "voluntary_switches", Unit: "1/GB", Better: Lower, Help: "how often a thread had to wait, per delivered GB",
			samples: sum(func(p *result.Process) (float64, bool) { return number(p.Usage.VoluntarySwitches) }, perGB)},
		{Name: "queue_wait", Unit: "s/round", Better: Lower, Help: "time of a round in which threads could have run but had no processor, added up over threads",
			samples: sum(func(p *result.Process) (float64, bool) {
				if p.Usage.Queue == nil {
					return 0, false
				}
				return ns(p.Usage.Queue.Wait)
			}, perRound)},
		{Name: "rpcs", Unit: "1/round", Better: Lower, Help: "requests a round (gRPC, HTTP)",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				n, ok := prefixed(b.Counts(), phase.Calls)
				return float64(n) / float64(len(b.Round)), ok
			})},
		{Name: "rpcs_tensors", Unit: "1/round", Better: Lower, Help: "requests a round that bring tensors of the model to workers; the others are for jobs and results",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				counts := b.Counts()
				sum := fetches(counts)
				_, ok := prefixed(counts, phase.Calls)
				return float64(sum) / float64(len(b.Round)), ok
			})},
		{Name: "in_service", Unit: "1", Help: "requests that the server worked on when it began to work on one, that one included: the mean over all requests for tensors and with results. A stream begins anew with each of its messages, unless it holds a thread. Sending the answer to a unary request is not in it",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				n, sum, _ := inService(b)
				return sum / n, n > 0
			})},
		{Name: "in_service_most", Unit: "1", Help: "the most requests that the server worked on at once in a block",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				n, _, most := inService(b)
				return most, n > 0
			})},
		{Name: "queued_share", Unit: "1", Better: Lower, Help: "share of the requests for tensors and with results that waited for a thread of the server, where threads are bounded; a stream may wait with each of its messages, unless it holds a thread. A thread is free again before the answer to a unary request is sent, which is not in it",
			samples: each(func(c *Cell, b *result.Block) (float64, bool) {
				n, _, _ := inService(b)
				return float64(b.Server.Counts[phase.Queued]) / n, n > 0 && c.boundsThreads()
			})},
		{Name: "connections", Unit: "1/round", Better: Lower, Help: "connections that workers opened a round; only transports that count them", samples: counted(phase.Dialled, 1)},
		{Name: "connecting", Unit: "s/round", Better: Lower, Help: "time of a round that workers waited for connections of single calls, added up over workers",
			samples: counted(phase.DialTime, 1/float64(time.Second))},
		{Name: "handshakes", Unit: "1/round", Better: Lower, Help: "TLS handshakes that workers made a round: none where connections stay", samples: counted(phase.Handshakes, 1)},
		{Name: "handshaking", Unit: "s/round", Better: Lower, Help: "time of a round that workers waited for TLS handshakes, added up over workers",
			samples: counted(phase.HandshakeTime, 1/float64(time.Second))},
		{Name: "retries", Unit: "1/round", Better: Lower, Help: "calls that workers made again, a round; only transports that count them", samples: counted(phase.Retries, 1)},
		{Name: "wire_bytes", Unit: "B/round", Better: Lower, Help: "bytes handed to sockets and files, a round", samples: counted(phase.WireSent, 1)},
		{Name: "copied_bytes", Unit: "B/round", Better: Lower, Help: "tensor bytes that our own code copied in user space, a round", samples: counted(phase.Copied, 1)},
		{Name: "cache_growth", Unit: "B/round", Better: Lower, Help: "bytes that the caches of workers grew by, a round; only of workers that keep what they fetched",
			samples: cached(phase.CacheBytes)},
		{Name: "cache_hits", Unit: "1/round", Better: Higher, Help: "tensors that workers found in their caches, a round; likewise",
			samples: cached(phase.CacheHits)},
		{Name: "allocs", Unit: "1/round", Better: Lower, Help: "Go objects allocated a round, server and workers together",
			samples: inGo(sum(func(p *result.Process) (float64, bool) { return number(p.Usage.AllocObjects) }, perRound))},
		{Name: "alloc_bytes", Unit: "B/round", Better: Lower, Help: "Go bytes allocated a round, server and workers together",
			samples: inGo(sum(func(p *result.Process) (float64, bool) { return number(p.Usage.AllocBytes) }, perRound))},
		{Name: "gc_time", Unit: "s/round", Better: Lower, Help: "CPU time of garbage collection, a round",
			samples: inGo(sum(func(p *result.Process) (float64, bool) { return ns(p.Usage.GCTime) }, perRound))},
		{Name: "peak_rss", Unit: "B", Better: Lower, Help: "peak resident memory, added up over processes: a page that several processes map counts in each of them",
			samples: sum(func(p *result.Process) (float64, bool) {
				peak, ok := number(p.Memory.Peak)
				return peak, ok && !p.StalePeak
			}, whole)},
		{Name: "peak_rss_server", Unit: "B", Better: Lower, Help: "peak resident memory of the server",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				peak, ok := number(b.Server.Memory.Peak)
				return peak, ok && !b.Server.StalePeak
			})},
		{Name: "peak_rss_workers", Unit: "B", Better: Lower, Help: "peak resident memory of the largest worker process",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				peak := int64(0)
				for _, w := range b.Processes {
					peak = max(peak, w.Memory.Peak)
				}
				return float64(peak), len(b.Processes) > 0
			})},
		{Name: "pss", Unit: "B", Better: Lower, Help: "resident memory at the end of a block, added up over processes; shared pages count once",
			samples: sum(func(p *result.Process) (float64, bool) {
				if p.Memory.PSS == nil {
					return 0, false
				}
				return number(*p.Memory.PSS)
			}, whole)},
		{Name: "shmem", Unit: "B", Better: Lower, Help: "shared memory resident at the end of a block, in the process that has most of it",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				most := int64(0)
				for _, p := range processes(b) {
					most = max(most, p.Memory.Shmem)
				}
				return float64(most), true
			})},
	}
}

// fetches returns the calls that brought tensors to workers.
func fetches(counts map[string]int64) (sum int64) {
	for name, n := range counts {
		if method, ok := strings.CutPrefix(name, phase.Calls); ok && phase.Fetches(method) {
			sum += n
		}
	}
	return sum
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

// boundsThreads reports whether the cell's server works on so many requests at once
// at most.
func (c *Cell) boundsThreads() bool {
	bound := c.Settings["threads"]
	return bound != "" && bound != "0"
}

// facts are what else is known of a cell.
func facts() []Metric {
	return []Metric{
		{Name: "attested", Unit: "1", Better: Higher, Help: "share of tensors that went the way the transport is named for", samples: attestedTensors},
		{Name: "proved", Unit: "1", Better: Higher, Help: "1 if the updates and models of every block were checked, 0 if not",
			derived: func(c *Cell) stat.Interval {
				x := 0.0
				if c.Proved() {
					x = 1
				}
				return Exactly(x, len(c.Blocks), len(c.Blocks))
			}},
		{Name: "cold_round", Unit: "s", Better: Lower, Help: "the first round of a block, in which memory is touched for the first time, with the TLS handshakes before it; it counts nowhere else",
			samples: each(func(c *Cell, b *result.Block) (float64, bool) {
				ns := b.Cold.Round
				if b.TLS != nil && !c.Respawn { // whose rounds begin before them
					ns += b.TLS.Time
				}
				return float64(ns) / float64(time.Second), b.Cold.Round > 0
			})},
		{Name: "handshake", Unit: "s", Better: Lower, Help: "TLS handshakes before the cold round, of the worker process whose own took longest",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				if b.TLS == nil {
					return 0, false
				}
				return float64(b.TLS.Time) / float64(time.Second), b.TLS.Time > 0
			})},
		{Name: "cold_faults", Unit: "1", Better: Lower, Help: "page faults of the cold round, server and workers together",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				n := b.Cold.Server.MinorFaults + b.Cold.Server.MajorFaults
				for _, w := range b.Cold.Processes {
					n += w.MinorFaults + w.MajorFaults
				}
				return float64(n), b.Cold.Round > 0
			})},
		{Name: "spawn", Unit: "s", Better: Lower, Help: "starting the workers, until all of them are connected",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) { return b.Spawn.Seconds(), b.Spawn > 0 })},
		{Name: "restart", Unit: "1", Better: Lower, Help: "share of a round in which its workers start and end; only with --respawn",
			samples: each(restart)},
		{Name: "import", Unit: "s", Better: Lower, Help: "importing the modules of a worker in Python, of the process that took longest: a part of spawn",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				longest := time.Duration(0)
				for _, p := range b.Processes {
					longest = max(longest, p.Import)
				}
				return longest.Seconds(), longest > 0
			})},
		{Name: "recorder_share", Unit: "1", Better: Lower, Help: "share of the rounds that recording spans took: number of spans × cost of one",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				return float64(b.Spans) * float64(b.SpanCost) / float64(b.RoundTime()), b.SpanCost > 0
			})},
		{Name: "machine_busy", Unit: "1", Help: "share of the machine's CPU time that anybody used while a block ran",
			samples: each(func(_ *Cell, b *result.Block) (float64, bool) {
				if b.System == nil {
					return 0, false
				}
				all := b.System.Busy + b.System.Idle + b.System.Steal
				return float64(b.System.Busy+b.System.Steal) / float64(all), all > 0
			})},
	}
}

// cached returns a series of a counter of caches per round. A block in which it stayed what
// it was does not hold it.
func cached(name string) series {
	return each(func(c *Cell, b *result.Block) (float64, bool) {
		return float64(b.Counts()[name]) / float64(len(b.Round)), c.Settings["cache"] == "on"
	})
}

// attestedTensors returns the share of tensors that went the way the transport
// is named for. One that hands over handles is named for them; tensors whose
// bytes were moved instead, or that it counts as fallbacks, did not go that way.
func attestedTensors(_ *Cell, b *result.Block) []float64 {
	counts := b.Counts()
	handles, bodies := counts[phase.HandleTensors], counts[phase.BodyTensors]
	fallbacks, _ := prefixed(counts, phase.Fallback)
	total := handles + bodies
	if total == 0 {
		return nil
	}
	astray := fallbacks
	if handles > 0 {
		astray = max(astray, bodies)
	}
	return []float64{math.Max(0, 1-float64(astray)/float64(total))}
}

// fallbacks counts why tensors did not go the way the transport is named for.
func (c *Cell) fallbacks() map[string]int64 {
	reasons := map[string]int64{}
	for _, b := range c.timed {
		for name, n := range b.Counts() {
			if reason, ok := strings.CutPrefix(name, phase.Fallback); ok && n > 0 {
				reasons[reason] += n
			}
		}
	}
	return reasons
}

// copyCounts are the copies per payload byte that were counted.
func copyCounts() []Metric {
	payload := func(c *Cell, b *result.Block) float64 { return float64(c.Payload()) * float64(len(b.Round)) }
	return []Metric{
		{Name: "copies", Unit: "1", Better: Lower, Help: "copies of a payload byte by our own code in user space; what libraries copy is not in it",
			samples: each(func(c *Cell, b *result.Block) (float64, bool) {
				d := payload(c, b)
				return float64(b.Counts()[phase.Copied]) / d, d > 0
			})},
		{Name: "kernel_copies", Unit: "1", Better: Lower, Help: "bytes through read, write and the like ÷ payload bytes: in and out again are two copies",
			samples: inGo(sum(func(p *result.Process) (float64, bool) {
				if p.Usage.IO == nil {
					return 0, false
				}
				return number(p.Usage.IO.ReadBytes + p.Usage.IO.WrittenBytes)
			}, payload))},
	}
}
