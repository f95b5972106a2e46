package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// verdictSentence says which transport to use, how sure that is, and what another
// choice costs.
func verdictSentence(v analysis.Verdict) string {
	best, worst := v.Best(), v.Worst()
	round := doc.Quantity("s", best.Of("round").Center) + " a round"
	if len(v.Ranked) == 1 {
		return best.Variant + " takes " + round + "; nothing else was measured."
	}
	cost := func(c *analysis.Cell) string { return doc.Bounded("s", v.Cost(c).Round) + " more a round" }
	text, second, blocks := "", v.Ranked[1], doc.Plural(len(best.Timed()), "block")
	switch {
	case v.TooClose():
		text = either(v.Fastest(), variant) + ": too close to call, " + round + "."
		if v.Unclear() {
			text = fmt.Sprintf("%s looks best, %s, but %s cannot separate it from %s (run with --blocks %d).",
				best.Variant, round, blocks, either(v.Tied, variant), max(stat.Blocks, 2*len(best.Timed())))
		}
		if !slices.Contains(v.Tied, worst) {
			text += fmt.Sprintf(" The worst, %s, costs %s.", worst.Variant, cost(worst))
		}
		return text
	case v.Unproved:
		text = fmt.Sprintf("%s looks best, %s, but %s cannot prove it (run with --blocks %d).",
			best.Variant, round, blocks, max(stat.Blocks, stat.Needed((1-stat.Confidence)/float64(len(v.Ranked)-1))))
	default:
		text = fmt.Sprintf("%s is best, %s.", best.Variant, round)
	}
	text += fmt.Sprintf(" The runner-up, %s, costs %s", second.Variant, cost(second))
	if worst != second {
		text += fmt.Sprintf("; the worst, %s, %s", worst.Variant, doc.Bounded("s", v.Cost(worst).Round))
	}
	return text + "."
}

func variant(c *analysis.Cell) string { return c.Variant }

// mostNamed is how many transports a verdict names that may be as fast.
const mostNamed = 4

// either names cells or lines: a, b or c.
func either[T any](of []T, name func(T) string) string {
	var names []string
	for _, x := range of {
		names = append(names, name(x))
	}
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed], fmt.Sprintf("%d others", more))
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// mostSentences is how many verdicts are written as sentences; of more there is the
// table alone.
const mostSentences = 8

func verdicts(r *analysis.Result) doc.Section { return verdictSection(r, mostSentences) }

// verdictSection has a sentence for each verdict if there are at most that many, or a
// table.
func verdictSection(r *analysis.Result, most int) doc.Section {
	s := doc.Section{Title: "Verdict"}
	all := r.Verdicts()
	slices.SortStableFunc(all, func(a, b analysis.Verdict) int { return cmp.Compare(b.Group.Model.Payload(), a.Group.Model.Payload()) })
	s.Lead = doc.Say(summaries(all)...)
	if len(all) <= most {
		for _, v := range all {
			s.Lead = append(s.Lead, doc.Paragraph{Text: groupTitle(v.Group) + ": " + verdictSentence(v), Tone: doc.Strong})
		}
		return s
	}
	t := doc.Table{Keys: 4, Columns: []doc.Column{
		{Name: "model"}, {Name: "build"}, {Name: "workers", Unit: "1"}, {Name: "clients", Unit: "1"}, {Name: "best"}, interval("round", "").Column,
		{Name: "runner-up"}, {Name: "costs", Unit: "s", Help: "how much longer a round takes than with the best"},
		{Name: "CPU", Unit: "s", Help: "how much more CPU time a round takes than with the best"},
		{Name: "worst"}, {Name: "costs", Unit: "s"}, {Name: "CPU", Unit: "s"},
	}}
	for _, v := range all {
		g, best := v.Group, v.Best()
		name := best.Variant
		if v.TooClose() {
			name += ", too close to call"
		} else if v.Unproved {
			name += ", not proved"
		}
		row := []doc.Cell{doc.Words(g.Model.Label()), doc.Words(g.Build), doc.Number(float64(g.Workers)), doc.Number(float64(g.Clients)),
			doc.Words(name), doc.Estimate(best.Of("round"))}
		for _, k := range []int{1, len(v.Ranked) - 1} {
			if k < 1 || k >= len(v.Ranked) {
				row = append(row, doc.Cell{}, doc.Cell{}, doc.Cell{})
				continue
			}
			cost := v.Cost(v.Ranked[k])
			row = append(row, doc.Words(cost.Cell.Variant), doc.Estimate(cost.Round), doc.Estimate(cost.CPU))
		}
		t.Add(row...)
	}
	s.Tables = []doc.Table{t}
	return s
}

// summaries are a sentence for each build over all of its verdicts, where there
// are more than a reader keeps in mind.
func summaries(all []analysis.Verdict) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(v analysis.Verdict) bool { return len(v.Ranked) < 2 })
	var texts []string
	for _, of := range analysis.GroupBy(all, func(v analysis.Verdict) string { return v.Group.Build }) {
		if len(of) < 3 {
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
	wins := slices.DeleteFunc(slices.Clone(all), func(v analysis.Verdict) bool { return !v.Proved() })
	won := analysis.GroupBy(wins, func(v analysis.Verdict) string { return v.Best().Variant })
	slices.SortStableFunc(won, func(a, b []analysis.Verdict) int { return len(b) - len(a) })
	var parts []string
	for _, of := range won {
		parts = append(parts, fmt.Sprintf("%s is fastest in %d", of[0].Best().Variant, len(of)))
	}
	if open := len(all) - len(wins); open > 0 {
		parts = append(parts, fmt.Sprintf("too close to call or not proved in %d", open))
	}
	return fmt.Sprintf("Of %d comparisons: %s.", len(all), doc.List(parts))
}
