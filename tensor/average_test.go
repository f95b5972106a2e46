package tensor

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"ipcbench/internal/kernel"
	"ipcbench/internal/test/check"

	"pgregory.net/rapid"
)

// setElems writes values, which d must be able to hold, to data.
func setElems(data []byte, d DType, values []float64) {
	for i, v := range values {
		switch d {
		case F16:
			Slice[uint16](data)[i] = kernel.Float32ToF16(float32(v))
		case BF16:
			Slice[uint16](data)[i] = kernel.Float32ToBF16(float32(v))
		case F32:
			Slice[float32](data)[i] = float32(v)
		case F64:
			Slice[float64](data)[i] = v
		case I8:
			Slice[int8](data)[i] = int8(v)
		case I16:
			Slice[int16](data)[i] = int16(v)
		case I32:
			Slice[int32](data)[i] = int32(v)
		case I64:
			Slice[int64](data)[i] = int64(v)
		default:
			data[i] = uint8(v)
		}
	}
}

// elemsOf returns the elements of data as float64s, which are exact but for
// large i64s.
func elemsOf(data []byte, d DType) []float64 {
	values := make([]float64, len(data)/d.Size())
	for i := range values {
		switch d {
		case F16:
			values[i] = float64(kernel.F16ToFloat32(Slice[uint16](data)[i]))
		case BF16:
			values[i] = float64(kernel.BF16ToFloat32(Slice[uint16](data)[i]))
		case F32:
			values[i] = float64(Slice[float32](data)[i])
		case F64:
			values[i] = Slice[float64](data)[i]
		case I8:
			values[i] = float64(Slice[int8](data)[i])
		case I16:
			values[i] = float64(Slice[int16](data)[i])
		case I32:
			values[i] = float64(Slice[int32](data)[i])
		case I64:
			values[i] = float64(Slice[int64](data)[i])
		default:
			values[i] = float64(data[i])
		}
	}
	return values
}

func vector(t testing.TB, d DType, n int) *Layout {
	return mustLayout(t, []Spec{{Name: "v", DType: d, Shape: []int{n}}})
}

// average returns the average of updates of one tensor each.
func average(t testing.TB, l *Layout, weights []float64, updates ...[]float64) *Package {
	t.Helper()
	d, a, next, total := l.Spec(0).DType, NewAverage(l), Alloc(l), 0.0
	Fill(next, 99) // what was there must not show
	for _, w := range weights {
		total += w
	}
	check.Must(t, a.Begin(next, total))
	for i, u := range updates {
		p := Alloc(l)
		setElems(p.View(0), d, u)
		check.Must(t, a.Fold(p, weights[i]))
	}
	check.Must(t, a.Finish())
	return next
}

func TestAverageKnownAnswers(t *testing.T) {
	type values = []float64
	var (
		equal = values{1, 1}
		third = values{1, 1, 1}
	)
	tests := []struct {
		name    string
		dtypes  []DType
		weights values
		updates []values
		want    values
	}{
		{"one client", DTypes(), values{7}, []values{{0, 1}}, values{0, 1}},
		{"floats by weight", []DType{F16, BF16, F32, F64}, values{1, 3}, []values{{1, -4, 0}, {2, 4, 1}}, values{1.75, 2, 0.75}},
		{"signed by weight", []DType{I8, I16, I32, I64}, values{1, 3}, []values{{1, -4, -100}, {3, 4, 100}}, values{2, 2, 50}},
		{"unsigned by weight", []DType{U8}, values{1, 3}, []values{{1, 0, 255}, {3, 4, 251}}, values{2, 3, 252}},
		{"fractions as weights", []DType{F64, I8, I64}, values{0.25, 0.75}, []values{{4}, {8}}, values{7}},
		{"weight of nothing", []DType{F32, I32, U8}, values{0, 1}, []values{{9}, {5}}, values{5}},
		{"ties to even", []DType{I8, I16, I32, I64}, equal,
			[]values{{0, 1, 2, -1, -2, -3}, {1, 2, 3, 0, -1, -2}}, values{0, 2, 2, 0, -2, -2}},
		{"ties to even, unsigned", []DType{U8}, equal, []values{{0, 1, 254}, {1, 2, 255}}, values{0, 2, 254}},
		{"ties of f16", []DType{F16}, equal, []values{{1, 1 + 0x1p-10}, {1 + 0x1p-10, 1 + 0x1p-9}}, values{1, 1 + 0x1p-9}},
		{"ties of bf16", []DType{BF16}, equal, []values{{1, 1 + 0x1p-7}, {1 + 0x1p-7, 1 + 0x1p-6}}, values{1, 1 + 0x1p-6}},
		{"rounded once", []DType{F16}, values{1, 1, 1, 1}, []values{{1}, {1}, {1}, {1 + 0x1p-10}}, values{1}},
		{"limits of i8", []DType{I8}, third, []values{{127, -128}, {127, -128}, {127, -128}}, values{127, -128}},
		{"limits of i16", []DType{I16}, third, []values{{32767, -32768}, {32767, -32768}, {32767, -32768}}, values{32767, -32768}},
		{"limits of i32", []DType{I32}, third, []values{{math.MaxInt32, math.MinInt32}, {math.MaxInt32, math.MinInt32}, {math.MaxInt32, math.MinInt32}}, values{math.MaxInt32, math.MinInt32}},
		{"limits of u8", []DType{U8}, third, []values{{255, 0}, {255, 0}, {255, 0}}, values{255, 0}},
		{"limits of f16", []DType{F16}, equal, []values{{65504, -65504}, {65504, -65504}}, values{65504, -65504}},
		{"infinity", []DType{F16, BF16, F32, F64}, equal, []values{{math.Inf(1)}, {1}}, values{math.Inf(1)}},
		{"bools by majority", []DType{Bool}, third, []values{{1, 1, 0, 0}, {1, 0, 1, 0}, {1, 1, 0, 0}}, values{1, 1, 0, 0}},
		{"bools in a tie", []DType{Bool}, equal, []values{{1, 0}, {0, 1}}, values{0, 0}},
		{"a bool above 1 is a true and no more", []DType{Bool}, third, []values{{255, 2}, {0, 255}, {0, 1}}, values{0, 1}},
		{"bools by weight", []DType{Bool}, values{3, 2}, []values{{1, 0}, {0, 1}}, values{1, 0}},
		{"bools, half of ten", []DType{Bool}, slices.Repeat(values{1}, 10),
			[]values{{1}, {1}, {1}, {1}, {1}, {0}, {0}, {0}, {0}, {0}}, values{0}},
		{"bools, half of 14 by weight", []DType{Bool}, values{1, 2, 4, 7}, []values{{1, 0}, {1, 0}, {1, 0}, {0, 1}}, values{0, 0}},
	}
	for _, test := range tests {
		for _, d := range test.dtypes {
			l := vector(t, d, len(test.want))
			got := elemsOf(average(t, l, test.weights, test.updates...).View(0), d)
			check.That(t, slices.Equal(got, test.want), "%s, %v: %v, want %v", test.name, d, got, test.want)
		}
	}
}

