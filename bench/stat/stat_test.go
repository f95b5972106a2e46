package stat

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"ipcbench/internal/test/check"
)

// The tests of this package compare with known answers, as guard 19 requires: textbook examples, published tables, and
// simulations with a known outcome.

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-4*max(1, math.Abs(want)) }

func upTo(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i + 1)
	}
	return xs
}

func TestMedianAndMAD(t *testing.T) {
	for _, tt := range []struct {
		name        string
		xs          []float64
		median, mad float64
	}{
		{"one", []float64{7}, 7, 0},
		{"odd", []float64{9, 1, 5}, 5, 4},
		{"even", []float64{4, 1, 3, 2}, 2.5, 1},
		{"textbook", []float64{1, 1, 2, 2, 4, 6, 9}, 2, 1},
		{"an outlier", []float64{1, 2, 3, 4, 1e9}, 3, 1},
	} {
		before := slices.Clone(tt.xs)
		check.Equal(t, Median(tt.xs), tt.median, tt.name, "median")
		check.Equal(t, MAD(tt.xs), tt.mad, tt.name, "MAD")
		check.Equal(t, tt.xs, before, tt.name, "the input")
	}
	check.That(t, math.IsNaN(Median(nil)) && math.IsNaN(MAD(nil)), "there is a median or MAD of nothing")
}

// TestPercentile: the result agrees with NumPy's R-7, and a percentile is reported as unsupported if there are too few
// samples (guard 12).
func TestPercentile(t *testing.T) {
	for _, tt := range []struct {
		xs      []float64
		p, want float64
	}{
		{upTo(10), 90, 9.1},
		{[]float64{1, 2, 3, 4}, 25, 1.75},
		{[]float64{15, 20, 35, 40, 50}, 40, 29},
		{upTo(1000), 99.9, 999.001},
		{[]float64{3, 1, 2}, 100, 3},
	} {
		got, _ := Percentile(tt.xs, tt.p, 1)
		check.That(t, near(got, tt.want), "p%v of %d: got %v, want %v", tt.p, len(tt.xs), got, tt.want)
	}
	for p, n := range map[float64]int{90: 29, 95: 59, 99: 299, 99.9: 2995} { // Wilks
		_, ok := Percentile(upTo(3000), p, n)
		check.That(t, ok, "p%v is not supported by %d samples", p, n)
		_, ok = Percentile(upTo(3000), p, n-1)
		check.That(t, !ok, "p%v is supported by %d samples", p, n-1)
	}
	_, ok := Percentile(upTo(62), 99, 62)
	check.That(t, !ok, "p99 out of 62 samples")
	_, ok = Percentile(nil, 90, 29)
	check.That(t, !ok, "a percentile of nothing")
}

func TestOutliers(t *testing.T) {
	for _, tt := range []struct {
		name string
		xs   []float64
		want int
	}{
		{"none", upTo(9), 0},
		{"two", []float64{2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3}, 2},
		{"all alike", []float64{3, 3, 3, 3, 9}, 0}, // no spread to judge by
		{"nothing", nil, 0},
	} {
		check.Equal(t, Outliers(tt.xs), tt.want, tt.name)
	}
}

// TestOf: the bounds agree with the published table of the ranks that enclose a median at 95 %, and with the lower
// confidence that fewer blocks allow. Blocks count, not rounds (guard 10).
func TestOf(t *testing.T) {
	for _, tt := range []struct {
		blocks     int
		low, high  float64
		confidence float64
	}{
		{1, 1, 1, 0},
		{2, 1, 2, 0.5},
		{3, 1, 3, 0.75},
		{5, 1, 5, 0.9375},
		{6, 1, 6, 0.96875},
		{8, 1, 7, 0.9609375}, // 1 to 8 would also do, with a higher confidence
		{9, 2, 8, 0.9609375},
		{10, 2, 9, 0.978515625},
		{12, 3, 10, 0.961426},
		{15, 4, 12, 0.964844},
		{20, 6, 15, 0.958611},
		{25, 8, 18, 0.956715},
	} {
		var blocks [][]float64
		for k := tt.blocks; k >= 1; k-- {
			m := float64(k)
			blocks = append(blocks, []float64{m + 1000, m, m - 0.5}) // its median is k
		}
		got := Of(blocks)
		want := Interval{Center: Median(upTo(tt.blocks)), Low: tt.low, High: tt.high, Confidence: tt.confidence, Blocks: tt.blocks, N: 3 * tt.blocks}
		check.That(t, near(got.Confidence, want.Confidence), "got confidence %v, want %v", got.Confidence, want.Confidence)
		want.Confidence = got.Confidence
		check.Equal(t, got, want)
		check.That(t, got.Sure() == (tt.blocks >= 6), "got sure %v of %d blocks", got.Sure(), tt.blocks)
	}
	i := Of(nil)
	check.That(t, !i.Known() && i.Blocks == 0, "got %+v of nothing", i)
	i = Of([][]float64{{1, 2, 3}})
	check.That(t, math.IsInf(i.Half(), 1) && !i.Excludes(99), "one block says nothing about the next: got %+v", i)
}

