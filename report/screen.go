package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// mostBrief is the largest number of sweeps that a screen describes in sentences, in addition
// to the sweep with a table.
const mostBrief = 2

// mostPays is the largest number of transports for which a screen shows break-evens and the
// cost of TLS.
const mostPays = 3

// screen returns a result for a terminal: for each group a verdict and a table, the largest
// model last, next to the prompt. A sweep replaces its groups; the one with the most steps is
// a table. Hints have the command that shows the result once more, if it is in a file.
func screen(r *metrics.Result, o Options) doc.Document {
	again := ""
	if o.File != "" {
		again = cmp.Or(o.Call, "ipcbench") + " report " + table.Quoted(o.File) + " "
		for _, filter := range o.Only {
			again += "--only " + table.Quoted(filter) + " "
		}
	}
	d := doc.Document{Lead: answer.ErrorLines(r)}
	swept, inSweep := table.SweptOf(r)
	leftOut := len(swept) > 0 // several groups are in one table
	for _, links := range shownGroups(r, inSweep) {
		if len(links) > 1 {
			d.Sections, leftOut = append(d.Sections, table.LinkSection(links)), true
			continue
		}
		s := table.GroupSection(links[0][0].Group(), table.GroupTable(links[0]))
		if v, ok := contrast.Decide(links[0]); ok {
			s.Lead = doc.Say(answer.VerdictSentence(v))
		}
		d.Sections = append(d.Sections, s)
	}
	var end doc.Section
	if len(d.Sections) > 0 || len(swept) == 0 {
		end.Tail = table.Legend(r)
	}
	lines := slices.Concat(answer.FleetLines(r), table.DelayLines(r), paysOnScreen(r), tlsOnScreen(r))
	summaries := answer.Summaries(contrast.Verdicts(r))
	end.Tail = slices.Concat(end.Tail, doc.Say(lines...), doubts(r, again), doc.Say(summaries...))
	if again != "" {
		var more []string
		for _, v := range Views() {
			if v.hint && (leftOut || v.Name != "cells") && !v.section(r).Empty() {
				more = append(more, v.Name)
			}
		}
		text := "More: " + again + "--view " + strings.Join(more, ",") + " (or all)"
		end.Tail = append(end.Tail, doc.Paragraph{Text: text, Tone: doc.Dim})
	}
	d.Sections = append(append(d.Sections, sweepSections(swept)...), answer.Answers(r), end)
	return d
}

// shownGroups returns the groups outside of sweeps that a screen has a table for, the smallest
// first. Groups that differ only in their link are together, if a verdict is possible on several
// of them.
func shownGroups(r *metrics.Result, inSweep func(metrics.Group) bool) (all [][][]*metrics.Cell) {
	work := func(cells []*metrics.Cell) metrics.Group { return cells[0].Work() }
	for _, links := range metrics.GroupBy(bySize(r, 1), work) {
		if inSweep(links[0][0].Group()) {
			continue
		}
		decided := table.Only(links, func(cells []*metrics.Cell) bool {
			_, ok := contrast.Decide(cells)
			return ok
		})
		if len(decided) == 0 {
			decided = links[:1]
		}
		all = append(all, decided)
	}
	return all
}

// sweepSections returns the sweeps for a screen. The one with the most steps is last, as a
// table.
func sweepSections(swept []*table.Sweep) (all []doc.Section) {
	if len(swept) == 0 {
		return nil
	}
	if left := len(swept) - 1 - mostBrief; left > 0 {
		all = append(all, doc.Section{Lead: doc.Say(doc.Plural(left, "more sweep") + ": --view crossover")})
	}
	for _, s := range slices.Backward(swept[1:min(len(swept), 1+mostBrief)]) {
		all = append(all, sweepSection(s))
	}
	return append(all, table.SweepTable(swept[0]))
}

// paysOnScreen returns the break-evens of at most mostPays transports.
func paysOnScreen(r *metrics.Result) []string {
	paths := table.PathsOf(r, true)
	if len(paths) == 0 && len(table.PathsOf(r, false)) > 0 {
		return []string{table.NoLink}
	}
	lines := table.PayLines(paths)
	if left := len(lines) - mostPays; left > 0 {
		lines = append(lines[:mostPays], doc.Plural(left, "more transport")+" with codecs: --view break-even")
	}
	return lines
}

// tlsOnScreen returns the cost of TLS for at most mostPays transports, or how to measure it.
func tlsOnScreen(r *metrics.Result) []string {
	if lines := table.TlsLines(r, mostPays); len(lines) > 0 {
		return lines
	}
	return table.InTheClear(r)
}

// mostDoubts is the largest number of findings on a screen.
const mostDoubts = 4

// doubts returns insecure networks, hosts on one machine and an early end, then skipped cells. Of several
// other warnings, which are too long for a screen, it returns the number.
func doubts(r *metrics.Result, again string) []doc.Paragraph {
	rules := []string{answer.Unencrypted, answer.Unproven, answer.OneMachine, answer.Partial}
	urgent := func(f answer.Finding) bool { return slices.Contains(rules, f.Rule) }
	skipped := func(f answer.Finding) bool { return f.Severity == answer.Skipped }
	lines := append(answer.FindingLines(r, urgent, doc.Bad), answer.FindingLines(r, skipped, doc.Plain)...)
	warnings := answer.FindingLines(r, func(f answer.Finding) bool {
		inVerdict := f.Rule == answer.OtherTraining && !f.Measured.Remote() // which covers all rows in Python
		return f.Severity == answer.Warning && !urgent(f) && !inVerdict
	}, doc.Plain)
	if len(warnings) > 1 {
		warnings = doc.Say(fmt.Sprintf("%d warnings: %s--view findings", len(warnings), again))
	}
	if most := mostDoubts - len(warnings); len(lines) > most {
		left := doc.Plural(len(lines)-most+1, "more line")
		lines = append(lines[:most-1], doc.Say(left+" of findings: --view findings")...)
	}
	return append(lines, warnings...)
}

// bySize returns the groups of a result by the size of their models: the smallest first if
// order is 1, last if it is -1.
func bySize(r *metrics.Result, order int) [][]*metrics.Cell {
	groups := r.Groups()
	slices.SortStableFunc(groups, func(a, b []*metrics.Cell) int {
		return order * cmp.Compare(a[0].Model.Payload(), b[0].Model.Payload())
	})
	return groups
}
