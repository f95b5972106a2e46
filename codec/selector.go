package codec

import (
	"math"
	"slices"

	"ipcbench/tensor"
)

// A selector finds the elements of a float tensor that differ most from the base. It does
// not sort. It keeps the largest differences so far. When there are too many, it counts
// them by their bits (a radix select) to find the smallest to keep.
type selector struct {
	differ
	found []change // candidates, ascending by word
	least uint32   // changes with this key, or a smaller one, are too small
	count [1 << 11]int

	old, now   [block]byte // scratch: elements of a block that differ
	from, wide [block / 2]float32
}

// A change is the difference of the element with index word from the base.
type change struct {
	word uint32
	diff float32
}

// key rises with the magnitude of the change. NaNs have the largest; 0 means no change.
func (c change) key() uint32 { return math.Float32bits(c.diff) &^ (1 << 31) }

// largest drops the smallest candidates whenever it has 2k + slack or more.
const slack = 8192

// largest returns the k elements that differ most from the base, or fewer if fewer
// differ, in the order of the tensor. Of equal differences, the first are chosen.
// Differences that are 0 in f32 are ignored. The next call overwrites the result.
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

// differences returns cur - base for the elements at the given indices.
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

// drop keeps the k largest of more changes, and sets least to the smallest key kept.
func (s *selector) drop(k int) {
	edge, ties := uint32(0), k // the upper bits of that key, and how many changes with these bits to keep
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

// topk keeps the percentage of elements that differ most from the base and sets the
// others to the base's values. The next stage sends the differences. See Aji and
// Heafield, "Sparse Communication for Distributed Gradient Descent", 2017.
type topk struct {
	selector
	percent float64
}

func newTopK(percent float64) stage { return &topk{percent: percent} }

func (*topk) accepts(in words) (words, error) { return in, needIndexedFloats(in) }

func (t *topk) encode(dst, base, cur []byte, in words) (int, error) {
	size := in.dtype.Size()
	copy(dst, base)
	for _, c := range t.largest(base, cur, in.dtype, share(t.percent, len(cur)/size)) {
		at := int(c.word) * size
		put(dst[at:], cur[at:], size)
	}
	return len(cur), nil
}

func (*topk) decode(dst, _, src []byte, _ words) (int, error) { return copy(dst, src), nil }

// share returns percent % of n, rounded up.
func share(percent float64, n int) int {
	return min(int(math.Ceil(percent*float64(n)/100)), n)
}

func needIndexedFloats(in words) error {
	if err := needFloats(in); err != nil {
		return err
	}
	return indexable(in)
}
