package report

import (
	"fmt"
	"io"
	"math"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// WriteAgain writes, as text or md, what a second run of the same cells gave: how much all of them moved together, and how
// much a median and a ratio of two cells moved beside that, which the intervals of one run do not show. It writes nothing
// if the runs have no usable cell in common.
func WriteAgain(w io.Writer, format string, first, second *result.Result, o doc.TextOptions) error {
	s := again(metrics.New(first), metrics.New(second))
	if s.Empty() {
		return nil
	}
	d := doc.Document{Sections: []doc.Section{s}}
	if format == "md" {
		return d.Markdown(w)
	}
	return d.Text(w, o)
}

// typical and nineteen are quantiles of |x| for a normal x: its median, and the bound that 19 of 20 keep.
const typical, nineteen = 0.6745, 1.96

// A move is a logarithm that changed between two runs, and the deviation that the blocks of both explain.
type move struct{ by, blocks float64 }

// again compares two runs of the same cells. The ranges are the root of the mean square of what was seen, because a third
// run is to any of them as they are to each other.
func again(first, second *metrics.Result) doc.Section {
	t := doc.Table{Columns: []doc.Column{{Name: "cell"}, {Name: "round", Unit: "s"}, {Name: "again", Unit: "s"}, {Name: "again ÷ round", Unit: "1"}}}
	var cells []*metrics.Cell
	var alone, pairs []move
	for _, a := range first.Cells {
		for _, b := range second.Cells {
			if a.ID() != b.ID() || a.Program != b.Program || contrast.Unusable(a) != nil || contrast.Unusable(b) != nil {
				continue
			}
			ratio := stat.Ratio(a.Medians("round"), b.Medians("round"))
			if !ratio.Sure() {
				continue
			}
			t.Add(a.Name(), a.Of("round"), b.Of("round"), ratio)
			m := move{math.Log(ratio.Center), math.Log(ratio.High/ratio.Low) / 2 / nineteen}
			for i, other := range cells {
				if other.Group() == a.Group() {
					pairs = append(pairs, move{m.by - alone[i].by, math.Hypot(m.blocks, alone[i].blocks)})
				}
			}
			cells, alone = append(cells, a), append(alone, m)
		}
	}
	if len(cells) == 0 {
		return doc.Section{}
	}
	shift := stat.Median(table.Each(alone, func(m move) float64 { return m.by }))
	beside := table.Each(alone, func(m move) move { return move{m.by - shift, m.blocks} })
	text := fmt.Sprintf("By the median of %s, a round of the second run took %s of the time of the first. Beside that, %s.",
		doc.Plural(len(cells), "cell"), doc.Quantity("1", math.Exp(shift)), typically("a round", beside))
	text += fmt.Sprintf(" Another run gives a round within ±%s in 19 of 20", ranged(alone))
	if len(pairs) > 0 {
		text += fmt.Sprintf(", and a ratio of two cells of one table, which moved together, within ±%s (%s)", ranged(pairs), typically("it", pairs))
	}
	return doc.Section{Title: "Between the runs", Tables: []doc.Table{t}, Lead: doc.Say(text + ".")}
}

// typically says by how much something changed in half of the cases, and what the blocks of one run lead to expect.
func typically(what string, moves []move) string {
	seen := stat.Median(table.Each(moves, func(m move) float64 { return math.Abs(m.by) }))
	expected := typical * stat.Median(table.Each(moves, func(m move) float64 { return m.blocks }))
	return fmt.Sprintf("%s changed by %s typically, where blocks alone give %s", what, doc.Percent(math.Expm1(seen)), doc.Percent(math.Expm1(expected)))
}

// ranged returns the bound that another run keeps in 19 of 20.
func ranged(moves []move) string {
	sum := 0.0
	for _, m := range moves {
		sum += m.by * m.by
	}
	return doc.Percent(math.Expm1(nineteen * math.Sqrt(sum/float64(len(moves)))))
}
