package report

import (
	"cmp"
	"fmt"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A pair compares a cell with another one that did the same work.
type pair struct {
	name    string // a codec, a transport or a project
	cell    *metrics.Cell
	against *metrics.Cell // nil if there is none
}

// ratio returns the ratio of a sampled metric of the cell to that metric of the other one. It
// is not Known if there is no other cell.
func (p pair) ratio(metric string) stat.Interval {
	if p.against == nil {
		return stat.None()
	}
	return p.cell.Ratio(metric, p.against)
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

// judged returns the text for a ratio: unshown if there are too few blocks, same if it shows
// no difference, or shown.
func judged(ratio stat.Interval, unshown, same, shown string) string {
	switch {
	case !ratio.Sure():
		return unshown
	case !notOne(ratio):
		return same
	}
	return shown
}

// notOne reports whether a ratio shows a difference: neither bound is 1, also as it is printed.
func notOne(ratio stat.Interval) bool {
	return ratio.Excludes(1) && doc.Quantity("1", ratio.Low) != "1.00" && doc.Quantity("1", ratio.High) != "1.00"
}

// cannotShow ends a statement for which there are too few blocks.
func cannotShow(ratio stat.Interval) string {
	return fmt.Sprintf(", but there are too few blocks (%d) to show it (use --blocks %d)", ratio.Blocks, stat.Blocks)
}

func strong(texts ...string) []doc.Paragraph {
	all := doc.Say(texts...)
	for i := range all {
		all[i].Tone = doc.Strong
	}
	return all
}
