// Package answer writes what a result says, in sentences. A result enters; questions with their
// claims, verdicts and findings leave.
//
//   - [Answers] and [AnswersTo] have the questions of a run, each with a sentence for each of its claims,
//     which are one family.
//   - [ClaimsSection] is the sentences that a Markdown file holds between markers.
//   - [VerdictSentence] says which transport to use for a group of cells.
//   - [Findings] applies rules of plausibility. They find contradictions in a result, and reasons to
//     doubt it.
package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// answersOf returns the claims of each question of a result. The claims of a question are one family.
func answersOf(r *metrics.Result) [][]*claim {
	return metrics.Keep(r, "answers", func() [][]*claim {
		return doc.Each(r.Questions, func(q result.Question) []*claim { return claimsOf(r, "of its question", q.Claims) })
	})
}

// askedOf returns a contrast as the question judges it that asks it, or nil.
func askedOf(r *metrics.Result, x contrast.Contrast) *contrast.Judged {
	for _, c := range slices.Concat(answersOf(r)...) {
		if c.Same(x) {
			judged := c.Judged
			judged.Contrast = x
			return &judged
		}
	}
	return nil
}

// elsewhere says where a contrast that is judged here is also judged, in a ranking, and shown there
// but not here or the other way round. It names both families; a sentence that is not shown has named its own.
func elsewhere(r *metrics.Result, j contrast.Judged) string {
	for _, v := range contrast.Verdicts(r) {
		for _, ranked := range v.Against {
			if ranked.Same(j.Contrast) && ranked.Shown != j.Shown {
				return "; " + table.Unless(!j.Shown, j.Word()+", but ") + ranked.Word()
			}
		}
	}
	return ""
}

// asked says which contrasts of a verdict a question judges otherwise, because its family is another.
func asked(r *metrics.Result, v contrast.Verdict) (lines []string) {
	for _, ranked := range v.Against {
		if j := askedOf(r, ranked.Contrast); j != nil && j.Shown != ranked.Shown {
			lines = append(lines, fmt.Sprintf("That %s takes longer than %s is %s, but %s.",
				table.Variant(ranked.Cell), table.Variant(v.Best()), ranked.Word(), j.Word()))
		}
	}
	return lines
}

// Answers is the view of the questions that a run asks: each question, with a sentence for each of
// its claims.
func Answers(r *metrics.Result) doc.Section {
	all, _ := AnswersTo(r, nil, nil)
	return all
}

// AnswersTo is the part of [Answers] about the questions with these names, where openfl is all of openfl/; without names,
// all of it. If there is a second run, a claim that it can make too says what that gave. It is an error if a name has no
// question.
func AnswersTo(r, second *metrics.Result, names []string) (s doc.Section, err error) {
	wanted := func(q result.Question) func(name string) bool {
		return func(name string) bool { return name == q.Name || strings.HasPrefix(q.Name, name+"/") }
	}
	for _, name := range names {
		if !slices.ContainsFunc(r.Questions, func(q result.Question) bool { return wanted(q)(name) }) {
			known := doc.Each(r.Questions, func(q result.Question) string { return q.Name })
			return s, fmt.Errorf("%q is no question of the result: use one of %s", name, strings.Join(known, ", "))
		}
	}
	families, contrasts := 0, 0
	for i, claims := range answersOf(r) {
		q, among := r.Questions[i], 0
		if len(names) > 0 && !slices.ContainsFunc(names, wanted(q)) {
			continue
		}
		if second != nil {
			claims = repeated(r, second, claims, claimsOf(second, "of its question", q.Claims))
		}
		lines := doc.Say(q.Name + ": " + q.Text)
		for _, c := range claims {
			if c.err != nil {
				lines = append(lines, doc.Say("Not answered: "+c.text+": "+c.err.Error()+".")...)
				continue
			}
			lines, among = appendNew(lines, c.paragraphs(r)), max(among, c.Among)
		}
		lines = append(lines, doc.Say(fromSteps(r, claims)...)...)
		s.Plots, s.Tables = overTraining(s, q.Name, claims)
		s.Lead = append(s.Lead, lines...)
		families, contrasts = families+min(among, 1), contrasts+among
	}
	if len(r.Questions) > 0 {
		s.Title = "Answers"
	}
	if families > 0 {
		s.Tail = doc.Say(fmt.Sprintf("%s, with %s of two cells. Holm's method keeps the probability of any false difference "+
			"in a question below 5 %%, so at most %.2g of them would have one by chance, on average.",
			doc.Plural(families, "question"), doc.Plural(contrasts, "contrast"), float64(families)*contrast.Alpha))
	}
	return s, nil
}

// overTraining adds to s a plot and a table of the shares that claims of a question compute for several times of training.
func overTraining(s doc.Section, question string, claims []*claim) ([]doc.Plot, []doc.Table) {
	p := doc.Plot{Caption: question + ": share of a round that moving tensors takes", Kind: doc.Curves,
		At: doc.Axis{Name: "training", Unit: "s", Log: true}, Value: doc.Axis{Name: "moving tensors", Unit: "%"}}
	t := doc.Table{Caption: p.Caption, Columns: []doc.Column{{Name: "transport"}, {Name: "training", Unit: "s"}, {Name: "share", Unit: "%"}}}
	for _, c := range claims {
		if c.err != nil || len(c.trainings) < 2 {
			continue
		}
		of := doc.Series{Name: c.Cell.Uncoded()}
		for _, more := range c.trainings {
			share := c.Cell.MovingShare(more.Seconds())
			of.Points = append(of.Points, doc.Point{At: more.Seconds(), Value: share, Text: c.Cell.Name()})
			t.Add(of.Name, more.Seconds(), share)
		}
		p.Series = append(p.Series, of)
	}
	if len(p.Series) == 0 {
		return s.Plots, s.Tables
	}
	return append(s.Plots, p), append(s.Tables, t)
}

// fromSteps says from which size, or number of clients or workers, on a transport is faster than
// another one, if claims of a question compare their rounds at several. It tests no more than they do.
func fromSteps(r *metrics.Result, claims []*claim) (lines []string) {
	rounds := table.Only(claims, func(c *claim) bool { return c.Against != nil && c.Metric.Name == "round" })
	pair := func(c *claim) [2]string { return [2]string{c.Cell.Label(), c.Against.Label()} }
	for _, same := range metrics.GroupBy(rounds, pair) {
		cells := slices.Concat(doc.Each(same, (*claim).cells)...)
		for _, sweep := range table.SweepsOf(r.With(cells)) {
			winners := map[int]int{} // by step: 1 if the first of the pair is shown to be faster, -1 if the second is
			for _, c := range same {
				if at := sweep.Step(c.Cell); at >= 0 && at == sweep.Step(c.Against) {
					winners[at] = 0
					if c.Shown {
						winners[at] = cmp.Compare(1, c.Ratio.Center)
					}
				}
			}
			if len(winners) == len(sweep.At) {
				lines = append(lines, table.FasterFrom(sweep, pair(same[0]), winners))
			}
		}
	}
	return lines
}
