package metrics

import (
	"cmp"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// NoCodec is the setting codec of what travels as it is.
const NoCodec = "none"

// Codec returns how the cell's tensors are encoded before they travel.
func (c *Cell) Codec() string { return cmp.Or(c.Settings["codec"], NoCodec) }

// Encoded reports whether anything is encoded.
func (c *Cell) Encoded() bool { return c.Codec() != NoCodec }

// Uncoded is the cell's variant but for its codec.
func (c *Cell) Uncoded() string { return c.without("codec") }

// A way is one of the two that tensors go.
type way struct {
	name, what    string
	payload, wire string // counters
	bytes         func(m result.Model) int64
	data          func(of *result.Coding) (density float64, lost *result.CodingError)
}

var ways = []way{
	{"down", "models", phase.CodecDownPayload, phase.CodecDownWire, func(m result.Model) int64 { return m.Bytes },
		func(of *result.Coding) (float64, *result.CodingError) { return of.DensityDown, of.ErrorDown }},
	{"up", "updates", phase.CodecUpPayload, phase.CodecUpWire, func(m result.Model) int64 { return m.Payload() - m.Bytes },
		func(of *result.Coding) (float64, *result.CodingError) { return of.DensityUp, of.ErrorUp }},
}

// travelled are the bytes that travel: the payload without a codec.
func (w way) travelled(c *Cell, b *result.Block) float64 {
	if c.Encoded() {
		return counter(w.wire)(c, b)
	}
	return float64(w.bytes(c.Model)) * clientRounds(c, b)
}

// share is what travels of the payload.
func (w way) share(c *Cell, b *result.Block) float64 {
	if !c.Encoded() {
		return 1
	}
	payload := float64(c.counts(b)[w.payload])
	return given(payload > 0, float64(c.counts(b)[w.wire])/payload)
}

// coding are the metrics of what codecs do. Times are phases, compress and expand.
func coding() (all []Metric) {
	known := func(of func(k *result.Coding) float64) derived {
		return func(c *Cell) stat.Interval { return Exactly(from(c.Coding, of), len(c.timed), len(c.timed)) }
	}
	for _, w := range ways {
		lost := func(of func(e *result.CodingError) float64) derived {
			return known(func(k *result.Coding) float64 { _, e := w.data(k); return from(e, of) })
		}
		all = append(all,
			Metric{"wire_" + w.name, "B/round", Lower, "bytes of " + w.what + " that travel in a round, after encoding and without full " +
				"versions; without a codec the payload", number(w.travelled)},
			Metric{"ratio_" + w.name, "1", Lower, "wire_" + w.name + " ÷ payload of the same " + w.what + "; without a codec 1", number(w.share)},
			Metric{"density_" + w.name, "1", "", "share of the words of " + w.what + " that differ from the version before, as found in the " +
				"data", known(func(k *result.Coding) float64 { density, _ := w.data(k); return density })},
			Metric{"error_" + w.name + "_max", "1", Lower, "the largest error of a decoded word, as a share of the largest of its tensor, in " +
				w.what, lost(func(e *result.CodingError) float64 { return e.Max })},
			Metric{"error_" + w.name + "_rms", "1", Lower, "the root of the mean square of these errors, as a share of that of the words, in " +
				w.what, lost(func(e *result.CodingError) float64 { return e.RMS })})
	}
	full := func(rest string) bool { return phase.CodecFull+rest != phase.CodecFullBytes }
	return append(all,
		Metric{"error_bound", "1", "", "the most that error_down_max and error_up_max can be, where the codec promises something",
			known(func(k *result.Coding) float64 { return given(k.Bound > 0, k.Bound) })},
		Metric{"full_versions", "1/round", Lower, "whole models that were sent in a round, because a worker had nothing that a codec could " +
			"go from", counters(phase.CodecFull, full)},
		Metric{"same_jobs", "1/round", "", "jobs of a round that came without a model, because the worker had it", counter(phase.CodecSame)},
		Metric{"plain_tensors", "1/round", "", "tensors of a round, both ways, that travelled as they are: the codec does not take them, or " +
			"does not make them smaller", counter(phase.CodecPlain)},
		Metric{"unchanged_tensors", "1/round", "", "tensors of a round, both ways, of which nothing travelled, since no word had changed",
			counter(phase.CodecUnchanged)},
	)
}

// Wire returns how many bytes of tensors one client gets and sends, by the medians
// of the blocks.
func (c *Cell) Wire() (down, up float64) {
	n := float64(c.Clients)
	return c.Of("wire_down").Center / n, c.Of("wire_up").Center / n
}
