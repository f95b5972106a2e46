package stat

import (
	"math"
	"slices"
)

// A Mode is one of two heaps into which samples fall.
type Mode struct {
	Center float64 `json:"median"` // of it
	Share  float64 `json:"share"`  // of the samples
}

// Modes returns the two modes of rounds, given by block, whose median or mean
// would describe neither, and nil for all others.
//
// The samples are cut in two where that leaves the least variance within the
// parts (Otsu 1979). The parts are modes if Ashman's D, the distance of their
// means over their spread (1994), is above what a flat distribution shows in one
// of a hundred samples of that size: it has 3.5, and chance adds 10/√n. Other
// distributions with one mode have less; a normal one has 2.7. There must be 30
// samples and a sixth of them in each part, since a few outliers are no mode;
// three blocks must have been in each, for a sixth of their time, since one
// session that differs is none either; and the modes must lie apart by a tenth of
// the median, since a reader acts on nothing less.
func Modes(blocks [][]float64) []Mode {
	sorted := Pool(blocks)
	n := len(sorted)
	if n < 30 {
		return nil
	}
	slices.Sort(sorted)
	cut := otsu(sorted)
	low, high := sorted[:cut], sorted[cut:]
	if min(len(low), len(high))*6 < n {
		return nil
	}
	m1, v1 := moments(low)
	m2, v2 := moments(high)
	a := Mode{Center: Median(low), Share: float64(len(low)) / float64(n)}
	b := Mode{Center: Median(high), Share: float64(len(high)) / float64(n)}
	apart := b.Center-a.Center > 0.1*math.Abs(Median(sorted))
	if !apart || math.Sqrt2*(m2-m1) <= (3.5+10/math.Sqrt(float64(n)))*math.Sqrt(v1+v2) {
		return nil
	}
	inLow, inHigh := 0, 0
	for _, block := range blocks {
		below := 0
		for _, x := range block {
			if x < high[0] {
				below++
			}
		}
		if 6*below >= len(block) && below > 0 {
			inLow++
		}
		if above := len(block) - below; 6*above >= len(block) && above > 0 {
			inHigh++
		}
	}
	if min(inLow, inHigh) < 3 {
		return nil
	}
	return []Mode{a, b}
}

// otsu returns the length of the lower part.
func otsu(sorted []float64) int {
	n := float64(len(sorted))
	base := sorted[0] // sums of what lies above it: large numbers with small differences keep their digits
	total := 0.0
	for _, x := range sorted {
		total += x - base
	}
	cut, best, sum := 1, -1.0, 0.0
	for i, x := range sorted[:len(sorted)-1] {
		sum += x - base
		k := float64(i + 1)
		apart := sum/k - (total-sum)/(n-k)
		if between := k * (n - k) * apart * apart; between > best {
			cut, best = i+1, between
		}
	}
	return cut
}

func moments(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += (x - xs[0]) / float64(len(xs))
	}
	mean += xs[0]
	for _, x := range xs {
		variance += (x - mean) * (x - mean) / float64(len(xs))
	}
	return mean, variance
}

// A Trend is how much samples changed with time, as a share of their median: 0.1
// is a tenth more at the end than at the beginning. It is 0 where the change may
// be chance, or is too small to matter.
type Trend struct {
	Within float64 `json:"within"` // from the first to the last round of a block
	Across float64 `json:"across"` // from the first to the last block
}

// Drift looks for a trend within the blocks, and from block to block in the
// order given.
//
// The test is Kendall's: of all pairs of samples, how many rise and how many
// fall. Within blocks, the counts of all blocks are added (the seasonal test of
// Hirsch 1982), so that a difference between blocks is no trend. A trend counts
// at a level of 1 % if it amounts to 5 % of the median; its size is the median
// of the slopes of all pairs (Theil and Sen) times the length. Long blocks are
// first cut into stretches, each with its median, so that neighbours that
// resemble each other count once.
func Drift(blocks [][]float64) Trend {
	var t Trend
	medians := Medians(blocks)
	if len(medians) == 0 {
		return t
	}
	middle := Median(medians)
	short := make([][]float64, len(blocks))
	for i, b := range blocks {
		short[i] = stretches(b)
	}
	t.Within = trend(short, middle)
	t.Across = trend([][]float64{medians}, middle)
	return t
}

// most is the largest number of stretches into which a block is cut.
const most = 30

// stretches returns at most most medians of neighbours, in order.
func stretches(xs []float64) []float64 {
	if len(xs) <= most {
		return xs
	}
	cut := make([]float64, most)
	for i := range cut {
		cut[i] = Median(xs[i*len(xs)/most : (i+1)*len(xs)/most])
	}
	return cut
}

func trend(series [][]float64, middle float64) float64 {
	var s, variance float64
	var rises []float64 // over the whole of a series, by each pair
	for _, xs := range series {
		n := float64(len(xs))
		variance += n * (n - 1) * (2*n + 5) / 18
		for i, x := range xs {
			for j := i + 1; j < len(xs); j++ {
				d := xs[j] - x
				switch {
				case d > 0:
					s++
				case d < 0:
					s--
				}
				rises = append(rises, d/float64(j-i)*(n-1))
			}
		}
	}
	if len(rises) == 0 || kendall(series, s, variance) > 0.01 {
		return 0
	}
	if change := Median(rises) / math.Abs(middle); math.Abs(change) >= 0.05 {
		return change
	}
	return 0
}

// kendall returns the two-sided p of a sum s of signs. A single short series is
// counted out exactly: with the few blocks of a run, the normal distribution
// claims too much.
func kendall(series [][]float64, s, variance float64) float64 {
	if len(series) == 1 && len(series[0]) <= 10 {
		n := len(series[0])
		// ways[k] is the number of orders of n with k falling pairs.
		ways, all := []float64{1}, 1.0
		for m := 2; m <= n; m++ {
			next := make([]float64, len(ways)+m-1)
			for k, w := range ways {
				for more := range m {
					next[k+more] += w
				}
			}
			ways, all = next, all*float64(m)
		}
		pairs := n * (n - 1) / 2
		fewer := int(float64(pairs)-math.Abs(s)) / 2 // pairs against the trend
		below := 0.0
		for _, w := range ways[:fewer+1] {
			below += w
		}
		return min(1, 2*below/all)
	}
	return math.Erfc(max(0, math.Abs(s)-1) / math.Sqrt(variance) / math.Sqrt2)
}
