package stat

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// An Interval is an estimate with a confidence interval.
type Interval struct {
	Center     float64 // estimate; NaN if there is none
	Low, High  float64 // bounds; equal to Center if Confidence is 0
	Confidence float64 // confidence of the bounds: below [Confidence] if there are too few blocks; 0 for a single block
	Blocks     int     // number of independent measurements
	N          int     // number of samples in them
}

// None returns the Interval of no samples: center and bounds are NaN.
func None() Interval { return Interval{Center: math.NaN(), Low: math.NaN(), High: math.NaN()} }

// Known reports whether there is an estimate.
func (i Interval) Known() bool { return !math.IsNaN(i.Center) }

// Sure reports whether the bounds hold with [Confidence].
func (i Interval) Sure() bool { return i.Confidence >= Confidence }

// Half returns the half-width: the larger of the distances from the center to a
// bound, or infinity if Confidence is 0.
func (i Interval) Half() float64 {
	if i.Confidence == 0 {
		return math.Inf(1)
	}
	return max(i.High-i.Center, i.Center-i.Low)
}

// Relative returns the half-width divided by the absolute value of the center.
func (i Interval) Relative() float64 { return i.Half() / math.Abs(i.Center) }

// Excludes reports whether x is outside the bounds. It is false if Confidence is 0.
func (i Interval) Excludes(x float64) bool { return i.Confidence > 0 && (x < i.Low || x > i.High) }

// Map applies f, which must be monotonic, to the center and the bounds.
func (i Interval) Map(f func(float64) float64) Interval {
	i.Center, i.Low, i.High = f(i.Center), f(i.Low), f(i.High)
	i.Low, i.High = min(i.Low, i.High), max(i.Low, i.High)
	return i
}

// Of returns the median of the blocks' medians, with its interval. Empty blocks are ignored.
func Of(blocks [][]float64) Interval {
	i := ofMedians(Medians(blocks))
	i.N = 0
	for _, b := range blocks {
		i.N += len(b)
	}
	return i
}

// ofMedians returns the median of medians with the interval that benchstat shows: between the
// narrowest pair of order statistics with at least [Confidence]. If there are too few blocks
// for one, it is the whole range, whose confidence is 1 - 2^(1-n) for n blocks.
func ofMedians(medians []float64) Interval {
	n := len(medians)
	if n == 0 {
		return None()
	}
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(medians), &benchmath.DefaultThresholds), Confidence)
	i := Interval{Center: Median(medians), Low: s.Lo, High: s.Hi, Confidence: s.Confidence, Blocks: n, N: n}
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		i.Low, i.High, i.Confidence = slices.Min(medians), slices.Max(medians), 1-math.Exp2(float64(1-n))
	}
	return i
}
