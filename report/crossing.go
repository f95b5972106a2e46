package report

import (
	"math"
	"slices"

	"ipcbench/bench/stat"
)

// A crossing is where two transports of a sweep change places: one is shown to be
// faster on one side of it, and the other on the other side or at the sweep's end.
//
// The interval is the set of values at which neither is shown to be faster: those
// at which the interval of the ratio of the rounds holds 1. It inverts a test that is
// made at each value, as Fieller's theorem does for a ratio of means ("Some problems
// in interval estimation", 1954). Between two steps, the ratio and its bounds are
// lines in the logarithms of ratio and value: exact where both rounds are powers of
// the value, and near it where a fixed part meets one in proportion. The interval
// holds for one crossing by itself, at the confidence of its ratios, and
// not for all crossings of a sweep together.
type crossing struct {
	Before, After *line         // the faster one below and above
	At            stat.Interval // infinite where neither is shown to be faster up to the end of the sweep
	Steps         [2]int        // the nearest steps at which one is shown to be faster, or the sweep's ends
}

// A meeting is a step at which two transports were measured.
type meeting struct {
	step       int
	x          float64    // logarithms, as the others are
	ratio      [3]float64 // low, center and high, of the rounds: above 0 where the first transport is faster
	confidence float64
	blocks     int
}

// winner is 1 where the first transport is shown to be faster, -1 where the second
// is, and 0 where neither is.
func (m meeting) winner() int {
	switch {
	case m.ratio[0] > 0:
		return 1
	case m.ratio[2] < 0:
		return -1
	}
	return 0
}

// unknown stands for the logarithm of a bound that is not known: a ratio that no
// transports have.
const unknown = 1e3

func (s *sweep) meetings(a, b *line) []meeting {
	var all []meeting
	for i, x := range s.At {
		if a.Cells[i] == nil || b.Cells[i] == nil {
			continue
		}
		r := b.Cells[i].Ratio(s.By, a.Cells[i])
		if !r.Known() {
			continue
		}
		m := meeting{i, math.Log(x), [3]float64{-unknown, math.Log(r.Center), unknown}, r.Confidence, r.Blocks}
		if r.Confidence > 0 {
			m.ratio[0], m.ratio[2] = math.Log(r.Low), math.Log(r.High)
		}
		all = append(all, m)
	}
	return all
}

// cross returns the crossings of a pair: there may be one between any two meetings in a
// row that have a winner, and between the first or the last of them and the sweep's end.
func (s *sweep) cross(a, b *line) []crossing {
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

// crossed returns where the ratio passes 1 between two meetings with a winner, all
// between which have none; from may be before the first and to behind the last. It
// reports false if the same transport is faster at both, or if the ratio does not
// pass 1.
func crossed(met []meeting, from, to int) (stat.Interval, bool) {
	i := stat.Interval{Low: math.Inf(-1), High: math.Inf(1), Confidence: 1, Blocks: math.MaxInt}
	first, end := max(from, 0), min(to, len(met)-1)
	var middle []float64
	for k := first; k <= end; k++ {
		i.Confidence, i.Blocks = min(i.Confidence, met[k].confidence), min(i.Blocks, met[k].blocks)
		if k > first && (met[k-1].ratio[1] > 0) != (met[k].ratio[1] > 0) {
			middle = append(middle, zero(met[k-1], met[k], 1))
		}
	}
	if len(middle)%2 == 0 || from < 0 && to == len(met) {
		return i, false
	}
	i.Center = math.Exp(middle[len(middle)/2])
	if from >= 0 { // the bound that says who wins: the low one if the first transport does
		i.Low = math.Exp(zero(met[from], met[from+1], 1-met[from].winner()))
	}
	if to < len(met) {
		i.High = math.Exp(zero(met[to-1], met[to], 1-met[to].winner()))
	}
	return i, true
}

// zero returns where the line through the low, center or high ratio of two meetings is 0.
func zero(a, b meeting, which int) float64 {
	y, z := a.ratio[which], b.ratio[which]
	return a.x + (b.x-a.x)*y/(y-z)
}

// round returns the round of a transport, or what ranks instead, at any value of the sweep,
// on a line in logarithms, or 0 where it was not measured.
func (s *sweep) round(l *line, at float64) float64 {
	var x, y []float64 // the steps at which it was, and its rounds
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
