package tensor

import (
	"fmt"
	"math"

	"ipcbench/internal/kernel"
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
//   - i8, i16 and u8 accumulate in float32, i32 and i64 in float64. The sum is
//     divided by the total weight, rounded once, to nearest even, and clamped to
//     the type's range. So with weights that are whole numbers, such as counts of
//     samples, the result is exact as long as the sum of all weights times the
//     largest value is below 2^24 or 2^53: a counter on which the clients agree
//     does not drift.
//   - A bool is true if the clients that say so, with any value but 0, hold more
//     than half the weight, counted in float64.
//
// A NaN stays a NaN, but its other bits depend on the processor.
//
// Where few words change, [Average.BeginFrom] makes an average of differences: a word
// that no client has changed keeps its bits. To f32 and f64, shares of the differences
// are added one by one. Of the other types, they are summed up as above, added to the
// model's word, and rounded and clamped once. It is a rule of its own for floats; of
// integers and bools the result is the same, as long as it is exact.
//
// An Average keeps its scratch memory: after the first round nothing is
// allocated.
type Average struct {
	layout *Layout
	narrow [][]float32 // scratch of f16, bf16, i8, i16 and u8 tensors
	wide   [][]float64 // scratch of i32, i64 and bool tensors

	next   *Package
	base   *Package // of differences; nil for none
	total  float64  // weight of the round
	weight float64  // folded so far
	folded int      // updates
}

// NewAverage returns an Average for models of layout l.
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

// Begin starts a round whose result is written to next. Tensors whose lengths
// vary have no average and are an error. total is the sum of the weights of all
// updates that will be folded. It must lie between 2^-53 and 2^53, so that no
// product leaves the range of its type.
func (a *Average) Begin(next *Package, total float64) error {
	if next.Layout() != a.layout {
		return fmt.Errorf("tensor: average of models of another layout")
	}
	if a.layout.Var() {
		return fmt.Errorf("tensor: average of %q, whose length varies", a.layout.specs[a.layout.vars[0]].Name)
	}
	if !(total >= 0x1p-53 && total <= 0x1p53) {
		return fmt.Errorf("tensor: weights of a round sum to %v, want a positive number up to 2^53", total)
	}
	a.next, a.base, a.total, a.weight, a.folded = next, nil, total, 0, 0
	return nil
}

// BeginFrom starts a round whose result is base, but for the words in which an update
// differs from it: the average of the differences is added to these. base must not
// change until Finish, and a word that equals its own in all updates keeps its bits.
func (a *Average) BeginFrom(next, base *Package, total float64) error {
	if err := a.Begin(next, total); err != nil {
		return err
	}
	if base.Layout() != a.layout {
		return fmt.Errorf("tensor: average of differences from a model of another layout")
	}
	a.base = base
	for i := range base.Len() {
		copy(next.View(i), base.View(i))
		clear(a.narrow[i])
		clear(a.wide[i])
	}
	return nil
}

// Fold adds update with the given weight, and keeps nothing of it. Updates of
// another layout and weights that are negative or not finite are errors. One
// goroutine folds at a time.
func (a *Average) Fold(update *Package, weight float64) error {
	if update.Layout() != a.layout {
		return fmt.Errorf("tensor: average of updates of another layout")
	}
	if !(weight >= 0) || math.IsInf(weight, 0) {
		return fmt.Errorf("tensor: weight of an update is %v", weight)
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

// Finish completes the next model: it writes what was accumulated in scratch
// memory. It is an error if nothing was folded, or not all of the total weight.
func (a *Average) Finish() error {
	if a.folded == 0 {
		return fmt.Errorf("tensor: average of no updates")
	}
	// The sums may differ in their last bits, if they were made in another order.
	if diff := math.Abs(a.weight - a.total); diff > 1e-9*a.total {
		return fmt.Errorf("tensor: updates of weight %v were folded, of %v in all", a.weight, a.total)
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

// finish writes what the sums make, of a model or of what is added to one.
func finish[A float32 | float64, T Number](a *Average, r *kernel.Rule[A, T], dst []T, acc []A) {
	if a.base != nil {
		r.Add(dst, acc, a.total)
		return
	}
	r.Finish(dst, acc, a.total)
}

// foldDifferences adds to the sums what update changes of the base.
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
