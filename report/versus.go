package report

import (
	"cmp"
	"fmt"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A pair holds a cell against another one that did the same work.
type pair struct {
	name    string // of what both are, or whose
	cell    *metrics.Cell
	against *metrics.Cell // nil if there is none
}

// ratio returns a sampled metric of the cell over that of the other one. It is not Known if
// there is none.
func (p pair) ratio(metric string) stat.Interval {
	if p.against == nil {
		return stat.None()
	}
	return p.cell.Ratio(metric, p.against)
}

// alike returns those of the cells whose rounds are known. Cells are together that differ in
// one setting alone: group says what they do, and variant names their other settings.
func alike(cells []*metrics.Cell, group func(c *metrics.Cell) metrics.Group, variant func(c *metrics.Cell) string) [][]*metrics.Cell {
	type key struct {
		metrics.Group
		variant, language string
	}
	known := slices.DeleteFunc(slices.Clone(cells), func(c *metrics.Cell) bool { return !c.Of("round").Known() })
	return metrics.GroupBy(known, func(c *metrics.Cell) key { return key{group(c), variant(c), c.Language} })
}

// find returns the first of the cells that is wanted, or nil.
func find(cells []*metrics.Cell, wanted func(c *metrics.Cell) bool) *metrics.Cell {
	if i := slices.IndexFunc(cells, wanted); i >= 0 {
		return cells[i]
	}
	return nil
}

// byGroup returns the pairs by group, and those of the largest model. There must be one.
func byGroup(all []pair) (groups [][]pair, largest []pair) {
	groups = metrics.GroupBy(all, func(p pair) metrics.Group { return p.cell.Group() })
	payload := func(of []pair) int64 { return of[0].cell.Model.Payload() }
	return groups, slices.MaxFunc(groups, func(a, b []pair) int { return cmp.Compare(payload(a), payload(b)) })
}

// judged returns what to say of a ratio: one that the blocks do not prove, one that shows no
// difference, or one that shows some.
func judged(ratio stat.Interval, unproved, same, shown string) string {
	switch {
	case !ratio.Sure():
		return unproved
	case !ratio.Excludes(1):
		return same
	}
	return shown
}

// cannotProve is what follows where a ratio seems to be something.
func cannotProve(ratio stat.Interval) string {
	return fmt.Sprintf(", but %s cannot prove it (run with --blocks %d)", doc.Plural(ratio.Blocks, "block"), stat.Blocks)
}

// strong makes paragraphs of texts that stand out.
func strong(texts ...string) []doc.Paragraph {
	all := doc.Say(texts...)
	for i := range all {
		all[i].Tone = doc.Strong
	}
	return all
}
