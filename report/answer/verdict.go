package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// VerdictSentence returns a verdict in words: which transport to use, how sure that is, and
// the cost of other choices. It names the rate of a link, and the metric that ranks if it is
// not round.
func VerdictSentence(v contrast.Verdict) string {
	text := choice(v)
	if rate, ok := table.Rate(v.Group.Link); ok {
		text = "At " + table.RateText(rate) + ", " + text
	}
	if among, ok := v.Among(result.InPython); ok {
		text += " With workers in Python, " + first(among)
	}
	return strings.Join(append([]string{text}, table.YardstickText(v.Yardstick)...), " ")
}

// first returns which transport to use, and how sure that is.
func first(v contrast.Verdict) string {
	best := v.Best()
	round, blocks := doc.Quantity("s", best.Of(v.By).Center)+" per "+v.By, len(best.Timed())
	switch {
	case len(v.Ranked) == 1:
		return table.Variant(best) + " takes " + round + "; there is nothing to compare it with."
	case v.Unclear():
		return fmt.Sprintf("%s has the lowest median, %s, but there are too few blocks (%d) to tell it from %s%s%s.",
			table.Variant(best), round, blocks, table.FewNames(v.Fastest()[1:], table.Variant),
			useBlocks(best, max(stat.Blocks, 2*blocks)), remains(v))
	case v.TooClose():
		return table.FewNames(v.Fastest(), table.Variant) + " are too close to call, at " + round + remains(v) + "."
	case v.Unshown:
		return fmt.Sprintf("%s has the lowest median, %s, but %s.", table.Variant(best), round, unshown(v))
	}
	return fmt.Sprintf("%s is the fastest, %s.", table.Variant(best), round)
}

// remains returns the times that are possible with the transports that are tied with the fastest.
func remains(v contrast.Verdict) string {
	rest, others := v.Rest(), "the others"
	if !rest.Known() {
		return ""
	}
	if len(v.Tied) == 1 {
		others = table.Variant(v.Tied[0].Cell)
	}
	text := fmt.Sprintf(": a %s with %s %s%s", v.By, others, contrast.Range(v.Tied[0].Metric, rest),
		table.Unless(rest.Sure(), " ("+doc.Percent(rest.Confidence)+" interval)"))
	for _, j := range v.Tied {
		if doubt := j.Doubt(); doubt != "" {
			return text + ", " + doubt
		}
	}
	return text
}

// unshown returns why the cell with the lowest median is not shown to be the fastest.
func unshown(v contrast.Verdict) string {
	for _, j := range v.Against {
		if !j.Shown && j.Forbids != nil && j.Sure() {
			return "it is not shown to be the fastest, because " + doc.List(j.Forbids)
		}
	}
	return fmt.Sprintf("there are too few blocks (%d) to show that it is the fastest%s",
		len(v.Best().Timed()), useBlocks(v.Best(), max(stat.Blocks, v.Against[0].Needed())))
}

// useBlocks returns how to get more blocks of c, unless an early end is why they are few.
func useBlocks(c *metrics.Cell, n int) string {
	return table.Unless(c.Interrupted(), fmt.Sprintf(" (use --blocks %d)", n))
}

// choice returns which transport to use, how sure that is, and the cost of other choices.
func choice(v contrast.Verdict) string {
	text := first(v)
	if v.Slower == nil {
		return text
	}
	next, worst := v.Slower[0], v.Slower[len(v.Slower)-1]
	text += fmt.Sprintf(" The next, %s, takes %s longer", table.Variant(next.Cell), doc.Bounded("s", next.More))
	if worst.Cell != next.Cell && worst.Cell == v.Worst() {
		text += fmt.Sprintf("; the slowest, %s, %s", table.Variant(worst.Cell), doc.Bounded("s", worst.More))
	}
	return text + "."
}

// mostSentences is the largest number of verdicts that are written as sentences. If there are
// more, only the table is shown.
const mostSentences = 8

func Verdicts(r *metrics.Result) doc.Section { return VerdictSection(r, mostSentences) }

// VerdictSection has a sentence for each verdict, or a table if there are more than most.
func VerdictSection(r *metrics.Result, most int) doc.Section {
	s := doc.Section{Title: "Verdict"}
	all := slices.SortedStableFunc(slices.Values(contrast.Verdicts(r)), func(a, b contrast.Verdict) int {
		return cmp.Compare(b.Group.Model.Payload(), a.Group.Model.Payload())
	})
	s.Lead = doc.Say(Summaries(all)...)
	s.Tables = []doc.Table{verdictTable(all), rankingTable(all)}
	if len(all) > most {
		s.Tables = append(s.Tables, costTable(all))
		return s
	}
	for _, v := range all {
		g := v.Group
		if _, ok := table.Rate(g.Link); ok { // the sentence names the rate
			g.Link = link.Rate{}
		}
		title := table.GroupTitle(g)
		if v.Best().PerProcess > 1 {
			title = strings.Replace(title, " workers,", " workers"+table.InProcesses(v.Best())+",", 1)
		}
		s.Lead = slices.Concat(s.Lead, doc.Strong.Say(title+": "+VerdictSentence(v)), doc.Say(slices.Concat(table.MarkNotes(v.Against), asked(r, v))...))
		if text := codecText(v.Ranked); text != "" {
			s.Lead = append(s.Lead, doc.Say("Codecs: "+text[2:]+".")...)
		}
	}
	return s
}

