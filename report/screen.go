package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
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
	d := doc.Document{Lead: errorLines(r)}
	swept, _ := sweptOf(r)
	for _, links := range shownGroups(r) {
		if len(links) > 1 {
			d.Sections = append(d.Sections, linkSection(links))
			continue
		}
		s := groupSection(links[0][0].Group(), groupTable(links[0]))
		if v, ok := contrast.Decide(links[0]); ok {
			s.Lead = doc.Say(verdictSentence(v))
		}
		d.Sections = append(d.Sections, s)
	}
	end := doc.Section{}
	if len(d.Sections) > 0 || len(swept) == 0 {
		end.Tail = legend(r)
	}
	d.Sections = append(append(d.Sections, sweepSections(swept)...), answers(r))
	end.Tail = append(end.Tail, doc.Say(slices.Concat(fleetLines(r), delayLines(r), paysOnScreen(r), tlsOnScreen(r))...)...)
	end.Tail = append(end.Tail, doubts(r, again)...)
	end.Tail = append(end.Tail, doc.Say(summaries(contrast.Verdicts(r))...)...)
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
	_, inSweep := sweptOf(r)
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
	return len(sweepsOf(r)) > 0 || slices.ContainsFunc(shownGroups(r), func(links [][]*metrics.Cell) bool { return len(links) > 1 })
}

// sweepSections returns the sweeps for a screen. The one with the most steps is last, as a
// table.
func sweepSections(swept []*sweep) (all []doc.Section) {
	if left := len(swept) - 1 - mostBrief; left > 0 {
		all = append(all, doc.Section{Lead: doc.Say(doc.Plural(left, "more sweep") + ": --view crossover")})
	}
	for i := min(len(swept)-1, mostBrief); i > 0; i-- {
		all = append(all, doc.Section{Title: sweepTitle(swept[i]), Lead: envelopeLines(swept[i])})
	}
	if len(swept) > 0 {
		all = append(all, sweepTable(swept[0]))
	}
	return all
}

// paysOnScreen returns the break-evens of at most mostPays transports.
func paysOnScreen(r *metrics.Result) (lines []string) {
	paths := pathsOf(r, true)
	lines = payLines(paths)
	if left := len(lines) - mostPays; left > 0 {
		lines = append(lines[:mostPays], doc.Plural(left, "more transport")+" with codecs: --view break-even")
	}
	if len(paths) == 0 && len(pathsOf(r, false)) > 0 {
		lines = append(lines, noLink)
	}
	return lines
}

// tlsOnScreen returns the cost of TLS for at most mostPays transports, or how to measure it.
func tlsOnScreen(r *metrics.Result) []string {
	if lines := tlsLines(r, mostPays); len(lines) > 0 {
		return lines
	}
	return inTheClear(r)
}

// mostDoubts is the largest number of findings on a screen.
const mostDoubts = 4

// doubts returns insecure networks, hosts on one machine and an early end, then skipped cells. Of several
// other warnings, which are too long for a screen, it returns the number.
func doubts(r *metrics.Result, again string) []doc.Paragraph {
	open := func(f Finding) bool {
		return f.Rule == Unencrypted || f.Rule == Unproven || f.Rule == OneMachine || f.Rule == Partial
	}
	lines := findingLines(r, open, doc.Bad)
	lines = append(lines, findingLines(r, func(f Finding) bool { return f.Severity == Skipped }, doc.Plain)...)
	said := func(f Finding) bool { // the verdict covers all rows in Python
		return f.Rule == OtherTraining && !f.Measured.Remote()
	}
	warnings := findingLines(r, func(f Finding) bool { return f.Severity == Warning && !open(f) && !said(f) }, doc.Plain)
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

// pythonText returns the versions of Python, and of the modules on which its times depend most.
func pythonText(r *metrics.Result) (text string) {
	for _, name := range []string{"python", "numpy", "torch", "orjson"} {
		var all []string
		for _, c := range r.Cells {
			if v := c.Versions()[name]; v != "" && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
		if len(all) > 0 {
			text += ", " + strings.Replace(name, "python", "Python", 1) + " " + strings.Join(all, " and ")
		}
	}
	return text
}
