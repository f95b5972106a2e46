package analysis

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
)

// A Claim is what one number of a cell is, or how it compares with that of another cell.
// All of its intervals are of 95 %.
type Claim struct {
	Metric Metric
	Whole  *Metric // of which the metric is a share; nil if of none
	Cell   *Cell
	Value  stat.Interval // the metric of the cell, or the share
	Even   bool          // it is the same in all blocks

	Against    *Cell // nil if there is none; then neither are the others
	Other      stat.Interval
	OtherEven  bool
	Ratio      stat.Interval // of the metric of Cell to that of Against
	Shown      bool          // they differ by the rule of [Decide]: the Mann-Whitney test, and the interval of the ratio agrees
	Detectable float64       // a ratio that these blocks would have shown, and no smaller than what its interval leaves open
}

// Pick returns the one cell that passes all filters, which are those of [Result.Narrow].
func (r *Result) Pick(filters []string) (*Cell, error) {
	left := *r
	left.Cells = slices.Clone(r.Cells)
	if err := left.Narrow(filters); err != nil {
		return nil, err
	}
	if n := len(left.Cells); n != 1 {
		const named = 6
		var names []string
		for _, c := range left.Cells[:min(n, named)] {
			names = append(names, c.Name())
		}
		if n > named {
			names = append(names, fmt.Sprintf("%d more", n-named))
		}
		return nil, fmt.Errorf("%q: %d cells are left, want one: %s", strings.Join(filters, " "), n, strings.Join(names, "; "))
	}
	return left.Cells[0], nil
}

// Claim returns what a metric of the one cell of choices is, as a share if metric is
// METRIC/METRIC2. Choices of against replace those with the same key, and so choose the
// cell that is compared with the first. There is no claim without an interval of 95 %,
// or about what is not proved or was interrupted.
func (r *Result) Claim(metric string, choices, against []string) (*Claim, error) {
	part, whole, isShare := strings.Cut(metric, "/")
	c := &Claim{}
	var err error
	if c.Metric, err = claimable(part); err != nil {
		return nil, err
	}
	if c.Cell, err = r.Pick(choices); err != nil {
		return nil, err
	}
	c.Value = c.Cell.Of(part)
	if c.Metric.Sampled() {
		c.Even = equal(c.Cell.Medians(part))
	}
	if isShare {
		of, err := claimable(whole)
		switch {
		case err != nil:
			return nil, err
		case !c.Metric.Sampled() || !of.Sampled():
			return nil, fmt.Errorf("%s: want a share of two metrics that blocks measure", metric)
		case strings.TrimSuffix(c.Metric.Unit, "/round") != strings.TrimSuffix(of.Unit, "/round"):
			return nil, fmt.Errorf("%s: a share of %s (%s) in %s (%s): want one unit", metric, part, c.Metric.Unit, whole, of.Unit)
		case len(against) > 0:
			return nil, fmt.Errorf("%s: a share is of one cell, so it has no against", metric)
		}
		shares := c.Cell.shares(part, whole)
		c.Whole, c.Value, c.Even = &of, stat.Of(shares), equal(stat.Medians(shares))
		if c.Value.High > 1 {
			return nil, fmt.Errorf("%s of %s is more than 1: %s is added up over workers or requests, and no part of %s", metric, c.Cell.Name(), part, whole)
		}
	}
	if err := c.Cell.upholds(metric, c.Value); err != nil || len(against) == 0 {
		return c, err
	}
	return c, c.compare(r, choices, against)
}

// compare adds the cell that is compared with the first.
func (c *Claim) compare(r *Result, choices, against []string) error {
	name := c.Metric.Name
	if !c.Metric.Sampled() {
		return fmt.Errorf("metric %q cannot be compared: want one that blocks measure, such as round", name)
	}
	all := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool {
		key, _, _ := strings.Cut(choice, "=")
		return slices.ContainsFunc(against, func(other string) bool { return strings.HasPrefix(other, key+"=") })
	})
	var err error
	if c.Against, err = r.Pick(append(all, against...)); err != nil {
		return fmt.Errorf("against: %w", err)
	}
	if c.Against == c.Cell {
		return errors.New("against: that is the same cell")
	}
	c.Other = c.Against.Of(name)
	if err := c.Against.upholds(name, c.Other); err != nil {
		return err
	}
	a, b := c.Cell.Medians(name), c.Against.Medians(name)
	c.OtherEven = equal(b)
	c.Ratio = c.Cell.Ratio(name, c.Against)
	if !c.Ratio.Known() {
		return fmt.Errorf("%s is not above zero in all blocks, so there is no ratio: claim each cell by itself", name)
	}
	const alpha = 1 - stat.Confidence
	c.Shown = stat.Test(a, b) <= alpha && c.Ratio.Excludes(1)
	c.Detectable = max(stat.Detectable(a, b, alpha), c.Ratio.High, 1/c.Ratio.Low) // of counts, most blocks are equal, and the test alone would tell a trifle
	return nil
}

// equal reports whether all are the same, as counts may be.
func equal(xs []float64) bool { return len(xs) > 0 && slices.Min(xs) == slices.Max(xs) }

// claimable returns the metric of a name that a user wrote.
func claimable(name string) (Metric, error) {
	m, ok := MetricNamed(name)
	if !ok {
		return m, fmt.Errorf("unknown metric %q: ipcbench list metrics has all", name)
	}
	return m, nil
}

// upholds returns an error if nothing may be claimed from an estimate of the cell.
func (c *Cell) upholds(metric string, i stat.Interval) error {
	switch {
	case c.Unproved != "":
		return fmt.Errorf("%s is not proved: %s", c.Name(), c.Unproved)
	case !c.Proved():
		return fmt.Errorf("%s is not proved", c.Name())
	case c.Stopped == "interrupted":
		return fmt.Errorf("%s was interrupted", c.Name())
	case !i.Known():
		return fmt.Errorf("%s has no %s", c.Name(), metric)
	case i.Sure():
		return nil
	case len(c.timed) >= stat.Blocks && i.Confidence == 0:
		return fmt.Errorf("%s is a number without an interval", metric)
	}
	return fmt.Errorf("no 95 %% interval of %s: %d blocks, want %d (%s)", metric, i.Blocks, stat.Blocks, c.Name())
}

// shares returns one sampled metric as a share of another, by block. It is the mean of
// the one over the mean of the other: where both are of whole rounds, that is the ratio of
// their sums.
func (c *Cell) shares(part, whole string) (shares [][]float64) {
	parts, wholes := c.Samples(part), c.Samples(whole)
	for i := range parts {
		if len(parts[i]) == 0 || len(wholes[i]) == 0 {
			continue
		}
		of := mean(wholes[i])
		if of <= 0 {
			return nil
		}
		shares = append(shares, []float64{mean(parts[i]) / of})
	}
	return shares
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
