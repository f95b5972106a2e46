package report

import (
	"fmt"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// A Gate is a decision and, if a canary was measured, whether it can be relied on.
type Gate struct {
	analysis.Gate
	Trial *analysis.Trial // nil without a canary
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
func TrialError(t analysis.Trial) error {
	why := func(c *analysis.Comparison, g analysis.Gate) string {
		return strings.Join(append([]string{strings.TrimSuffix(comparisonSentence(c), ".")}, Gate{Gate: g}.Reasons()...), "; ")
	}
	switch {
	case t.SameGate.Failed:
		return fmt.Errorf("gate is broken: it fails for a cell that is the same again: %s", why(t.Same, t.SameGate))
	case !t.SlowGate.Failed:
		return fmt.Errorf("gate is broken: it passes a slowdown of %s: %s", doc.Percent(t.Slowdown), why(t.Slow, t.SlowGate))
	}
	return nil
}
