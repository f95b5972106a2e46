package tensor

import (
	"fmt"
	"math"

	"ipcbench/internal/kernel"
)

// An Average computes the weighted average of clients' updates, which is the next model,
// one update at a time. This is federated averaging (McMahan et al.,
// "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017).
//
// Updates must be folded in client order. Floating-point addition is not associative, so
// only a fixed order gives the same bits whichever client finished first. The rule for
// each data type:
//
//   - f32 and f64 accumulate in their own precision, in the next model's memory.
//   - f16 and bf16 accumulate in float32 and are rounded once, ties to even.
//   - i8, i16 and u8 accumulate in float32, i32 and i64 in float64. The sum is divided by
//     the total weight, rounded once, ties to even, and clamped to the type's range. With
//     whole weights, such as counts of samples, the result is exact while the total
//     weight times the largest value is below 2^24 or 2^53. So a counter with the same
//     value at all clients does not drift.
//   - A bool is true if the clients with any value but 0 have more than half of the
//     weight, summed in float64.
//
// A NaN stays a NaN, but its other bits depend on the processor.
//
// If few elements change, use [Average.BeginFrom]: it averages differences, so an element
// that no client has changed keeps its bits. For f32 and f64, shares of the differences
// are added one by one. For other types, differences are summed as above, added to the
// model's element, and rounded and clamped once. For floats, results differ from the
// rules above; for integers and bools they are equal as long as they are exact.
//
// An Average keeps its scratch memory, so a round allocates nothing. Only one goroutine
// may use it at a time.
type Average struct {
	layout *Layout
	narrow [][]float32 // sums of f16, bf16, i8, i16 and u8 tensors
	wide   [][]float64 // sums of i32, i64 and bool tensors

	next   *Package
	base   *Package // model to average differences from; nil for none
	total  float64  // expected weight of all updates
	weight float64  // weight of the updates folded
	folded int      // number of updates folded
}

// NewAverage returns an Average for models of layout l, with all scratch memory.
func NewAverage(l *Layout) *Average {
	a := &Average{layout: l, narrow: make([][]float32, l.Len()), wide: make([][]float64, l.Len())}
	for i := range l.Len() {
		elems := l.Bytes(i) / l.Spec(i).DType.Size()
		switch l.Spec(i).DType {
		case F16, BF16, I8, I16, U8:
			a.narrow[i] = make([]float32, elems)
		case I32, I64, Bool:
			a.wide[i] = make([]float64, elems)
		}
	}
	return a
}

// Begin starts a round whose result will be in next. total is the sum of the weights of
// all updates; it must be between 2^-53 and 2^53, so that no product leaves its type's
// range. next must have the Average's layout, without Var tensors.
func (a *Average) Begin(next *Package, total float64) error {
	if next.Layout() != a.layout {
		return fmt.Errorf("tensor: the model's layout is not the average's")
	}
	if a.layout.Var() {
		return fmt.Errorf("tensor: cannot average %q, because its length varies", a.layout.specs[a.layout.vars[0]].Name)
	}
	if !(total >= 0x1p-53 && total <= 0x1p53) {
		return fmt.Errorf("tensor: weights of a round must sum to 2^-53 to 2^53, not %v", total)
	}
	a.next, a.base, a.total, a.weight, a.folded = next, nil, total, 0, 0
	return nil
}

// BeginFrom starts a round like [Average.Begin], but averages the differences of updates
// from base. It copies base to next. base must not change until Finish.
func (a *Average) BeginFrom(next, base *Package, total float64) error {
	if err := a.Begin(next, total); err != nil {
		return err
	}
	if base.Layout() != a.layout {
		return fmt.Errorf("tensor: the base's layout is not the average's")
	}
	a.base = base
	for i := range base.Len() {
		copy(next.View(i), base.View(i))
		clear(a.narrow[i])
		clear(a.wide[i])
	}
	return nil
}

