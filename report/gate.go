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

// A Trial is the test of a gate on the two copies of a cell that a canary measures. The gate
// must pass the unchanged copy and fail the slowed-down copy.
type Trial struct {
	Cell     string  `json:"-"`        // ID of the cell
	Slowdown float64 `json:"slowdown"` // of the slow copy, as a share
	Works    bool    `json:"works"`    // the gate passed the unchanged copy and failed the slow one
}

// An UnjudgedError says why a gate cannot judge a comparison.
type UnjudgedError struct{ error }

func (e UnjudgedError) Unwrap() error { return e.error }

// Gate decides whether the comparison fails. It does if a row is significantly worse by more
// than failAbove (0.05 is 5 %), if a finding is an error, or if the canaries of its results show
// that the gate does not work. A gate that could not see its canary, or the slowdown of a canary
// that was not tried, cannot pass, but a regression that it found stays. The error is an
// [UnjudgedError] if the files could be compared, but these runs do not allow a decision.
func (c *Comparison) Gate(failAbove float64) (*Gate, error) {
	g, err := c.decide(failAbove)
	switch {
	case err != nil:
		return nil, err
	case c.untried != nil:
		g.limits = append(g.limits, "was not tried on a slow copy: "+c.untried.Why)
		missed := func(r Row) bool { return r.Detectable-1 > c.untried.Slowdown && !r.Shown }
		if i := slices.IndexFunc(c.Rows, missed); i >= 0 && g.Outcome == Passed {
			g.Outcome, g.failures = Undecided, []string{rowName(c.Rows[i]) + ": " + onlyAbove(c.Rows[i].Detectable-1)}
		}
	case c.canaries == nil:
		g.limits = append(g.limits, "was not tested, because no canary was measured (add --canary)")
	}
	for _, r := range c.canaries {
		broken, blind, err := c.try(r, failAbove)
		if err != nil {
			return nil, err
		}
		g.Trial = &Trial{r.Canary.Slow.ID(), r.Canary.Slowdown, broken+blind == ""}
		switch {
		case g.Trial.Works:
			continue
		case broken != "":
			g.Outcome, g.failures = Contradicts, append(g.failures, "the gate is broken: "+broken)
		case g.Outcome == Passed:
			g.Outcome, g.failures = Undecided, []string{blind}
		default:
			g.limits = append(g.limits, blind)
		}
		break
	}
	g.Failed = g.Outcome == Slower || g.Outcome == Contradicts
	g.Reasons = append([]string{}, doc.Each(slices.Concat(g.failures, g.limits), doc.Visible)...)
	return g, nil
}

// decide returns what the rows and the findings decide, without a test of the gate.
func (c *Comparison) decide(failAbove float64) (*Gate, error) {
	if err := c.judgeable(); err != nil {
		return nil, err
	}
	g := &Gate{FailAbove: failAbove, Outcome: Passed}
	for _, r := range c.Worse() {
		if r.worseBy(failAbove) {
			text := fmt.Sprintf("%s: %s, p %s", rowName(r), doc.Change(r.Ratio), table.PText(r.P))
			if notes := strings.Join(table.MarkNotes([]contrast.Judged{r.Judged}), " "); notes != "" {
				text += " (" + strings.TrimSuffix(notes, ".") + ")"
			}
			g.Outcome, g.failures = Slower, append(g.failures, text)
		}
	}
	var unseen []string
	for _, r := range c.Rows {
		if r.Forbids != nil && r.Sure() {
			g.limits = append(g.limits, "could not judge "+rowName(r)+": "+doc.List(r.Forbids))
		}
		if r.Detectable > 1+failAbove && !r.Shown {
			unseen = append(unseen, rowName(r))
		}
	}
	for _, f := range c.Findings {
		if f.Severity == answer.Error {
			g.Outcome, g.failures = Contradicts, append(g.failures, answer.FindingLine(f))
		}
	}
	if len(unseen) > 0 {
		g.limits = append(g.limits, fmt.Sprintf("could not detect a change of %s in %d of %d rows: %s",
			doc.Percent(failAbove), len(unseen), len(c.Rows), strings.Join(table.Clip(unseen, 5), "; ")))
	}
	for _, id := range c.OnlyBase {
		g.limits = append(g.limits, "could not judge "+id+", which only base has")
	}
	for _, id := range c.unproved {
		g.limits = append(g.limits, "could not judge "+id+", because not all of its data, or its base's, is proved")
	}
	return g, nil
}

