// Package answer writes what a result says, in sentences. A result enters; questions with their
// claims, verdicts and findings leave.
//
//   - [Answers] has the questions of a run, each with a sentence for each of its claims, which are one
//     family.
//   - [ClaimsSection] is the sentences that a Markdown file holds between markers.
//   - [VerdictSentence] says which transport to use for a group of cells.
//   - [Findings] applies rules of plausibility. They find contradictions in a result, and reasons to
//     doubt it.
package answer

import (
	"fmt"

	"ipcbench/bench/result"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// A question is one that a run asks (--questions), with its claims judged as one family.
type question struct {
	result.Question
	claims []*claim // nil where errs has why there is none
	errs   []error
}

// questionsOf returns the questions of a result.
func questionsOf(r *metrics.Result) []question {
	return metrics.Keep(r, "questions", func() (all []question) {
		for _, q := range r.Questions {
			asked := question{Question: q}
			var claims []*claim
			for _, text := range q.Claims {
				c, err := newClaim(r, text)
				asked.claims, asked.errs = append(asked.claims, &c), append(asked.errs, err)
				if err == nil {
					claims = append(claims, &c)
				}
			}
			judge("of its question", claims)
			all = append(all, asked)
		}
		return all
	})
}

// askedOf returns a contrast as the question judges it that asks it, or nil.
func askedOf(r *metrics.Result, x contrast.Contrast) *contrast.Judged {
	for _, q := range questionsOf(r) {
		for i, asked := range q.claims {
			if q.errs[i] != nil || asked.against == nil {
				continue
			}
			if j := asked.judged; j.Same(x) {
				return &j
			} else if j = j.Inverse(); j.Same(x) {
				return &j
			}
		}
	}
	return nil
}

// elsewhere says where a contrast that is judged here is also judged, in a ranking, and shown there
// but not here or the other way round.
func elsewhere(r *metrics.Result, j contrast.Judged) string {
	for _, v := range contrast.Verdicts(r) {
		for _, ranked := range v.Against {
			if (ranked.Same(j.Contrast) || ranked.Inverse().Same(j.Contrast)) && ranked.Shown != j.Shown {
				return "; " + table.Unless(ranked.Shown, "not ") + "shown " + ranked.Family()
			}
		}
	}
	return ""
}

// asked says which contrasts of a verdict a question judges otherwise, because its family is another.
func asked(r *metrics.Result, v contrast.Verdict) (lines []string) {
	for _, ranked := range v.Against {
		if j := askedOf(r, ranked.Contrast); j != nil && j.Shown != ranked.Shown {
			lines = append(lines, fmt.Sprintf("That %s takes longer than %s is %sshown %s, but %sshown %s.", table.Variant(ranked.Cell), table.Variant(v.Best()),
				table.Unless(ranked.Shown, "not "), ranked.Family(), table.Unless(j.Shown, "not "), j.Family()))
		}
	}
	return lines
}

// Answers is the view of the questions that a run asks: each question, with a sentence for each of
// its claims.
func Answers(r *metrics.Result) (s doc.Section) {
	families, contrasts := 0, 0
	for _, q := range questionsOf(r) {
		lines, among := doc.Say(q.Name+": "+q.Text), 0
		for i, c := range q.claims {
			if err := q.errs[i]; err != nil {
				lines = append(lines, doc.Say("Not answered: "+q.Claims[i]+": "+err.Error()+".")...)
				continue
			}
			lines, among = appendNew(lines, c.paragraphs(r)), max(among, c.judged.Among)
		}
		s.Lead = append(s.Lead, lines...)
		families, contrasts = families+min(among, 1), contrasts+among
	}
	if len(r.Questions) > 0 {
		s.Title = "Answers"
	}
	if families > 0 {
		s.Tail = doc.Say(fmt.Sprintf("%s, with %s of two cells. Holm's method keeps the probability of any false difference in a question below 5 %%, "+
			"so at most %.2g of them would have one by chance, on average.", doc.Plural(families, "question"), doc.Plural(contrasts, "contrast"), float64(families)*contrast.Alpha))
	}
	return s
}
