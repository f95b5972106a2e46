package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/table"
)

// Outcomes of a gate, each with its own exit code.
const (
	Passed      = "passed"
	Slower      = "slower"        // a row is shown to be worse by more than FailAbove
	Contradicts = "contradictory" // the result contradicts itself, or the canary shows that the gate does not work
	Undecided   = "cannot judge"  // it passed, but these blocks could not show the canary either
)

// A Gate is the decision whether a comparison fails.
type Gate struct {
	FailAbove float64  `json:"fail_above"`       // largest accepted share: 0.05 fails a row that is more than 5 % worse
	Failed    bool     `json:"failed"`           // the outcome is slower or contradictory
	Outcome   string   `json:"outcome"`          // passed, slower, contradictory, or cannot judge
	Reasons   []string `json:"reasons"`          // why it failed and what it could not detect: one line each, safe for a terminal
	Trial     *Trial   `json:"canary,omitempty"` // test with a canary; nil without one

	failures, limits []string // parts of Reasons before escaping, the largest regression first
}

// An UnjudgedError says why a gate cannot judge a comparison.
type UnjudgedError struct{ error }

func (e UnjudgedError) Unwrap() error { return e.error }

// Gate decides whether the comparison fails. It does if a row is significantly worse by more
// than failAbove (0.05 is 5 %), or if a finding is an error. The error is an [UnjudgedError]
// if the files could be compared, but these runs do not allow a decision.
func (c *Comparison) Gate(failAbove float64) (Gate, error) {
	g := Gate{FailAbove: failAbove, Outcome: Passed, Reasons: []string{}}
	if err := c.judgeable(); err != nil {
		return g, err
	}
	for _, r := range c.Worse() {
		if r.worseBy(failAbove) {
			g.Outcome, g.failures = Slower, append(g.failures, fmt.Sprintf("%s: %s, p %s%s", rowName(r), doc.Change(r.Ratio), table.PText(r.P), markText(r)))
		}
	}
	for _, r := range c.Rows {
		if r.Forbids != nil && r.Sure() {
			g.limits = append(g.limits, "could not judge "+rowName(r)+": "+doc.List(r.Forbids))
		}
	}
	for _, f := range c.Findings {
		if f.Severity == answer.Error {
			g.Outcome, g.failures = Contradicts, append(g.failures, answer.FindingLine(f))
		}
	}
	blind := slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool { return r.Detectable <= 1+failAbove || r.Shown })
	if len(blind) > 0 {
		g.limits = append(g.limits, fmt.Sprintf("could not detect a change of %s in %d of %d rows: %s",
			doc.Percent(failAbove), len(blind), len(c.Rows), strings.Join(table.Clip(table.Each(blind, rowName), 5), "; ")))
	}
	for _, id := range c.OnlyBase {
		g.limits = append(g.limits, "could not judge "+id+", which only base has")
	}
	for _, id := range c.unproved {
		g.limits = append(g.limits, "could not judge "+id+", because not all of its data, or its base's, is proved")
	}
	switch {
	case c.untried != nil:
		g.without(c.untried, c.Rows)
	case !c.canary:
		g.limits = append(g.limits, "was not tested, because no canary was measured (add --canary)")
	}
	g.list()
	return g, nil
}

// markText appends the marks of a row to a failure.
func markText(r Row) string {
	notes := strings.Join(table.MarkNotes([]contrast.Judged{r.Judged}), " ")
	return table.Unless(notes == "", " ("+strings.TrimSuffix(notes, ".")+")")
}

// without judges by the smallest changes that would have shown, because the canary was not tried. A
// gate that could have missed the canary's slowdown cannot pass.
func (g *Gate) without(canary *result.Untried, rows []Row) {
	g.limits = append(g.limits, "was not tried on a slow copy: "+canary.Why)
	for _, r := range rows {
		if seen := r.Detectable - 1; seen > canary.Slowdown && !r.Shown && g.Outcome == Passed {
			g.Outcome = Undecided
			g.failures = append(g.failures, fmt.Sprintf("%s: only changes above %s would show: use more --blocks, a longer --time or a quieter machine", rowName(r), doc.Percent(seen)))
		}
	}
}

// list sets the fields that follow from the outcome and its reasons.
func (g *Gate) list() {
	g.Failed = g.Outcome == Slower || g.Outcome == Contradicts
	g.Reasons = append([]string{}, table.Each(slices.Concat(g.failures, g.limits), doc.Visible)...)
}

// Test adds the test with a canary. A gate that does not work is a contradiction. One that
// could not see its canary cannot pass, but a regression that it found stays.
func (g *Gate) Test(t Trial) {
	g.Trial = &t
	switch {
	case t.Broken != nil:
		g.Outcome, g.failures = Contradicts, append(g.failures, t.Broken.Error())
	case t.Blind != "" && g.Outcome == Passed:
		g.Outcome, g.failures = Undecided, []string{t.Blind}
	case t.Blind != "":
		g.limits = append(g.limits, t.Blind)
	}
	g.list()
}

