package metrics

import (
	"fmt"
	"slices"
	"sync"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// Values of Metric.Better.
const (
	Lower  = "lower"
	Higher = "higher"
)

// A Metric is a quantity that is computed for a cell.
type Metric struct {
	Name   string
	Unit   string // s, B, B/s, 1 (a number or a share), or one of them per GB or round
	Better string // Lower, Higher, or empty if neither is better
	Help   string // its definition, for a reader who does not know the metric
	source source
}

// Sampled reports whether blocks measure the metric: it then has samples, and two cells
// can be compared by it.
func (m Metric) Sampled() bool {
	_, is := m.source.(derived)
	return !is
}

// table returns all metrics, and named returns them by name.
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

// MetricNamed returns the metric of that name, and whether there is one.
func MetricNamed(name string) (Metric, bool) {
	m, ok := named()[name]
	return m, ok
}

// phases returns a metric for the time of each phase.
func phases() (all []Metric) {
	for _, p := range phase.Phases() {
		help := "time per round in phase " + p.String() + ", summed over all its spans in all processes"
		all = append(all, Metric{"phase." + p.String(), "s/round", Lower, help, spent(p)})
	}
	return all
}

// times returns the metrics for durations of a round and its parts, and for rates computed
// from them.
func times() []Metric {
	rtt := func(b *result.Block) []int64 { return b.RTT }
	up := func(b *result.Block) []int64 { return b.Up }
	all := []Metric{
		{"round", "s", Lower, "a whole round of all clients: from publishing the model until the next one, the average of all updates, " +
			"is complete", durations(roundTimes)},
		{"round_mean", "s", Lower, "the same, but the mean of a block instead of its median, which a slow round in three does not move",
			ratio(func(_ *Cell, b *result.Block) float64 { return b.RoundTime().Seconds() }, rounds)},
		{"overhead", "s", Lower, "round − the round of " + Control + ", which does the same work inside one process: the cost of the " +
			"transport itself. Transports are ranked by it", beyond("round")},
		{"transfer", "s", Lower, "one client's round trip without its training", untrained(rtt)},
		{"rtt", "s", Lower, "one client's round trip, training included: from the start of Dispatch to the end of Collect", durations(rtt)},
		{"down", "s", Lower, "the way of the model to one client: from the start of Dispatch until the worker has the model",
			durations(func(b *result.Block) []int64 { return b.Down })},
		{"up", "s", Lower, "the way of the update of one client, training included: from the start of the worker's Reserve until the server has the update",
			durations(up)},
		{"uplink", "s", Lower, "up without training", untrained(up)},
		{"train", "s", "", "one client's training: the worker function", durations(func(b *result.Block) []int64 { return b.Train })},
		{"communication", "1", Lower, "share of one client's round trip that is not its training: transfer ÷ rtt. Only with --train or " +
			"--train-ms, because the default training reads and writes every byte just once, so its share would mean nothing", each(rtt, communication)},
		{"copy_decode", "s", Lower, "time in the phases copy and decode per client, in both directions and all processes",
			ratio(spent(phase.Copy, phase.Decode), clientRounds)}, // spans of copy have no direction
		{"reconstruct", "s", Lower, "putting one client's update together at the server: a Go value whose tensors are views of the received " +
			"memory. Only with --nested; it is part of the round, but not of transfer", ratio(spent(phase.Reconstruct), clientRounds)},
		{"bandwidth", "B/s", Higher, "payload both ways ÷ overhead. Only for 1 client on 1 worker without --respawn, if the overhead's " +
			"interval excludes zero, and only for transports that move bytes: a hand-off moves none", derived(bandwidth)},
		{"goodput", "B/s", Higher, "payload both ways ÷ round, training included", rate((*Cell).Payload)},
		{"client_rate", "1", Higher, "clients served per second: clients ÷ round",
			rate(func(c *Cell) int64 { return int64(c.Clients) })},
		{"moving_share", "1", Lower, "overhead ÷ round: the share of a round that is spent moving tensors", derived(movingShare)},
		{"unattributed", "s", Lower, "time of a round that no recorded span covers", ratio(func(_ *Cell, b *result.Block) float64 {
			return knownIf(b.OneClock(), float64(b.Unattributed)/1e9)
		}, rounds)},
		{"floor_ratio", "1", "", "distance from a limit of this machine (a floor). " +
			"Transports that move bytes: payload (with a codec, wire bytes) ÷ one client's transfer, as a share of the bandwidth of " +
			"a connection like the cell's: a Unix socket or TCP, with or without TLS, on its link. Work outside of a client's " +
			"round trip, such as publishing the model, is not included. " +
			"Transports that hand tensors over: one client's transfer ÷ two wake-ups or two empty calls. The time that page faults and " +
			"cold caches add to training is not included. " + Control + ": its round ÷ the same work called directly", derived((*Cell).floorRatio)},
	}
	for _, of := range []string{"transfer", "round"} {
		help := of + " of " + Baseline + " ÷ " + of + " of this transport"
		all = append(all, Metric{"speedup_" + of, "1", Higher, help, derived(func(c *Cell) stat.Interval { return c.speedup(of) })})
	}
	return all
}

// rate is an amount per round, of, divided by the duration of the round in seconds.
func rate(of func(c *Cell) int64) derived {
	return func(c *Cell) stat.Interval {
		return c.Of("round").Map(func(s float64) float64 { return float64(of(c)) / s })
	}
}

func roundTimes(b *result.Block) []int64 { return b.Round }

// communication returns the share of one client's round trip without training. In that time,
// the same worker cannot train another client.
func communication(c *Cell, b *result.Block, i int, ns int64) float64 {
	return knownIf(c.Train != "" || c.TrainMS != 0, float64(ns-b.Train[i])/float64(ns))
}

// speedup returns the baseline's metric ÷ the cell's. It is unknown for the baseline itself, for
// unproved peers, and for groups without a baseline.
func (c *Cell) speedup(metric string) stat.Interval {
	for _, base := range slices.Backward(c.result.Cells) {
		if base.Variant == Baseline && base.Group() == c.Group() {
			if base == c || c.Unproved != "" {
				break
			}
			return stat.Ratio(c.Medians(metric), base.Medians(metric))
		}
	}
	return stat.None()
}

// MovingShare is what moving_share would be if each round took more seconds of training: 1 − the
// control's round ÷ the cell's, because ratios have an interval.
func (c *Cell) MovingShare(more float64) stat.Interval {
	if !c.Of("overhead").Known() {
		return stat.None()
	}
	longer := func(of *Cell) (all []float64) {
		for _, median := range of.Medians("round") {
			all = append(all, median+more)
		}
		return all
	}
	return stat.Ratio(longer(c), longer(c.Control)).Map(func(x float64) float64 { return 1 - x })
}

func movingShare(c *Cell) stat.Interval { return c.MovingShare(0) }

// Budgeted reports whether the server had only a part of the processors, which the control does
// not imitate.
func (c *Cell) Budgeted() bool { return c.result.Plan.ServerCPUs > 0 }

// beyond is the cell's median of a sampled metric − its control's, with an interval. It is unknown if
// their training times differ, because the cells then differ for that reason too.
func beyond(metric string) derived {
	return func(c *Cell) stat.Interval {
		if c.Control == nil || c.Control == c || c.Unproved != "" || c.Budgeted() {
			return stat.None()
		}
		if _, ok := c.TrainsLike(); !ok {
			return stat.None()
		}
		i := stat.Shift(c.Control.Medians(metric), c.Medians(metric))
		i.N = c.Rounds()
		return i
	}
}

// Alone reports whether the cell has 1 client on 1 worker: nothing overlaps, so bytes ÷ time
// is a bandwidth.
func (c *Cell) Alone() bool { return c.Clients == 1 && c.Workers == 1 }

// bandwidth is known for transports that move all bytes. For a hand-off, which moves none,
// bytes ÷ time would be meaningless (guard 1).
func bandwidth(c *Cell) stat.Interval {
	o := c.Of("overhead")
	if !c.Alone() || !c.MovesBytes() || c.HandsOver() || c.Respawn || !o.Known() || !(o.Excludes(0) && o.Low > 0) {
		return stat.None()
	}
	return o.Map(func(s float64) float64 { return float64(c.Payload()) / s })
}

// percentiles returns the metrics for percentiles of times and for the spread of rounds. The clients
// of a round depend on each other, because one slow round delays all of them. So a percentile of
// clients needs as many rounds as a percentile of rounds does.
func percentiles() (all []Metric) {
	pooled := func(metric string, of func(xs []float64) float64) derived {
		return func(c *Cell) stat.Interval {
			xs := stat.Pool(c.Samples(metric))
			return Exactly(of(xs), len(c.timed), len(xs))
		}
	}
	for _, of := range []struct {
		metric string
		p      float64
	}{{"round", 90}, {"round", 99}, {"round", 99.9}, {"rtt", 99}, {"down", 99}} {
		help := "%gth percentile (R-7) of %s in a block, which must have enough rounds for it; it needs %d such blocks"
		all = append(all, Metric{fmt.Sprintf("%s_p%g", of.metric, of.p), "s", Lower, fmt.Sprintf(help, of.p, of.metric, stat.Blocks),
			derived(func(c *Cell) stat.Interval {
				var blocks [][]float64
				for i, xs := range c.Samples(of.metric) {
					if x, ok := stat.Percentile(xs, of.p, len(c.timed[i].Round)); ok {
						blocks = append(blocks, []float64{x})
					}
				}
				if len(blocks) < stat.Blocks {
					return stat.None()
				}
				return stat.Of(blocks)
			})})
	}
	return append(all,
		Metric{"round_mad", "s", Lower, "spread of rounds: the median distance of a round from the median round",
			pooled("round", stat.MAD)},
		Metric{"round_outliers", "1", Lower, "number of rounds with a modified z-score above 3.5",
			pooled("round", func(xs []float64) float64 { return float64(stat.Outliers(xs)) })},
	)
}

// Exactly returns x, computed from n samples in that many blocks, without an interval. It is
// not Known if x is NaN.
func Exactly(x float64, blocks, n int) stat.Interval {
	return stat.Interval{Center: x, Low: x, High: x, Blocks: blocks, N: n}
}
