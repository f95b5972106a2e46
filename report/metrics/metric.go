package metrics

import (
	"fmt"
	"slices"

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

	samples series                      // by block; nil of a metric that is derived from others
	derived func(c *Cell) stat.Interval // of such a metric
}

// Sampled reports whether blocks measure the metric, so that it has samples and
// two cells can be compared by it.
func (m Metric) Sampled() bool { return m.samples != nil }

func (m Metric) of(c *Cell) stat.Interval {
	if m.derived != nil {
		return m.derived(c)
	}
	return stat.Of(c.Samples(m.Name))
}

// Metrics returns all metrics.
func Metrics() []Metric {
	all := slices.Concat(times(), percentiles(), costs(), coding(), copyCounts(), facts())
	for _, p := range phase.Phases() {
		all = append(all, Metric{Name: "phase." + p.String(), Unit: "s/round", Better: Lower,
			Help:    "time of a round in phase " + p.String() + ", added up over all its spans in all processes",
			samples: meanRound(func(b *result.Block) (int64, bool) { sum, ok := b.Phases[p.String()]; return sum, ok })})
	}
	return all
}

// MetricNamed returns the metric of a name, and whether there is one.
func MetricNamed(name string) (Metric, bool) {
	all := Metrics()
	i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return all[i], true
}

// times are the durations of a round and its parts, and the rates made of them.
func times() []Metric {
	return []Metric{
		{Name: "round", Unit: "s", Better: Lower, Help: "a whole round of all clients: from publishing the model until the new model, the average of all updates, is there",
			samples: seconds(func(b *result.Block) []int64 { return b.Round })},
		{Name: "overhead", Unit: "s", Better: Lower, Help: "round less the round of " + Control + ", which does the same work without leaving the process: what the transport itself costs; transports are ranked by it",
			derived: overhead},
		{Name: "transfer", Unit: "s", Better: Lower, Help: "one client's round trip without its training",
			samples: untrained(func(b *result.Block) []int64 { return b.RTT })},
		{Name: "rtt", Unit: "s", Better: Lower, Help: "one client's round trip, training included: from the start of Dispatch to the end of Collect",
			samples: seconds(func(b *result.Block) []int64 { return b.RTT })},
		{Name: "down", Unit: "s", Better: Lower, Help: "one client's way down: from the start of Dispatch until the worker has the model",
			samples: seconds(func(b *result.Block) []int64 { return b.Down })},
		{Name: "up", Unit: "s", Better: Lower, Help: "one client's way up, training included: from the start of the worker's Reserve until the server has the update",
			samples: seconds(func(b *result.Block) []int64 { return b.Up })},
		{Name: "uplink", Unit: "s", Better: Lower, Help: "up without the training",
			samples: untrained(func(b *result.Block) []int64 { return b.Up })},
		{Name: "train", Unit: "s", Help: "one client's training: the worker function",
			samples: seconds(func(b *result.Block) []int64 { return b.Train })},
		{Name: "communication", Unit: "1", Better: Lower, Help: "share of one client's round trip that is not its training: transfer ÷ rtt. Only where a training is asked for (--train, --train-ms): of ours without, which reads and writes every byte once, it says nothing",
			samples: communication},
		{Name: "copy_decode", Unit: "s", Better: Lower, Help: "time in the phases copy and decode, both directions, all processes, divided by the number of clients",
			samples: copyDecode},
		{Name: "reconstruct", Unit: "s", Better: Lower, Help: "putting one client's update together at the server: a Go value whose tensors are views of what has arrived. Only with --nested; it is in the round, and in no transfer",
			samples: reconstruct},
		{Name: "bandwidth", Unit: "B/s", Better: Higher, Help: "payload both ways ÷ overhead. Only for 1 client on 1 worker without --respawn, when the overhead's interval excludes zero, and only for transports that move bytes: a hand-off moves none",
			derived: bandwidth},
		{Name: "goodput", Unit: "B/s", Better: Higher, Help: "payload both ways ÷ round, training included",
			derived: func(c *Cell) stat.Interval {
				return c.Of("round").Map(func(s float64) float64 { return float64(c.Payload()) / s })
			}},
		{Name: "unattributed", Unit: "s", Better: Lower, Help: "time of a round that no recorded span covers",
			samples: meanRound(func(b *result.Block) (int64, bool) { return b.Unattributed, b.OneClock() })},
		{Name: "floor_ratio", Unit: "1", Help: "distance from a limit of this machine (a floor). " +
			"Transports that move bytes: payload (with a codec what travels of it) ÷ one client's transfer, as a share of the bandwidth of a connection like the cell's: a Unix socket or TCP, with TLS or without, on its link; what is done outside of a client's round trip, such as publishing the model, is not in it. " +
			"Transports that hand tensors over: one client's transfer ÷ two wake-ups or two empty calls; what page faults and cold caches add to the training is not in it. " +
			Control + ": its round ÷ the same work called directly",
			derived: (*Cell).floorRatio},
	}
}

