package table

import (
	"math"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
)

// A crossing is the point of a sweep where two transports swap ranks. One is shown to be
// faster on one side of it. On the other side, the other one is, or the sweep ends.
//
// Whether one is shown at a step is judged in the family of the steps of both. The interval is the
// set of values where the interval of the ratio of the rounds contains 1. It inverts a test that is made at each
// value, as Fieller's theorem does for a ratio of means ("Some problems in interval
// estimation", 1954). Between two steps, the ratio and its bounds are lines in the logarithms
// of ratio and value. That is exact if both rounds are powers of the value. It is close if a
// fixed part meets one in proportion. The interval holds for one crossing by itself, at the
// confidence of its ratios, and not for all crossings of a sweep together.
type crossing struct {
	Before, After *line         // the faster line below and above the crossing
	At            stat.Interval // a bound is infinite if neither is shown to be faster up to the end of the sweep
	Steps         [2]int        // nearest steps at which one is shown to be faster, or ends of the sweep
}

// A meeting is a step at which two transports were measured.
type meeting struct {
	contrast.Judged // of the second transport against the first
	step            int
	x               float64    // logarithm of the quantity
	ratio           [3]float64 // logarithms of low, center and high: above 0 if the first transport is faster
}

// winner returns 1 if the first transport is shown to be faster, -1 if the second is, and 0 if
// neither is.
func (m meeting) winner() int {
	switch {
	case !m.Shown:
		return 0
	case m.ratio[1] > 0:
		return 1
	}
	return -1
}

// unknown replaces the logarithm of a bound that is not known. No ratio of transports is as
// large.
const unknown = 1e3

// meetings returns the steps at which both transports were measured. They are one family.
func (s *Sweep) meetings(a, b *line) (all []meeting) {
	var family []contrast.Contrast
	for i, x := range s.At {
		if a.Cells[i] == nil || b.Cells[i] == nil {
			continue
		}
		if c := contrast.New(s.By, b.Cells[i], a.Cells[i]); c.Ratio.Known() {
			m := meeting{step: i, x: math.Log(x), ratio: [3]float64{-unknown, math.Log(c.Ratio.Center), unknown}}
			if c.Ratio.Confidence > 0 {
				m.ratio[0], m.ratio[2] = math.Log(c.Ratio.Low), math.Log(c.Ratio.High)
			}
			all, family = append(all, m), append(family, c)
		}
	}
	for i, j := range contrast.Judge("of this pair", contrast.Alpha, family) {
		all[i].Judged = j
	}
	return all
}

// cross returns the crossings of a pair. There may be one between two consecutive meetings
// with a winner, and between the first or last of them and the sweep's end.
func (s *Sweep) cross(a, b *line) []crossing {
	met := s.meetings(a, b)
	var all []crossing
	last := -1 // the last meeting with a winner
	for i := range len(met) + 1 {
		if i < len(met) && met[i].winner() == 0 {
			continue
		}
		if at, ok := crossed(met, last, i); ok {
			first := met[max(last, 0)]
			c := crossing{Before: a, After: b, At: at, Steps: [2]int{first.step, met[min(i, len(met)-1)].step}}
			if first.ratio[1] <= 0 {
				c.Before, c.After = b, a
			}
			all = append(all, c)
		}
		last = i
	}
	return all
}

// crossed returns where the ratio passes 1 between two meetings with a winner, if no meeting
// between them has one. from is -1 for the beginning of the sweep, and to is len(met) for its
// end. It returns false if the same transport is faster at both, or if the ratio does not pass
// 1.
func crossed(met []meeting, from, to int) (stat.Interval, bool) {
	i := stat.Interval{Low: math.Inf(-1), High: math.Inf(1), Confidence: 1, Blocks: math.MaxInt}
	first, end := max(from, 0), min(to, len(met)-1)
	var middle []float64
	for k := first; k <= end; k++ {
		i.Confidence, i.Blocks = min(i.Confidence, met[k].Ratio.Confidence), min(i.Blocks, met[k].Ratio.Blocks)
		if k > first && (met[k-1].ratio[1] > 0) != (met[k].ratio[1] > 0) {
			middle = append(middle, zero(met[k-1], met[k], 1))
		}
	}
	if len(middle)%2 == 0 || from < 0 && to == len(met) {
		return i, false
	}
	i.Center = math.Exp(middle[len(middle)/2])
	if from >= 0 { // the bound that decides: the low one if the first transport wins
		i.Low = math.Exp(zero(met[from], met[from+1], 1-met[from].winner()))
	}
	if to < len(met) {
		i.High = math.Exp(zero(met[to-1], met[to], 1-met[to].winner()))
	}
	return i, true
}

// zero returns where the line through the ratios of two meetings is 0. which selects the low
// (0), center (1) or high (2) ratio.
func zero(a, b meeting, which int) float64 {
	y, z := a.ratio[which], b.ratio[which]
	return a.x + (b.x-a.x)*y/(y-z)
}

// round returns the round of a transport, or the metric that ranks instead, at any value of
// the sweep. Between steps, it is on a line in logarithms. It is 0 outside of the measured
// steps.
func (s *Sweep) round(l *line, at float64) float64 {
	var x, y []float64 // measured values and their rounds
	for i, c := range l.Cells {
		if c != nil {
			x, y = append(x, s.At[i]), append(y, c.Of(s.By).Center)
		}
	}
	k, exact := slices.BinarySearch(x, at)
	switch {
	case exact:
		return y[k]
	case k == 0 || k == len(x):
		return 0
	}
	share := math.Log(at/x[k-1]) / math.Log(x[k]/x[k-1])
	return math.Exp((1-share)*math.Log(y[k-1]) + share*math.Log(y[k]))
}