// TestCritical: critical values agree with the published table of the two-sided Mann-Whitney U test.
func TestCritical(t *testing.T) {
	for _, tt := range []struct {
		n, m  int
		alpha float64
		want  int
	}{
		{3, 3, 0.05, -1}, {3, 5, 0.05, 0}, {4, 4, 0.05, 0}, {4, 5, 0.05, 1}, {5, 5, 0.05, 2}, {6, 6, 0.05, 5}, {5, 10, 0.05, 8},
		{7, 7, 0.05, 8}, {8, 8, 0.05, 13}, {9, 9, 0.05, 17}, {10, 10, 0.05, 23}, {15, 15, 0.05, 64}, {20, 20, 0.05, 127},
		{4, 4, 0.01, -1}, {5, 5, 0.01, 0}, {6, 6, 0.01, 2}, {10, 10, 0.01, 16}, {20, 20, 0.01, 105},
		{30, 30, 0.05, 317}, {40, 40, 0.05, 596},
		{60, 60, 0.05, 1426}, // by the normal approximation: 1800 - 0.5 - 1.96 × 190.53
	} {
		got, p := critical(tt.n, tt.m, tt.alpha)
		check.Equal(t, got, tt.want, tt.n, "against", tt.m, "at", tt.alpha, "got U")
		check.That(t, got < 0 || p > 0 && p <= tt.alpha, "%d against %d at %v: got p %v", tt.n, tt.m, tt.alpha, p)
	}
	for n, want := range []float64{1: 1, 2: 1. / 3, 3: 0.1, 4: 2. / 70, 5: 2. / 252, 6: 2. / 924} {
		check.That(t, n == 0 || near(Least(n, n), want), "least p of %d against %d: got %v, want %v", n, n, Least(n, n), want)
	}
}

func TestNeeded(t *testing.T) {
	for alpha, want := range map[float64]int{0.05: 4, 0.01: 5, 0.005: 6, 0.05 / 24: 7, 0.05 / 50: 7, 0.05 / 1000: 9} {
		check.Equal(t, Needed(alpha), want, "at", alpha, "blocks")
	}
}

// TestTest: the result agrees with the example on R's help page of wilcox.test: permeability of the human chorioamnion
// (Hollander and Wolfe 1973), W = 35, p = 0.1272 one-sided.
func TestTest(t *testing.T) {
	x := []float64{0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46}
	y := []float64{1.15, 0.88, 0.90, 0.74, 1.21}
	got := Test(x, y)
	check.That(t, near(got, 2*0.127206), "got p %v, want 0.2544", got)
	got = Test(upTo(6), []float64{11, 12, 13, 14, 15, 16})
	check.That(t, near(got, 2./924), "got p %v of two samples that do not touch, want 2/924", got)
	got = Test(upTo(6), upTo(6))
	check.That(t, got >= 0.99, "got p %v of a sample and itself", got)
}