// The limits of i64 are not exact as floats; a result beyond them is clamped.
func TestAverageClampsI64(t *testing.T) {
	l := vector(t, I64, 2)
	p, next, a := Alloc(l), Alloc(l), NewAverage(l)
	copy(Slice[int64](p.View(0)), []int64{math.MaxInt64, math.MinInt64})
	for range 2 { // the scratch memory of the first round must not show in the second
		check.Must(t, a.Begin(next, 3))
		for range 3 {
			check.Must(t, a.Fold(p, 1))
		}
		check.Must(t, a.Finish())
		got := Slice[int64](next.View(0))
		check.That(t, got[0] == math.MaxInt64 && got[1] == math.MinInt64, "got %d", got)
	}
}

// Whole weights give whole numbers exactly: the nearest to the true average,
// ties to even, computed here with fractions.
func TestAverageOfIntegersIsExact(t *testing.T) {
	limits := map[DType][2]int64{
		I8: {math.MinInt8, math.MaxInt8}, I16: {math.MinInt16, math.MaxInt16}, U8: {0, math.MaxUint8},
		I32: {math.MinInt32, math.MaxInt32}, I64: {-1 << 42, 1 << 42},
	}
	rapid.Check(t, func(r *rapid.T) {
		d := rapid.SampledFrom([]DType{I8, I16, U8, I32, I64}).Draw(r, "dtype")
		clients := rapid.IntRange(1, 5).Draw(r, "clients")
		var weights []float64
		var updates [][]float64
		sum, total := new(big.Rat), int64(0)
		for range clients {
			w := rapid.Int64Range(1, 100).Draw(r, "weight")
			x := rapid.Int64Range(limits[d][0], limits[d][1]).Draw(r, "value")
			weights, updates = append(weights, float64(w)), append(updates, []float64{float64(x)})
			sum.Add(sum, new(big.Rat).SetInt64(w*x))
			total += w
		}
		mean := sum.Quo(sum, new(big.Rat).SetInt64(total))
		want := new(big.Int).Div(mean.Num(), mean.Denom()) // towards minus infinity
		over := new(big.Rat).Sub(mean, new(big.Rat).SetInt(want))
		if c := over.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && want.Bit(0) == 1 {
			want.Add(want, big.NewInt(1))
		}
		got := elemsOf(average(t, vector(t, d, 1), weights, updates...).View(0), d)[0]
		check.Need(r, got == float64(want.Int64()), "%v with weights %v: %v, want %v", updates, weights, got, want)
	})
}

// A counter on which all clients agree does not drift.
func TestAverageKeepsCounters(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		weights := rapid.SliceOfN(rapid.Map(rapid.IntRange(1, 1000), func(n int) float64 { return float64(n) }), 1, 20).Draw(r, "weights")
		x := float64(rapid.Int64Range(0, 1<<53/20_000).Draw(r, "counter"))
		updates := slices.Repeat([][]float64{{x}}, len(weights))
		got := elemsOf(average(t, vector(t, I64, 1), weights, updates...).View(0), I64)[0]
		check.Need(r, got == x, "%v became %v", x, got)
	})
}

