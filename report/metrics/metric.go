package metrics

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// What is better in a metric.
const (
	Lower  = "lower"
	Higher = "higher"
)

// A Metric is something that is known of a cell.
type Metric struct {
	Name   string
	Unit   string // s, B, B/s, 1 (a number or a share), or one of them per GB or round
	Better string // Lower, Higher, or empty where neither is
	Help   string // its definition, for a reader who sees it for the first time
	source source
}

// Sampled reports whether blocks measure the metric, so that it has samples and
// two cells can be compared by it.
func (m Metric) Sampled() bool {
	_, is := m.source.(derived)
	return !is
}

// table has all metrics, and named has them by name.
var (
	table = sync.OnceValue(func() []Metric {
		return slices.Concat(times(), percentiles(), costs(), coding(), facts(), profiled(), phases())
	})
	named = sync.OnceValue(func() map[string]Metric {
		all := map[string]Metric{}
		for _, m := range table() {
			all[m.Name] = m
		}
		return all
	})
)

// Metrics returns all metrics. The caller must not change them.
func Metrics() []Metric { return table() }

// MetricNamed returns the metric of a name, and whether there is one.
func MetricNamed(name string) (Metric, bool) {
	m, ok := named()[name]
	return m, ok
}

// phases are the times of all phases.
func phases() (all []Metric) {
	for _, p := range phase.Phases() {
		help := "time of a round in phase " + p.String() + ", added up over all its spans in all processes"
		all = append(all, Metric{"phase." + p.String(), "s/round", Lower, help, spent(p)})
	}
	return all
}

// times are the durations of a round and its parts, and the rates made of them.
func times() []Metric {
	rtt := func(b *result.Block) []int64 { return b.RTT }
	up := func(b *result.Block) []int64 { return b.Up }
	all := []Metric{
		{"round", "s", Lower, "a whole round of all clients: from publishing the model until the new model, the average of all updates, " +
			"is there", durations(roundTimes)},
		{"overhead", "s", Lower, "round less the round of " + Control + ", which does the same work without leaving the process: what the " +
			"transport itself costs; transports are ranked by it", derived(overhead)},
		{"transfer", "s", Lower, "one client's round trip without its training", untrained(rtt)},
		{"rtt", "s", Lower, "one client's round trip, training included: from the start of Dispatch to the end of Collect", durations(rtt)},
		{"down", "s", Lower, "one client's way down: from the start of Dispatch until the worker has the model",
			durations(func(b *result.Block) []int64 { return b.Down })},
		{"up", "s", Lower, "one client's way up, training included: from the start of the worker's Reserve until the server has the update",
			durations(up)},
		{"uplink", "s", Lower, "up without the training", untrained(up)},
		{"train", "s", "", "one client's training: the worker function", durations(func(b *result.Block) []int64 { return b.Train })},
		{"communication", "1", Lower, "share of one client's round trip that is not its training: transfer ÷ rtt. Only where a training is " +
			"asked for (--train, --train-ms): of ours without, which reads and writes every byte once, it says nothing", each(rtt, communication)},
		{"copy_decode", "s", Lower, "time in the phases copy and decode, both directions, all processes, divided by the number of clients",
			ratio(spent(phase.Copy, phase.Decode), clientRounds)}, // spans of copy do not say which way they went
		{"reconstruct", "s", Lower, "putting one client's update together at the server: a Go value whose tensors are views of what has " +
			"arrived. Only with --nested; it is in the round, and in no transfer", ratio(spent(phase.Reconstruct), clientRounds)},
		{"bandwidth", "B/s", Higher, "payload both ways ÷ overhead. Only for 1 client on 1 worker without --respawn, when the overhead's " +
			"interval excludes zero, and only for transports that move bytes: a hand-off moves none", derived(bandwidth)},
		{"goodput", "B/s", Higher, "payload both ways ÷ round, training included", rate((*Cell).Payload)},
		{"client_rate", "1", Higher, "clients that are served per second: clients ÷ round",
			rate(func(c *Cell) int64 { return int64(c.Clients) })},
		{"moving_share", "1", Lower, "overhead ÷ round: the part of a round that moving tensors takes", derived(movingShare)},
		{"unattributed", "s", Lower, "time of a round that no recorded span covers", ratio(func(_ *Cell, b *result.Block) float64 {
			return given(b.OneClock(), float64(b.Unattributed)/float64(time.Second))
		}, rounds)},
		{"floor_ratio", "1", "", "distance from a limit of this machine (a floor). " +
			"Transports that move bytes: payload (with a codec what travels of it) ÷ one client's transfer, as a share of the bandwidth of " +
			"a connection like the cell's: a Unix socket or TCP, with TLS or without, on its link; what is done outside of a client's " +
			"round trip, such as publishing the model, is not in it. " +
			"Transports that hand tensors over: one client's transfer ÷ two wake-ups or two empty calls; what page faults and cold caches " +
			"add to the training is not in it. " + Control + ": its round ÷ the same work called directly", derived((*Cell).floorRatio)},
	}
	for _, of := range []string{"transfer", "round"} {
		help := "the " + of + " of " + Baseline + " ÷ that of this transport"
		all = append(all, Metric{"speedup_" + of, "1", Higher, help, derived(func(c *Cell) stat.Interval { return c.speedup(of) })})
	}
	return all
}