// communication is a share of the time in which nothing else could have been trained by
// the same worker.
func communication(c *Cell, b *result.Block) []float64 {
	if c.Train == "" && c.TrainMS == 0 {
		return nil
	}
	all := make([]float64, len(b.RTT))
	for i, ns := range b.RTT {
		all[i] = float64(ns-b.Train[i]) / float64(ns)
	}
	return all
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

// copyDecode holds the outgoing copies too: their spans do not say which way
// they went.
func copyDecode(c *Cell, b *result.Block) []float64 {
	decode, decoded := b.Phases[phase.Decode.String()]
	copying, copied := b.Phases[phase.Copy.String()]
	mean := meanRound(func(*result.Block) (int64, bool) { return decode + copying, decoded || copied })(c, b)
	for i := range mean {
		mean[i] /= float64(c.Clients)
	}
	return mean
}

// reconstruct is a time of one client, as copyDecode is.
func reconstruct(c *Cell, b *result.Block) []float64 {
	mean := meanRound(func(*result.Block) (int64, bool) { sum, ok := b.Phases[phase.Reconstruct.String()]; return sum, ok })(c, b)
	for i := range mean {
		mean[i] /= float64(c.Clients)
	}
	return mean
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
func percentiles() []Metric {
	var all []Metric
	for _, of := range []struct {
		name string
		p    float64
	}{{"round", 90}, {"round", 99}, {"round", 99.9}, {"rtt", 99}, {"down", 99}} {
		all = append(all, Metric{Name: fmt.Sprintf("%s_p%g", of.name, of.p), Unit: "s", Better: Lower,
			Help: fmt.Sprintf("%gth percentile (R-7) of %s over all blocks; it takes at least %d blocks and enough samples", of.p, of.name, percentileBlocks),
			derived: func(c *Cell) stat.Interval {
				xs := stat.Pool(c.Samples(of.name))
				x, ok := stat.Percentile(xs, of.p)
				if !ok || len(c.timed) < percentileBlocks {
					return stat.None()
				}
				return Exactly(x, len(c.timed), len(xs))
			}})
	}
	pooled := func(f func(xs []float64) float64) func(c *Cell) stat.Interval {
		return func(c *Cell) stat.Interval {
			xs := stat.Pool(c.Samples("round"))
			return Exactly(f(xs), len(c.timed), len(xs))
		}
	}
	return append(all,
		Metric{Name: "round_mad", Unit: "s", Better: Lower, Help: "spread of rounds: the median distance of a round from the median round", derived: pooled(stat.MAD)},
		Metric{Name: "round_outliers", Unit: "1", Better: Lower, Help: "number of rounds whose modified z-score is above 3.5",
			derived: pooled(func(xs []float64) float64 { return float64(stat.Outliers(xs)) })},
	)
}

// Exactly is a number that has no interval, of n samples in that many blocks.
func Exactly(x float64, blocks, n int) stat.Interval {
	return stat.Interval{Center: x, Low: x, High: x, Blocks: blocks, N: n}
}
