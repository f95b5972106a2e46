package metrics

import (
	"cmp"
	"math"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// NoCodec is the value of the setting codec for tensors that are sent unencoded.
const NoCodec = "none"

// Codec returns the cell's codec, or NoCodec.
func (c *Cell) Codec() string { return cmp.Or(c.Settings["codec"], NoCodec) }

// Encoded reports whether the cell has a codec.
func (c *Cell) Encoded() bool { return c.Codec() != NoCodec }

// Uncoded returns the cell's variant without its codec.
func (c *Cell) Uncoded() string { return c.Without("codec") }

// A direction is the one of models, down, or the one of updates, up.
type direction struct {
	name, tensors, base string
	payload, wire       string // names of counters, in bytes
	bytes               func(m result.Model) int64
	data                func(of *result.Coding) (density float64, lost *result.CodingError)
}

var directions = []direction{
	{"down", "models", "the previous model", phase.CodecDownPayload, phase.CodecDownWire, func(m result.Model) int64 { return m.Bytes },
		func(of *result.Coding) (float64, *result.CodingError) { return of.DensityDown, of.ErrorDown }},
	{"up", "updates", "the model trained on", phase.CodecUpPayload, phase.CodecUpWire, func(m result.Model) int64 { return m.Payload() - m.Bytes },
		func(of *result.Coding) (float64, *result.CodingError) { return of.DensityUp, of.ErrorUp }},
}

// wireBytes returns the bytes sent in a block, without full versions. Without a codec, that
// is the payload.
func (d direction) wireBytes(c *Cell, b *result.Block) float64 {
	if c.Encoded() {
		return counter(d.wire)(c, b)
	}
	return float64(d.bytes(c.Model)) * clientRounds(c, b)
}

// ratio returns the wire bytes of a block ÷ its payload; NaN without payload.
func (d direction) ratio(c *Cell, b *result.Block) float64 {
	if !c.Encoded() {
		return 1
	}
	payload := float64(c.counts(b)[d.payload])
	return knownIf(payload > 0, float64(c.counts(b)[d.wire])/payload)
}

// coding returns the metrics of codecs, except their times: these are the phases compress and
// expand.
func coding() (all []Metric) {
	known := func(of func(k *result.Coding) float64) derived {
		return func(c *Cell) stat.Interval { return Exactly(valueOf(c.Coding, of), len(c.timed), len(c.timed)) }
	}
	for _, d := range directions {
		lost := func(of func(e *result.CodingError) *float64) derived {
			return known(func(k *result.Coding) float64 {
				if _, e := d.data(k); e != nil && of(e) != nil {
					return *of(e)
				}
				return math.NaN()
			})
		}
		all = append(all,
			Metric{"wire_" + d.name, "B/round", Lower, "bytes of " + d.tensors + " sent per round, after encoding and without full " +
				"versions; without a codec, the payload", number(d.wireBytes)},
			Metric{"ratio_" + d.name, "1", Lower, "wire_" + d.name + " ÷ payload of the same " + d.tensors + "; 1 without a codec", number(d.ratio)},
			Metric{"density_" + d.name, "1", "", "share of the elements of " + d.tensors + " that differ from " + d.base + ", as found in the " +
				"data", known(func(k *result.Coding) float64 { density, _ := d.data(k); return density })},
			Metric{"error_" + d.name + "_max", "1", Lower, "largest error of a decoded element of " + d.tensors + ", as a share of the largest element of its " +
				"tensor", lost(func(e *result.CodingError) *float64 { return e.Max })},
			Metric{"error_" + d.name + "_rms", "1", Lower, "root mean square of the errors of decoded " + d.tensors + " ÷ root mean square " +
				"of their elements", lost(func(e *result.CodingError) *float64 { return e.RMS })})
	}
	full := func(rest string) bool { return phase.CodecFull+rest != phase.CodecFullBytes }
	return append(all,
		Metric{"error_bound", "1", "", "upper limit of error_down_max and error_up_max, with which proved values were compared; absent if the codec guarantees none",
			known(func(k *result.Coding) float64 { return knownIf(k.Bound > 0, k.Bound) })},
		Metric{"full_versions", "1/round", Lower, "models sent whole per round, because a worker had no base that the codec could use", counters(phase.CodecFull, full)},
		Metric{"same_jobs", "1/round", "", "jobs per round sent without a model, because the worker had it already", counter(phase.CodecSame)},
		Metric{"plain_tensors", "1/round", "", "tensors per round, both ways, sent unencoded, because the codec does not support them or " +
			"does not make them smaller", counter(phase.CodecPlain)},
		Metric{"unchanged_tensors", "1/round", "", "tensors per round, both ways, of which nothing was sent, because no element had changed",
			counter(phase.CodecUnchanged)},
	)
}

// Wire returns the wire bytes that one client receives and sends in a round, as the medians
// of the blocks.
func (c *Cell) Wire() (down, up float64) {
	n := float64(c.Clients)
	return c.Of("wire_down").Center / n, c.Of("wire_up").Center / n
}
