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
	FailAbove  float64   // a share: 0.05 fails what is more than 5 % worse
	Rows       int       // that were judged
	Failed     bool      // there is a regression or an error
	Worse      []Row     // significantly, and by more than FailAbove: the largest change first
	Errors     []Finding // bugs in the measurement
	Blind      []Row     // they would not have shown a change of FailAbove
	Unmeasured []string  // cells of the base that the head lacks
	Trial      *Trial    // of a canary; nil without one
	Tried      bool      // a canary was measured, so that the gate can be tried
}

// Gate decides whether to fail, for a significant regression by more than
// failAbove, 0.05 being 5 %. An error means that there is nothing to judge by.
func (c *Comparison) Gate(failAbove float64) (Gate, error) {
	g := Gate{FailAbove: failAbove, Rows: len(c.Rows), Unmeasured: c.OnlyBase, Tried: c.canary}
	if !c.Interleaved && !c.separate {
		return g, errors.New("the two runs were not interleaved, so that a drift of the machine looks like a change: " +
			"measure both with run --against, or ask for separate runs to be judged")
	}
	if c.rules[0] != c.rules[1] {
		return g, fmt.Errorf("the two were measured by different rules, versions %d and %d: their numbers cannot be compared", c.rules[0], c.rules[1])
	}
	if len(c.Rows) == 0 {
		return g, errors.New("the two have no cell in common")
	}
	if !slices.ContainsFunc(c.Rows, func(r Row) bool { return !math.IsInf(r.Detectable, 1) }) {
		cells := "cells"
		if len(c.Rows) == 1 {
			cells = "cell"
		}
		return g, fmt.Errorf("there are too few blocks for any change to show, so that the gate could not fail: comparing %d %s takes %d blocks of each",
			len(c.Rows), cells, c.NeededBlocks())
	}
	for _, r := range c.Worse() {
		if r.Worse() > 1+failAbove {
			g.Worse = append(g.Worse, r)
		}
	}
	for _, f := range c.Findings {
		if f.Severity == Error {
			g.Errors = append(g.Errors, f)
		}
	}
	for _, r := range c.Rows {
		if r.Detectable > 1+failAbove && !r.Significant {
			g.Blind = append(g.Blind, r)
		}
	}
	g.Failed = len(g.Worse)+len(g.Errors) > 0
	return g, nil
}

// A Trial is what a gate made of the two copies of a cell that a canary measures:
// one that is the same again, which must pass, and one that was slowed down, which
// must fail.
type Trial struct {
	Cell       string      // the ID of that cell
	Slowdown   float64     // of the slow copy, a share
	Same, Slow *Comparison // with the original
	SameGate   Gate
	SlowGate   Gate
}

// Works reports whether the gate passed what is the same and failed what is slow.
func (t Trial) Works() bool { return !t.SameGate.Failed && t.SlowGate.Failed }

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
	o := CompareOptions{Alpha: c.Alpha / float64(max(1, len(c.Rows)))}
	try := func(pair *result.Result) (*Comparison, Gate, error) {
		d, err := Compare(pair, nil, o)
		if err != nil {
			return nil, Gate{}, err
		}
		d.canary = true // it is being tried
		g, err := d.Gate(failAbove)
		return d, g, err
	}
	if t.Same, t.SameGate, err = try(same); err != nil {
		return t, err
	}
	t.Slow, t.SlowGate, err = try(slow)
	return t, err
}

// paragraphs say what the gate decided and why, and what it could not see.
func (g Gate) paragraphs() []doc.Paragraph {
	p := doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": passed. Nothing is shown to be worse by more.", Tone: doc.Good}
	if g.Failed {
		p = doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": failed. " + strings.Join(clip(g.failures(), 5), "; ") + ".", Tone: doc.Bad}
	}
	switch {
	case g.Trial == nil:
	case TrialError(*g.Trial) != nil:
		p.Text, p.Tone = p.Text+" But the "+TrialError(*g.Trial).Error()+".", doc.Bad
	default:
		p.Text += fmt.Sprintf(" The gate works: it passed a copy of %s, and failed one that was slowed down by %s.", g.Trial.Cell, doc.Percent(g.Trial.Slowdown))
	}
	all := []doc.Paragraph{p}
	for _, limit := range clip(g.limits(), 5) {
		all = append(all, doc.Say("The gate could not see "+limit+".")...)
	}
	return all
}

// Reasons say why the gate failed, and what it could not see: a line each, in
// which nothing acts on a terminal.
func (g Gate) Reasons() []string {
	all := g.failures()
	for _, limit := range g.limits() {
		all = append(all, "could not see "+limit)
	}
	for i := range all {
		all[i] = doc.Visible(all[i])
	}
	return all
}

func (g Gate) failures() []string {
	var all []string
	for _, r := range g.Worse {
		all = append(all, fmt.Sprintf("%s: %s, p %s", rowName(r), doc.Change(r.Ratio), pText(r.P)))
	}
	for _, f := range g.Errors {
		all = append(all, FindingLine(f))
	}
	return all
}

func (g Gate) limits() []string {
	var all []string
	if len(g.Blind) > 0 {
		var names []string
		for _, r := range g.Blind {
			names = append(names, rowName(r))
		}
		all = append(all, fmt.Sprintf("a change of %s in %d of %d: %s", doc.Percent(g.FailAbove), len(names), g.Rows, strings.Join(clip(names, 5), "; ")))
	}
	for _, id := range g.Unmeasured {
		all = append(all, id+", which is not measured any more")
	}
	if !g.Tried {
		all = append(all, "whether it works, as no canary was measured (run --canary)")
	}
	return all
}

// TrialError says in which way a gate that was tried is broken, or returns nil.
func TrialError(t Trial) error {
	why := func(c *Comparison, g Gate) string {
		return strings.Join(append([]string{strings.TrimSuffix(comparisonSentence(c), ".")}, g.Reasons()...), "; ")
	}
	switch {
	case t.SameGate.Failed:
		return fmt.Errorf("gate is broken: it fails for a cell that is the same again: %s", why(t.Same, t.SameGate))
	case !t.SlowGate.Failed:
		return fmt.Errorf("gate is broken: it passes a slowdown of %s: %s", doc.Percent(t.Slowdown), why(t.Slow, t.SlowGate))
	}
	return nil
}
