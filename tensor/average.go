package tensor

import (
	"fmt"
	"math"
)

// An Average folds clients' updates into the next global model: federated
// averaging (McMahan et al., "Communication-Efficient Learning of Deep Networks
// from Decentralized Data", 2017), one update at a time.
//
// Updates have to be folded in client order: floating-point addition is not
// associative, and in a fixed order the model is the same bit for bit whichever
// client finished first. The rule for each data type:
//
//   - f32 and f64 accumulate in their own precision, in the next model's memory.
//   - f16 and bf16 accumulate in float32 and are rounded once, to nearest even.
//   - i8, i16 and u8 accumulate in float32, i32 and i64 in float64, and are
//     rounded once, to nearest even, and clamped to their range. i64 counters
//     are therefore exact up to 2^53.
//   - A bool is true if the clients that say so hold more than half the weight.
//
// An Average keeps its scratch memory: after the first round nothing is
// allocated.
type Average struct {
	layout *Layout
	narrow [][]float32 // scratch of f16, bf16, i8, i16, u8 and bool tensors
	wide   [][]float64 // scratch of i32 and i64 tensors

	next   *Package
	total  float64
	folded int
}

// NewAverage returns an Average for models of layout l.
func NewAverage(l *Layout) *Average {
	a := &Average{layout: l, narrow: make([][]float32, l.Len()), wide: make([][]float64, l.Len())}
	for i := range l.Len() {
		elems := l.Bytes(i) / l.Spec(i).DType.Size()
		switch l.Spec(i).DType {
		case F16, BF16, I8, I16, U8, Bool:
			a.narrow[i] = make([]float32, elems)
		case I32, I64:
			a.wide[i] = make([]float64, elems)
		}
	}
	return a
}

// Begin starts a round whose result is written to next. total is the sum of
// the weights of all updates that will be folded; it must be positive.
func (a *Average) Begin(next *Package, total float64) error {
	if next.Layout() != a.layout {
		return fmt.Errorf("tensor: average of models of another layout")
	}
	if !(total > 0) || math.IsInf(total, 0) {
		return fmt.Errorf("tensor: weights of a round sum to %v, want a positive number", total)
	}
	a.next, a.total, a.folded = next, total, 0
	return nil
}

// Fold adds update with the given weight.
func (a *Average) Fold(update *Package, weight float64) error {
	if update.Layout() != a.layout {
		return fmt.Errorf("tensor: average of updates of another layout")
	}
	share := weight / a.total
	first := a.folded == 0
	a.folded++
	for i := range update.Len() {
		src, dst := update.View(i), a.next.View(i)
		switch a.layout.Spec(i).DType {
		case F32:
			accumulate(Of[float32](dst), Of[float32](src), float32(share), first)
		case F64:
			accumulate(Of[float64](dst), Of[float64](src), share, first)
		case F16:
			accumulateBy(a.narrow[i], Of[uint16](src), float32(share), first, F16ToFloat32)
		case BF16:
			accumulateBy(a.narrow[i], Of[uint16](src), float32(share), first, BF16ToFloat32)
		case I8:
			accumulate(a.narrow[i], Of[int8](src), float32(share), first)
		case I16:
			accumulate(a.narrow[i], Of[int16](src), float32(share), first)
		case U8, Bool:
			accumulate(a.narrow[i], Of[uint8](src), float32(share), first)
		case I32:
			accumulate(a.wide[i], Of[int32](src), share, first)
		case I64:
			accumulate(a.wide[i], Of[int64](src), share, first)
		}
	}
	return nil
}

// Finish writes what was accumulated in scratch memory to the next model.
func (a *Average) Finish() error {
	if a.folded == 0 {
		return fmt.Errorf("tensor: average of no updates")
	}
	for i := range a.next.Len() {
		dst := a.next.View(i)
		switch a.layout.Spec(i).DType {
		case F16:
			finishBy(Of[uint16](dst), a.narrow[i], Float32ToF16)
		case BF16:
			finishBy(Of[uint16](dst), a.narrow[i], Float32ToBF16)
		case I8:
			finishInt(Of[int8](dst), a.narrow[i], math.MinInt8, math.MaxInt8)
		case I16:
			finishInt(Of[int16](dst), a.narrow[i], math.MinInt16, math.MaxInt16)
		case U8:
			finishInt(Of[uint8](dst), a.narrow[i], 0, math.MaxUint8)
		case Bool:
			finishBy(Of[uint8](dst), a.narrow[i], func(share float32) uint8 {
				if share > 0.5 {
					return 1
				}
				return 0
			})
		case I32:
			finishInt(Of[int32](dst), a.wide[i], math.MinInt32, math.MaxInt32)
		case I64:
			finishInt(Of[int64](dst), a.wide[i], math.MinInt64, math.MaxInt64)
		}
	}
	return nil
}

// accumulate adds share × src to acc, or sets acc to it. The conversion of the
// product keeps compilers from fusing it with the sum, which would change the
// last bit on some processors.
func accumulate[A float32 | float64, T Number](acc []A, src []T, share A, first bool) {
	acc = acc[:len(src)]
	if first {
		for i, x := range src {
			acc[i] = A(share * A(x))
		}
		return
	}
	for i, x := range src {
		acc[i] += A(share * A(x))
	}
}

func accumulateBy(acc []float32, src []uint16, share float32, first bool, widen func(uint16) float32) {
	acc = acc[:len(src)]
	if first {
		clear(acc)
	}
	for i, x := range src {
		acc[i] += float32(share * widen(x))
	}
}

func finishBy[T Number](dst []T, acc []float32, narrow func(float32) T) {
	for i, x := range acc {
		dst[i] = narrow(x)
	}
}

// finishInt rounds acc to nearest even and clamps it to [low, high], which are
// dst's limits as floats. A limit that no float hits exactly (2^63-1) is
// reached by comparing before the conversion.
func finishInt[T Number, A float32 | float64](dst []T, acc []A, low, high int64) {
	for i, x := range acc {
		switch r := math.RoundToEven(float64(x)); {
		case r >= float64(high):
			dst[i] = T(high)
		case r <= float64(low):
			dst[i] = T(low)
		default:
			dst[i] = T(r)
		}
	}
}
