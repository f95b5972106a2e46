package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// A Metric is something that is known of a cell.
type Metric struct {
	Name   string
	Unit   string // s, B, B/s, 1 (a number or a share), or one of them per GB or round
	Better string // lower, higher, or empty where neither is
	Help   string

	samples series                      // by block; nil of a metric that is derived from others
	derived func(c *cell) stat.Interval // of such a metric
}

// of returns the metric of c. It is not Known where c has none.
func (m Metric) of(c *cell) stat.Interval {
	if m.derived != nil {
		return m.derived(c)
	}
	return stat.Of(c.blocks(m.samples))
}

const (
	lower  = "lower"
	higher = "higher"
)

func ns(d time.Duration) (float64, bool) { return d.Seconds(), true }
func number(n int64) (float64, bool)     { return float64(n), true }

// Metrics returns all metrics.
func Metrics() []Metric {
	all := []Metric{
		{Name: "round", Unit: "s", Better: lower, Help: "a round: publishing the model to the new one, the average of all updates",
			samples: seconds(func(b *bench.Block) []int64 { return b.Round })},
		{Name: "overhead", Unit: "s", Better: lower, Help: "round less that of " + control + ": the same work without leaving the process; this ranks transports",
			derived: overhead},
		{Name: "transfer", Unit: "s", Better: lower, Help: "a client's round trip without the worker function",
			samples: untrained(func(b *bench.Block) []int64 { return b.RTT })},
		{Name: "rtt", Unit: "s", Better: lower, Help: "a client's round trip: start of Dispatch to end of Collect",
			samples: seconds(func(b *bench.Block) []int64 { return b.RTT })},
		{Name: "down", Unit: "s", Better: lower, Help: "start of Dispatch to end of Receive, a client",
			samples: seconds(func(b *bench.Block) []int64 { return b.Down })},
		{Name: "up", Unit: "s", Better: lower, Help: "start of the worker's Reserve to end of Collect, a client; the worker function lies in between",
			samples: seconds(func(b *bench.Block) []int64 { return b.Up })},
		{Name: "uplink", Unit: "s", Better: lower, Help: "up without the worker function, a client",
			samples: untrained(func(b *bench.Block) []int64 { return b.Up })},
		{Name: "train", Unit: "s", Help: "the worker function, a client",
			samples: seconds(func(b *bench.Block) []int64 { return b.Train })},
		{Name: "copy_decode", Unit: "s", Better: lower, Help: "copying and decoding tensors (phases copy and decode), those that go out too, in all processes, over the clients",
			samples: copyDecode},
		{Name: "bandwidth", Unit: "B/s", Better: higher, Help: "payload, down and up, over overhead; of 1 client on 1 worker that stays, whose overhead is told from zero, and of what moves bytes: a hand-off is a latency",
			derived: bandwidth},
		{Name: "goodput", Unit: "B/s", Better: higher, Help: "payload over round, the worker function included",
			derived: func(c *cell) stat.Interval {
				return c.of("round").Map(func(s float64) float64 { return float64(c.Payload()) / s })
			}},
		{Name: "unattributed", Unit: "s", Better: lower, Help: "what no span of a round covers",
			samples: meanRound(func(b *bench.Block) (int64, bool) { return b.Unattributed, true })},
		{Name: "floor_ratio", Unit: "1", Help: "of what moves bytes, its bandwidth over a socket's: that of overhead with 1 client on 1 worker, of one client's transfer otherwise; " +
			"of what hands over, one client's transfer, which lacks page faults and cold caches inside training, over two wake-ups or two empty calls; of " + control + ", its round over the same work called directly",
			derived: floorRatio},
	}
	all = append(all, tails()...)
	all = append(all, costs()...)
	all = append(all, copyMetrics()...)
	all = append(all, facts()...)
	for _, p := range phase.Phases() {
		all = append(all, Metric{Name: "phase." + p.String(), Unit: "s/round", Better: lower,
			Help:    "all spans of phase " + p.String() + " of a round, summed over processes",
			samples: meanRound(func(b *bench.Block) (int64, bool) { sum, ok := b.Phases[p.String()]; return sum, ok })})
	}
	return all
}