// judgeable returns an error if a gate cannot judge the comparison.
func (c *Comparison) judgeable() error {
	other := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Metric.Name != "round" })
	switch {
	case other >= 0: // the canary is tried by its rounds
		return fmt.Errorf("it judges rounds alone: compare %s without a gate", c.Rows[other].Metric.Name)
	case c.partial != "":
		return UnjudgedError{fmt.Errorf("a run ended early: %s", doc.Visible(c.partial))}
	case !c.Interleaved && !c.separate:
		return UnjudgedError{errors.New("the two runs were not interleaved, so a drift of the machine can look like a change: " +
			"measure both with run --against, or allow separate runs")}
	case c.rules[0] != c.rules[1]:
		return fmt.Errorf("base and head were measured by different rules, versions %d and %d: their numbers cannot be compared", c.rules[0], c.rules[1])
	case len(c.Rows) == 0 && len(c.unproved) > 0:
		return UnjudgedError{fmt.Errorf("not all data of %s, or of its base, is proved", doc.List(doc.Each(c.unproved, doc.Visible)))}
	case len(c.Rows) == 0:
		return errors.New("base and head have no cell in common")
	case !slices.ContainsFunc(c.Rows, func(r Row) bool { return !math.IsInf(r.Detectable, 1) }):
		return UnjudgedError{fmt.Errorf("there are too few blocks for any change to show, so the gate could not fail: comparing %s needs %d blocks of each",
			doc.Plural(len(c.Rows), "cell"), c.Rows[0].Needed())}
	}
	return nil
}

// onlyAbove says that smaller changes could be missed, and what would show them.
func onlyAbove(seen float64) string {
	return "only changes above " + doc.Percent(seen) + " would show: use more --blocks, a longer --time or a quieter machine"
}

// byChance is the largest p of an unchanged copy that shows a broken gate. Above it, one of many
// runs fails the copy by chance.
const byChance = 0.001

// try tests the gate on the canary in r. Each copy is judged as one of as many rows as c has. It
// returns how the gate is broken, or why the blocks cannot show the slow copy; both are empty if
// the gate works. It returns an error if the gate cannot be tested.
func (c *Comparison) try(r *result.Result, failAbove float64) (broken, blind string, err error) {
	unchanged, slow, err := r.Pairs()
	slowdown := r.Canary.Slowdown
	if err == nil && slowdown <= failAbove {
		err = fmt.Errorf("canary: its slowdown must be above the gate's %.4g %%, not %.4g %%", 100*failAbove, 100*slowdown)
	}
	if err != nil {
		return "", "", err
	}
	for _, pair := range []*result.Result{unchanged, slow} {
		d, err := Compare(pair, nil, CompareOptions{Alpha: c.Alpha / float64(max(1, len(c.Rows)))})
		if err != nil {
			return "", "", err
		}
		g, err := d.decide(failAbove)
		switch {
		case errors.As(err, new(UnjudgedError)):
			return "", err.Error(), nil
		case err != nil:
			return "", "", err
		}
		row, fails, missed := d.Rows[0], g.Outcome != Passed, "a copy slowed down by "+doc.Percent(slowdown)
		verdict := []string{strings.TrimSuffix(d.Verdict.Text, ".")}
		because := strings.Join(slices.Concat(verdict, g.failures, g.limits), "; ")
		switch seen := row.Detectable - 1; {
		case fails == (pair == slow): // as it must be
		case g.Outcome == Slower && row.P > byChance:
			return "", fmt.Sprintf("an unchanged copy seems slower, perhaps by chance (%s, p %s): "+
				"use more --blocks or a quieter machine", doc.Change(row.Ratio), table.PText(row.P)), nil
		case fails:
			return "it failed an unchanged copy of a cell: " + because, "", nil
		case row.Ratio.High < 1+slowdown && seen <= slowdown: // not missed by lack of power: the blocks rule it out
			return "it passed " + missed + ": " + because, "", nil
		default:
			return "", missed + " was not seen, as " + onlyAbove(max(seen, slowdown)), nil
		}
	}
	return "", "", nil
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