func TestShift(t *testing.T) {
	a := []float64{1, 2, 3, 4}
	for _, tt := range []struct {
		name string
		b    []float64
		want Interval
	}{
		{"ten more", []float64{11, 12, 13, 14}, Interval{Center: 10, Low: 7, High: 13, Confidence: 1 - 2./70, Blocks: 4, N: 8}},
		{"three blocks", []float64{11, 12, 13}, Interval{Center: 9.5, Low: 7, High: 12, Confidence: 1 - 2./35, Blocks: 3, N: 7}},
		{"one block", []float64{5}, Interval{Center: 2.5, Low: 1, High: 4, Confidence: 1 - 2./5, Blocks: 1, N: 5}},
	} {
		got := Shift(a, tt.b)
		check.That(t, near(got.Confidence, tt.want.Confidence), "%s: got confidence %v, want %v", tt.name, got.Confidence, tt.want.Confidence)
		got.Confidence = tt.want.Confidence
		check.Equal(t, got, tt.want, tt.name)
	}
	got := Shift([]float64{1}, []float64{2})
	check.That(t, got.Confidence == 0 && got.Center == 1, "one block against another: got %+v", got)
	check.That(t, !Shift(nil, a).Known(), "there is a shift from nothing")
}

func TestRatio(t *testing.T) {
	a := []float64{10, 20, 40, 80}
	got := Ratio(a, []float64{20, 40, 80, 160})
	check.That(t, near(got.Center, 2) && near(got.Low, 0.25) && near(got.High, 16), "got %+v, want 2 in 0.25..16", got)
	for _, bad := range [][]float64{{1, 0}, {1, -1}, {1, math.NaN()}, nil} {
		check.That(t, !Ratio(a, bad).Known(), "there is a ratio to %v", bad)
	}
}

// TestIntervalAgreesWithTest: the interval of a ratio excludes 1 exactly when Test finds a difference.
func TestIntervalAgreesWithTest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	claims := 0
	for range 500 {
		a, b := make([]float64, 4+r.IntN(6)), make([]float64, 4+r.IntN(6))
		for i := range a {
			a[i] = math.Exp(r.NormFloat64())
		}
		for i := range b {
			b[i] = math.Exp(r.NormFloat64() + 1)
		}
		p, i := Test(a, b), Ratio(a, b)
		check.Need(t, (p <= 1-Confidence) == i.Excludes(1), "p is %v, but the interval is %+v\na %v\nb %v", p, i, a, b)
		if i.Excludes(1) {
			claims++
		}
	}
	check.That(t, claims >= 50 && claims <= 450, "%d of 500 pairs differ: the test tries one side only", claims)
}

// TestHolm: the result agrees with the worked example in the method's encyclopaedia article.
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, math.NaN(), 0.03, 0.005})
	want := []float64{0.03, 0.06, math.NaN(), 0.06, 0.02}
	for i := range want {
		check.That(t, near(got[i], want[i]) || math.IsNaN(got[i]) && math.IsNaN(want[i]), "got %v, want %v", got, want)
	}
	got = Holm([]float64{0.9, 0.8})
	check.That(t, got[0] == 1 && got[1] == 1, "got %v, want 1 and 1", got)
}

// TestTies: with ties, p is the share of all orders of the samples whose U is as far from the middle, on one side, times two.
// It does not depend on which cell is first.
func TestTies(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		a, b := make([]float64, 2+r.IntN(4)), make([]float64, 2+r.IntN(5))
		for _, xs := range [][]float64{a, b} {
			for i := range xs {
				xs[i] = float64(r.IntN(6))
			}
		}
		all := slices.Concat(a, b)
		u := func(first func(i int) bool) (u float64) { // how often the first sample is above the other, less how often it is below
			for i, x := range all {
				for k, y := range all {
					if first(i) && !first(k) {
						u += float64(cmp.Compare(x, y))
					}
				}
			}
			return u
		}
		far, orders, given := 0, 0, u(func(i int) bool { return i < len(a) })
		for set := range 1 << len(all) {
			if bits.OnesCount(uint(set)) == len(a) {
				orders++
				if x := u(func(i int) bool { return set>>i&1 == 1 }); given < 0 && x <= given || given > 0 && x >= given {
					far++
				}
			}
		}
		want := 2 * float64(far) / float64(orders)
		if given == 0 {
			want = 1
		}
		p := Test(a, b)
		check.That(t, math.Abs(p-want) < 1e-9 && p == Test(b, a), "%v against %v: p %v, the other way round %v, want %v", a, b, p, Test(b, a), want)
	}
}
