package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/machine"
	"ipcbench/predict"
)

// An Advice says which transport to use for work that need not have been measured.
type Advice struct {
	Asked   bench.Cell           // the first one of those that were asked for: all differ in their variants alone
	Control *Forecast            // nil if nothing is known of it
	Ranked  []*Forecast          // the fastest first
	Refused []Refusal            // of those that were asked for, in their order
	Cells   int                  // that predictions rest on
	LeftOut counts               // cells of the same variants that they do not rest on
	Mixed   []machine.Difference // in which the results differ that predictions rest on
	Known   int                  // so many of the cells that were asked for are among those that were measured
	NoCache bool                 // nobody knows how large the last-level cache is, so that nothing accounts for it
}

// A Forecast is what a round takes, as it is predicted.
type Forecast struct {
	Cell         bench.Cell    // as it was asked for
	Overhead     stat.Interval // not Known of a control
	Round        stat.Interval // not Known where nothing is known of the control
	Extrapolated []string      // in what the work lies beyond all that was measured, that of the control included
	Measured     bool          // it was not predicted: only a control
	Moves        bool          // bytes are moved, and not handed over
	Tied         bool          // it may be as fast as the first
	TiedMoving   bool          // it moves bytes, and may be as fast as the first that does
	Fit          *predict.Fit  // nil if it was measured
}

// A Refusal is a transport that is not ranked.
type Refusal struct {
	Cell bench.Cell
	Why  error
}

// ErrDelay is the error of a link with a delay, which is no feature.
var ErrDelay = errors.New("what a delay of a link costs is not predicted, only its rate")

// ErrNotMeasured is the error of a transport of which there is no cell.
var ErrNotMeasured = errors.New("not measured")

// Advise predicts the cells that are asked for, which differ in their variants alone,
// from what was measured on one machine.
func Advise(from []*Result, asked []bench.Cell) (*Advice, error) {
	if len(from) == 0 || len(asked) == 0 {
		return nil, errors.New("analysis: no result to predict from, or nothing to predict")
	}
	a := &Advice{Asked: asked[0], NoCache: from[0].Environment.LLC == 0}
	if err := a.mix(from); err != nil {
		return nil, err
	}
	a.control(from)
	for _, c := range asked {
		f, err := a.forecast(from, c)
		if err != nil {
			a.Refused = append(a.Refused, Refusal{c, err})
			continue
		}
		a.Ranked = append(a.Ranked, f)
	}
	a.rank()
	return a, nil
}

// mix checks that results can be taken together.
func (a *Advice) mix(from []*Result) error {
	first := from[0]
	for _, r := range from {
		if r == first {
			continue
		}
		if d := OtherMachine(first.Environment, r.Environment); len(d) > 0 {
			return fmt.Errorf("the results are of two machines: %v", d[0])
		}
		for _, d := range planDiff(first.Plan, r.Plan) {
			if d.What != "seed" {
				a.mixed(d)
			}
		}
	}
	return nil
}

func (a *Advice) mixed(d machine.Difference) {
	if !slices.ContainsFunc(a.Mixed, func(m machine.Difference) bool { return m.What == d.What }) {
		a.Mixed = append(a.Mixed, d)
	}
}

// OtherMachine returns in what environments differ that makes costs differ: not the
// network of a run, and not the version of Go.
func OtherMachine(a, b machine.Environment) []machine.Difference {
	a.Link, a.Listen, a.Go = b.Link, b.Listen, b.Go
	return machine.Diff(a, b)
}

// control finds out what the round takes without any transport: as it was measured, or
// else as the controls of other shapes tell.
func (a *Advice) control(from []*Result) {
	c := a.Asked
	c.Variant, c.Transport, c.Link, c.Language, c.Respawn = Control, Control, "", "", false
	var of []*Cell
	for _, r := range from {
		for _, m := range r.Cells {
			if !m.IsControl() || familyOf(m.Cell, r) != familyOf(&c, r) {
				continue
			}
			if m.Model == c.Model && m.Workers == c.Workers && m.Clients == c.Clients && m.unfit() == "" {
				a.Control = &Forecast{Cell: c, Round: m.Of("round"), Overhead: stat.None(), Measured: true}
				return
			}
			of = append(of, m)
		}
	}
	f := fitted(of)
	for _, l := range f.LeftOut {
		a.LeftOut.add(l)
	}
	if f.Fit == nil {
		return
	}
	if p, err := f.Fit.At(workOf(&c, from[0]), 0); err == nil {
		a.Control = &Forecast{Cell: c, Round: p.Interval, Overhead: stat.None(), Extrapolated: p.Extrapolated, Fit: f.Fit}
	}
}

