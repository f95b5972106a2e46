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
	sums   []sums // of each tensor

	next   *Package
	base   *Package // model to average differences from; nil for none
	total  float64  // expected weight of all updates
	weight float64  // weight of the updates folded
	folded int      // number of updates folded
}

// NewAverage returns an Average for models of layout l, with all scratch memory.
func NewAverage(l *Layout) *Average {
	a := &Average{layout: l}
	for i, s := range l.specs {
		a.sums = append(a.sums, dtypes[s.DType].elements.newSums(s.DType, l.Bytes(i)/s.DType.Size()))
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
	for i, s := range a.sums {
		copy(next.View(i), base.View(i))
		s.clear()
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
	for i, s := range a.sums {
		if a.base != nil {
			s.differences(a.next.View(i), update.View(i), a.base.View(i), weight, a.total)
		} else {
			s.fold(a.next.View(i), update.View(i), weight, a.total, a.folded == 0)
		}
	}
	a.folded++
	a.weight += weight
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
	for i, s := range a.sums {
		s.finish(a.next.View(i), a.total, a.base != nil)
	}
	return nil
}

// sums are the sums of one tensor's elements. next, update and base are that tensor in the
// Average's packages.
type sums interface {
	clear()
	fold(next, update []byte, weight, total float64, first bool)
	differences(next, update, base []byte, weight, total float64)
	finish(next []byte, total float64, differences bool)
}

type sumsOf[A float32 | float64, T Number] struct {
	rule   *kernel.Rule[A, T]
	apart  []A  // the sums, unless they are inside the next model
	inside bool // as for f32 and f64
	float  bool // shares of updates are summed, instead of products with their weights
}

func (e elements[W, A, T]) newSums(d DType, n int) sums {
	s := &sumsOf[A, T]{rule: e.rule, inside: d == F32 || d == F64, float: d.Float()}
	if !s.inside {
		s.apart = make([]A, n)
	}
	return s
}

// with returns the sums and the factor of an update with that weight.
func (s *sumsOf[A, T]) with(next []byte, weight, total float64) ([]A, A) {
	if s.float {
		weight /= total
	}
	if s.inside {
		return Slice[A](next), A(weight)
	}
	return s.apart, A(weight)
}

func (s *sumsOf[A, T]) clear() { clear(s.apart) }

func (s *sumsOf[A, T]) fold(next, update []byte, weight, total float64, first bool) {
	acc, factor := s.with(next, weight, total)
	s.rule.Fold(acc, Slice[T](update), factor, first)
}

func (s *sumsOf[A, T]) differences(next, update, base []byte, weight, total float64) {
	acc, factor := s.with(next, weight, total)
	s.rule.Differences(acc, Slice[T](update), Slice[T](base), factor)
}

func (s *sumsOf[A, T]) finish(next []byte, total float64, differences bool) {
	switch {
	case s.inside:
	case differences:
		s.rule.Add(Slice[T](next), s.apart, total)
	default:
		s.rule.Finish(Slice[T](next), s.apart, total)
	}
}
