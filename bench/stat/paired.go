package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// PairedShift returns the difference of two cells' medians, b minus a, from their differences in each cycle, and the p of
// the test that belongs to it: signed ranks (Wilcoxon 1945), with the interval of Hodges and Lehmann (1963). What a
// machine does to all cells of a cycle is not in these differences. a[i] and b[i] must be of one cycle. The center is
// the median of the Walsh averages. It returns [None] and NaN unless there are as many of both.
func PairedShift(a, b []float64) (Interval, float64) {
	n := len(a)
	if n == 0 || n != len(b) {
		return None(), math.NaN()
	}
	d := make([]float64, n)
	for i := range d {
		d[i] = b[i] - a[i]
	}
	walsh := walshAverages(d)
	i := Interval{Center: Median(walsh), Blocks: n, N: 2 * n}
	cut, p := signedCritical(n, 1-Confidence)
	if cut < 0 {
		cut, p = 0, LeastPaired(n)
	}
	i.Low, i.High, i.Confidence = walsh[cut], walsh[len(walsh)-1-cut], 1-p
	return i, signedTest(n, walsh)
}

// PairedRatio is like [PairedShift] for the ratio, b divided by a. It returns [None] and NaN unless all are positive.
func PairedRatio(a, b []float64) (Interval, float64) {
	for _, x := range slices.Concat(a, b) {
		if !(x > 0) {
			return None(), math.NaN()
		}
	}
	i, p := PairedShift(logs(a), logs(b))
	return i.Map(math.Exp), p
}

// DetectablePaired is like [Detectable] for the test of ratios in each cycle.
func DetectablePaired(a, b []float64, alpha float64) float64 {
	i, p := PairedRatio(a, b)
	cut, _ := signedCritical(len(a), alpha)
	if math.IsNaN(p) || cut < 0 {
		return math.Inf(1)
	}
	rest := logs(b)
	for k, x := range logs(a) {
		rest[k] -= x + math.Log(i.Center)
	}
	random := rand.New(rand.NewPCG(uint64(len(a)), 0))
	found := make([]float64, 100)
	for k := range found {
		drawn := make([]float64, len(rest))
		for j := range drawn {
			drawn[j] = rest[random.IntN(len(rest))]
		}
		found[k] = -walshAverages(drawn)[cut] // the effect moves all until at most cut averages are below 0
	}
	slices.Sort(found)
	return math.Exp(max(0, found[len(found)*4/5]))
}

// LeastPaired returns the smallest possible p of n pairs: all differences have one sign.
func LeastPaired(n int) float64 { return math.Min(1, math.Ldexp(2, -n)) }

// walshAverages returns the averages of all pairs of xs, and of each x with itself, sorted.
func walshAverages(xs []float64) []float64 {
	all := make([]float64, 0, len(xs)*(len(xs)+1)/2)
	for i, x := range xs {
		for _, y := range xs[i:] {
			all = append(all, (x+y)/2)
		}
	}
	slices.Sort(all)
	return all
}

// signedTest returns the two-sided p of the signed ranks of n differences with these Walsh averages. Equal sizes share the
// mean of their ranks, and zeros count half for each sign, which makes p larger.
func signedTest(n int, walsh []float64) float64 {
	above := 0.0 // the rank sum of positive differences is the number of positive Walsh averages (Tukey 1949)
	for _, x := range walsh {
		above += float64(cmp.Compare(x, 0)+1) / 2
	}
	smaller, sum := int(math.Ceil(min(above, float64(len(walsh))-above))), 0.0
	for _, ways := range signedOrders(n)[:smaller+1] {
		sum += ways
	}
	return min(1, 2*sum)
}

// signedCritical returns the largest rank sum with which n pairs differ at level alpha, two-sided, and its p. It is -1 if
// even 0 is not significant.
func signedCritical(n int, alpha float64) (w int, p float64) {
	w, sum := -1, 0.0
	for k, ways := range signedOrders(n) {
		if sum += ways; 2*sum > alpha {
			break
		}
		w, p = k, 2*sum
	}
	return w, p
}

// signedOrders returns the share of the 2ⁿ choices of signs with each rank sum: coefficients of ∏(1+qᵏ)/2ⁿ.
func signedOrders(n int) []float64 {
	share := make([]float64, n*(n+1)/2+1)
	share[0] = 1
	for k := 1; k <= n; k++ {
		for w := len(share) - 1; w >= 0; w-- {
			share[w] /= 2
			if w >= k {
				share[w] += share[w-k] / 2
			}
		}
	}
	return share
}