// forecast predicts one cell.
func (a *Advice) forecast(from []*Result, c bench.Cell) (*Forecast, error) {
	var n counts
	var of []*Cell
	for _, r := range from {
		want := familyOf(&c, r)
		for _, m := range r.Cells {
			if m.Variant != c.Variant {
				continue
			}
			if why := want.differs(familyOf(m.Cell, r)); why != "" {
				n.add(LeftOut{Why: why, Setting: true, Cells: 1})
				continue
			}
			of = append(of, m)
			if m.ID() == c.ID() {
				a.Known++
			}
			first := *of[0] // but for its model, and what is another family's or another machine's
			cell := *first.Cell
			cell.Model, cell.PerProcess, cell.Launcher = m.Model, m.PerProcess, m.Launcher
			first.Cell = &cell
			for _, d := range cellDiff(&first, m) {
				a.mixed(d)
			}
		}
	}
	family := fitted(of)
	a.Cells += len(family.Cells)
	for _, l := range append(n, family.LeftOut...) {
		a.LeftOut.add(l)
	}
	if _, rated := Rate(c.Link); !rated && c.Link != "" && c.Link != Unshaped {
		return nil, ErrDelay
	}
	if len(of) == 0 && len(n) > 0 {
		return nil, fmt.Errorf("%w with the same %s", ErrNotMeasured, n[0].Why)
	}
	if len(of) == 0 {
		return nil, ErrNotMeasured
	}
	if family.Why != nil {
		return nil, family.Why
	}
	rest := 0.0
	f := &Forecast{Cell: c, Fit: family.Fit, Round: stat.None(), Moves: !slices.ContainsFunc(of, (*Cell).HandsOver)}
	if a.Control != nil {
		rest = a.Control.Round.Center
	}
	p, err := family.Fit.At(workOf(&c, from[0]), rest)
	if err != nil {
		return nil, err
	}
	f.Overhead, f.Extrapolated = p.Interval, p.Extrapolated
	if a.Control != nil {
		f.Round = together(a.Control.Round, p.Interval)
		f.Extrapolated = append(f.Extrapolated, a.Control.Extrapolated...)
		slices.Sort(f.Extrapolated)
		f.Extrapolated = slices.Compact(f.Extrapolated)
	}
	return f, nil
}

// together adds estimates that know nothing of each other: their distances to the bounds are
// added as those of errors that are independent.
func together(a, b stat.Interval) stat.Interval {
	c := a.Center + b.Center
	return stat.Interval{
		Center: c, Low: c - math.Hypot(a.Center-a.Low, b.Center-b.Low), High: c + math.Hypot(a.High-a.Center, b.High-b.Center),
		Confidence: min(a.Confidence, b.Confidence), Blocks: min(a.Blocks, b.Blocks), N: a.N + b.N,
	}
}

// rank sorts forecasts by their overhead, and finds those that may be as fast as the
// first: where the difference is less than both intervals leave open.
func (a *Advice) rank() {
	slices.SortStableFunc(a.Ranked, func(f, g *Forecast) int { return cmp.Compare(f.Overhead.Center, g.Overhead.Center) })
	close := func(f, first *Forecast) bool {
		x, y := first.Overhead, f.Overhead
		if x.Confidence == 0 || y.Confidence == 0 { // nobody knows
			return f != first
		}
		return f != first && y.Center-x.Center <= math.Hypot(x.High-x.Center, y.Center-y.Low)
	}
	var moving *Forecast
	for _, f := range a.Ranked {
		if f.Moves && moving == nil {
			moving = f
		}
		f.Tied = close(f, a.Ranked[0])
		f.TiedMoving = f.Moves && close(f, moving)
	}
}

// Best returns the fastest forecast and those that may be as fast; none if nothing is
// ranked.
func (a *Advice) Best() []*Forecast {
	return a.first(func(f *Forecast) bool { return true }, func(f *Forecast) bool { return f.Tied })
}

// BestMoving returns the same of those that move bytes.
func (a *Advice) BestMoving() []*Forecast {
	return a.first(func(f *Forecast) bool { return f.Moves }, func(f *Forecast) bool { return f.TiedMoving })
}

func (a *Advice) first(of, tied func(*Forecast) bool) []*Forecast {
	var all []*Forecast
	for _, f := range a.Ranked {
		if of(f) && (len(all) == 0 || tied(f)) {
			all = append(all, f)
		}
	}
	return all
}