// judgeable returns an error if a gate cannot judge the comparison.
func (c *Comparison) judgeable() error {
	switch {
	case !c.Interleaved && !c.separate:
		return UnjudgedError{errors.New("the two runs were not interleaved, so a drift of the machine can look like a change: " +
			"measure both with run --against, or allow separate runs")}
	case c.rules[0] != c.rules[1]:
		return fmt.Errorf("base and head were measured by different rules, versions %d and %d: their numbers cannot be compared", c.rules[0], c.rules[1])
	case len(c.Rows) == 0 && len(c.unproved) > 0:
		return UnjudgedError{fmt.Errorf("not all data of %s, or of its base, is proved", doc.List(table.Each(c.unproved, doc.Visible)))}
	case len(c.Rows) == 0:
		return errors.New("base and head have no cell in common")
	case !slices.ContainsFunc(c.Rows, func(r Row) bool { return !math.IsInf(r.Detectable, 1) }):
		return UnjudgedError{fmt.Errorf("there are too few blocks for any change to show, so the gate could not fail: comparing %s needs %d blocks of each",
			doc.Plural(len(c.Rows), "cell"), c.neededBlocks())}
	}
	return nil
}

// A Trial is the test of a gate on the two copies of a cell that a canary measures. The gate
// must pass the unchanged copy and fail the slowed-down copy.
type Trial struct {
	Cell     string  `json:"-"`        // ID of the cell
	Slowdown float64 `json:"slowdown"` // of the slow copy, as a share
	Works    bool    `json:"works"`    // the gate passed the unchanged copy and failed the slow one
	Broken   error   `json:"-"`        // how the gate is broken; nil if it is not
	Blind    string  `json:"-"`        // why the blocks cannot show the slow copy; empty if they do
}

// byChance is the largest p of an unchanged copy that shows a broken gate. Above it, one of many
// runs fails the copy by chance.
const byChance = 0.001

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
	g, d, err := c.try(same, failAbove)
	switch {
	case errors.As(err, new(UnjudgedError)):
		t.Blind = err.Error()
		return t, nil
	case err != nil:
		return t, err
	case g.Outcome == Slower && d.Rows[0].P > byChance:
		t.Blind = fmt.Sprintf("an unchanged copy seems slower, perhaps by chance (%s, p %s): use more --blocks or a quieter machine", doc.Change(d.Rows[0].Ratio), table.PText(d.Rows[0].P))
		return t, nil
	case g.Failed:
		t.Broken = fmt.Errorf("the gate is broken: it failed an unchanged copy of a cell: %s", d.because(g))
		return t, nil
	}
	if g, d, err = c.try(slow, failAbove); err != nil {
		return t, err
	}
	// The blocks miss a slowdown by lack of power, unless they rule it out.
	seen, ruledOut := d.Rows[0].Detectable-1, d.Rows[0].Ratio.High < 1+t.Slowdown
	switch missed := "a copy slowed down by " + doc.Percent(t.Slowdown); {
	case g.Failed:
		t.Works = true
	case ruledOut && seen <= t.Slowdown:
		t.Broken = fmt.Errorf("the gate is broken: it passed %s: %s", missed, d.because(g))
	default:
		t.Blind = fmt.Sprintf("%s was not seen, as only changes above %s would show: use more --blocks, a longer --time or a quieter machine",
			missed, doc.Percent(max(seen, t.Slowdown)))
	}
	return t, nil
}

// try judges a pair of a canary.
func (c *Comparison) try(pair *result.Result, failAbove float64) (Gate, *Comparison, error) {
	d, err := Compare(pair, nil, CompareOptions{Alpha: c.Alpha / float64(max(1, len(c.Rows)))})
	if err != nil {
		return Gate{}, nil, err
	}
	d.canary = true // this is the test
	g, err := d.Gate(failAbove)
	return g, d, err
}

// because returns the verdict and what the gate says.
func (c *Comparison) because(g Gate) string {
	return strings.Join(append([]string{strings.TrimSuffix(c.Verdict.Text, ".")}, g.Reasons...), "; ")
}

// paragraphs returns the decision of the gate, its reasons, and the changes that it could not
// detect.
func (g Gate) paragraphs() []doc.Paragraph {
	p, why := doc.Paragraph{Text: "Gate at " + doc.Percent(g.FailAbove) + ": ", Tone: doc.Bad}, strings.Join(table.Clip(g.failures, 5), "; ")+"."
	switch g.Outcome {
	case Passed:
		p.Text, p.Tone = p.Text+"passed. No cell is shown to be worse by more.", doc.Good
	case Undecided:
		p.Text += "cannot judge. No cell is shown to be worse by more, but " + why
	default:
		p.Text += "failed. " + why
	}
	if g.Trial != nil && g.Trial.Works {
		p.Text += fmt.Sprintf(" The gate works: it passed a copy of %s and failed one that was slowed down by %s.", g.Trial.Cell, doc.Percent(g.Trial.Slowdown))
	}
	all := []doc.Paragraph{p}
	for _, limit := range table.Clip(g.limits, 5) {
		all = append(all, doc.Say("The gate "+limit+".")...)
	}
	return all
}
