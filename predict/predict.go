// Package predict says what work costs that was not measured, from what other work
// cost.
//
// A cost is a sum: of each feature of the work, such as the bytes that all clients
// exchange, times what one unit of it costs. [New] finds these costs, none of which is
// below zero, from points that were measured. [Fit.At] adds them up for other work, or
// refuses to: where the work lies so far from all points, or under such other conditions,
// that they do not tell.
//
// How far off a fit is, it says by points of shapes that were held out: each shape is
// predicted by a fit of all others. The intervals of predictions come from these errors
// too, and never from how well a fit meets the points that it was made of.
package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"ipcbench/bench/stat"
)

// A Point is a cost that was measured.
type Point struct {
	Shape string // of the tensors: what has one shape is held out together
	Work  Work
	Value float64 // the cost, in seconds; below zero where noise is larger
	Half  float64 // half the width of its interval; infinite if that is not known
	Round float64 // seconds of the whole round
}

// slight is the share of a round below which nobody cares what a cost is exactly, and
// sure how many half-widths of its interval an error has to be worth talking of.
const (
	slight = 0.05
	sure   = 4
)

// Scale is what an error of the point is held against: the cost itself, but no less than
// can be measured or matters.
func (p Point) Scale() float64 {
	s := max(p.Value, slight*p.Round)
	if math.IsInf(p.Half, 0) || math.IsNaN(p.Half) {
		return max(s, p.Round)
	}
	return max(s, sure*p.Half)
}

// A Fit is a cost as a sum of features.
type Fit struct {
	points []Point
	best   solution   // of all points
	folds  []solution // with one shape held out each
	held   []Held
	by     []int // the fold that has held each point out
}

// A Term is a feature with what one unit of it costs.
type Term struct {
	Feature string
	Cost    float64 // seconds a unit
}

// A Held is a point that a fit of all other shapes has predicted.
type Held struct {
	Point
	Predicted float64 // NaN if the others do not tell
	Error     float64 // of Scale; NaN likewise
}

// No round is shorter, or longer, in seconds: what is cannot be a measurement.
const (
	leastRound = 1e-9
	mostRound  = 1e9
)

// leastShapes is the fewest with which one can be held out and the others still tell
// more than one cost.
const leastShapes = 3

// ErrFewShapes is the error of too few shapes for a fit.
var ErrFewShapes = errors.New("too few shapes")

// New fits points. It keeps them.
func New(points []Point) (*Fit, error) {
	shapes := shapesOf(points)
	if len(shapes) < leastShapes {
		return nil, fmt.Errorf("%w: %d that can be used, want %d or more", ErrFewShapes, len(shapes), leastShapes)
	}
	for _, p := range points {
		if !(p.Round >= leastRound && p.Round <= mostRound && math.Abs(p.Value) <= mostRound) {
			return nil, fmt.Errorf("shape %s: a cost of %v s in a round of %v s is no measurement", p.Shape, p.Value, p.Round)
		}
		if err := p.Work.check(); err != nil {
			return nil, fmt.Errorf("shape %s: %w", p.Shape, err)
		}
	}
	f := &Fit{points: points}
	var err error
	if f.best, err = solve(points, len(shapes)); err != nil {
		return nil, err
	}
	f.held, f.by = make([]Held, len(points)), make([]int, len(points))
	for k, shape := range shapes {
		others := slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Shape == shape })
		fold, err := solve(others, len(shapes)-1)
		if err != nil {
			return nil, err
		}
		f.folds = append(f.folds, fold)
		for i, p := range points {
			if p.Shape == shape {
				f.held[i], f.by[i] = hold(p, fold), k
			}
		}
	}
	return f, nil
}

func hold(p Point, fold solution) Held {
	h := Held{Point: p, Predicted: math.NaN(), Error: math.NaN()}
	if fold.tells(p.Work) {
		h.Predicted = fold.at(p.Work)
		h.Error = math.Abs(h.Predicted-p.Value) / p.Scale()
	}
	return h
}

