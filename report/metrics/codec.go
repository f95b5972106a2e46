package metrics

import (
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// NoCodec is the setting codec of what travels as it is.
const NoCodec = "none"

// Codec returns how the cell's tensors are encoded before they travel.
func (c *Cell) Codec() string {
	if codec := c.Settings["codec"]; codec != "" {
		return codec
	}
	return NoCodec
}

// Encoded reports whether anything is encoded.
func (c *Cell) Encoded() bool { return c.Codec() != NoCodec }

// Uncoded is the cell's variant but for its codec.
func (c *Cell) Uncoded() string { return c.without("codec") }

// A way is one of the two that tensors go.
type way struct {
	name, what    string
	payload, wire string // counters
	bytes         func(m result.Model) int64
	density       func(of *result.Coding) float64
	err           func(of *result.Coding) *result.CodingError
}

var ways = []way{
	{"down", "models", phase.CodecDownPayload, phase.CodecDownWire, func(m result.Model) int64 { return m.Bytes },
		func(of *result.Coding) float64 { return of.DensityDown }, func(of *result.Coding) *result.CodingError { return of.ErrorDown }},
	{"up", "updates", phase.CodecUpPayload, phase.CodecUpWire, func(m result.Model) int64 { return m.Payload() - m.Bytes },
		func(of *result.Coding) float64 { return of.DensityUp }, func(of *result.Coding) *result.CodingError { return of.ErrorUp }},
}

// coding are the metrics of what codecs do. Times are phases, compress and expand.
func coding() []Metric {
	var all []Metric
	known := func(of func(k *result.Coding) (float64, bool)) func(c *Cell) stat.Interval {
		return func(c *Cell) stat.Interval {
			if c.Coding == nil {
				return stat.None()
			}
			x, ok := of(c.Coding)
			if !ok {
				return stat.None()
			}
			return Exactly(x, len(c.timed), len(c.timed))
		}
	}
	for _, w := range ways {
		all = append(all,
			Metric{Name: "wire_" + w.name, Unit: "B/round", Better: Lower, Help: "bytes of " + w.what + " that travel in a round, after encoding and without full versions; without a codec the payload",
				samples: each(func(c *Cell, b *result.Block) (float64, bool) {
					if !c.Encoded() {
						return float64(w.bytes(c.Model) * int64(c.Clients)), true
					}
					n, ok := b.Counts()[w.wire]
					return float64(n) / float64(len(b.Round)), ok
				})},
			Metric{Name: "ratio_" + w.name, Unit: "1", Better: Lower, Help: "wire_" + w.name + " ÷ payload of the same " + w.what + "; without a codec 1",
				samples: each(func(c *Cell, b *result.Block) (float64, bool) {
					payload := b.Counts()[w.payload]
					if !c.Encoded() {
						return 1, true
					}
					return float64(b.Counts()[w.wire]) / float64(payload), payload > 0
				})},
			Metric{Name: "density_" + w.name, Unit: "1", Help: "share of the words of " + w.what + " that differ from the version before, as found in the data",
				derived: known(func(k *result.Coding) (float64, bool) { return w.density(k), true })})
		for _, e := range []struct {
			name, help string
			of         func(e *result.CodingError) float64
		}{
			{"max", "the largest error of a decoded word, as a share of the largest of its tensor", func(e *result.CodingError) float64 { return e.Max }},
			{"rms", "the root of the mean square of these errors, as a share of that of the words", func(e *result.CodingError) float64 { return e.RMS }},
		} {
			all = append(all, Metric{Name: "error_" + w.name + "_" + e.name, Unit: "1", Better: Lower, Help: e.help + ", in " + w.what,
				derived: known(func(k *result.Coding) (float64, bool) {
					if w.err(k) == nil {
						return 0, false
					}
					return e.of(w.err(k)), true
				})})
		}
	}
	return append(all,
		Metric{Name: "error_bound", Unit: "1", Help: "the most that error_down_max and error_up_max can be, where the codec promises something",
			derived: known(func(k *result.Coding) (float64, bool) { return k.Bound, k.Bound > 0 })},
		Metric{Name: "full_versions", Unit: "1/round", Better: Lower, Help: "whole models that were sent in a round, because a worker had nothing that a codec could go from",
			samples: each(func(c *Cell, b *result.Block) (float64, bool) {
				n, ok := prefixed(b.Counts(), phase.CodecFull)
				return float64(n-b.Counts()[phase.CodecFullBytes]) / float64(len(b.Round)), ok
			})},
		Metric{Name: "same_jobs", Unit: "1/round", Help: "jobs of a round that came without a model, because the worker had it", samples: counted(phase.CodecSame, 1)},
		Metric{Name: "plain_tensors", Unit: "1/round", Help: "tensors of a round, both ways, that travelled as they are: the codec does not take them, or does not make them smaller", samples: counted(phase.CodecPlain, 1)},
		Metric{Name: "unchanged_tensors", Unit: "1/round", Help: "tensors of a round, both ways, of which nothing travelled, since no word had changed", samples: counted(phase.CodecUnchanged, 1)},
	)
}

// Wire returns how many bytes of tensors one client gets and sends, by the medians
// of the blocks.
func (c *Cell) Wire() (down, up float64) {
	n := float64(c.Clients)
	return c.Of("wire_down").Center / n, c.Of("wire_up").Center / n
}
