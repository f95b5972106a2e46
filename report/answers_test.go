package report

import (
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// asked returns a result with two questions, of which one can be answered.
func asked() *result.Result {
	r := benchtest.Pair(1, 1)
	r.Questions = []result.Question{
		{Name: "project/part", Text: "Which one is faster?", Claims: []string{"round transport=inproc against transport=pickle"}},
		{Name: "project/other", Text: "And this?", Claims: []string{"round transport=gone against transport=pickle"}},
	}
	return r
}

// TestAnswers: the screen repeats each question of a run, and answers its claims with a sentence or with the reason why it
// cannot. TestViews has the view.
func TestAnswers(t *testing.T) {
	r := asked()
	check.Must(t, r.Validate())
	holds(t, shown(t, r), "project/part: Which one is faster?", " per round instead of ",
		"project/other: And this?\n", "Not answered: round transport=gone against transport=pickle: ")
}