// overhead is the difference of two medians with its interval.
func overhead(c *cell) stat.Interval {
	if c.control == nil || c.control == c {
		return stat.None()
	}
	i := stat.Shift(c.control.medianOf("round"), c.medianOf("round"))
	i.N = c.rounds()
	return i
}

// untrained returns a series of durations that enclose the worker function,
// without it.
func untrained(of func(b *bench.Block) []int64) series {
	return func(_ *cell, b *bench.Block) []float64 {
		ns := of(b)
		s := make([]float64, len(ns))
		for i, n := range ns {
			s[i] = float64(n-b.Train[i]) / float64(time.Second)
		}
		return s
	}
}

// meanRound returns a series of one sample a block: the mean of its rounds, of which
// the block holds the sum.
func meanRound(sum func(b *bench.Block) (ns int64, ok bool)) series {
	return each(func(_ *cell, b *bench.Block) (float64, bool) {
		ns, ok := sum(b)
		return float64(ns) / float64(time.Second) / float64(len(b.Round)), ok
	})
}

// copyDecode holds the outgoing copies too: their spans do not say which way
// they went.
func copyDecode(c *cell, b *bench.Block) []float64 {
	decode, decoded := b.Phases[phase.Decode.String()]
	copying, copied := b.Phases[phase.Copy.String()]
	mean := meanRound(func(b *bench.Block) (int64, bool) { return decode + copying, decoded || copied })(c, b)
	for i := range mean {
		mean[i] /= float64(c.Clients)
	}
	return mean
}

// alone reports whether the cell has 1 client on 1 worker, so that nothing
// overlaps and bytes over time is a bandwidth.
func (c *cell) alone() bool { return c.Clients == 1 && c.Workers == 1 }

// bandwidth is that of what moves all tensors' bytes: handing them over takes the
// same time whatever their size, and would make any figure (guard 1).
func bandwidth(c *cell) stat.Interval {
	o := c.of("overhead")
	if !c.alone() || !c.movesBytes() || c.handsOver() || c.Respawn || !o.Known() || !(o.Excludes(0) && o.Low > 0) {
		return stat.None()
	}
	return o.Map(func(s float64) float64 { return float64(c.Payload()) / s })
}

// tailBlocks is how many sessions a percentile takes: what one or two of them
// hold, however many clients and rounds, says nothing of the next. Three are as
// many as the widest interval of a median takes that is worth showing, 75 %.
const tailBlocks = 3

// tails are the percentiles and the spread of times.
func tails() []Metric {
	var all []Metric
	for _, of := range []string{"round", "rtt", "down"} {
		for _, p := range []struct {
			name string
			p    float64
		}{{"p90", 90}, {"p99", 99}, {"p99.9", 99.9}} {
			all = append(all, Metric{Name: of + "_" + p.name, Unit: "s", Better: lower,
				Help: fmt.Sprintf("%gth percentile (R-7) of %s over all blocks, where there are enough samples and %d blocks", p.p, of, tailBlocks),
				derived: func(c *cell) stat.Interval {
					xs := c.pooled(of)
					x, ok := stat.Percentile(xs, p.p)
					if !ok || len(c.timed) < tailBlocks {
						return stat.None()
					}
					return exactly(x, len(c.timed), len(xs))
				}})
		}
	}
	pooled := func(f func(xs []float64) float64) func(c *cell) stat.Interval {
		return func(c *cell) stat.Interval {
			xs := c.pooled("round")
			return exactly(f(xs), len(c.timed), len(xs))
		}
	}
	return append(all,
		Metric{Name: "round_mad", Unit: "s", Better: lower, Help: "median distance of a round from the median round", derived: pooled(stat.MAD)},
		Metric{Name: "round_outliers", Unit: "1", Better: lower, Help: "rounds whose modified z-score is above 3.5",
			derived: pooled(func(xs []float64) float64 { return float64(stat.Outliers(xs)) })},
	)
}

// exactly is an estimate without an interval.
func exactly(x float64, blocks, n int) stat.Interval {
	return stat.Interval{Center: x, Low: x, High: x, Blocks: blocks, N: n}
}

