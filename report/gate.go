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
	FailAbove float64  `json:"fail_above"`       // a share: 0.05 fails what is more than 5 % worse
	Failed    bool     `json:"failed"`           // there is a regression or an error
	Reasons   []string `json:"reasons"`          // why it failed, and what it could not see: a line each, in which nothing acts on a terminal
	Trial     *Trial   `json:"canary,omitempty"` // of a canary; nil without one

	failures, limits []string // the reasons as they are, the largest regression first
}

// Gate decides whether to fail, for a significant regression by more than
// failAbove, 0.05 being 5 %. An error means that there is nothing to judge by.
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
		g.limits = append(g.limits, fmt.Sprintf("could not see a change of %s in %d of %d: %s",
			doc.Percent(failAbove), len(blind), len(c.Rows), strings.Join(clip(each(blind, rowName), 5), "; ")))
	}
	for _, id := range c.OnlyBase {
		g.limits = append(g.limits, "could not see "+id+", which is not measured any more")
	}
	if !c.canary {
		g.limits = append(g.limits, "could not see whether it works, as no canary was measured (run --canary)")
	}
	g.Failed = len(g.failures) > 0
	g.Reasons = append(g.Reasons, each(slices.Concat(g.failures, g.limits), doc.Visible)...)
	return g, nil
}

// judgeable returns an error if a gate has nothing to judge by.
func (c *Comparison) judgeable() error {
	switch {
	case !c.Interleaved && !c.separate:
		return errors.New("the two runs were not interleaved, so that a drift of the machine looks like a change: " +
			"measure both with run --against, or ask for separate runs to be judged")
	case c.rules[0] != c.rules[1]:
		return fmt.Errorf("the two were measured by different rules, versions %d and %d: their numbers cannot be compared", c.rules[0], c.rules[1])
	case len(c.Rows) == 0:
		return errors.New("the two have no cell in common")
	case !slices.ContainsFunc(c.Rows, func(r Row) bool { return !math.IsInf(r.Detectable, 1) }):
		return fmt.Errorf("there are too few blocks for any change to show, so that the gate could not fail: comparing %s takes %d blocks of each",
			doc.Plural(len(c.Rows), "cell"), c.neededBlocks())
	}
	return nil
}

// A Trial is what a gate made of the two copies of a cell that a canary measures:
// one that is the same again, which must pass, and one that was slowed down, which
// must fail.
type Trial struct {
	Cell     string  `json:"-"`        // the ID of that cell
	Slowdown float64 `json:"slowdown"` // of the slow copy, a share
	Works    bool    `json:"works"`    // the gate passed the copy that is the same and failed the slow one
	Broken   error   `json:"-"`        // in which way the gate is broken; nil if it works
}

// Canary tries the gate of c on the canary that was measured with it. Each copy is
// judged as one row among as many as c has. An error means that the gate could not
// be tried.
func (c *Comparison) Canary(r *result.Result, failAbove float64) (Trial, error) {
	same, slow, err := r.Pairs()
	if err != nil {
		return Trial{}, err
	}
	if r.Canary.Slowdown <= failAbove {
		return Trial{}, fmt.Errorf("canary: a slowdown of %.4g %% is not above the %.4g %% at which the gate fails", 100*r.Canary.Slowdown, 100*failAbove)
	}
	t := Trial{Cell: r.Canary.Slow.ID(), Slowdown: r.Canary.Slowdown}
	failed, why, err := c.try(same, failAbove)
	if err != nil {
		return t, err
	}
	if failed {
		t.Broken = fmt.Errorf("gate is broken: it fails for a cell that is the same again: %s", why)
	}
	failed, why, err = c.try(slow, failAbove)
	if !failed && t.Broken == nil {
		t.Broken = fmt.Errorf("gate is broken: it passes a slowdown of %s: %s", doc.Percent(t.Slowdown), why)
	}
	t.Works = t.Broken == nil
	return t, err
}

// try reports whether the gate fails a pair of a canary, and why or why not.
func (c *Comparison) try(pair *result.Result, failAbove float64) (failed bool, why string, err error) {
	d, err := Compare(pair, nil, CompareOptions{Alpha: c.Alpha / float64(max(1, len(c.Rows)))})
	if err != nil {
		return false, "", err
	}
	d.canary = true // it is being tried
	g, err := d.Gate(failAbove)
	return g.Failed, strings.Join(append([]string{strings.TrimSuffix(d.Verdict.Text, ".")}, g.Reasons...), "; "), err
}

// paragraphs say what the gate decided and why, and what it could not see.
func (g Gate) paragraphs() []doc.Paragraph {
	p := doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": passed. Nothing is shown to be worse by more.", Tone: doc.Good}
	if g.Failed {
		p = doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": failed. " + strings.Join(clip(g.failures, 5), "; ") + ".", Tone: doc.Bad}
	}
	switch {
	case g.Trial == nil:
	case !g.Trial.Works:
		p.Text, p.Tone = p.Text+" But the "+g.Trial.Broken.Error()+".", doc.Bad
	default:
		p.Text += fmt.Sprintf(" The gate works: it passed a copy of %s, and failed one that was slowed down by %s.", g.Trial.Cell, doc.Percent(g.Trial.Slowdown))
	}
	all := []doc.Paragraph{p}
	for _, limit := range clip(g.limits, 5) {
		all = append(all, doc.Say("The gate "+limit+".")...)
	}
	return all
}
