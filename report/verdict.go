package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ipcbench/bench/stat"
)

// A verdict is what a group of cells says about which transport to use.
type verdict struct {
	group  group
	ranked []*cell // without the control, the fastest first
	tied   []*cell // of the others, those that may be as fast as the first
	likely bool    // there are none, but only because the blocks of the first were all faster than those of the second
}

// decide ranks the transports of a group by their median round. Those whose
// rounds the Mann-Whitney test cannot tell from the first's, corrected for their
// number, are tied with it, unless there are but too few blocks for the test.
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
	for i, p := range stat.Holm(ps) {
		if p <= 1-stat.Confidence {
			continue
		}
		if apart := stat.Shift(best.medianOf("round"), others[i].medianOf("round")); apart.Low > 0 && apart.Confidence > 0 {
			d.likely = d.likely || i == 0
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
		text += fmt.Sprintf("%s is best, %s. The runner-up, %s, costs %s more", best.Variant, round, second.Variant, cost(best, second))
	case !d.close():
		text += fmt.Sprintf("%s looks best, %s, though %s cannot prove it. The runner-up, %s, costs %s more",
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
		text += fmt.Sprintf("; the worst choice, %s, costs %s more", worst.Variant, cost(best, worst))
	}
	return text + "."
}

// cost says what a round of other costs more than one of best.
func cost(best, other *cell) string {
	i := stat.Shift(best.medianOf("round"), other.medianOf("round"))
	text := ""
	if i.Confidence > 0 {
		text = fmt.Sprintf("%s ms (%s to %s)", milliseconds.number(i.Center), milliseconds.number(i.Low), milliseconds.number(i.High))
	} else {
		text = milliseconds.number(i.Center) + " ms"
	}
	return text + " and " + moreCPU(best, other) + " CPU s a round"
}

// moreCPU is how many CPU seconds a round of other takes more, with two digits
// that count.
func moreCPU(best, other *cell) string {
	cpu := other.of("cpu_per_round").Center - best.of("cpu_per_round").Center
	d := 2
	if x := math.Abs(cpu); x > 0 && x < 1 {
		d = 1 - int(math.Floor(math.Log10(x)))
	}
	return fixed(cpu, min(d, 6))
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
	if len(all) > 1 {
		s.lead = append(s.lead, summary(all))
	}
	if len(all) <= mostSentences {
		for _, d := range all {
			s.lead = append(s.lead, d.sentence())
		}
		return s
	}
	t := table{
		header: []string{"model", "workers", "clients", "best", "round, ms", "runner-up", "costs, ms", "and CPU s", "worst", "costs, ms", "and CPU s"}, words: 1,
	}
	for _, d := range all {
		best := d.ranked[0]
		row := []string{d.group.model, fmt.Sprint(d.group.workers), fmt.Sprint(d.group.clients), best.Variant, milliseconds.show(best.of("round"))}
		if d.close() {
			row[3] += ", too close to call"
		} else if d.likely {
			row[3] += ", not proved"
		}
		for _, k := range []int{1, len(d.ranked) - 1} {
			if k >= len(d.ranked) || k < 1 {
				row = append(row, none, none, none)
				continue
			}
			c := d.ranked[k]
			row = append(row, c.Variant, milliseconds.show(stat.Shift(best.medianOf("round"), c.medianOf("round"))),
				moreCPU(best, c))
		}
		t.add(row...)
	}
	s.tables = []table{t}
	return s
}

// summary is the one sentence over all verdicts.
func summary(all []verdict) string {
	var order []string
	wins := map[string]int{}
	close := 0
	for _, d := range all {
		if d.close() {
			close++
			continue
		}
		name := d.ranked[0].Variant
		if wins[name] == 0 {
			order = append(order, name)
		}
		wins[name]++
	}
	slices.SortStableFunc(order, func(a, b string) int { return wins[b] - wins[a] })
	var parts []string
	for _, name := range order {
		parts = append(parts, fmt.Sprintf("%s in %d", name, wins[name]))
	}
	text := ""
	if len(parts) > 0 {
		text = fmt.Sprintf("Fastest of %d comparisons: %s", len(all), list(parts))
	} else {
		text = fmt.Sprintf("Of %d comparisons", len(all))
	}
	if close > 0 {
		text += fmt.Sprintf("; %d too close to call", close)
	}
	return text + "."
}