// costs are what server and workers spent in the timed rounds.
func costs() []Metric {
	cpu := func(p *bench.Process) (float64, bool) { return ns(p.Usage.CPU()) }
	return []Metric{
		{Name: "cpu_per_gb", Unit: "s/GB", Better: lower, Help: "CPU time per delivered GB, server and workers", samples: sum(cpu, perGB)},
		{Name: "cpu_user_per_gb", Unit: "s/GB", Better: lower, Help: "the part of it outside of the kernel",
			samples: sum(func(p *bench.Process) (float64, bool) { return ns(p.Usage.User) }, perGB)},
		{Name: "cpu_system_per_gb", Unit: "s/GB", Better: lower, Help: "the part of it in the kernel",
			samples: sum(func(p *bench.Process) (float64, bool) { return ns(p.Usage.System) }, perGB)},
		{Name: "cpu_per_round", Unit: "s/round", Better: lower, Help: "CPU time of a round, server and workers", samples: sum(cpu, perRound)},
		{Name: "cpu_server", Unit: "s/round", Better: lower, Help: "the server's CPU time of a round",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				return b.Server.Usage.CPU().Seconds() / float64(len(b.Round)), true
			})},
		{Name: "minor_faults", Unit: "1/GB", Better: lower, Help: "page faults that needed no disk",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.MinorFaults) }, perGB)},
		{Name: "major_faults", Unit: "1/GB", Better: lower, Help: "page faults that waited for a disk",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.MajorFaults) }, perGB)},
		{Name: "voluntary_switches", Unit: "1/GB", Better: lower, Help: "times that a thread had to wait",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.VoluntarySwitches) }, perGB)},
		{Name: "involuntary_switches", Unit: "1/GB", Better: lower, Help: "times that a thread lost its processor to another",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.InvoluntarySwitches) }, perGB)},
		{Name: "queue_wait", Unit: "s/round", Better: lower, Help: "time that threads wanted to run and had no processor",
			samples: sum(func(p *bench.Process) (float64, bool) {
				if p.Usage.Queue == nil {
					return 0, false
				}
				return ns(p.Usage.Queue.Wait)
			}, perRound)},
		{Name: "rpcs", Unit: "1/round", Better: lower, Help: "requests made (gRPC, HTTP)",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				n, ok := prefixed(b.Counts(), phase.Calls)
				return float64(n) / float64(len(b.Round)), ok
			})},
		{Name: "connections", Unit: "1/round", Better: lower, Help: "connections that workers opened, of transports that count them", samples: counted(phase.Dialled, 1)},
		{Name: "connecting", Unit: "s/round", Better: lower, Help: "time that workers waited for connections of single calls, summed over them",
			samples: counted(phase.DialTime, 1/float64(time.Second))},
		{Name: "retries", Unit: "1/round", Better: lower, Help: "calls that workers made again, of transports that count them", samples: counted(phase.Retries, 1)},
		{Name: "wire_bytes", Unit: "B/round", Better: lower, Help: "bytes handed to sockets and files", samples: counted(phase.WireSent, 1)},
		{Name: "copied_bytes", Unit: "B/round", Better: lower, Help: "tensor bytes copied in user space by our own code", samples: counted(phase.Copied, 1)},
		{Name: "allocs", Unit: "1/round", Better: lower, Help: "objects that were allocated",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.AllocObjects) }, perRound)},
		{Name: "alloc_bytes", Unit: "B/round", Better: lower, Help: "bytes that were allocated",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.AllocBytes) }, perRound)},
		{Name: "gc_cycles", Unit: "1/round", Better: lower, Help: "garbage collections that were finished",
			samples: sum(func(p *bench.Process) (float64, bool) { return number(p.Usage.GCCycles) }, perRound)},
		{Name: "gc_time", Unit: "s/round", Better: lower, Help: "CPU time of garbage collection",
			samples: sum(func(p *bench.Process) (float64, bool) { return ns(p.Usage.GCTime) }, perRound)},
		{Name: "peak_rss", Unit: "B", Better: lower, Help: "peak resident memory, summed over processes: what several of them map counts in each",
			samples: sum(func(p *bench.Process) (float64, bool) {
				peak, ok := number(p.Memory.Peak)
				return peak, ok && !p.StalePeak
			}, whole)},
		{Name: "peak_rss_server", Unit: "B", Better: lower, Help: "peak resident memory of the server",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				peak, ok := number(b.Server.Memory.Peak)
				return peak, ok && !b.Server.StalePeak
			})},
		{Name: "peak_rss_workers", Unit: "B", Better: lower, Help: "peak resident memory of the largest worker process",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				peak := int64(0)
				for _, w := range b.Processes {
					peak = max(peak, w.Memory.Peak)
				}
				return float64(peak), len(b.Processes) > 0
			})},
		{Name: "pss", Unit: "B", Better: lower, Help: "resident memory at the end of a block, summed over processes, shared pages once",
			samples: sum(func(p *bench.Process) (float64, bool) {
				if p.Memory.PSS == nil {
					return 0, false
				}
				return number(*p.Memory.PSS)
			}, whole)},
		{Name: "shmem", Unit: "B", Better: lower, Help: "shared memory resident at the end of a block, in the process that has most",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				most := int64(0)
				for _, p := range processes(b) {
					most = max(most, p.Memory.Shmem)
				}
				return float64(most), true
			})},
	}
}

