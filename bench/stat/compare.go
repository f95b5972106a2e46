package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Test returns the p-value of the two-sided Mann-Whitney U test of a and b, the block
// medians of two cells: the probability of a difference at least this large if the
// cells are equal. It is exact for the numbers of blocks that runs have.
func Test(a, b []float64) float64 {
	t := &benchmath.DefaultThresholds
	above := 0 // pairs in which a is larger, less those in which b is
	for _, d := range differences(a, b) {
		above -= cmp.Compare(d, 0)
	}
	if above > 0 { // benchmath takes the tail of the first sample; with ties, it is another one than that of the second
		a, b = b, a
	}
	return benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(a), t), benchmath.NewSample(slices.Clone(b), t)).P
}

// Shift returns the difference of two cells' medians, b minus a, with the interval of
// Hodges and Lehmann. a and b are the medians of the cells' blocks.
func Shift(a, b []float64) Interval {
	if len(a) == 0 || len(b) == 0 {
		return None()
	}
	i := Interval{Center: Median(b) - Median(a), Blocks: min(len(a), len(b)), N: len(a) + len(b)}
	i.Low, i.High = i.Center, i.Center
	cut, p := critical(len(a), len(b), 1-Confidence)
	if cut < 0 {
		cut, p = 0, Least(len(a), len(b))
	}
	if p >= 1 {
		return i // one block each: both orders are equally likely
	}
	d := differences(a, b)
	// The center is the difference of the medians, which readers can recompute,
	// instead of the median difference. The bounds are widened to include it.
	i.Low, i.High, i.Confidence = min(d[cut], i.Center), max(d[len(d)-1-cut], i.Center), 1-p
	return i
}

// Ratio returns the ratio of two cells' medians, b divided by a, with its interval. a
// and b are the medians of the cells' blocks. It returns [None] unless all are positive.
func Ratio(a, b []float64) Interval {
	for _, x := range slices.Concat(a, b) {
		if !(x > 0) {
			return None()
		}
	}
	i := Shift(logs(a), logs(b)).Map(math.Exp)
	if i.Known() {
		i.Center = Median(b) / Median(a) // exp of the median logarithm is not the median if their number is even
		i.Low, i.High = min(i.Low, i.Center), max(i.High, i.Center)
	}
	return i
}

func logs(xs []float64) []float64 {
	l := make([]float64, len(xs))
	for i, x := range xs {
		l[i] = math.Log(x)
	}
	return l
}

// differences returns all differences b - a of an element of each, sorted.
func differences(a, b []float64) []float64 {
	d := make([]float64, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	return d
}

// arrangements returns the number of orders of n blocks of one cell and m of another.
func arrangements(n, m int) float64 {
	ways := 1.0
	for k := 1; k <= n; k++ {
		ways = ways * float64(m+k) / float64(k)
	}
	return ways
}

// Least returns the smallest possible p of n against m blocks. Two orders have it: all
// blocks of one cell before all blocks of the other.
func Least(n, m int) float64 { return min(1, 2/arrangements(n, m)) }

// Needed returns the minimum number of blocks per cell with which a difference
// between two cells can reach level alpha. With fewer, even the largest cannot.
func Needed(alpha float64) int {
	n := 1
	for n < exact && Least(n, n) > alpha {
		n++
	}
	return n
}

// critical returns the largest U statistic with which n against m blocks differ at
// level alpha, two-sided, and its p. u is -1 if even U = 0 is not significant.
func critical(n, m int, alpha float64) (u int, p float64) {
	if max(n, m) > exact {
		// Normal approximation with continuity correction.
		mean, sd := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		u = int(math.Floor(mean - 0.5 + sd*math.Sqrt2*math.Erfinv(alpha-1)))
		return u, math.Erfc((mean - 0.5 - float64(u)) / sd / math.Sqrt2)
	}
	all := arrangements(n, m)
	u, below := -1, 0.0
	for k, w := range orders(n, m) {
		below += w
		if 2*below/all > alpha {
			break
		}
		u, p = k, 2*below/all
	}
	return u, p
}

// exact is the maximum number of blocks for which orders are counted, as in benchmath.
const exact = 50

// orders returns the number of orders of n and m blocks with each value of the U
// statistic, from 0 to the middle n·m/2: coefficients of a Gaussian binomial.
func orders(n, m int) []float64 {
	ways := make([]float64, n*m/2+1)
	ways[0] = 1
	for k := 1; k <= n; k++ {
		for u := len(ways) - 1; u >= m+k; u-- { // times 1 - q^(m+k)
			ways[u] -= ways[u-m-k]
		}
		for u := k; u < len(ways); u++ { // over 1 - q^k
			ways[u] += ways[u-k]
		}
	}
	return ways
}

// Holm returns p-values corrected for their number, in the same order: if all values up
// to alpha count as differences, the probability of any false one is at most alpha. NaN
// marks a pair that could not be tested: it stays NaN and does not count.
func Holm(ps []float64) []float64 {
	corrected := slices.Clone(ps)
	order := make([]int, 0, len(ps))
	for i, p := range ps {
		if !math.IsNaN(p) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ps[i], ps[j]) })
	floor := 0.0
	for rank, i := range order {
		floor = min(1, max(floor, ps[i]*float64(len(order)-rank)))
		corrected[i] = floor
	}
	return corrected
}

// Detectable returns the smallest ratio above 1 of two cells' medians that [Test]
// would find at level alpha in four of five repetitions. a and b are the medians of
// the cells' blocks. It is +Inf if there are too few blocks for any effect, or if a
// median is not positive.
//
// Repetitions are drawn from the blocks' logarithms, centered per cell and widened to
// restore the spread that centering removes. In each repetition, the smallest effect
// that is found is an order statistic of the differences.
func Detectable(a, b []float64, alpha float64) float64 {
	if len(a) == 0 || len(b) == 0 || slices.Min(a) <= 0 || slices.Min(b) <= 0 {
		return math.Inf(1)
	}
	cut, _ := critical(len(a), len(b), alpha)
	if cut < 0 {
		return math.Inf(1)
	}
	rest := slices.Concat(centered(a), centered(b))
	random := rand.New(rand.NewPCG(uint64(len(a)), uint64(len(b))))
	draw := func(n int) []float64 {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = rest[random.IntN(len(rest))]
		}
		return xs
	}
	found := make([]float64, 100)
	for i := range found {
		d := differences(draw(len(b)), draw(len(a))) // the effect moves b up until at most cut differences are above 0
		found[i] = d[len(d)-1-cut]
	}
	slices.Sort(found)
	return math.Exp(max(0, found[len(found)*4/5]))
}

// centered returns the logarithms of xs minus their median, scaled by √(n/(n-1)) to the
// spread of independent measurements.
func centered(xs []float64) []float64 {
	l := logs(xs)
	m := Median(l)
	widen := 1.0
	if n := float64(len(xs)); n > 1 {
		widen = math.Sqrt(n / (n - 1))
	}
	for i := range l {
		l[i] = (l[i] - m) * widen
	}
	return l
}
