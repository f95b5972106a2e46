package analysis

import (
	"cmp"
	"math"
	"slices"

	"ipcbench/predict"
)

// Group returns the work that was asked for, on the link of those that have one.
func (a *Advice) Group() Group {
	g := (&Cell{Cell: &a.Asked}).work()
	g.Link = a.Asked.Link
	for _, f := range a.Ranked {
		g.Link = cmp.Or(g.Link, f.Cell.Link)
	}
	for _, r := range a.Refused {
		g.Link = cmp.Or(g.Link, r.Cell.Link)
	}
	return g
}

// Errors returns the median and the largest of the errors held out of what is ranked, NaN
// if there are none.
func (a *Advice) Errors() (median, worst float64) {
	var held []predict.Held
	for _, f := range a.Ranked {
		if f.Fit != nil {
			held = append(held, f.Fit.HeldOut()...)
		}
	}
	return predict.Errors(held)
}

// ForetoldErrors returns the same of some cells.
func ForetoldErrors(of []Foretold) (median, worst float64) {
	var held []predict.Held
	for _, f := range of {
		held = append(held, f.Held)
	}
	return predict.Errors(held)
}

// An Outcome is a forecast beside what was measured of its cell afterwards.
type Outcome struct {
	*Forecast
	Cell  *Cell
	Error float64 // of the predicted overhead, as of what is held out; NaN if that was not measured
	Meet  bool    // the intervals of the predicted and the measured round have something in common
}

// Outcomes returns those of all ranked cells that were measured, in the order of the ranking.
func (a *Advice) Outcomes(r *Result) []Outcome {
	var all []Outcome
	for _, f := range a.Ranked {
		i := slices.IndexFunc(r.Cells, func(c *Cell) bool { return c.ID() == f.Cell.ID() && c.Unproved == "" && c.Of("round").Known() })
		if i < 0 {
			continue
		}
		c := r.Cells[i]
		round := c.Of("round")
		o := Outcome{f, c, math.NaN(), f.Round.Confidence > 0 && round.Confidence > 0 && f.Round.Low <= round.High && round.Low <= f.Round.High}
		if c.cost().Confidence > 0 {
			o.Error = math.Abs(f.Overhead.Center-c.cost().Center) / c.point().Scale()
		}
		all = append(all, o)
	}
	return all
}

// Regret returns how much longer, as a share, a round of what was advised takes than one of
// the fastest that was measured: 0 where that is not shown, and NaN where nothing can show it.
func (a *Advice) Regret(of []Outcome) float64 {
	if len(of) < 2 || of[0].Forecast != a.Ranked[0] {
		return math.NaN()
	}
	best := slices.MinFunc(of, func(a, b Outcome) int {
		return cmp.Compare(a.Cell.Of("round").Center, b.Cell.Of("round").Center)
	}).Cell
	first := of[0].Cell
	switch more := first.More("round", best); {
	case first == best:
		return 0
	case more.Confidence == 0:
		return math.NaN()
	case !more.Excludes(0):
		return 0
	}
	return first.Ratio("round", best).Center - 1
}
