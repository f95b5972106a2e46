package tensor

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"ipcbench/internal/kernel"
	"ipcbench/internal/test/check"
)

// An accessor reads and writes elements as float64s, which are exact except for large i64s.
type accessor struct {
	get func(data []byte, i int) float64
	set func(data []byte, i int, v float64)
}

func access[T Number](get func(T) float64, set func(float64) T) accessor {
	return accessor{
		func(data []byte, i int) float64 { return get(Slice[T](data)[i]) },
		func(data []byte, i int, v float64) { Slice[T](data)[i] = set(v) },
	}
}

func plain[T Number]() accessor {
	return access(func(w T) float64 { return float64(w) }, func(v float64) T { return T(v) })
}

func half(get func(uint16) float32, set func(float32) uint16) accessor {
	return access(func(w uint16) float64 { return float64(get(w)) }, func(v float64) uint16 { return set(float32(v)) })
}

var accessors = map[DType]accessor{
	F16: half(kernel.F16ToFloat32, kernel.Float32ToF16), BF16: half(kernel.BF16ToFloat32, kernel.Float32ToBF16),
	F32: plain[float32](), F64: plain[float64](), Bool: plain[uint8](), U8: plain[uint8](),
	I8: plain[int8](), I16: plain[int16](), I32: plain[int32](), I64: plain[int64](),
}

// setElems writes values, which d must be able to represent, to data.
func setElems(data []byte, d DType, values []float64) {
	for i, v := range values {
		accessors[d].set(data, i, v)
	}
}

func elemsOf(data []byte, d DType) []float64 {
	values := make([]float64, len(data)/d.Size())
	for i := range values {
		values[i] = accessors[d].get(data, i)
	}
	return values
}

func vector(t testing.TB, d DType, n int) *Layout {
	return mustLayout(t, []Spec{{Name: "v", DType: d, Shape: []int{n}}})
}

// averaged returns the average of one element of several clients by the rules of Average. From is the element of the
// base, or 0 without a base.
func averaged(d DType, weights, values []float64, from float64) float64 {
	total, trues, sum := 0.0, 0.0, new(big.Rat)
	for i, w := range weights {
		total += w
		if values[i] != 0 {
			trues += w
		}
	}
	switch {
	case d.Float():
		return floats(d, weights, values, total, from)
	case d != Bool: // the nearest to the true average, ties to even
		for i, w := range weights {
			share := new(big.Rat).SetFloat64(w)
			sum.Add(sum, share.Mul(share, new(big.Rat).SetFloat64(values[i])))
		}
		mean, _ := sum.Quo(sum, new(big.Rat).SetFloat64(total)).Float64()
		return math.RoundToEven(mean)
	case 2*trues > total:
		return 1
	}
	return 0
}

// floats adds products one by one. Each product and each sum is rounded separately, to float32 except for f64. Rounding
// a sum of float32s twice gives the same result as rounding it once.
func floats(d DType, weights, values []float64, total, from float64) float64 {
	round := func(v float64) float64 { return float64(float32(v)) }
	if d == F64 {
		round = func(v float64) float64 { return float64(v) }
	}
	sum := 0.0
	if d.Size() > 2 {
		sum = from
	}
	for i, v := range values {
		if v != from {
			sum = round(sum + round(round(weights[i]/total)*round(v-from)))
		}
	}
	if d.Size() == 2 && from != 0 {
		sum = round(from + sum)
	}
	rounded := make([]byte, 8)
	setElems(rounded, d, []float64{sum})
	return accessors[d].get(rounded, 0)
}

