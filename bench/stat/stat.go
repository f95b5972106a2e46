// Package stat holds the statistics of ipcbench, as pure functions of samples. It
// depends on no unit, transport or file format.
//
// # The independent measurement
//
// Rounds of one session resemble each other more than rounds of different
// sessions, because each process has its own memory layout and neighbours. So the
// independent measurement is a block, one session of fresh processes, represented
// by the median of its rounds. More rounds make this median more precise; only more
// blocks make an interval narrower. So samples are passed by block, as [][]float64.
//
// # Assumptions
//
// The interval of a median comes from order statistics of the blocks' medians (the
// sign test), for any distribution. The interval of a difference or ratio of two
// cells is by Hodges and Lehmann, which inverts the Mann-Whitney test, so interval
// and test agree. It assumes that both cells have distributions of the same shape.
// If one varies far less than the other, 95 % become 89 % (TestUnequalSpread).
// Counts are exact up to 30 blocks for a median and 50 for a test, and normal
// approximations beyond. Stopping a cell once its interval is narrow favours lucky
// moments, which costs up to 3 of the 95 % (TestStopping).
// [Confidence] needs 6 blocks for a median, and 4 of each cell for a difference.
// With fewer, the interval is the whole range and has a smaller Confidence.
//
// A bootstrap over blocks, and within them, was rejected. With three blocks, its 95 %
// intervals held in 80 % of simulated runs (TestCoverage). With six or more, it is no
// better, takes a thousand times as long and needs random numbers.
//
// # Tests for warnings
//
//   - [Outliers]: the modified z-score (Iglewicz and Hoaglin 1993).
//   - [Modes]: Ashman's D after Otsu's split, on the line and on the logarithm.
//   - [Drift]: within blocks, Kendall's test in its seasonal form (Hirsch 1982); across
//     blocks, a permutation test of the slope.
//   - [Test] and [Holm]: the Mann-Whitney U test for a difference between cells, with
//     Holm's correction for the number of pairs compared.
//
// Percentiles follow definition R-7, like NumPy and spreadsheets. Reports omit those
// that the number of samples does not support, see [Percentile].
package stat

import (
	"math"
	"slices"

	"github.com/montanaflynn/stats"
)

// Confidence is the target confidence of every interval.
const Confidence = 0.95

// Blocks is the minimum number of blocks for an interval of a median with that confidence. The
// true median is outside the range of n measurements with a probability of 2^(1-n).
const Blocks = 6

// Median returns the median, or NaN if xs is empty.
func Median(xs []float64) float64 {
	m, _ := stats.Median(xs) // NaN for an empty input
	return m
}

// MAD returns the median absolute deviation from the median, without the usual
// scaling to a standard deviation, or NaN if xs is empty.
func MAD(xs []float64) float64 {
	m, _ := stats.MedianAbsoluteDeviation(xs)
	return m
}

// Percentile returns the p-th percentile, 0 < p <= 100, and reports whether n independent
// samples are enough for it: so many that one is beyond the true percentile with a
// probability of [Confidence]. That needs 29 samples for p90, 299 for p99 and 2995
// for p99.9 (Wilks 1941). The p99 of 62 samples would be just their maximum. If samples of xs
// depend on each other, n is less than their number.
func Percentile(xs []float64, p float64, n int) (float64, bool) {
	v, err := stats.Percentile(xs, p)
	beyond := 1 - math.Pow(p/100, float64(n))
	return v, err == nil && beyond >= Confidence
}

// Pool returns the samples of all blocks in one slice.
func Pool(blocks [][]float64) []float64 { return slices.Concat(blocks...) }

// Medians returns the median of each block that has samples.
func Medians(blocks [][]float64) []float64 {
	medians := make([]float64, 0, len(blocks))
	for _, b := range blocks {
		if len(b) > 0 {
			medians = append(medians, Median(b))
		}
	}
	return medians
}

// scale is the ratio of a normal distribution's standard deviation to its MAD:
// 1 / Φ⁻¹(3/4).
const scale = 1.4826022185056018

// Outliers returns the number of samples whose modified z-score, the distance from
// the median divided by the scaled MAD, is above 3.5. Outliers are never removed.
func Outliers(xs []float64) int {
	median, mad := Median(xs), MAD(xs)
	n := 0
	for _, x := range xs {
		if math.Abs(x-median) > 3.5*scale*mad && mad > 0 {
			n++
		}
	}
	return n
}
