package report

import (
	"fmt"
	"io"
	"math"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// WriteSpread writes, as text or md, how much the medians of the same cells differ between
// runs, which the intervals of one run do not show. It writes nothing if the runs have no cell
// in common.
func WriteSpread(w io.Writer, format string, runs []*result.Result, o doc.TextOptions) error {
	t := doc.Table{Columns: []doc.Column{{Name: "cell"}}}
	var all []*metrics.Cell
	for i, r := range runs {
		all = append(all, metrics.New(r).Cells...)
		t.Columns = append(t.Columns, doc.Column{Name: fmt.Sprintf("run %d", i+1), Unit: "s"})
	}
	t.Columns = append(t.Columns, doc.Column{Name: "highest ÷ lowest", Unit: "1"})
	most, outside, pairs := 1.0, 0.0, 0
	for _, cells := range metrics.GroupBy(all, func(c *metrics.Cell) string { return c.ID() + "\n" + c.Program }) {
		if len(cells) < len(runs) {
			continue
		}
		row, low, high := doc.Cells(cells[0].Name()), math.Inf(1), 0.0
		for _, c := range cells {
			round := c.Of("round")
			row, low, high = doc.Cells(row, round), min(low, round.Center), max(high, round.Center)
			for _, other := range cells {
				if other != c && round.Confidence > 0 {
					pairs++
					outside += table.OneIf(round.Excludes(other.Of("round").Center))
				}
			}
		}
		most = max(most, high/low)
		t.Add(row, high/low)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	d := doc.Document{Sections: []doc.Section{{Title: "Between the runs", Tables: []doc.Table{t}, Lead: doc.Say(fmt.Sprintf(
		"The median rounds of %s differ by up to %s between the %d runs. Of %d intervals, %.0f do not hold the median of another run.",
		doc.Plural(len(t.Rows), "cell"), doc.Percent(most-1), len(runs), pairs, outside))}}}
	if format == "md" {
		return d.Markdown(w)
	}
	return d.Text(w, o)
}