// facts are what else is known of a cell.
func facts() []Metric {
	return []Metric{
		{Name: "attested", Unit: "1", Better: higher, Help: "share of tensors that went the way the transport is named for", samples: attestedTensors},
		{Name: "proved", Unit: "1", Better: higher, Help: "1 if updates and models of every block were checked, 0 if not",
			derived: func(c *cell) stat.Interval {
				x := 0.0
				if c.Proved() {
					x = 1
				}
				return exactly(x, len(c.Blocks), len(c.Blocks))
			}},
		{Name: "cold_round", Unit: "s", Better: lower, Help: "the first round of a block, in which memory is touched for the first time",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				return float64(b.Cold.Round) / float64(time.Second), b.Cold.Round > 0
			})},
		{Name: "cold_faults", Unit: "1", Better: lower, Help: "page faults of that round, server and workers",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				n := b.Cold.Server.MinorFaults + b.Cold.Server.MajorFaults
				for _, w := range b.Cold.Workers {
					n += w.MinorFaults + w.MajorFaults
				}
				return float64(n), b.Cold.Round > 0
			})},
		{Name: "spawn", Unit: "s", Better: lower, Help: "starting the workers, until all are connected",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) { return b.Spawn.Seconds(), b.Spawn > 0 })},
		{Name: "recorder_share", Unit: "1", Better: lower, Help: "what recording took of the rounds: spans times the cost of one",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				return float64(b.Spans) * float64(b.SpanCost) / float64(b.RoundTime()), b.SpanCost > 0
			})},
		{Name: "machine_busy", Unit: "1", Help: "share of the machine's CPU time that was used while a block ran, by anybody",
			samples: each(func(_ *cell, b *bench.Block) (float64, bool) {
				if b.System == nil {
					return 0, false
				}
				all := b.System.Busy + b.System.Idle + b.System.Steal
				return float64(b.System.Busy+b.System.Steal) / float64(all), all > 0
			})},
	}
}

// counted returns a series of a counter, per round and in another unit. A transport that has no such
// counter has no such metric.
func counted(name string, unit float64) series {
	return each(func(_ *cell, b *bench.Block) (float64, bool) {
		n, ok := b.Counts()[name]
		return float64(n) * unit / float64(len(b.Round)), ok
	})
}

// prefixed returns the sum of all counters with a prefix, and whether there are
// any.
func prefixed(counts map[string]int64, prefix string) (sum int64, any bool) {
	for name, n := range counts {
		if strings.HasPrefix(name, prefix) {
			sum, any = sum+n, true
		}
	}
	return sum, any
}

// attestedTensors returns the share of tensors that went the way the transport
// is named for. One that hands over handles is named for them; tensors whose
// bytes were moved instead, or that it counts as fallbacks, did not go that way.
func attestedTensors(_ *cell, b *bench.Block) []float64 {
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

// fallbacks returns why tensors did not go the way the transport is named for.
func (c *cell) fallbacks() map[string]int64 {
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