// TestAverage: averages, and averages of differences from a base, follow the rules for each element, at sizes around
// the steps of all loops.
func TestAverage(t *testing.T) {
	edges := map[DType][]float64{
		F16: {-4, 65504, -65504, math.Inf(1)}, BF16: {0, -4, math.Inf(1)}, F32: {0, -4, math.Inf(1)}, F64: {0, -4, math.Inf(1)},
		I8: {math.MinInt8, math.MaxInt8}, I16: {math.MinInt16, math.MaxInt16}, I32: {math.MinInt32, math.MaxInt32},
		I64: {-1 << 42, 1 << 42}, U8: {0, math.MaxUint8}, Bool: {0, 1, 2, 255},
	}
	clients := [][]float64{{7}, {1, 3}, {1, 1}, {0, 1}, {1, 1, 1}, {0.25, 0.75}, {3, 5, 11}, {1, 2, 4, 7}, slices.Repeat([]float64{1}, 10)}
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range DTypes() {
		draw := func(l *Layout) *Package {
			p := Alloc(l)
			Fill(p, r.Uint64())
			for i := range p.Elements() {
				if d == I64 {
					Slice[int64](p.View(0))[i] >>= 21 // so that sums are exact
				}
				if r.IntN(4) == 0 {
					accessors[d].set(p.View(0), i, edges[d][r.IntN(len(edges[d]))])
				}
			}
			return p
		}
		for _, n := range []int{0, 1, 7, 8, 33, 513} {
			l := vector(t, d, n)
			before, a := Alloc(l), NewAverage(l) // one for all rounds, because leftovers of a round must not affect the next
			for c, weights := range append(clients, clients...) {
				base, next, total := Alloc(l), Alloc(l), 0.0
				Fill(next, 99) // old contents must not affect the average
				for _, w := range weights {
					total += w
				}
				if c < len(clients) {
					check.Must(t, a.Begin(next, total))
				} else {
					base.CopyFrom(before)
					check.Must(t, a.BeginFrom(next, base, total))
				}
				values := make([][]float64, n)
				for _, w := range weights {
					update := draw(l)
					for i := range n {
						if c >= len(clients) && r.IntN(2) == 0 {
							copy(update.View(0)[i*d.Size():(i+1)*d.Size()], base.View(0)[i*d.Size():])
						}
						values[i] = append(values[i], accessors[d].get(update.View(0), i))
					}
					check.Must(t, a.Fold(update, w))
				}
				check.Must(t, a.Finish())
				before = next
				for i, got := range elemsOf(next.View(0), d) {
					from := accessors[d].get(base.View(0), i)
					want := averaged(d, weights, values[i], from)
					check.Need(t, got == want || got != got && want != want,
						"%v: element %d of %v became %v with weights %v and base %v, want %v", d, i, values[i], got, weights, from, want)
				}
			}
		}
	}
}

// TestAverageClampsI64: an average beyond the limits of i64, which are not exact as floats, is clamped.
func TestAverageClampsI64(t *testing.T) {
	l := vector(t, I64, 2)
	p, next, a := Alloc(l), Alloc(l), NewAverage(l)
	copy(Slice[int64](p.View(0)), []int64{math.MaxInt64, math.MinInt64})
	check.Must(t, a.Begin(next, 3))
	for range 3 {
		check.Must(t, a.Fold(p, 1))
	}
	check.Must(t, a.Finish())
	check.Equal(t, Slice[int64](next.View(0)), []int64{math.MaxInt64, math.MinInt64})
}

// mixedLayout has every data type at sizes around the steps of all loops, with scalars and empty tensors.
func mixedLayout(t testing.TB) *Layout {
	var specs []Spec
	for _, d := range DTypes() {
		specs = append(specs, Spec{Name: d.String(), DType: d})
		for _, n := range []int{0, 1, 7, 8, 9, 33, 1025} {
			specs = append(specs, Spec{Name: fmt.Sprint(d, n), DType: d, Shape: []int{n}})
		}
	}
	return mustLayout(t, specs)
}

// round trains one client per weight and returns the average of the updates. If the key changes only a share of the
// elements, it averages differences from the model.
func round(t testing.TB, model *Package, key Key, weights ...float64) *Package {
	t.Helper()
	a, next, update, total := NewAverage(model.Layout()), Alloc(model.Layout()), Alloc(model.Layout()), 0.0
	Fill(next, 99) // old contents must not affect the average
	for _, w := range weights {
		total += w
	}
	if key.Change == (Change{}) {
		check.Must(t, a.Begin(next, total))
	} else {
		check.Must(t, a.BeginFrom(next, model, total))
	}
	for client, w := range weights {
		key.Client = client
		check.Must(t, Train(update, model, key))
		check.Must(t, Prove(update, model, key))
		check.Must(t, a.Fold(update, w))
	}
	check.Must(t, a.Finish())
	return next
}