// outcome returns how sure the best is, as the key outcome has it.
func outcome(v contrast.Verdict) string {
	switch {
	case len(v.Ranked) == 1:
		return "nothing to compare with"
	case v.TooClose():
		return "too close to call"
	case v.Unshown:
		return "not shown"
	}
	return "shown"
}

// verdictTable has a row for each verdict, for programs.
func verdictTable(all []contrast.Verdict) doc.Table {
	t := table.Keyed("verdict", "a group of cells that did the same work, and the fastest of them", table.GroupAxes(),
		[]doc.Column{rankedBy,
			{Name: "best", List: true, Help: "the transports that may be the fastest, each with the language of its workers if that is not Go, " +
				"such as shm-slab (python)"},
			{Name: "outcome", Help: "how sure the best is: shown, too close to call, not shown (too few blocks), or nothing to compare with"},
			{Name: "text", Help: "the verdict in words"}})
	for _, v := range all {
		t.Add(table.AxisCells(table.GroupAxes(), v.Best()), table.Unless(v.Off == nil, v.By),
			doc.Each(v.Fastest(), (*metrics.Cell).Label),
			outcome(v), VerdictSentence(v))
	}
	return t
}

var rankedBy = doc.Column{Name: "ranked by", Help: "the metric that is compared instead of rounds, if training took another time than with " + metrics.Control}

// costTable has a row for each verdict, for people: the fastest, and what the next and the slowest cost.
func costTable(all []contrast.Verdict) doc.Table {
	t := doc.Table{Keys: 5, Columns: []doc.Column{{Name: "model"}, {Name: "program"}, {Name: "workers", Unit: "1"},
		{Name: "clients", Unit: "1"}, {Name: "work"},
		{Name: "best"}, table.Column("±round").Column, rankedBy,
		{Name: "next"}, {Name: "longer by", Unit: "s", Help: "how much longer a round takes than with the best"},
		{Name: "CPU", Unit: "s", Help: "how much more CPU time a round takes than with the best"},
		{Name: "slowest"}, {Name: "longer by", Unit: "s"}, {Name: "CPU", Unit: "s"}}}
	for _, v := range all {
		g, best := v.Group, v.Best()
		name := table.Variant(best) + table.Unless(!v.TooClose(), ", too close to call") + table.Unless(v.TooClose() || !v.Unshown, ", too few blocks")
		costs := make([]doc.Cell, 6)
		if len(v.Ranked) > 1 {
			costs = nil
			for _, c := range []*metrics.Cell{v.Ranked[1], v.Worst()} {
				costs = doc.Cells(costs, table.Variant(c), v.More(v.By, c), v.More("cpu_per_round", c))
			}
		}
		t.Add(g.Model.Label(), g.Program, g.Workers, g.Clients, strings.Join(g.Headings(), ", "), name,
			best.Of("round"),
			table.Unless(v.Off == nil, v.By), costs)
	}
	return t
}

// rankingTable has a row for each transport of each verdict: its rank, and how much more it
// takes than the best.
func rankingTable(all []contrast.Verdict) doc.Table {
	t := table.Keyed("ranking", "a cell of a verdict, with its rank", table.Axes(),
		[]doc.Column{{Name: "rank", Unit: "1", Help: "1 for the fastest"},
			{Name: "round_more", Unit: "s", Help: "how much longer a round takes than with the fastest"},
			{Name: "cpu_more", Unit: "s", Help: "how much more CPU time a round takes than with the fastest"},
			{Name: "transfer_more", Unit: "s", Help: "how much longer a transfer takes than with the fastest, if cells are ranked by transfer"},
			{Name: "ratio", Unit: "1", Help: "the round, or the transfer, over that of the fastest"}}, table.JudgedColumns)
	for _, v := range all {
		for k, c := range v.Ranked {
			transfer, ratio, j := stat.None(), stat.None(), (*contrast.Judged)(nil)
			if v.Off != nil {
				transfer = v.More(v.By, c)
			}
			if k > 0 {
				j = &v.Against[k-1]
				ratio = j.Ratio
			}
			t.Add(table.AxisCells(table.Axes(), c), k+1, v.More("round", c), v.More("cpu_per_round", c), transfer, ratio, table.JudgedCells(j))
		}
	}
	return t
}

// Summaries returns one sentence for each build about all of its verdicts, if there are at
// least three.
func Summaries(all []contrast.Verdict) []string {
	all = table.Only(all, func(v contrast.Verdict) bool { return len(v.Ranked) > 1 })
	var texts []string
	for _, of := range metrics.GroupBy(all, func(v contrast.Verdict) string { return v.Group.Program }) {
		if build := of[0].Group.Program; len(of) >= 3 {
			texts = append(texts, table.Unless(build == "", build+": ")+summary(of))
		}
	}
	return texts
}

// summary counts the verdicts that each transport wins. Only a shown verdict is a win.
func summary(all []contrast.Verdict) string {
	wins := table.Only(all, contrast.Verdict.Shown)
	won := metrics.GroupBy(wins, func(v contrast.Verdict) string { return table.Variant(v.Best()) })
	slices.SortStableFunc(won, func(a, b []contrast.Verdict) int { return len(b) - len(a) })
	parts := doc.Each(won, func(of []contrast.Verdict) string {
		return fmt.Sprintf("%s is the fastest in %d", table.Variant(of[0].Best()), len(of))
	})
	if open := len(all) - len(wins); open > 0 {
		parts = append(parts, fmt.Sprintf("no transport is shown to be the fastest in %d", open))
	}
	return fmt.Sprintf("Of %d comparisons: %s.", len(all), doc.List(parts))
}
