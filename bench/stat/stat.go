// Package stat holds the statistics of ipcbench: pure functions of samples. It
// knows no unit, no transport and no file.
//
// # What is a measurement
//
// Rounds of one session resemble each other more than they resemble those of
// another one: a process has its own memory layout, its own neighbours and its
// own luck. So the independent measurement is a block, one session of fresh
// processes, and its median stands for it. Rounds make a block's median steady;
// only more blocks make an interval narrower. All samples therefore come as
// [][]float64, by block.
//
// # What is assumed
//
// Little about distributions. A median has the interval that order statistics of
// the blocks' medians give (the sign test's), whatever they look like. The
// difference or ratio of two cells has the interval of Hodges and Lehmann, which
// is the Mann-Whitney test turned round, so that interval and test agree. It takes
// the two to have the same shape: where one is far steadier than the other, 95 %
// are 89 % (TestUnequalSpread). Counting is exact up to 30 blocks for a median and
// 50 for a test, and a normal approximation beyond. A cell that ends once its
// interval is narrow ends at a lucky moment more often than at an unlucky one,
// which costs up to 3 of the 95 % (TestStopping). Where there are too few blocks
// for [Confidence], which takes 6 for a median and 4 against 4 for a difference,
// the interval is the whole range, and says how much less it holds with.
//
// A bootstrap over blocks, and within them, was tried and left out. With three
// blocks, its 95 % intervals held in 80 % of simulated runs (see TestCoverage);
// with six or more it is no better than order statistics, takes a thousand times
// longer and needs random numbers.
//
// # Which tests raise a flag
//
//   - An outlier is a sample whose modified z-score is over 3.5 (Iglewicz and
//     Hoaglin 1993): see [Outliers].
//   - Two modes are found by Ashman's D over Otsu's split: see [Modes].
//   - Drift is found by Kendall's test for a trend, within blocks by its seasonal
//     form (Hirsch 1982): see [Drift].
//   - Two cells differ by the Mann-Whitney U test, corrected by Holm's method for
//     the number of pairs that are looked at: see [Test] and [Holm].
//
// There is one definition of a percentile, R-7 (that of NumPy and of spreadsheets);
// one that the number of samples does not support is not given at all.
package stat

import (
	"math"
	"slices"

	"github.com/montanaflynn/stats"
)

// Confidence is what every interval aims at.
const Confidence = 0.95

// Blocks is how many blocks are the fewest whose medians give an interval of a median
// with that confidence: the true median lies outside of all of them with a probability
// of 2^(1-n).
const Blocks = 6

// Median returns the median, or NaN of nothing.
func Median(xs []float64) float64 {
	m, _ := stats.Median(xs) // NaN for an empty input
	return m
}

// MAD returns the median distance from the median, not scaled to resemble a
// standard deviation; NaN of nothing.
func MAD(xs []float64) float64 {
	m, _ := stats.MedianAbsoluteDeviation(xs)
	return m
}

// Percentile returns the p-th percentile, 0 < p <= 100, and whether xs supports
// it. The 99th percentile of 62 samples is but another name for the largest: a
// percentile counts only if a sample beyond it was seen with a probability of
// [Confidence], which takes 29 samples for p90, 299 for p99 and 2995 for p99.9
// (Wilks 1941).
func Percentile(xs []float64, p float64) (float64, bool) {
	v, err := stats.Percentile(xs, p)
	beyond := 1 - math.Pow(p/100, float64(len(xs)))
	return v, err == nil && beyond >= Confidence
}

// Pool returns the samples of all blocks.
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

// scale makes a MAD comparable with the standard deviation of a normal
// distribution: 1 / Φ⁻¹(3/4).
const scale = 1.4826022185056018

// Outliers counts the samples whose modified z-score, the distance from the
// median over the scaled MAD, is above 3.5. They are counted, never removed.
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
