package report

import (
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestAnswers: the screen repeats each question of a run, and answers its claims with a sentence or with the reason why it
// cannot.
func TestAnswers(t *testing.T) {
	r := benchtest.Pair(1, 1)
	v := []string{r.Cells[0].Variant, r.Cells[1].Variant}
	r.Questions = []result.Question{
		{Name: "project/part", Text: "Which one is faster?", Claims: []string{"round transport=" + v[0] + " against transport=" + v[1]}},
		{Name: "project/other", Text: "And this?", Claims: []string{"round transport=gone against transport=" + v[1]}},
	}
	check.Must(t, r.Validate())
	holds(t, shown(t, r), "project/part: Which one is faster?", " per round instead of ",
		"project/other: And this?\n", "Not answered: round transport=gone against transport="+v[1]+": ")
	wantLines(t, shown(t, r, "answers"), "project/part: Which one is faster?")
}
