package report

import (
	"strings"

	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// answers is the view of the questions that a run asks (--questions): each question, with a
// sentence for each of its claims.
func answers(r *metrics.Result) doc.Section {
	var s doc.Section
	for _, q := range r.Questions {
		lines := doc.Say(q.Name + ": " + q.Text)
		for _, c := range q.Claims {
			of, err := claimSection(r, strings.Fields(c))
			if err != nil {
				of.Lead = doc.Say("Not answered: " + c + ": " + err.Error() + ".")
			}
			lines = appendNew(lines, of.Lead)
		}
		s.Lead = append(s.Lead, lines...)
	}
	if len(r.Questions) > 0 {
		s.Title = "Answers"
	}
	return s
}
