package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
)

// A verdict is what a group of cells says about which transport to use.
type verdict struct {
	group  group
	ranked []*cell // without the control, the fastest first
	tied   []*cell // of the others, those that may be as fast as the first
	likely bool    // some of the others are slower by all that their blocks show, but there are too few blocks to prove it
}

// decide ranks the transports of a group by their median round. Those whose
// rounds the Mann-Whitney test cannot tell from the first's, corrected for their
// number, are tied with it; it is not corrected for choosing the first by the
// same samples, so that of many transports which are all alike, one may now and
// then seem slower. Where so few blocks could not pass that test however
// far they lay apart, their interval speaks instead, and nothing counts as proved.
func decide(cells []*cell) (verdict, bool) {
	d := verdict{group: cells[0].group()}
	for _, c := range cells {
		if c.Variant != control && c.of("round").Known() {
			d.ranked = append(d.ranked, c)
		}
	}
	if len(d.ranked) == 0 {
		return d, false
	}
	slices.SortStableFunc(d.ranked, func(a, b *cell) int { return cmp.Compare(a.of("round").Center, b.of("round").Center) })
	best, others := d.ranked[0], d.ranked[1:]
	ps := make([]float64, len(others))
	for i, c := range others {
		ps[i] = stat.Test(best.medianOf("round"), c.medianOf("round"))
	}
	const alpha = 1 - stat.Confidence
	for i, p := range stat.Holm(ps) {
		if p <= alpha {
			continue
		}
		a, b := best.medianOf("round"), others[i].medianOf("round")
		hopeless := min(len(a), len(b)) < stat.Needed(alpha/float64(len(others)))
		if apart := stat.Shift(a, b); hopeless && apart.Low > 0 && apart.Confidence > 0 {
			d.likely = true
			continue
		}
		d.tied = append(d.tied, others[i])
	}
	return d, true
}

// close reports whether there is no telling which is the fastest.
func (d verdict) close() bool { return len(d.tied) > 0 }

// sentence says which transport to use, how sure that is, and what another
// choice costs.
func (d verdict) sentence() string {
	best := d.ranked[0]
	text := d.group.short() + ": "
	round := duration(best.of("round").Center) + " a round"
	if len(d.ranked) == 1 {
		return text + best.Variant + " takes " + round + "; nothing else was measured."
	}
	second, worst := d.ranked[1], d.ranked[len(d.ranked)-1]
	switch {
	case !d.close() && !d.likely:
		text += fmt.Sprintf("%s is best, %s. The runner-up, %s, costs %s", best.Variant, round, second.Variant, cost(best, second))
	case !d.close():
		text += fmt.Sprintf("%s looks best, %s, though %s cannot prove it. The runner-up, %s, costs %s",
			best.Variant, round, plural(len(best.timed), "block"), second.Variant, cost(best, second))
	default:
		near := []string{best.Variant}
		for _, c := range d.tied {
			near = append(near, c.Variant)
		}
		text += fmt.Sprintf("%s are too close to call, from %s on", list(near), round)
	}
	if worst != second || d.close() {
		if d.close() && slices.Contains(d.tied, worst) {
			return text + "."
		}
		text += fmt.Sprintf("; the worst choice, %s, costs %s", worst.Variant, cost(best, worst))
	}
	return text + "."
}

// cost says what a round of other costs more than one of best: time, and CPU
// time where that is told from none.
func cost(best, other *cell) string {
	i := stat.Shift(best.medianOf("round"), other.medianOf("round"))
	text := bounded(i) + " a round more"
	cpu := moreCPU(best, other)
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

// moreCPU is how much more CPU time a round of other takes.
func moreCPU(best, other *cell) stat.Interval {
	return stat.Shift(best.medianOf("cpu_per_round"), other.medianOf("cpu_per_round"))
}

func (v *view) verdicts() []verdict {
	var all []verdict
	for _, cells := range v.groups() {
		if d, ok := decide(cells); ok {
			all = append(all, d)
		}
	}
	return all
}

// mostSentences is how many verdicts are written as sentences; more become a table.
const mostSentences = 8

func verdicts(v *view) section {
	s := section{title: "Verdict"}
	all := v.verdicts()
	s.lead = append(s.lead, summaries(all)...)
	if len(all) <= mostSentences {
		for _, d := range all {
			s.lead = append(s.lead, d.sentence())
		}
		return s
	}
	t := table{
		header: []string{"model", "build", "workers", "clients", "best", "round, ms", "runner-up", "costs, ms", "and CPU, ms", "worst", "costs, ms", "and CPU, ms"}, words: 1,
	}
	for _, d := range all {
		best := d.ranked[0]
		row := []string{d.group.model.Label(), d.group.build, fmt.Sprint(d.group.workers), fmt.Sprint(d.group.clients), best.Variant, milliseconds.show(best.of("round"))}
		if d.close() {
			row[4] += ", too close to call"
		} else if d.likely {
			row[4] += ", not proved"
		}
		for _, k := range []int{1, len(d.ranked) - 1} {
			if k >= len(d.ranked) || k < 1 {
				row = append(row, none, none, none)
				continue
			}
			c := d.ranked[k]
			row = append(row, c.Variant, milliseconds.show(stat.Shift(best.medianOf("round"), c.medianOf("round"))),
				milliseconds.show(moreCPU(best, c)))
		}
		t.add(row...)
	}
	t.trim()
	s.tables = []table{t}
	return s
}

// summaries are a sentence for each build over all of its verdicts, where there
// are several that compare anything.
func summaries(all []verdict) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(d verdict) bool { return len(d.ranked) < 2 })
	var texts []string
	for _, of := range grouped(all, func(d verdict) string { return d.group.build }) {
		if len(of) < 2 {
			continue
		}
		text := summary(of)
		if build := of[0].group.build; build != "" {
			text = build + ": " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// summary is the one sentence over verdicts. What is not proved is no win.
func summary(all []verdict) string {
	close, likely := 0, 0
	var won []*cell
	for _, d := range all {
		switch {
		case d.close():
			close++
		case d.likely:
			likely++
		default:
			won = append(won, d.ranked[0])
		}
	}
	wins := grouped(won, func(c *cell) string { return c.Variant })
	slices.SortStableFunc(wins, func(a, b []*cell) int { return len(b) - len(a) })
	var parts []string
	for _, cells := range wins {
		parts = append(parts, fmt.Sprintf("%s in %d", cells[0].Variant, len(cells)))
	}
	var rest []string
	if likely > 0 {
		rest = append(rest, fmt.Sprintf("%d not proved", likely))
	}
	if close > 0 {
		rest = append(rest, fmt.Sprintf("%d too close to call", close))
	}
	if len(parts) == 0 {
		return fmt.Sprintf("Of %d comparisons: %s.", len(all), strings.Join(rest, "; "))
	}
	return fmt.Sprintf("Fastest of %d comparisons: %s.", len(all), strings.Join(append([]string{list(parts)}, rest...), "; "))
}
