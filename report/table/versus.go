package table

import (
	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A pair compares a cell with another one that did the same work.
type pair struct {
	Name    string // a codec, a transport, a project, or all that changes
	Cell    *metrics.Cell
	Against *metrics.Cell // nil if there is none
}

// of compares a sampled metric of the cell with that of the other one. There must be one.
func (p pair) of(metric string) contrast.Contrast { return contrast.New(metric, p.Cell, p.Against) }

// Ratio returns the ratio of the contrast; it is not Known if there is no other cell.
func (p pair) Ratio(metric string) stat.Interval {
	if p.Against == nil {
		return stat.None()
	}
	return p.of(metric).Ratio
}

// judged tests the rounds of pairs as one family.
func judged(place string, pairs []pair) []contrast.Judged {
	return contrast.Judge(place, contrast.Alpha, doc.Each(pairs, func(p pair) contrast.Contrast { return p.of("round") }))
}

// alike groups the cells whose rounds are known. Cells of a group did the same according to
// group, have the same other settings according to variant, and the same language.
func alike(cells []*metrics.Cell, group func(c *metrics.Cell) metrics.Group, variant func(c *metrics.Cell) string) [][]*metrics.Cell {
	type key struct {
		metrics.Group
		variant, language string
	}
	known := Only(cells, func(c *metrics.Cell) bool { return c.Of("round").Known() })
	return metrics.GroupBy(known, func(c *metrics.Cell) key { return key{group(c), variant(c), c.Language} })
}

// byGroup returns the pairs by group, and the pairs of the largest model.
func byGroup(all []pair) (groups [][]pair, largest []pair) {
	groups = metrics.GroupBy(all, func(p pair) metrics.Group { return p.Cell.Group() })
	for _, pairs := range groups {
		if largest == nil || pairs[0].Cell.Model.Payload() > largest[0].Cell.Model.Payload() {
			largest = pairs
		}
	}
	return groups, largest
}
