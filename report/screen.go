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
// a table. again is the command that shows the result once more, and a space; it is empty if
// the result is in no file.
func screen(r *metrics.Result, again string) doc.Document {
	d := doc.Document{Lead: answer.ErrorLines(r)}
	swept, _ := table.SweptOf(r)
	for _, links := range shownGroups(r) {
		if len(links) > 1 {
			d.Sections = append(d.Sections, table.LinkSection(links))
			continue
		}
		s := table.GroupSection(links[0][0].Group(), table.GroupTable(links[0]))
		if v, ok := contrast.Decide(links[0]); ok {
			s.Lead = doc.Say(answer.VerdictSentence(v))
		}
		d.Sections = append(d.Sections, s)
	}
	end := doc.Section{}
	if len(d.Sections) > 0 || len(swept) == 0 {
		end.Tail = table.Legend(r)
	}
	d.Sections = append(append(d.Sections, sweepSections(swept)...), answer.Answers(r))
	end.Tail = append(end.Tail, doc.Say(slices.Concat(answer.FleetLines(r), table.DelayLines(r), paysOnScreen(r), tlsOnScreen(r))...)...)
	end.Tail = append(end.Tail, doubts(r, again)...)
	end.Tail = append(end.Tail, doc.Say(answer.Summaries(contrast.Verdicts(r))...)...)
	var more []string
	for _, v := range Views() {
		if v.hint != nil && v.hint(r) {
			more = append(more, v.Name)
		}
	}
	if again != "" {
		end.Tail = append(end.Tail, doc.Paragraph{Text: "More: " + again + "--view " + strings.Join(more, ",") + " (or all)", Tone: doc.Dim})
	}
	d.Sections = append(d.Sections, end)
	return d
}

// shownGroups returns the groups that a screen has a table for, the smallest first. Groups
// that differ only in their link are together, if a verdict is possible on several of them.
func shownGroups(r *metrics.Result) (all [][][]*metrics.Cell) {
	_, inSweep := table.SweptOf(r)
	for _, links := range metrics.GroupBy(bySize(r, 1), func(cells []*metrics.Cell) metrics.Group { return cells[0].Work() }) {
		if inSweep(links[0][0].Group()) {
			continue
		}
		decided := slices.DeleteFunc(slices.Clone(links), func(cells []*metrics.Cell) bool { _, ok := contrast.Decide(cells); return !ok })
		if len(decided) == 0 {
			decided = links[:1]
		}
		all = append(all, decided)
	}
	return all
}

// tablesLeftOut reports whether a screen shows several groups in one table.
func tablesLeftOut(r *metrics.Result) bool {
	return len(table.SweepsOf(r)) > 0 || slices.ContainsFunc(shownGroups(r), func(links [][]*metrics.Cell) bool { return len(links) > 1 })
}

// sweepSections returns the sweeps for a screen. The one with the most steps is last, as a
// table.
func sweepSections(swept []*table.Sweep) (all []doc.Section) {
	if left := len(swept) - 1 - mostBrief; left > 0 {
		all = append(all, doc.Section{Lead: doc.Say(doc.Plural(left, "more sweep") + ": --view crossover")})
	}
	for i := min(len(swept)-1, mostBrief); i > 0; i-- {
		all = append(all, doc.Section{Title: table.SweepTitle(swept[i]), Lead: table.EnvelopeLines(swept[i])})
	}
	if len(swept) > 0 {
		all = append(all, table.SweepTable(swept[0]))
	}
	return all
}

// paysOnScreen returns the break-evens of at most mostPays transports.
func paysOnScreen(r *metrics.Result) (lines []string) {
	paths := table.PathsOf(r, true)
	lines = table.PayLines(paths)
	if left := len(lines) - mostPays; left > 0 {
		lines = append(lines[:mostPays], doc.Plural(left, "more transport")+" with codecs: --view break-even")
	}
	if len(paths) == 0 && len(table.PathsOf(r, false)) > 0 {
		lines = append(lines, table.NoLink)
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
	open := func(f answer.Finding) bool {
		return f.Rule == answer.Unencrypted || f.Rule == answer.Unproven || f.Rule == answer.OneMachine || f.Rule == answer.Partial
	}
	lines := answer.FindingLines(r, open, doc.Bad)
	lines = append(lines, answer.FindingLines(r, func(f answer.Finding) bool { return f.Severity == answer.Skipped }, doc.Plain)...)
	said := func(f answer.Finding) bool { // the verdict covers all rows in Python
		return f.Rule == answer.OtherTraining && !f.Measured.Remote()
	}
	warnings := answer.FindingLines(r, func(f answer.Finding) bool { return f.Severity == answer.Warning && !open(f) && !said(f) }, doc.Plain)
	if len(warnings) > 1 {
		warnings = doc.Say(fmt.Sprintf("%d warnings: %s--view findings", len(warnings), again))
	}
	if most := mostDoubts - len(warnings); len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1], doc.Paragraph{Text: doc.Plural(left, "more line") + " of findings: --view findings"})
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
