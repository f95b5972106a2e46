package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ipcbench/internal/test/check"
)

// lengths has values around the step sizes of the loops, and above a piece.
var lengths = []int{0, 1, 7, 31, 32, 33, 64, 95, 1000, piece, piece + 33, 3*piece + 31}

// withTwins returns the results of f with the vector loops and with their portable twins.
func withTwins[T any](t *testing.T, f func() T) (loops, twins T) {
	t.Helper()
	if !vectors {
		t.Skip("this processor has no AVX2 and F16C: there are only twins")
	}
	loops = f()
	vectors = false
	defer func() { vectors = true }()
	return loops, f()
}

func randomWords(r *rand.Rand, n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = r.Uint64()
	}
	return all
}

func TestWords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range lengths {
		src, x, mask, base := randomWords(r, n), r.Uint64(), r.Uint64(), r.Uint64()
		base &^= mask
		masked, twin := withTwins(t, func() []uint64 {
			dst := make([]uint64, n)
			Mask(dst, src, x, mask)
			return dst
		})
		check.That(t, slices.Equal(masked, twin), "Mask of %d words differs from its twin", n)
		filled, twin := withTwins(t, func() []uint64 {
			dst := make([]uint64, n)
			Fill(dst, x, mask, base)
			return dst
		})
		check.That(t, slices.Equal(filled, twin), "Fill of %d words differs from its twin", n)
		a, b := withTwins(t, func() uint64 { return Digest(src, x) })
		check.That(t, a == b, "Digest of %d words is %x, its twin's %x", n, a, b)
		proveEach(t, n, masked, func(got []uint64) int { return Masked(got, src, x, mask) })
		proveEach(t, n, filled, func(got []uint64) int { return Filled(got, x, mask, base) })
	}
}

// proveEach flips one bit at a time: prove must return the index of the first wrong word.
func proveEach(t *testing.T, n int, right []uint64, prove func([]uint64) int) {
	t.Helper()
	a, b := withTwins(t, func() int { return prove(right) })
	check.That(t, a == -1 && b == -1, "of %d right words, %d is wrong, says the loop, and %d its twin", n, a, b)
	for _, at := range []int{0, 1, 15, 16, 31, 32, n / 2, n - 2, n - 1} {
		if at < 0 || at >= n {
			continue
		}
		right[at] ^= 1 << (at % 64)
		right[n-1] ^= 1 << 63 // a second wrong word after it; if it is the last word, another wrong bit
		want := at
		if at == n-1 && at%64 == 63 {
			want = -1
		}
		a, b := withTwins(t, func() int { return prove(right) })
		check.That(t, a == want && b == want, "of %d words, %d is wrong: the loop says %d, its twin %d", n, want, a, b)
		right[n-1] ^= 1 << 63
		right[at] ^= 1 << (at % 64)
	}
}

func TestRules(t *testing.T) {
	float32s := func(b uint64) float32 { return special32[b>>32%uint64(len(special32))](uint32(b)) }
	test(t, "f32", F32, float32s, float32s)
	float64s := func(b uint64) float64 { return special64[b>>60](b) }
	test(t, "f64", F64, float64s, float64s)
	test(t, "f16", F16, float32s, func(b uint64) uint16 { return uint16(b) })
	test(t, "bf16", BF16, float32s, func(b uint64) uint16 { return uint16(b) })
	test(t, "i8", I8, sums[float32](8), func(b uint64) int8 { return int8(b) })
	test(t, "i16", I16, sums[float32](16), func(b uint64) int16 { return int16(b) })
	test(t, "u8", U8, sums[float32](8), func(b uint64) uint8 { return uint8(b) })
	test(t, "i32", I32, sums[float64](32), func(b uint64) int32 { return int32(b >> (b & 31)) })
	test(t, "i64", I64, sums[float64](64), func(b uint64) int64 { return int64(b) >> (b & 63) })
	test(t, "bool", Bool, sums[float64](1), func(b uint64) uint8 { return uint8(b & (b >> 8)) })
}

