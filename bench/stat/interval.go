package stat

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// An Interval is an estimate and how sure it is.
type Interval struct {
	Center     float64
	Low, High  float64 // equal to Center while Confidence is 0
	Confidence float64 // at least [Confidence], or less for want of blocks; 0 of a single block, about which nothing is known
	Blocks     int     // independent measurements
	N          int     // samples in them
}

// None is the Interval of nothing.
func None() Interval { return Interval{Center: math.NaN(), Low: math.NaN(), High: math.NaN()} }

// Known reports whether there is an estimate at all.
func (i Interval) Known() bool { return !math.IsNaN(i.Center) }

// Sure reports whether the bounds hold with [Confidence].
func (i Interval) Sure() bool { return i.Confidence >= Confidence }

// Half returns the larger of the distances from the center to a bound, and
// infinity if there are no bounds.
func (i Interval) Half() float64 {
	if i.Confidence == 0 {
		return math.Inf(1)
	}
	return max(i.High-i.Center, i.Center-i.Low)
}

// Relative returns Half as a share of the center.
func (i Interval) Relative() float64 { return i.Half() / math.Abs(i.Center) }

// Excludes reports whether x lies outside of the bounds.
func (i Interval) Excludes(x float64) bool { return i.Confidence > 0 && (x < i.Low || x > i.High) }

// Map returns what f makes of the estimate and its bounds. It must be monotonic.
func (i Interval) Map(f func(float64) float64) Interval {
	i.Center, i.Low, i.High = f(i.Center), f(i.Low), f(i.High)
	i.Low, i.High = min(i.Low, i.High), max(i.Low, i.High)
	return i
}

// Of returns the median of the blocks' medians with its interval.
func Of(blocks [][]float64) Interval {
	i := ofMedians(Medians(blocks))
	i.N = 0
	for _, b := range blocks {
		i.N += len(b)
	}
	return i
}

// ofMedians takes the interval between two order statistics, the narrowest pair
// that holds with Confidence: the one that benchstat shows. The true median lies outside of the
// range of n measurements with a probability of 2^(1-n).
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
