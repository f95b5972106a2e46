package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/bench"
	"ipcbench/report/doc"
)

// Gate says whether to fail: for a significant regression by more than
// failAbove, 0.05 being 5 %. The reasons say why, or what the gate could not
// have seen. An error means that there is nothing to judge by.
func (c *Comparison) Gate(failAbove float64) (fail bool, reasons []string, err error) {
	if !c.Interleaved && !c.separate {
		return false, nil, errors.New("the two runs were not interleaved, so that a drift of the machine looks like a change: " +
			"measure both with run --against, or ask for separate runs to be judged")
	}
	if len(c.Rows) == 0 {
		return false, nil, errors.New("the two have no cell in common")
	}
	if !slices.ContainsFunc(c.Rows, func(r Row) bool { return !math.IsInf(r.Detectable, 1) }) {
		return false, nil, fmt.Errorf("there are too few blocks for any change to show, so that the gate could not fail: %s", c.needs())
	}
	for _, r := range c.worse() {
		if r.Worse() > 1+failAbove {
			fail = true
			reasons = append(reasons, fmt.Sprintf("%s: %s, p %s, is more than %s worse", r.name(), change(r.Ratio), pText(r.P), share(failAbove)))
		}
	}
	for _, f := range c.Findings {
		if f.Severity == Error {
			fail = true
			reasons = append(reasons, f.String())
		}
	}
	if blind := c.blind(failAbove); len(blind) > 0 {
		reasons = append(reasons, fmt.Sprintf("a change of %s would have been missed in %d of %d: %s",
			share(failAbove), len(blind), len(c.Rows), list(clip(blind, 5))))
	}
	for _, id := range c.OnlyBase {
		reasons = append(reasons, "not measured any more: "+id)
	}
	if !c.canary {
		reasons = append(reasons, "no canary: this gate was not tried")
	}
	for i := range reasons {
		reasons[i] = doc.Visible(reasons[i])
	}
	return fail, reasons, nil
}

// blind names the rows that would not have shown a change of that size.
func (c *Comparison) blind(change float64) []string {
	var names []string
	for _, r := range c.Rows {
		if r.Detectable > 1+change && !r.Significant {
			names = append(names, r.name())
		}
	}
	return names
}

// Canary tries the gate of c on the canary that was measured with it: a copy of a
// cell that is the same again must pass, and one that was slowed down must fail.
// The error says in which way the gate is broken. Both are judged as one row
// among as many as c has.
func (c *Comparison) Canary(r *bench.Result, failAbove float64) error {
	same, slow, err := r.Pairs()
	if err != nil {
		return err
	}
	if r.Canary.Slowdown <= failAbove {
		return fmt.Errorf("canary: a slowdown of %s is not above the %s at which the gate fails", share(r.Canary.Slowdown), share(failAbove))
	}
	o := CompareOptions{Alpha: c.alpha / float64(max(1, len(c.Rows)))}
	try := func(pair *bench.Result) (bool, string, error) {
		d, err := Compare(pair, nil, o)
		if err != nil {
			return false, "", err
		}
		d.canary = true // it is being tried
		fail, reasons, err := d.Gate(failAbove)
		return fail, strings.Join(append([]string{d.sentence()}, reasons...), "; "), err
	}
	fail, why, err := try(same)
	if err != nil {
		return err
	}
	if fail {
		return fmt.Errorf("gate broken: it fails for a cell that is the same again: %s", why)
	}
	fail, why, err = try(slow)
	if err != nil {
		return err
	}
	if !fail {
		return fmt.Errorf("gate broken: it passes a slowdown of %s: %s", share(r.Canary.Slowdown), why)
	}
	return nil
}