// special32 makes random bit patterns, numbers close to each other, zeros and infinities.
var special32 = []func(uint32) float32{
	math.Float32frombits, math.Float32frombits,
	func(b uint32) float32 { return float32(int32(b)) * 0x1p-31 },
	func(b uint32) float32 {
		return []float32{0, float32(math.Copysign(0, -1)), 1, 65519, 65520, 0x1p-25, 0x1.8p-25, float32(math.Inf(1))}[b%8]
	},
}

var special64 = func() (all [16]func(uint64) float64) {
	for i := range all {
		all[i] = math.Float64frombits
		if i%2 == 0 {
			all[i] = func(b uint64) float64 { return []float64{0, math.Copysign(0, -1), 1, float64(b)}[b%4] }
		}
	}
	return all
}()

// sums returns a function that makes sums for integers of width bits: some halfway between
// integers, some at the limits and beyond.
func sums[A float32 | float64](width int) func(uint64) A {
	return func(b uint64) A {
		x := math.Ldexp(float64(int64(b)), width-64)
		switch b % 8 {
		case 0:
			return 0
		case 1:
			x = math.Round(x)
		case 2:
			x = math.Round(x) + 0.5
		case 3:
			x = math.Copysign(math.Ldexp(1, width-1), x)
		case 4:
			x *= 8
		}
		return A(x)
	}
}

// test compares a rule's loops with their twins, for sums and elements of random bits.
func test[A float32 | float64, T comparable](t *testing.T, name string, r *Rule[A, T], sum func(uint64) A, elem func(uint64) T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range lengths {
		acc, src, base := make([]A, n), make([]T, n), make([]T, n)
		for i := range n {
			acc[i], src[i], base[i] = sum(random.Uint64()), elem(random.Uint64()), elem(random.Uint64())
			if random.IntN(3) == 0 {
				base[i] = src[i]
			}
		}
		of := func(do string, f func(acc []A, dst []T)) {
			type both struct {
				acc []A
				dst []T
			}
			got, want := withTwins(t, func() both {
				b := both{slices.Clone(acc), slices.Clone(base)}
				f(b.acc, b.dst)
				return b
			})
			for i := range n {
				if !alike(got.acc[i], want.acc[i]) || !alike(got.dst[i], want.dst[i]) && !nans(r, got.dst[i], want.dst[i]) {
					t.Fatalf("%s, %s of %d elements: element %d is %v, %v, its twin's %v, %v; sum %v, elements %v, %v",
						name, do, n, i, got.acc[i], got.dst[i], want.acc[i], want.dst[i], acc[i], src[i], base[i])
				}
			}
		}
		for _, share := range []A{1, 0.3, 0, 1 << 40} {
			of(fmt.Sprintf("first, share %v", share), func(acc []A, _ []T) { r.Fold(acc, src, share, true) })
			of(fmt.Sprintf("next, share %v", share), func(acc []A, _ []T) { r.Fold(acc, src, share, false) })
			of(fmt.Sprintf("differences, share %v", share), func(acc []A, _ []T) { r.Differences(acc, src, base, share) })
		}
		if r.finish == nil {
			continue
		}
		for _, total := range []float64{1, 3, 0.7, 1 << 52} {
			of(fmt.Sprintf("finish, total %v", total), func(acc []A, dst []T) { r.Finish(dst, acc, total) })
			of(fmt.Sprintf("add, total %v", total), func(acc []A, dst []T) { r.Add(dst, acc, total) })
		}
	}
}

// alike reports whether a and b have the same bits or are both NaN.
func alike[T comparable](a, b T) bool {
	switch x := any(a).(type) {
	case float32:
		y := any(b).(float32)
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	case float64:
		y := any(b).(float64)
		return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
	}
	return a == b
}

// nans reports whether a and b are 16-bit floats that are both NaN.
func nans[A float32 | float64, T any](r *Rule[A, T], a, b T) bool {
	x, ok := any(a).(uint16)
	y, _ := any(b).(uint16)
	widen := F16ToFloat32
	if any(r) == any(BF16) {
		widen = BF16ToFloat32
	}
	p, q := widen(x), widen(y)
	return ok && p != p && q != q
}
