package report

import (
	"cmp"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A pair compares a cell with another one that did the same work.
type pair struct {
	name    string // a codec, a transport or a project
	cell    *metrics.Cell
	against *metrics.Cell // nil if there is none
}

// of compares a sampled metric of the cell with that of the other one. There must be one.
func (p pair) of(metric string) contrast.Contrast { return contrast.New(metric, p.cell, p.against) }

// ratio returns the ratio of the contrast; it is not Known if there is no other cell.
func (p pair) ratio(metric string) stat.Interval {
	if p.against == nil {
		return stat.None()
	}
	return p.of(metric).Ratio
}

// judged tests the rounds of pairs as one family.
func judged(place string, pairs []pair) []contrast.Judged {
	return contrast.Judge(place, contrast.Alpha, each(pairs, func(p pair) contrast.Contrast { return p.of("round") }))
}

// markNotes writes the marks of contrasts, each once with the cells that have it.
func markNotes(all []contrast.Judged) []string {
	marks := slices.Concat(each(all, func(j contrast.Judged) []contrast.Mark { return j.Marks })...)
	return each(metrics.GroupBy(marks, func(m contrast.Mark) string { return m.Text }), func(alike []contrast.Mark) string {
		names := metrics.GroupBy(alike, func(m contrast.Mark) string { return variant(m.Cell) })
		return fewNames(names, func(cell []contrast.Mark) string { return variant(cell[0].Cell) }) + ": " + alike[0].Text + "."
	})
}

// testColumns are the columns for programs of a contrast that was tested.
var testColumns = []doc.Column{
	{Name: "p", For: doc.Programs, Unit: "1", Help: "the probability of such a difference by chance, corrected by Holm's method for the family"},
	{Name: "shown", For: doc.Programs, Help: "yes or no; absent if nothing was tested"},
	{Name: "family", For: doc.Programs, Help: "what was tested together"},
	{Name: "marks", For: doc.Programs, List: true, Help: "what a reader must know beside the difference"},
}

// testCells are the cells of testColumns; empty without a contrast.
func testCells(j *contrast.Judged) []doc.Cell {
	if j == nil {
		return make([]doc.Cell, len(testColumns))
	}
	marks := each(j.Marks, func(m contrast.Mark) string { return variant(m.Cell) + ": " + m.Text })
	return []doc.Cell{finite(j.P), doc.Words(map[bool]string{true: "yes", false: "no"}[j.Shown]), doc.Words(j.Family()), words(append(slices.Compact(marks), j.Forbids...))}
}

// alike groups the cells whose rounds are known. Cells of a group did the same according to
// group, have the same other settings according to variant, and the same language.
func alike(cells []*metrics.Cell, group func(c *metrics.Cell) metrics.Group, variant func(c *metrics.Cell) string) [][]*metrics.Cell {
	type key struct {
		metrics.Group
		variant, language string
	}
	known := slices.DeleteFunc(slices.Clone(cells), func(c *metrics.Cell) bool { return !c.Of("round").Known() })
	return metrics.GroupBy(known, func(c *metrics.Cell) key { return key{group(c), variant(c), c.Language} })
}

func find(cells []*metrics.Cell, wanted func(c *metrics.Cell) bool) *metrics.Cell {
	if i := slices.IndexFunc(cells, wanted); i >= 0 {
		return cells[i]
	}
	return nil
}

// byGroup returns the pairs by group, and the pairs of the largest model. There must be a
// pair.
func byGroup(all []pair) (groups [][]pair, largest []pair) {
	groups = metrics.GroupBy(all, func(p pair) metrics.Group { return p.cell.Group() })
	payload := func(of []pair) int64 { return of[0].cell.Model.Payload() }
	return groups, slices.MaxFunc(groups, func(a, b []pair) int { return cmp.Compare(payload(a), payload(b)) })
}

func strong(texts ...string) []doc.Paragraph {
	all := doc.Say(texts...)
	for i := range all {
		all[i].Tone = doc.Strong
	}
	return all
}
