package kernel

import "math"

// A Rule averages elements of type T: it adds them to sums of type A and converts sums to
// elements. T is a Go type of the same size, such as uint16 for F16.
type Rule[A float32 | float64, T any] struct {
	loops loops[A, T]
	// The twins. F32 and F64 have no finish and add: their sums are elements.
	fold        func(acc []A, src []T, share A, first bool)
	differences func(acc []A, src, base []T, share A)
	finish, add func(dst []T, acc []A, total float64)
}

// loops are the loops in assembly, or nil. Their n must be a multiple of step.
type loops[A, T any] struct {
	first, next   func(acc *A, src *T, n int, share A)
	differences   func(acc *A, src, base *T, n int, share A)
	finish, added func(dst *T, acc *A, n int, total float64)
}

// The rules of all element types, for Average in package tensor.
var (
	F32  = &Rule[float32, float32]{loops32, fold[float32, float32], differences(math.Float32bits, float[float32, float32]), nil, nil}
	F64  = &Rule[float64, float64]{loops64, fold[float64, float64], differences(math.Float64bits, float[float64, float64]), nil, nil}
	F16  = half(loopsF16, F16ToFloat32, Float32ToF16)
	BF16 = half(loopsBF16, BF16ToFloat32, Float32ToBF16)
	I8   = integer[float32](loopsI8, math.MinInt8, math.MaxInt8)
	I16  = integer[float32](loopsI16, math.MinInt16, math.MaxInt16)
	U8   = integer[float32](loopsU8, 0, math.MaxUint8)
	I32  = integer[float64](loopsI32, math.MinInt32, math.MaxInt32)
	I64  = integer[float64](loopsI64, math.MinInt64, math.MaxInt64)
	Bool = &Rule[float64, uint8]{loopsBool, foldBool, differences(truth, truth), finishBools, addBools}
)

// Fold adds share × src to acc, or sets acc to that if first is true. It never fuses a
// product with a sum.
func (r *Rule[A, T]) Fold(acc []A, src []T, share A, first bool) {
	acc = acc[:len(src)]
	loop := r.loops.next
	if first {
		loop = r.loops.first
	}
	done := pieces(len(src), func(i, n int) { loop(&acc[i], &src[i], n, share) })
	r.fold(acc[done:], src[done:], share, first)
}

// Differences adds share × (src - base) to acc for elements whose bits differ.
func (r *Rule[A, T]) Differences(acc []A, src, base []T, share A) {
	acc, base = acc[:len(src)], base[:len(src)]
	done := pieces(len(src), func(i, n int) { r.loops.differences(&acc[i], &src[i], &base[i], n, share) })
	r.differences(acc[done:], src[done:], base[done:], share)
}

// Finish converts sums to elements: floats are rounded, integers divided by total and
// rounded, and a bool is true if its sum is above half of total.
func (r *Rule[A, T]) Finish(dst []T, acc []A, total float64) {
	dst = dst[:len(acc)]
	done := pieces(len(acc), func(i, n int) { r.loops.finish(&dst[i], &acc[i], n, total) })
	r.finish(dst[done:], acc[done:], total)
}

// Add converts dst back to sums (integers and bools times total), adds acc and converts as
// Finish does. Elements whose acc is 0 stay unchanged.
func (r *Rule[A, T]) Add(dst []T, acc []A, total float64) {
	dst = dst[:len(acc)]
	done := pieces(len(acc), func(i, n int) { r.loops.added(&dst[i], &acc[i], n, total) })
	r.add(dst[done:], acc[done:], total)
}
