package table

import (
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// OfCounts returns the cells that differ in the number of tensors alone, those with the fewest
// tensors first: models of one family and size, such as uniform:4MiB/20 and uniform:4MiB/1000.
func OfCounts(r *metrics.Result) [][]*metrics.Cell {
	type key struct {
		group             metrics.Group
		variant, language string
	}
	all := metrics.GroupBy(r.Cells, func(c *metrics.Cell) key {
		g := c.Group()
		size, _, _ := strings.Cut(g.Model.Name, "/")
		g.Model.Name, g.Model.Tensors, g.Model.Bytes = size, 0, 0 // sizes are rounded to whole elements
		return key{g, c.Variant, c.Language}
	})
	return slices.DeleteFunc(all, func(cells []*metrics.Cell) bool {
		slices.SortFunc(cells, func(a, b *metrics.Cell) int { return a.Model.Tensors - b.Model.Tensors })
		return cells[0].IsControl() || cells[0].Model.Tensors == cells[len(cells)-1].Model.Tensors
	})
}

// PerTensor is the view tensors: what one more tensor costs, from the fewest to the most.
func PerTensor(r *metrics.Result) doc.Section {
	t := doc.Table{Columns: []doc.Column{{Name: "transport"}, {Name: "model"}, {Name: "tensors"}, {Name: "per tensor", Unit: "s", Help: "overhead with the most tensors minus " +
		"overhead with the fewest, ÷ the difference of their numbers; absent if it may be zero"}, {Name: "of it transfer", Unit: "s", Help: "the same of a client's round trip without its training"}}}
	for _, cells := range OfCounts(r) {
		few, many := cells[0], cells[len(cells)-1]
		slope := func(metric string, less stat.Interval) any {
			i := contrast.New(metric, many, few).More
			i.Center, i.Low, i.High = i.Center-less.Center, i.Low-less.High, i.High-less.Low
			if !i.Excludes(0) {
				return nil
			}
			return i.Map(func(s float64) float64 { return s / float64(many.Model.Tensors-few.Model.Tensors) })
		}
		var round any // unknown without a control: a difference of rounds has the training in it
		if few.Control != nil && many.Control != nil {
			round = slope("round", contrast.New("round", many.Control, few.Control).More)
		}
		size, _, _ := strings.Cut(few.Model.Name, "/")
		t.Add(Variant(few), size, Between(few.Model.Tensors, many.Model.Tensors, "tensor"), round, slope("transfer", stat.Interval{}))
	}
	return doc.Section{Title: "What a tensor costs", Tables: []doc.Table{t}}
}