// Floats are accumulated one after another with every product and every sum
// rounded by itself, which float64 arithmetic shows for float32: it is exact for
// products, and two roundings of a sum are as good as one.
func TestAverageOfFloats(t *testing.T) {
	for _, d := range []DType{F16, BF16, F32} {
		for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 511, 512, 513, 1025} {
			const clients = 3
			weights := []float64{3, 5, 11}
			l := vector(t, d, n)
			want := make([]float64, n)
			var updates [][]float64
			for c := range clients {
				p := Alloc(l)
				Fill(p, uint64(c))
				u := elemsOf(p.View(0), d)
				updates = append(updates, u)
				share := float64(float32(weights[c] / 19))
				for i, x := range u {
					want[i] = float64(float32(want[i] + float64(float32(share*x))))
				}
			}
			w := Alloc(l)
			setElems(w.View(0), d, want)
			if got := average(t, l, weights, updates...); got.Hash() != w.Hash() {
				t.Errorf("%d elements of %v: %v, want %v", n, d, elemsOf(got.View(0), d), elemsOf(w.View(0), d))
			}
		}
	}
}

// mixedLayout has every data type at sizes around the steps of all loops, and
// scalars and empties.
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

// rounds trains models of layout l for some rounds, as a session does, and
// returns the hashes of the models.
func rounds(t testing.TB, l *Layout, n int, weights []float64, reverse bool) []uint64 {
	t.Helper()
	model, next, update, a := Alloc(l), Alloc(l), Alloc(l), NewAverage(l)
	Fill(model, 1)
	total, hashes := 0.0, []uint64{model.Hash()}
	order := make([]int, len(weights))
	for i, w := range weights {
		total += w
		order[i] = i
	}
	if reverse {
		slices.Reverse(order)
	}
	for r := range n {
		check.Must(t, a.Begin(next, total))
		for _, c := range order {
			key := Key{Seed: 1, Round: r, Client: c}
			check.Must(t, Train(update, model, key))
			check.Must(t, Prove(update, model, key))
			check.Must(t, a.Fold(update, weights[c]))
		}
		check.Must(t, a.Finish())
		model, next = next, model
		hashes = append(hashes, model.Hash())
	}
	return hashes
}

// The models of a session are the same on every processor, and in every version
// whose results are compared. They depend on the order of the clients.
func TestModelsAreTheSameEverywhere(t *testing.T) {
	weights := []float64{600, 601, 602, 599, 3}
	got := rounds(t, mixedLayout(t), 3, weights, false)
	want := []uint64{0xd315893d2df35ee4, 0xaafd1c3c08a37a59, 0xf8fefaba2f6fd0bb, 0x2d93440da4aaea13}
	check.That(t, slices.Equal(got, want), "hashes of the models are %#x, want %#x", got, want)
	other := rounds(t, mixedLayout(t), 1, weights, true)
	check.That(t, other[1] != got[1], "the order of the clients makes no difference, so this test cannot see one")
}

// Over many rounds nothing becomes a NaN, an infinity or a bool of 2.
func TestModelsStaySound(t *testing.T) {
	l := mixedLayout(t)
	model, next, update, a := Alloc(l), Alloc(l), Alloc(l), NewAverage(l)
	Fill(model, 5)
	for r := range 50 {
		check.Must(t, a.Begin(next, 3))
		for c := range 3 {
			check.Must(t, Train(update, model, Key{Seed: 5, Round: r, Client: c}))
			sound(t, update)
			check.Must(t, a.Fold(update, 1))
		}
		check.Must(t, a.Finish())
		model, next = next, model
	}
	sound(t, model)
}

// sound checks that floats are near 1 and bools are bools.
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
	begin := func() {
		t.Helper()
		check.Must(t, a.Begin(p, 2))
	}
	begin()
	check.That(t, a.Finish() != nil, "no updates pass")
	check.That(t, a.Fold(other, 1) != nil, "an update of another layout passes")
	for _, w := range []float64{-1, math.NaN(), math.Inf(1)} {
		check.That(t, a.Fold(Alloc(l), w) != nil, "weight %v passes", w)
	}
	begin()
	check.OK(t, a.Fold(Alloc(l), 1))
	check.That(t, a.Finish() != nil, "half of the weight passes for all")
}

// After the first round an average allocates nothing.
func TestAverageAllocatesOnce(t *testing.T) {
	l := mixedLayout(t)
	a, next, update := NewAverage(l), Alloc(l), Alloc(l)
	Fill(update, 1)
	check.Equal(t, testing.AllocsPerRun(10, func() {
		check.Need(t, a.Begin(next, 2) == nil && a.Fold(update, 1) == nil && a.Fold(update, 1) == nil && a.Finish() == nil,
			"the average failed")
	}), 0, "allocations a round")
}