// rate is what a round delivers, per second.
func rate(of func(c *Cell) int64) derived {
	return func(c *Cell) stat.Interval {
		return c.Of("round").Map(func(s float64) float64 { return float64(of(c)) / s })
	}
}

func roundTimes(b *result.Block) []int64 { return b.Round }

// communication is a share of the time in which nothing else could have been trained by
// the same worker.
func communication(c *Cell, b *result.Block, i int, ns int64) float64 {
	return given(c.Train != "" || c.TrainMS != 0, float64(ns-b.Train[i])/float64(ns))
}

// speedup compares the cell with the baseline of its group.
func (c *Cell) speedup(metric string) stat.Interval {
	for _, base := range slices.Backward(c.result.Cells) {
		if base.Variant == Baseline && base.Group() == c.Group() {
			if base == c || c.Unproved != "" {
				break
			}
			return base.Ratio(metric, c)
		}
	}
	return stat.None()
}

// movingShare is 1 less the share of the control's round, which has bounds.
func movingShare(c *Cell) stat.Interval {
	if !c.Of("overhead").Known() {
		return stat.None()
	}
	return c.Control.Ratio("round", c).Map(func(x float64) float64 { return 1 - x })
}

// overhead is the difference of two medians with its interval. Where training differs,
// so do rounds.
func overhead(c *Cell) stat.Interval {
	if c.Control == nil || c.Control == c || c.Unproved != "" {
		return stat.None()
	}
	if _, ok := c.TrainsLike(); !ok {
		return stat.None()
	}
	i := c.More("round", c.Control)
	i.N = c.Rounds()
	return i
}

// Alone reports whether the cell has 1 client on 1 worker, so that nothing
// overlaps and bytes over time is a bandwidth.
func (c *Cell) Alone() bool { return c.Clients == 1 && c.Workers == 1 }

// bandwidth is that of transports that move all bytes. A hand-off moves none, so
// bytes ÷ time would be meaningless (guard 1).
func bandwidth(c *Cell) stat.Interval {
	o := c.Of("overhead")
	if !c.Alone() || !c.MovesBytes() || c.HandsOver() || c.Respawn || !o.Known() || !(o.Excludes(0) && o.Low > 0) {
		return stat.None()
	}
	return o.Map(func(s float64) float64 { return float64(c.Payload()) / s })
}

// percentileBlocks is how many blocks a percentile takes: what one or two of them
// hold, however many clients and rounds, says nothing of the next. Three are as
// many as the widest interval of a median takes that is worth showing, 75 %.
const percentileBlocks = 3

// percentiles are those of times, and the spread of rounds.
func percentiles() (all []Metric) {
	pooled := func(metric string, of func(c *Cell, xs []float64) float64) derived {
		return func(c *Cell) stat.Interval {
			xs := stat.Pool(c.Samples(metric))
			return Exactly(of(c, xs), len(c.timed), len(xs))
		}
	}
	for _, of := range []struct {
		metric string
		p      float64
	}{{"round", 90}, {"round", 99}, {"round", 99.9}, {"rtt", 99}, {"down", 99}} {
		help := "%gth percentile (R-7) of %s over all blocks; it takes at least %d blocks and enough samples"
		all = append(all, Metric{fmt.Sprintf("%s_p%g", of.metric, of.p), "s", Lower, fmt.Sprintf(help, of.p, of.metric, percentileBlocks),
			pooled(of.metric, func(c *Cell, xs []float64) float64 {
				x, ok := stat.Percentile(xs, of.p)
				return given(ok && len(c.timed) >= percentileBlocks, x)
			})})
	}
	return append(all,
		Metric{"round_mad", "s", Lower, "spread of rounds: the median distance of a round from the median round",
			pooled("round", func(_ *Cell, xs []float64) float64 { return stat.MAD(xs) })},
		Metric{"round_outliers", "1", Lower, "number of rounds whose modified z-score is above 3.5",
			pooled("round", func(_ *Cell, xs []float64) float64 { return float64(stat.Outliers(xs)) })},
	)
}

// Exactly is a number that has no interval, of n samples in that many blocks. It is not Known
// if the number is NaN.
func Exactly(x float64, blocks, n int) stat.Interval {
	return stat.Interval{Center: x, Low: x, High: x, Blocks: blocks, N: n}
}
