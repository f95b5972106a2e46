package report

import (
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// mostCrossovers is how many pairs are shown.
const mostCrossovers = 12

// crossovers shows from which model on one transport beats another: a row for each
// pair and model.
func crossovers(r *analysis.Result) doc.Section {
	pairs := r.Crossovers()
	if len(pairs) == 0 {
		return doc.Section{}
	}
	s := doc.Section{Title: "Crossover points"}
	if left := len(pairs) - mostCrossovers; left > 0 {
		pairs, s.Tail = pairs[:mostCrossovers], doc.Say(doc.Plural(left, "more pair")+" cross: the view verdict says which transport is best for each model.")
	}
	for _, same := range analysis.GroupBy(pairs, func(met []analysis.Meeting) string { return load(met[0].A.Group()) }) {
		t := doc.Table{Caption: load(same[0][0].A.Group()), Keys: 3, Columns: []doc.Column{
			{Name: "transport"}, {Name: "against"}, {Name: "model"}, {Name: "size", Unit: "B"}, {Name: "tensors", Unit: "1"},
			{Name: "speed-up", Unit: "1", Help: "the round of the second transport ÷ that of the first: where all of the interval is above 1 the first is faster, and where all of it is below 1 the second is. " +
				"They cross between two such sizes"},
		}}
		for _, met := range same {
			names := [2]string{met[0].A.Variant, met[0].B.Variant}
			for _, m := range met {
				model := m.A.Model
				t.Add(doc.Words(names[0]), doc.Words(names[1]), doc.Words(model.Label()), doc.Number(float64(model.Bytes)), doc.Number(float64(model.Tensors)), doc.Estimate(m.Ratio))
				names = [2]string{}
			}
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}
