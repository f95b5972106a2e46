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

	block [512]float32 // scratch of accumulateHalf, small enough for the fastest cache
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
		switch a.layout.Spec(i).DType {
		case F32:
			accumulate(Slice[float32](dst), Slice[float32](src), float32(share), first)
		case F64:
			accumulate(Slice[float64](dst), Slice[float64](src), share, first)
		case F16:
			a.accumulateHalf(a.narrow[i], Slice[uint16](src), float32(share), first, widenF16)
		case BF16:
			a.accumulateHalf(a.narrow[i], Slice[uint16](src), float32(share), first, widenBF16)
		case I8:
			accumulate(a.narrow[i], Slice[int8](src), float32(weight), first)
		case I16:
			accumulate(a.narrow[i], Slice[int16](src), float32(weight), first)
		case U8:
			accumulate(a.narrow[i], Slice[uint8](src), float32(weight), first)
		case Bool:
			accumulateBool(a.wide[i], src, weight, first)
		case I32:
			accumulate(a.wide[i], Slice[int32](src), weight, first)
		case I64:
			accumulate(a.wide[i], Slice[int64](src), weight, first)
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
	if a.base != nil {
		a.finishDifferences()
		return nil
	}
	for i := range a.next.Len() {
		dst := a.next.View(i)
		switch a.layout.Spec(i).DType {
		case F16:
			narrowF16(Slice[uint16](dst), a.narrow[i])
		case BF16:
			narrowBF16(Slice[uint16](dst), a.narrow[i])
		case I8:
			finishInt(Slice[int8](dst), a.narrow[i], a.total, math.MinInt8, math.MaxInt8)
		case I16:
			finishInt(Slice[int16](dst), a.narrow[i], a.total, math.MinInt16, math.MaxInt16)
		case U8:
			finishInt(Slice[uint8](dst), a.narrow[i], a.total, 0, math.MaxUint8)
		case Bool:
			finishBool(Slice[uint8](dst), a.wide[i], a.total/2)
		case I32:
			finishInt(Slice[int32](dst), a.wide[i], a.total, math.MinInt32, math.MaxInt32)
		case I64:
			finishInt(Slice[int64](dst), a.wide[i], a.total, math.MinInt64, math.MaxInt64)
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
	// Eight at a time: this is most of the server's work in a round, and half as
	// fast again as one at a time.
	n := len(src) &^ 7
	for i := 0; i < n; i += 8 {
		a, x := (*[8]A)(acc[i:]), (*[8]T)(src[i:])
		a[0] += A(share * A(x[0]))
		a[1] += A(share * A(x[1]))
		a[2] += A(share * A(x[2]))
		a[3] += A(share * A(x[3]))
		a[4] += A(share * A(x[4]))
		a[5] += A(share * A(x[5]))
		a[6] += A(share * A(x[6]))
		a[7] += A(share * A(x[7]))
	}
	for i, x := range src[n:] {
		acc[n+i] += A(share * A(x))
	}
}

// accumulateHalf does the same with floats of 16 bits, which widen turns into
// float32.
func (a *Average) accumulateHalf(acc []float32, src []uint16, share float32, first bool, widen func([]float32, []uint16)) {
	for len(src) > 0 {
		n := min(len(src), len(a.block))
		widen(a.block[:n], src[:n])
		accumulate(acc[:n], a.block[:n], share, first)
		acc, src = acc[n:], src[n:]
	}
}

// accumulateBool adds weight where src is true. Whatever is not 0 is: a peer's
// 255 counts as one voice.
func accumulateBool(acc []float64, src []byte, weight float64, first bool) {
	if first {
		clear(acc)
	}
	for i, x := range src {
		if x != 0 {
			acc[i] += weight
		}
	}
}

// finishInt divides acc by total, rounds to nearest even and clamps to [low,
// high], which are dst's limits. A limit that no float hits exactly (2^63-1) is
// reached by comparing before the conversion.
func finishInt[T Number, A float32 | float64](dst []T, acc []A, total float64, low, high int64) {
	for i, x := range acc {
		dst[i] = rounded[T](float64(x)/total, low, high)
	}
}

func rounded[T Number](x float64, low, high int64) T {
	switch r := math.RoundToEven(x); {
	case r >= float64(high):
		return T(high)
	case r <= float64(low):
		return T(low)
	default:
		return T(r)
	}
}

func finishBool(dst []uint8, acc []float64, half float64) {
	for i, x := range acc {
		dst[i] = 0
		if x > half {
			dst[i] = 1
		}
	}
}
