package codec

import (
	"math"

	"ipcbench/tensor"
)

// A selector finds the words of a tensor of floats that differ most from the base's.
// It sorts nothing: it counts the differences by their upper bits, then those on the
// edge by the next ones, so that it takes as long whatever the values are.
type selector struct {
	count [1 << 11]int
	diff  [compared]float32 // of the words of a block from the base's
	key   [compared]uint32  // the bits of its magnitude; 0: there is none
	old   [compared]float32 // scratch of f16 and bf16
	new   [compared]float32
}

// compared is how many words are at hand at a time: all of it stays in a fast cache.
const compared = 1024

// A cut says which words are kept: those with a larger key than its own, and the
// first ties of those with the same.
type cut struct {
	key  uint32
	ties int
}

// keeps reports whether the next word is kept.
func (c *cut) keeps(key uint32) bool {
	if key == c.key && c.ties > 0 {
		c.ties--
		return true
	}
	return key > c.key
}

// find returns the cut that keeps the k words that differ most, and how many it
// keeps: fewer, if fewer differ. A difference that is not a number is the largest
// there is, and one that f32 cannot tell from 0 is none.
func (s *selector) find(base, cur []byte, d tensor.DType, k int) (cut, int) {
	edge, left := uint64(0), k // the upper bits of the cut's key; words of those with them
	for _, level := range []struct{ shift, bits int }{{20, 11}, {10, 10}, {0, 10}} {
		clear(s.count[:])
		mask, total := uint32(1)<<level.bits-1, 0
		for from := 0; from < len(cur); from += compared * d.Size() {
			for _, key := range s.compare(base, cur, from, d) {
				if key != 0 && uint64(key)>>(level.shift+level.bits) == edge {
					s.count[key>>level.shift&mask]++
					total++
				}
			}
		}
		if total <= left { // in the first pass only: there are no more
			return cut{}, total
		}
		at := mask
		for s.count[at] < left {
			left -= s.count[at]
			at--
		}
		edge = edge<<level.bits | uint64(at)
		if s.count[at] == left {
			return cut{key: uint32(max(edge<<level.shift, 1)) - 1}, k
		}
	}
	return cut{key: uint32(edge), ties: left}, k
}

// compare sets diff and key for the block of words that begins at byte from, and
// returns the keys.
func (s *selector) compare(base, cur []byte, from int, d tensor.DType) []uint32 {
	to := min(from+compared*d.Size(), len(cur))
	base, cur = base[from:to], cur[from:to]
	n := len(cur) / d.Size()
	diff, key := s.diff[:n], s.key[:n]
	if d == tensor.F64 {
		old, now := tensor.Slice[float64](base)[:n], tensor.Slice[float64](cur)[:n]
		for i := range diff {
			diff[i] = float32(now[i] - old[i])
			key[i] = math.Float32bits(diff[i]) &^ (1 << 31)
			if math.Float64bits(now[i]) == math.Float64bits(old[i]) {
				key[i] = 0 // NaN - NaN is no number, nor is the difference of two infinities
			}
		}
		return key
	}
	old, now := s.old[:n], s.new[:n]
	if d == tensor.F32 {
		old, now = tensor.Slice[float32](base)[:n], tensor.Slice[float32](cur)[:n]
	} else {
		tensor.Widen(old, base, d)
		tensor.Widen(now, cur, d)
	}
	for i := range diff {
		diff[i] = now[i] - old[i]
		key[i] = math.Float32bits(diff[i]) &^ (1 << 31)
		if math.Float32bits(now[i]) == math.Float32bits(old[i]) {
			key[i] = 0
		}
	}
	return key
}

// topk keeps the share of a tensor's words that differ most from the base, and sets
// the others to the base's. What follows finds them by that.
type topk struct {
	selector
	percent float64
}

func (*topk) takes(in words) (words, error) { return in, wantFloats(in) }

func (t *topk) encode(dst, base, cur []byte, in words) (int, error) {
	if len(dst) < len(cur) {
		return 0, errPlain
	}
	size := in.dtype.Size()
	cut, _ := t.find(base, cur, in.dtype, share(t.percent, len(cur)/size))
	copy(dst, base)
	for from := 0; from < len(cur); from += compared * size {
		for i, key := range t.compare(base, cur, from, in.dtype) {
			if cut.keeps(key) {
				put(dst[from+i*size:], cur[from+i*size:], size)
			}
		}
	}
	return len(cur), nil
}

func (*topk) decode(dst, _, src []byte, _ words) (int, error) { return copy(dst, src), nil }

// share returns so many percent of n words, rounded up.
func share(percent float64, n int) int {
	return min(int(math.Ceil(percent*float64(n)/100)), n)
}
