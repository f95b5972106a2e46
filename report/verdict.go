package report

import (
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
)

// verdictSentence says which transport to use, how sure that is, and what another
// choice costs.
func verdictSentence(d analysis.Verdict) string {
	best := d.Best()
	text := groupLabel(d.Group) + ": "
	round := duration(best.Of("round").Center) + " a round"
	if len(d.Ranked) == 1 {
		return text + best.Variant + " takes " + round + "; nothing else was measured."
	}
	second, worst := d.Ranked[1], d.Worst()
	switch {
	case !d.TooClose() && !d.Unproved:
		text += fmt.Sprintf("%s is best, %s. The runner-up, %s, costs %s", best.Variant, round, second.Variant, cost(d, second))
	case !d.TooClose():
		text += fmt.Sprintf("%s looks best, %s, though %s cannot prove it. The runner-up, %s, costs %s",
			best.Variant, round, plural(len(best.Timed()), "block"), second.Variant, cost(d, second))
	default:
		near := []string{best.Variant}
		for _, c := range d.Tied {
			near = append(near, c.Variant)
		}
		text += fmt.Sprintf("%s are too close to call, from %s on", list(near), round)
	}
	if worst != second || d.TooClose() {
		if d.TooClose() && slices.Contains(d.Tied, worst) {
			return text + "."
		}
		text += fmt.Sprintf("; the worst choice, %s, costs %s", worst.Variant, cost(d, worst))
	}
	return text + "."
}

// cost says what a round of c costs more than one of the fastest: time, and CPU
// time where a difference is shown.
func cost(d analysis.Verdict, c *analysis.Cell) string {
	more := d.Cost(c)
	text, cpu := bounded(more.Round)+" a round more", more.CPU
	switch {
	case cpu.Excludes(0) && cpu.Center > 0:
		text += " and " + bounded(cpu) + " more CPU time"
	case cpu.Excludes(0) && cpu.Center < 0:
		text += " and " + bounded(cpu.Map(func(s float64) float64 { return -s })) + " less CPU time"
	}
	return text
}

// bounded writes a time with its bounds, if it has any.
func bounded(i stat.Interval) string {
	text := milliseconds.number(i.Center) + " ms"
	if i.Confidence > 0 {
		text += fmt.Sprintf(" (%s to %s)", milliseconds.number(i.Low), milliseconds.number(i.High))
	}
	return text
}

// mostSentences is how many verdicts are written as sentences; more become a table.
const mostSentences = 8

func verdicts(v *analysis.Result) section {
	s := section{title: "Verdict"}
	all := v.Verdicts()
	s.lead = append(s.lead, summaries(all)...)
	if len(all) <= mostSentences {
		for _, d := range all {
			s.lead = append(s.lead, verdictSentence(d))
		}
		return s
	}
	t := table{
		header: []string{"model", "build", "workers", "clients", "best", "round, ms", "runner-up", "costs, ms", "and CPU, ms", "worst", "costs, ms", "and CPU, ms"}, words: 1,
	}
	for _, d := range all {
		best := d.Best()
		row := []string{d.Group.Model.Label(), d.Group.Build, fmt.Sprint(d.Group.Workers), fmt.Sprint(d.Group.Clients), best.Variant, milliseconds.show(best.Of("round"))}
		if d.TooClose() {
			row[4] += ", too close to call"
		} else if d.Unproved {
			row[4] += ", not proved"
		}
		for _, k := range []int{1, len(d.Ranked) - 1} {
			if k >= len(d.Ranked) || k < 1 {
				row = append(row, none, none, none)
				continue
			}
			c := d.Ranked[k]
			row = append(row, c.Variant, milliseconds.show(d.Cost(c).Round), milliseconds.show(d.Cost(c).CPU))
		}
		t.add(row...)
	}
	t.trim()
	s.tables = []table{t}
	return s
}

// summaries are a sentence for each build over all of its verdicts, where there
// are several that compare anything.
func summaries(all []analysis.Verdict) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(d analysis.Verdict) bool { return len(d.Ranked) < 2 })
	var texts []string
	for _, of := range analysis.GroupBy(all, func(d analysis.Verdict) string { return d.Group.Build }) {
		if len(of) < 2 {
			continue
		}
		text := summary(of)
		if build := of[0].Group.Build; build != "" {
			text = build + ": " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// summary is the one sentence over verdicts. What is not proved is no win.
func summary(all []analysis.Verdict) string {
	close, unproved := 0, 0
	var won []*analysis.Cell
	for _, d := range all {
		switch {
		case d.TooClose():
			close++
		case d.Unproved:
			unproved++
		default:
			won = append(won, d.Ranked[0])
		}
	}
	wins := analysis.GroupBy(won, func(c *analysis.Cell) string { return c.Variant })
	slices.SortStableFunc(wins, func(a, b []*analysis.Cell) int { return len(b) - len(a) })
	var parts []string
	for _, cells := range wins {
		parts = append(parts, fmt.Sprintf("%s in %d", cells[0].Variant, len(cells)))
	}
	var rest []string
	if unproved > 0 {
		rest = append(rest, fmt.Sprintf("%d not proved", unproved))
	}
	if close > 0 {
		rest = append(rest, fmt.Sprintf("%d too close to call", close))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("Of %d comparisons: %s.", len(all), strings.Join(rest, "; "))
	}
	return fmt.Sprintf("Fastest of %d comparisons: %s.", len(all), strings.Join(append([]string{list(parts)}, rest...), "; "))
}
