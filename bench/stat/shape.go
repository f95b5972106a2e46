package stat

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// A Mode is one of the two groups of samples in a bimodal distribution.
type Mode struct {
	Center float64 `json:"median"` // median of the mode's samples
	Share  float64 `json:"share"`  // share of all samples, from 0 to 1
}

// LeastForModes is the smallest number of samples in which modes are looked for.
const LeastForModes = 30

// Modes returns the lower and the upper mode if the rounds, given by block, have two
// modes, and nil otherwise. The median and mean of such rounds describe neither mode.
//
// The samples, at least 30, are split at the point that minimizes the variance within
// the parts (Otsu 1979): on the line first, then, if all are positive, on the logarithm.
// Modes of 37 and 80 µs that spread in proportion are found on the logarithm only. The
// parts of a split are modes if all of these hold:
//
//   - Ashman's D (1994), the distance of the means divided by the spread, is above
//     3.5 + 12/√n. A flat distribution has 3.5. In TestModes, one of the scales exceeds
//     the limit in at most 1 % of samples that are uniform, log-uniform over a factor of
//     4, or normal. Samples that are log-uniform over a factor of 10 exceed it in 3 %.
//   - Each part has at least a sixth of all samples: a few outliers are not a mode.
//   - Each part has at least a sixth of the samples of three blocks: one different
//     session is not a mode.
//   - The medians of the parts differ by over a tenth of the overall median, because
//     readers do not act on less.
func Modes(blocks [][]float64) []Mode {
	sorted := Pool(blocks)
	if len(sorted) < LeastForModes {
		return nil
	}
	slices.Sort(sorted)
	modes := modesOn(sorted, sorted, blocks)
	if modes == nil && sorted[0] > 0 {
		modes = modesOn(logs(sorted), sorted, blocks)
	}
	return modes
}

// modesOn returns the modes of the sorted samples of the blocks if they have two on a
// scale. scaled has the samples on that scale.
func modesOn(scaled, sorted []float64, blocks [][]float64) []Mode {
	n, cut := len(sorted), otsu(scaled)
	low, high := sorted[:cut], sorted[cut:]
	if min(len(low), len(high))*6 < n {
		return nil
	}
	m1, v1 := moments(scaled[:cut])
	m2, v2 := moments(scaled[cut:])
	a := Mode{Center: Median(low), Share: float64(len(low)) / float64(n)}
	b := Mode{Center: Median(high), Share: float64(len(high)) / float64(n)}
	apart := b.Center-a.Center > 0.1*math.Abs(Median(sorted))
	if !apart || math.Sqrt2*(m2-m1) <= (3.5+12/math.Sqrt(float64(n)))*math.Sqrt(v1+v2) {
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
// Its size is the median slope of all pairs (Theil and Sen) times the length. A trend is
// reported if it is significant and at least 5 % of the median.
//
// Within blocks, the test is Kendall's at 1 %, which compares the numbers of rising and
// falling pairs of samples. It adds the counts of all blocks (the seasonal test of
// Hirsch 1982), so that differences between blocks do not count. Long blocks are first cut
// into stretches with one median each, because neighbouring rounds are not independent.
//
// From block to block, it is a permutation test of the slope at 5 %, because blocks are
// few: at 1 %, Kendall's test finds a trend in six blocks only if every block is above
// the one before. At 5 %, it finds half of the drifts of 30 % that this test finds there.
// TestDriftPower has the power, and the share of false alarms.
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
	if change, p := trend(short, middle); p <= 0.01 {
		t.Within = change
	}
	if change, _ := trend([][]float64{medians}, middle); shuffled(medians) <= 0.05 {
		t.Across = change
	}
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

// trend returns the change over the length of a series, as a share of middle, or 0 and 1 if
// it is below 5 %. p is the two-sided p-value of Kendall's test, from the normal
// approximation: it is below 1 % only if the exact p is, even for one series (TestKendall).
func trend(series [][]float64, middle float64) (change, p float64) {
	var s, variance float64
	var rises []float64 // per pair: its slope times the length of its series
	for _, xs := range series {
		n := float64(len(xs))
		variance += n * (n - 1) * (2*n + 5) / 18
		for i, x := range xs {
			for j := i + 1; j < len(xs); j++ {
				d := xs[j] - x
				s += float64(cmp.Compare(d, 0))
				rises = append(rises, d/float64(j-i)*(n-1))
			}
		}
	}
	change = Median(rises) / math.Abs(middle)
	if !(math.Abs(change) >= 0.05) { // also if there are no pairs
		return 0, 1
	}
	return change, math.Erfc(max(0, math.Abs(s)-1) / math.Sqrt(2*variance))
}

// shuffled returns the two-sided p-value of the slope of xs: the share of 1000 orders,
// 999 random ones and the given one, whose slope is at least as large. It needs no
// assumption about the distribution. Samples farther from the median than two MADs are
// first moved to that distance, because one odd block could hide a drift of the others.
func shuffled(xs []float64) float64 {
	middle, far := Median(xs), 2*MAD(xs)
	moved := make([]float64, len(xs))
	for i, x := range xs {
		moved[i] = max(-far, min(far, x-middle))
	}
	slope := func() float64 {
		sum := 0.0
		for i, x := range moved {
			sum += x * float64(2*i+1-len(xs))
		}
		return math.Abs(sum)
	}
	given, reached := slope()*(1-1e-9), 1 // equal slopes differ by rounding errors
	random := rand.New(rand.NewPCG(uint64(len(xs)), 0))
	for range 999 {
		random.Shuffle(len(moved), func(i, j int) { moved[i], moved[j] = moved[j], moved[i] })
		if slope() >= given {
			reached++
		}
	}
	return float64(reached) / 1000
}