// shapesOf returns the shapes of points, each once.
func shapesOf(points []Point) []string {
	var all []string
	for _, p := range points {
		all = append(all, p.Shape)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// HeldOut returns all points, in their order, as the other shapes predict them.
func (f *Fit) HeldOut() []Held { return f.held }

// Errors returns the median and the largest of the errors of points that were held out,
// NaN if there are none.
func (f *Fit) Errors() (median, worst float64) { return Errors(f.held) }

// Errors returns the median and the largest of errors, without those that are not known.
func Errors(held []Held) (median, worst float64) {
	var all []float64
	for _, h := range held {
		if !math.IsNaN(h.Error) {
			all = append(all, h.Error)
		}
	}
	if len(all) == 0 {
		return math.NaN(), math.NaN()
	}
	return stat.Median(all), slices.Max(all)
}

// Shapes returns how many shapes the fit is made of.
func (f *Fit) Shapes() int { return len(f.folds) }

// Terms returns the features that have a cost, those that explain most first.
func (f *Fit) Terms() []Term {
	var all []Term
	for i, k := range f.best.chosen {
		all = append(all, Term{features[k].Name, f.best.costs[i]})
	}
	slices.SortFunc(all, func(a, b Term) int { return cmp.Compare(place(a.Feature), place(b.Feature)) })
	return all
}

// Dropped returns the features that were left out since there are too few shapes, by
// name: what they cost is counted with the others.
func (f *Fit) Dropped() []string { return f.best.dropped() }

// A Prediction is a cost that was not measured.
type Prediction struct {
	stat.Interval
	Extrapolated []string // in what the work lies beyond all that was measured
}

// At predicts the cost of w, in seconds, which comes on top of a round of rest seconds.
//
// The interval is the jackknife+ of Barber, Candès, Ramdas and Tibshirani ("Predictive
// inference with the jackknife+", 2021), over shapes instead of points: each fit with a
// shape held out says what it predicts for w, with the error that it made on that shape
// to both sides. Errors are shares of what the fit predicted, or of a part of that round.
// With n shapes, the range of all holds with a probability of (n-1)/(n+1) at least, if w
// is to the shapes as they are to each other; with many shapes, bounds within it hold
// with 95 %. Where the points do not quite tell what a feature costs, it is wider by that.
func (f *Fit) At(w Work, rest float64) (Prediction, error) {
	p := Prediction{}
	var err error
	if p.Extrapolated, err = f.beyond(w); err != nil {
		return p, err
	}
	p.Center = f.best.at(w)
	p.Low, p.High, p.Blocks, p.N = p.Center, p.Center, f.Shapes(), len(f.points)
	var lows, highs []float64
	folds := map[int]bool{}
	for i, h := range f.held {
		fold := f.folds[f.by[i]]
		if math.IsNaN(h.Error) || !fold.tells(w) {
			continue
		}
		folds[f.by[i]] = true
		cost, share := fold.at(w), math.Abs(h.Predicted-h.Value)
		if s := scale(h.Predicted, h.Round-h.Value); s > 0 {
			share /= s
		} else { // all of it was missed
			share = 1
		}
		off := share * scale(cost, rest)
		lows, highs = append(lows, cost-off), append(highs, cost+off)
	}
	n := len(folds)
	if n < 2 {
		return p, nil
	}
	slices.Sort(lows)
	slices.Sort(highs)
	cut := max(1, int((1-stat.Confidence)/2*float64(n+1))) // of the bounds, so many shapes' may lie outside, the last of them on it
	p.Confidence = 1 - 2*float64(cut)/float64(n+1)
	k := (cut - 1) * len(lows) / n
	_, unknown := f.best.off(w)
	p.Low, p.High = min(p.Center, max(0, lows[k]))*(1-unknown), max(p.Center, highs[len(highs)-1-k])/(1-unknown)
	return p, nil
}

// scale is what the error of a predicted cost is a share of, where a round takes rest
// seconds besides.
func scale(cost, rest float64) float64 { return max(cost, slight*(cost+max(0, rest))) }
