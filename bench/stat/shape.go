package stat

import (
	"math"
	"slices"
)

// A Mode is one of the two groups of samples in a bimodal distribution.
type Mode struct {
	Center float64 `json:"median"` // median of the mode's samples
	Share  float64 `json:"share"`  // share of all samples, from 0 to 1
}

// Modes returns the lower and the upper mode if the rounds, given by block, have two
// modes, and nil otherwise. The median and mean of such rounds describe neither mode.
//
// The samples, at least 30, are split at the point that minimizes the variance within
// the parts (Otsu 1979). The parts are modes if all of these hold:
//
//   - Ashman's D (1994), the distance of the means divided by the spread, is above
//     3.5 + 10/√n. A flat distribution has 3.5, and exceeds this limit in 1 % of
//     samples. Other distributions with one mode have less; a normal one has 2.7.
//   - Each part has at least a sixth of all samples: a few outliers are not a mode.
//   - Each part has at least a sixth of the samples of three blocks: one different
//     session is not a mode.
//   - The medians of the parts differ by over a tenth of the overall median, because
//     readers do not act on less.
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

// otsu returns the number of samples below the split of least variance within both parts.
func otsu(sorted []float64) int {
	n := float64(len(sorted))
	base := sorted[0] // sum the differences from it, to keep precision if large numbers differ little
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

// moments returns the mean and the variance of the samples, divided by their number.
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

// A Trend holds changes of samples over time, as shares of their median: 0.1 means an
// increase by a tenth from beginning to end. A change is 0 if it may be chance or is
// too small to matter.
type Trend struct {
	Within float64 `json:"within"` // change from the first to the last round of a block
	Across float64 `json:"across"` // change from the first to the last block
}

// Drift returns the trend within blocks, and from block to block in the order given.
//
// It uses Kendall's test, which compares the numbers of rising and falling pairs of
// samples. Within blocks, it adds the counts of all blocks (the seasonal test of Hirsch
// 1982), so that differences between blocks do not count. A trend is reported if it is
// significant at 1 % and at least 5 % of the median. Its size is the median slope of all
// pairs (Theil and Sen) times the length. Long blocks are first cut into stretches with
// one median each, because neighbouring rounds are not independent.
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

// most is the maximum number of stretches of a block.
const most = 30

// stretches returns xs, or the medians of 30 consecutive parts of xs if it is longer.
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
	var rises []float64 // per pair: its slope times the length of its series
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

// kendall returns the two-sided p-value of s, the number of rising minus falling pairs.
// It counts exactly for a single series of up to 10 samples. There, the normal
// approximation finds too many trends.
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
		fewer := int(float64(pairs)-math.Abs(s)) / 2 // number of pairs against the trend
		below := 0.0
		for _, w := range ways[:fewer+1] {
			below += w
		}
		return min(1, 2*below/all)
	}
	return math.Erfc(max(0, math.Abs(s)-1) / math.Sqrt(variance) / math.Sqrt2)
}
