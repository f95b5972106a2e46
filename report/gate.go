package report

import (
	"fmt"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// GateReasons say why a gate failed, and what it could not have seen: a line
// each, in which nothing acts on a terminal.
func GateReasons(g analysis.Gate, rows int) []string {
	var reasons []string
	add := func(text string) { reasons = append(reasons, doc.Visible(text)) }
	for _, r := range g.Worse {
		add(fmt.Sprintf("%s: %s, p %s, is more than %s worse", rowName(r), change(r.Ratio), pText(r.P), share(g.FailAbove)))
	}
	for _, f := range g.Errors {
		add(FindingLine(f))
	}
	if len(g.Blind) > 0 {
		var names []string
		for _, r := range g.Blind {
			names = append(names, rowName(r))
		}
		add(fmt.Sprintf("a change of %s would have been missed in %d of %d: %s", share(g.FailAbove), len(names), rows, list(clip(names, 5))))
	}
	for _, id := range g.Unmeasured {
		add("not measured any more: " + id)
	}
	if !g.Tried {
		add("no canary: this gate was not tried")
	}
	return reasons
}

// TrialError says in which way a gate that was tried is broken, or returns nil.
func TrialError(t analysis.Trial) error {
	why := func(c *analysis.Comparison, g analysis.Gate) string {
		return strings.Join(append([]string{comparisonSentence(c)}, GateReasons(g, len(c.Rows))...), "; ")
	}
	switch {
	case t.SameGate.Failed:
		return fmt.Errorf("gate broken: it fails for a cell that is the same again: %s", why(t.Same, t.SameGate))
	case !t.SlowGate.Failed:
		return fmt.Errorf("gate broken: it passes a slowdown of %s: %s", share(t.Slowdown), why(t.Slow, t.SlowGate))
	}
	return nil
}
