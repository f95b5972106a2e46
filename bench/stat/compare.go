package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Test returns the probability of a difference at least as large as that between
// a and b, the medians of two cells' blocks, if there was none: the Mann-Whitney
// U test, two-sided, exact for the numbers of blocks that runs have.
func Test(a, b []float64) float64 {
	t := &benchmath.DefaultThresholds
	return benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(a), t), benchmath.NewSample(slices.Clone(b), t)).P
}

// Shift returns the difference b - a of the medians of two cells, from those of
// their blocks, with the interval of Hodges and Lehmann.
func Shift(a, b []float64) Interval {
	if len(a) == 0 || len(b) == 0 {
		return None()
	}
	i := Interval{Center: Median(b) - Median(a), Blocks: min(len(a), len(b)), N: len(a) + len(b)}
	i.Low, i.High = i.Center, i.Center
	cut, p := critical(len(a), len(b), 1-Confidence)
	if cut < 0 {
		cut, p = 0, least(len(a), len(b))
	}
	if p >= 1 {
		return i // one block against another: any order is as likely
	}
	d := differences(a, b)
	// The center is what a reader recomputes from two medians that stand side by
	// side. It is not the median of all differences, from which the bounds come,
	// but it stays between them.
	i.Low, i.High, i.Confidence = min(d[cut], i.Center), max(d[len(d)-1-cut], i.Center), 1-p
	return i
}

// Ratio returns the ratio b / a of the medians of two cells, from those of their
// blocks. All of them must be positive: otherwise there is no ratio.
func Ratio(a, b []float64) Interval {
	for _, x := range slices.Concat(a, b) {
		if !(x > 0) {
			return None()
		}
	}
	i := Shift(logs(a), logs(b)).Map(math.Exp)
	if i.Known() {
		i.Center = Median(b) / Median(a) // the median of an even number of logarithms is not that of the numbers
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

// differences returns all b - a, in order.
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

// arrangements returns in how many orders n and m blocks can come.
func arrangements(n, m int) float64 {
	ways := 1.0
	for k := 1; k <= n; k++ {
		ways = ways * float64(m+k) / float64(k)
	}
	return ways
}

// least returns the smallest p that n against m blocks can have: that of the two
// orders in which the blocks of one cell come before all of the other.
func least(n, m int) float64 { return min(1, 2/arrangements(n, m)) }

// Needed returns how many blocks of each of two cells it takes before any
// difference between them, however large, reaches level alpha.
func Needed(alpha float64) int {
	n := 1
	for n < exact && least(n, n) > alpha {
		n++
	}
	return n
}

// critical returns the largest U at which n against m blocks differ at level
// alpha, two-sided, and its p; -1 if no U is small enough.
func critical(n, m int, alpha float64) (u int, p float64) {
	if max(n, m) > exact {
		// The normal approximation, with a correction for continuity.
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

// exact is the most blocks for which orders are counted, as in benchmath.
const exact = 50

// orders returns in how many orders of n and m blocks the U statistic has each
// value from 0 to the middle, n·m/2: coefficients of a Gaussian binomial.
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

// Holm corrects p-values for their number, so that the probability of one false
// claim among all is what one of them seems to say. They keep their order.
// Values that are NaN, of pairs that could not be tested, do not count.
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

// Detectable returns the smallest effect that two cells with the blocks a and b
// would have shown, as a ratio above 1: in four of five repetitions of these
// runs, [Test] would have found it at level alpha. It is infinite where no
// effect, however large, could reach alpha with so few blocks.
//
// The repetitions are drawn from the blocks themselves, centered and widened by
// what centering takes away. In each of them, the effect that is just found is
// an order statistic of the differences.
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
		d := differences(draw(len(b)), draw(len(a))) // the effect moves b up until at most cut of a's lie above it
		found[i] = d[len(d)-1-cut]
	}
	slices.Sort(found)
	return math.Exp(max(0, found[len(found)*4/5]))
}

// centered returns the logarithms of xs less their median, widened so that their
// spread is that of independent measurements.
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
