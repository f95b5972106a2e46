package report

import (
	"fmt"
	"io"

	"ipcbench/bench/result"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// WriteAgain writes, as text or md, what a second run of the same cells gave. It writes nothing if the runs have no usable
// cell in common.
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

// again is the section about the rounds of two runs.
func again(first, second *metrics.Result) doc.Section {
	r := contrast.Between(first, second, "round")
	if len(r.Cells) == 0 {
		return doc.Section{}
	}
	t := doc.Table{Columns: []doc.Column{{Name: "cell"}, {Name: "round", Unit: "s"}, {Name: "again", Unit: "s"}, {Name: "again ÷ round", Unit: "1"}}}
	for _, c := range r.Cells {
		t.Add(c.First.Name(), c.First.Of("round"), c.Second.Of("round"), c.Ratio)
	}
	text := fmt.Sprintf("By the median of %s, a round of the second run took %s of the time of the first. Beside that, %s.",
		doc.Plural(len(r.Cells), "cell"), doc.Quantity("1", r.Shift()), contrast.Typically("a round", r.Beside()))
	if r.Elsewhere != "" {
		text += " The runs give no range for another one: the second was made " + r.Elsewhere
	} else {
		text += " Another run on this machine gives a round within " + contrast.Another(r.Alone) + " in 19 of 20"
		if len(r.Ratios) > 0 {
			text += fmt.Sprintf(", and a ratio of two cells of one table, which moved together, within %s (%s)", contrast.Another(r.Ratios), contrast.Typically("it", r.Ratios))
		}
	}
	return doc.Section{Title: "Between the runs", Tables: []doc.Table{t}, Lead: doc.Say(text + ".")}
}