// TestModelsAreTheSameEverywhere: a session's models are the same on every processor, and in every version whose
// results are compared, even if only a share of the elements changes.
func TestModelsAreTheSameEverywhere(t *testing.T) {
	model, part := Alloc(mixedLayout(t)), Alloc(mixedLayout(t))
	Fill(model, 1)
	FillNormal(part, 1)
	got := []uint64{model.Hash()}
	for n := range 3 {
		model = round(t, model, Key{Seed: 1, Round: n}, 600, 601, 602, 599, 3)
		got = append(got, model.Hash())
	}
	for n, text := range []string{"2%", "30%", "70%", "10%/rows"} {
		part = round(t, part, Key{Seed: 3, Round: n, Change: mustChange(t, text)}, 600, 601, 3)
		got = append(got, part.Hash())
	}
	want := "[d315893d2df35ee4 aafd1c3c08a37a59 f8fefaba2f6fd0bb 2d93440da4aaea13 " +
		"7568661b64ad0167 247328d0fbe3bcb8 d6ceadba814356c9 33bf1ada549e33ad]"
	check.Equal(t, fmt.Sprintf("%x", got), want, "hashes of the models")
	check.Equal(t, model.Layout().Digest(), 0x4bbb2919ca0d008d, "digest of the layout")
}

// TestModelsStaySound: in many rounds no element of a model or an update becomes a NaN, an infinity or a bool of 2.
func TestModelsStaySound(t *testing.T) {
	model := Alloc(mixedLayout(t))
	update := Alloc(model.Layout())
	Fill(model, 5)
	sound(t, model)
	for n := range 50 {
		check.Must(t, Train(update, model, Key{Seed: 5, Round: n}))
		sound(t, update)
		model = round(t, model, Key{Seed: 5, Round: n}, 1, 1, 1)
		sound(t, model)
	}
}

// sound checks that floats are between 0.5 and 4, and bools are 0 or 1.
func sound(t testing.TB, p *Package) {
	t.Helper()
	for i := range p.Len() {
		d := p.Layout().Spec(i).DType
		for j, x := range elemsOf(p.View(i), d) {
			switch d {
			case F16, BF16, F32, F64:
				check.Need(t, x > 0.5 && x < 4, "%v %d of tensor %d is %v", d, j, i, x)
			case Bool:
				check.Need(t, x == 0 || x == 1, "bool %d of tensor %d is %v", j, i, x)
			}
		}
	}
}

func TestAverageRefuses(t *testing.T) {
	l := vector(t, F32, 2)
	p, other, a := Alloc(l), Alloc(vector(t, F32, 2)), NewAverage(l)
	for _, total := range []float64{0, -1, math.NaN(), math.Inf(1), 0x1p54, 0x1p-54} {
		check.That(t, a.Begin(p, total) != nil, "total weight %v passes", total)
	}
	check.That(t, a.Begin(other, 1) != nil, "a next model of another layout passes")
	rows := ragged(t)
	check.Fails(t, NewAverage(rows).Begin(Alloc(rows), 1), `cannot average "rollout", because its length varies`)
	check.That(t, a.BeginFrom(p, other, 1) != nil, "differences from a model of another layout pass")
	check.Must(t, a.Begin(p, 2))
	check.That(t, a.Finish() != nil, "no updates pass")
	check.That(t, a.Fold(other, 1) != nil, "an update of another layout passes")
	for _, w := range []float64{-1, math.NaN(), math.Inf(1)} {
		check.That(t, a.Fold(Alloc(l), w) != nil, "weight %v passes", w)
	}
	check.Must(t, a.Begin(p, 2))
	check.OK(t, a.Fold(Alloc(l), 1))
	check.That(t, a.Finish() != nil, "half of the weight passes for all")
}