// Fold adds update with the given weight and keeps no reference to it. It is an error if
// the layout differs, or if weight is negative or not finite.
func (a *Average) Fold(update *Package, weight float64) error {
	if update.Layout() != a.layout {
		return fmt.Errorf("tensor: the update's layout is not the average's")
	}
	if !(weight >= 0) || math.IsInf(weight, 0) {
		return fmt.Errorf("tensor: weight of an update must be finite and at least 0, not %v", weight)
	}
	share := weight / a.total
	first := a.folded == 0
	a.folded++
	a.weight += weight
	if a.base != nil {
		a.foldDifferences(update, weight)
		return nil
	}
	for i := range update.Len() {
		src, dst := update.View(i), a.next.View(i)
		narrow, wide := a.narrow[i], a.wide[i]
		switch a.layout.Spec(i).DType {
		case F32:
			kernel.F32.Fold(Slice[float32](dst), Slice[float32](src), float32(share), first)
		case F64:
			kernel.F64.Fold(Slice[float64](dst), Slice[float64](src), share, first)
		case F16:
			kernel.F16.Fold(narrow, Slice[uint16](src), float32(share), first)
		case BF16:
			kernel.BF16.Fold(narrow, Slice[uint16](src), float32(share), first)
		case I8:
			kernel.I8.Fold(narrow, Slice[int8](src), float32(weight), first)
		case I16:
			kernel.I16.Fold(narrow, Slice[int16](src), float32(weight), first)
		case U8:
			kernel.U8.Fold(narrow, src, float32(weight), first)
		case Bool:
			kernel.Bool.Fold(wide, src, weight, first)
		case I32:
			kernel.I32.Fold(wide, Slice[int32](src), weight, first)
		case I64:
			kernel.I64.Fold(wide, Slice[int64](src), weight, first)
		}
	}
	return nil
}

// Finish completes the next model. It is an error if nothing was folded, or if the
// weights folded do not add up to the total.
func (a *Average) Finish() error {
	if a.folded == 0 {
		return fmt.Errorf("tensor: no update was folded")
	}
	// Sums made in another order may differ in their last bits.
	if diff := math.Abs(a.weight - a.total); diff > 1e-9*a.total {
		return fmt.Errorf("tensor: weights of the folded updates sum to %v instead of %v", a.weight, a.total)
	}
	for i := range a.next.Len() {
		dst, narrow, wide := a.next.View(i), a.narrow[i], a.wide[i]
		switch a.layout.Spec(i).DType {
		case F16:
			finish(a, kernel.F16, Slice[uint16](dst), narrow)
		case BF16:
			finish(a, kernel.BF16, Slice[uint16](dst), narrow)
		case I8:
			finish(a, kernel.I8, Slice[int8](dst), narrow)
		case I16:
			finish(a, kernel.I16, Slice[int16](dst), narrow)
		case U8:
			finish(a, kernel.U8, dst, narrow)
		case Bool:
			finish(a, kernel.Bool, dst, wide)
		case I32:
			finish(a, kernel.I32, Slice[int32](dst), wide)
		case I64:
			finish(a, kernel.I64, Slice[int64](dst), wide)
		}
	}
	return nil
}

// finish writes the averages of sums to dst, or adds them if a.base is set.
func finish[A float32 | float64, T Number](a *Average, r *kernel.Rule[A, T], dst []T, acc []A) {
	if a.base != nil {
		r.Add(dst, acc, a.total)
		return
	}
	r.Finish(dst, acc, a.total)
}

// foldDifferences adds the differences of update from the base.
func (a *Average) foldDifferences(update *Package, weight float64) {
	share := weight / a.total
	for t := range update.Len() {
		src, base, next := update.View(t), a.base.View(t), a.next.View(t)
		narrow, wide := a.narrow[t], a.wide[t]
		switch a.layout.Spec(t).DType {
		case F32:
			kernel.F32.Differences(Slice[float32](next), Slice[float32](src), Slice[float32](base), float32(share))
		case F64:
			kernel.F64.Differences(Slice[float64](next), Slice[float64](src), Slice[float64](base), share)
		case F16:
			kernel.F16.Differences(narrow, Slice[uint16](src), Slice[uint16](base), float32(share))
		case BF16:
			kernel.BF16.Differences(narrow, Slice[uint16](src), Slice[uint16](base), float32(share))
		case I8:
			kernel.I8.Differences(narrow, Slice[int8](src), Slice[int8](base), float32(weight))
		case I16:
			kernel.I16.Differences(narrow, Slice[int16](src), Slice[int16](base), float32(weight))
		case U8:
			kernel.U8.Differences(narrow, src, base, float32(weight))
		case Bool:
			kernel.Bool.Differences(wide, src, base, weight)
		case I32:
			kernel.I32.Differences(wide, Slice[int32](src), Slice[int32](base), weight)
		case I64:
			kernel.I64.Differences(wide, Slice[int64](src), Slice[int64](base), weight)
		}
	}
}
