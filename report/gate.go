package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
)

// A Gate is the decision whether a comparison fails.
type Gate struct {
	FailAbove float64  `json:"fail_above"`       // largest accepted share: 0.05 fails a row that is more than 5 % worse
	Failed    bool     `json:"failed"`           // there is a regression or an error
	Reasons   []string `json:"reasons"`          // why it failed and what it could not detect: one line each, safe for a terminal
	Trial     *Trial   `json:"canary,omitempty"` // test with a canary; nil without one

	failures, limits []string // parts of Reasons before escaping, the largest regression first
}

// Gate decides whether the comparison fails. It does if a row is significantly worse by more
// than failAbove (0.05 is 5 %), or if a finding is an error. Gate returns an error if it
// cannot judge.
func (c *Comparison) Gate(failAbove float64) (Gate, error) {
	g := Gate{FailAbove: failAbove, Reasons: []string{}}
	if err := c.judgeable(); err != nil {
		return g, err
	}
	for _, r := range c.Worse() {
		if r.worseBy(failAbove) {
			g.failures = append(g.failures, fmt.Sprintf("%s: %s, p %s", rowName(r), doc.Change(r.Ratio), pText(r.P)))
		}
	}
	for _, f := range c.Findings {
		if f.Severity == Error {
			g.failures = append(g.failures, FindingLine(f))
		}
	}
	blind := slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool { return r.Detectable <= 1+failAbove || r.Significant })
	if len(blind) > 0 {
		g.limits = append(g.limits, fmt.Sprintf("could not detect a change of %s in %d of %d rows: %s",
			doc.Percent(failAbove), len(blind), len(c.Rows), strings.Join(clip(each(blind, rowName), 5), "; ")))
	}
	for _, id := range c.OnlyBase {
		g.limits = append(g.limits, "could not judge "+id+", which only base has")
	}
	if !c.canary {
		g.limits = append(g.limits, "was not tested, because no canary was measured (add --canary)")
	}
	g.Failed = len(g.failures) > 0
	g.Reasons = append(g.Reasons, each(slices.Concat(g.failures, g.limits), doc.Visible)...)
	return g, nil
}

// judgeable returns an error if a gate cannot judge the comparison.
func (c *Comparison) judgeable() error {
	switch {
	case !c.Interleaved && !c.separate:
		return errors.New("the two runs were not interleaved, so a drift of the machine can look like a change: " +
			"measure both with run --against, or allow separate runs")
	case c.rules[0] != c.rules[1]:
		return fmt.Errorf("base and head were measured by different rules, versions %d and %d: their numbers cannot be compared", c.rules[0], c.rules[1])
	case len(c.Rows) == 0:
		return errors.New("base and head have no cell in common")
	case !slices.ContainsFunc(c.Rows, func(r Row) bool { return !math.IsInf(r.Detectable, 1) }):
		return fmt.Errorf("there are too few blocks for any change to show, so the gate could not fail: comparing %s needs %d blocks of each",
			doc.Plural(len(c.Rows), "cell"), c.neededBlocks())
	}
	return nil
}

// A Trial is the test of a gate on the two copies of a cell that a canary measures. The gate
// must pass the unchanged copy and fail the slowed-down copy.
type Trial struct {
	Cell     string  `json:"-"`        // ID of the cell
	Slowdown float64 `json:"slowdown"` // of the slow copy, as a share
	Works    bool    `json:"works"`    // the gate passed the unchanged copy and failed the slow one
	Broken   error   `json:"-"`        // how the gate is broken; nil if it works
}

// Canary tests the gate of c on the canary in r. Each copy is judged as one of as many rows as
// c has. It returns an error if the gate cannot be tested.
func (c *Comparison) Canary(r *result.Result, failAbove float64) (Trial, error) {
	same, slow, err := r.Pairs()
	if err != nil {
		return Trial{}, err
	}
	if r.Canary.Slowdown <= failAbove {
		return Trial{}, fmt.Errorf("canary: its slowdown must be above the gate's %.4g %%, not %.4g %%", 100*failAbove, 100*r.Canary.Slowdown)
	}
	t := Trial{Cell: r.Canary.Slow.ID(), Slowdown: r.Canary.Slowdown}
	failed, why, err := c.try(same, failAbove)
	if err != nil {
		return t, err
	}
	if failed {
		t.Broken = fmt.Errorf("gate is broken: it failed an unchanged copy of a cell: %s", why)
	}
	failed, why, err = c.try(slow, failAbove)
	if !failed && t.Broken == nil {
		t.Broken = fmt.Errorf("gate is broken: it missed its canary, a slowdown of %s: %s", doc.Percent(t.Slowdown), why)
	}
	t.Works = t.Broken == nil
	return t, err
}

// try reports whether the gate fails a pair of a canary, with the reasons.
func (c *Comparison) try(pair *result.Result, failAbove float64) (failed bool, why string, err error) {
	d, err := Compare(pair, nil, CompareOptions{Alpha: c.Alpha / float64(max(1, len(c.Rows)))})
	if err != nil {
		return false, "", err
	}
	d.canary = true // this is the test
	g, err := d.Gate(failAbove)
	return g.Failed, strings.Join(append([]string{strings.TrimSuffix(d.Verdict.Text, ".")}, g.Reasons...), "; "), err
}

// paragraphs returns the decision of the gate, its reasons, and the changes that it could not
// detect.
func (g Gate) paragraphs() []doc.Paragraph {
	p := doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": passed. No cell is shown to be worse by more.", Tone: doc.Good}
	if g.Failed {
		p = doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": failed. " + strings.Join(clip(g.failures, 5), "; ") + ".", Tone: doc.Bad}
	}
	switch {
	case g.Trial == nil:
	case !g.Trial.Works:
		p.Text, p.Tone = p.Text+" But the "+g.Trial.Broken.Error()+".", doc.Bad
	default:
		p.Text += fmt.Sprintf(" The gate works: it passed a copy of %s and failed one that was slowed down by %s.", g.Trial.Cell, doc.Percent(g.Trial.Slowdown))
	}
	all := []doc.Paragraph{p}
	for _, limit := range clip(g.limits, 5) {
		all = append(all, doc.Say("The gate "+limit+".")...)
	}
	return all
}
