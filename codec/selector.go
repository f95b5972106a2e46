package codec

import (
	"math"
	"slices"

	"ipcbench/tensor"
)

// A selector finds the words of a tensor of floats that differ most from the base's.
// It sorts nothing: while it reads the tensor it keeps the largest differences that
// it saw, and when it has too many, it counts them by their bits to find where the
// largest end.
type selector struct {
	differ
	found []change // by their words
	least uint32   // smaller keys, and this one, are not wanted any more
	count [1 << 11]int

	old, now   [block]byte // scratch: the words of a block that differ,
	from, wide [block / 2]float32
}

// A change is a word's difference from the base.
type change struct {
	word uint32
	diff float32
}

// key rises with the size of the change. That of a NaN is the largest; 0 is none.
func (c change) key() uint32 { return math.Float32bits(c.diff) &^ (1 << 31) }

// slack is how many changes are kept at least before some are dropped.
const slack = 8192

// largest returns the k words that differ most, the first ones of those that differ
// as much, in the order of the tensor: fewer, if fewer differ. A difference that f32
// cannot tell from 0 is none. The next call overwrites them.
func (s *selector) largest(base, cur []byte, d tensor.DType, k int) []change {
	size := d.Size()
	s.found, s.least = s.found[:0], 0
	for at := 0; at < len(cur); at += block {
		end := min(at+block, len(cur))
		words := s.words(base[at:end], cur[at:end], size)
		first := uint32(at / size)
		for i, diff := range s.differences(base[at:end], cur[at:end], words, d) {
			if c := (change{first + uint32(words[i]), diff}); c.key() > s.least {
				s.found = append(s.found, c)
			}
		}
		if len(s.found) >= 2*k+slack {
			s.drop(k)
		}
	}
	if len(s.found) > k {
		s.drop(k)
	}
	return s.found
}

// differences returns those of the given words.
func (s *selector) differences(base, cur []byte, at []uint16, d tensor.DType) []float32 {
	old, now, diff := s.old[:len(at)*d.Size()], s.now[:len(at)*d.Size()], s.wide[:len(at)]
	gather(old, base, at, d.Size())
	gather(now, cur, at, d.Size())
	if d == tensor.F64 {
		old := tensor.Slice[float64](old)
		for i, x := range tensor.Slice[float64](now) {
			diff[i] = float32(x - old[i])
		}
		return diff
	}
	from := s.from[:len(at)]
	tensor.Widen(from, old, d)
	tensor.Widen(diff, now, d)
	for i, x := range from {
		diff[i] -= x
	}
	return diff
}

// drop leaves the k largest of more changes, and sets least to the key of the last
// that is left.
func (s *selector) drop(k int) {
	edge, ties := uint32(0), k // the upper bits of its key, and how many changes with them stay
	for _, level := range []struct{ shift, bits int }{{20, 11}, {10, 10}, {0, 10}} {
		clear(s.count[:])
		mask := uint32(1)<<level.bits - 1
		for _, c := range s.found {
			if key := c.key(); key>>level.shift>>level.bits == edge {
				s.count[key>>level.shift&mask]++
			}
		}
		at := mask
		for ; s.count[at] < ties; at-- {
			ties -= s.count[at]
		}
		edge = edge<<level.bits | at
	}
	s.least = edge
	s.found = slices.DeleteFunc(s.found, func(c change) bool {
		if c.key() == edge {
			ties--
			return ties < 0
		}
		return c.key() < edge
	})
}

// topk keeps the share of a tensor's words that differ most from the base, and sets
// the others to the base's. What follows finds them by that.
type topk struct {
	selector
	percent float64
}

func newTopK(percent float64) stage { return &topk{percent: percent} }

func (*topk) takes(in words) (words, error) { return in, countedFloats(in) }

func (t *topk) encode(dst, base, cur []byte, in words) (int, error) {
	if len(dst) < len(cur) {
		return 0, errPlain
	}
	size := in.dtype.Size()
	copy(dst, base)
	for _, c := range t.largest(base, cur, in.dtype, share(t.percent, len(cur)/size)) {
		at := int(c.word) * size
		put(dst[at:], cur[at:], size)
	}
	return len(cur), nil
}

func (*topk) decode(dst, _, src []byte, _ words) (int, error) { return copy(dst, src), nil }

// share returns so many percent of n words, rounded up.
func share(percent float64, n int) int {
	return min(int(math.Ceil(percent*float64(n)/100)), n)
}

// countedFloats is why a stage that selects words does not take in.
func countedFloats(in words) error {
	if err := wantFloats(in); err != nil {
		return err
	}
	return few(in)
}
