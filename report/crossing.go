package report

import (
	"math"

	"ipcbench/bench/stat"
)

// A Crossing is where two transports of a sweep change places: one is shown to be
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
type Crossing struct {
	Before, After *Line         // the faster one below and above
	At            stat.Interval // infinite where neither is shown to be faster up to the end of the sweep
	Round         float64       // of both, in seconds
	Steps         [2]int        // the nearest steps at which one is shown to be faster, or the sweep's ends
}

// A meeting is a step at which two transports were measured.
type meeting struct {
	step           int
	x              float64 // logarithms, as the others are
	low, mid, high float64 // of the ratio of the rounds: above 0 where the first transport is faster
	confidence     float64
	blocks         int
}

// winner is 1 where the first transport is shown to be faster, -1 where the second
// is, and 0 where neither is.
func (m meeting) winner() int {
	switch {
	case m.low > 0:
		return 1
	case m.high < 0:
		return -1
	}
	return 0
}

// unknown stands for the logarithm of a bound that is not known: a ratio that no
// transports have.
const unknown = 1e3

func (s *Sweep) meetings(a, b *Line) []meeting {
	var all []meeting
	for i, x := range s.At {
		if a.Cells[i] == nil || b.Cells[i] == nil {
			continue
		}
		r := b.Cells[i].Ratio(s.By, a.Cells[i])
		if !r.Known() {
			continue
		}
		m := meeting{step: i, x: math.Log(x), low: -unknown, mid: math.Log(r.Center), high: unknown, confidence: r.Confidence, blocks: r.Blocks}
		if r.Confidence > 0 {
			m.low, m.high = math.Log(r.Low), math.Log(r.High)
		}
		all = append(all, m)
	}
	return all
}

// cross returns the crossings of a pair.
func (s *Sweep) cross(a, b *Line) []Crossing {
	met := s.meetings(a, b)
	if len(met) < 2 {
		return nil
	}
	var all []Crossing
	found := func(winner int, at stat.Interval, from, to int) {
		c := Crossing{Before: a, After: b, At: at, Steps: [2]int{from, to}}
		if winner > 0 { // above it
			c.Before, c.After = b, a
		}
		c.Round = s.round(a, at.Center)
		all = append(all, c)
	}
	last := -1 // the last step at which one was faster
	for i, m := range met {
		if m.winner() == 0 {
			continue
		}
		if at, ok := crossed(met, last, i); ok {
			found(m.winner(), at, met[max(last, 0)].step, m.step)
		}
		last = i
	}
	if at, ok := crossed(met, last, len(met)); ok {
		found(-met[last].winner(), at, met[last].step, met[len(met)-1].step)
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
		if k > first && (met[k-1].mid > 0) != (met[k].mid > 0) {
			middle = append(middle, zero(met[k-1], met[k], func(m meeting) float64 { return m.mid }))
		}
	}
	if len(middle)%2 == 0 || from < 0 && to == len(met) {
		return i, false
	}
	i.Center = math.Exp(middle[len(middle)/2])
	bound := func(winner int) func(m meeting) float64 { // the one that says that it wins
		if winner > 0 {
			return func(m meeting) float64 { return m.low }
		}
		return func(m meeting) float64 { return m.high }
	}
	if from >= 0 {
		i.Low = math.Exp(zero(met[from], met[from+1], bound(met[from].winner())))
	}
	if to < len(met) {
		i.High = math.Exp(zero(met[to-1], met[to], bound(met[to].winner())))
	}
	return i, true
}

// zero returns where the line through two meetings is 0.
func zero(a, b meeting, of func(meeting) float64) float64 {
	y, z := of(a), of(b)
	return a.x + (b.x-a.x)*y/(y-z)
}

// round returns the round of a transport, or what ranks instead, at any value of the sweep, on a line in
// logarithms, or 0 where it was not measured.
func (s *Sweep) round(l *Line, at float64) float64 {
	last := -1
	for i, x := range s.At {
		if l.Cells[i] == nil {
			continue
		}
		y := l.Cells[i].Of(s.By).Center
		switch {
		case x == at:
			return y
		case x > at && last < 0:
			return 0
		case x > at:
			share := math.Log(at/s.At[last]) / math.Log(x/s.At[last])
			return math.Exp((1-share)*math.Log(l.Cells[last].Of(s.By).Center) + share*math.Log(y))
		}
		last = i
	}
	return 0
}
