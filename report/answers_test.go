package report

import (
	"fmt"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
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

// TestBothFamilies: a difference that its question shows and its ranking does not names both families.
func TestBothFamilies(t *testing.T) {
	m := benchtest.Models["cnn"]
	cells := []result.Cell{benchtest.Cell("next", m, 1, 1, 10.05, 10.15, 10.3, 10.4, 10.5, 10.6)} // p is 0.015
	for i := range 11 {
		cells = append(cells, benchtest.Cell(fmt.Sprint(i), m, 1, 1, benchtest.Six(10+float64(i)/1e4)...))
	}
	r := benchtest.Result(cells...)
	r.Questions = []result.Question{{Name: "a/b", Text: "Which?", Claims: []string{"round transport=next against transport=0"}}}
	holds(t, shown(t, r, "answers"), "; shown where it is the only one of its question, but not shown among the 11 of the ranking.")
}

// TestOrderOfVerdicts: the view of verdicts has its own order, and does not change the one of the others.
func TestOrderOfVerdicts(t *testing.T) {
	r := metrics.New(benchtest.Synthetic(6, 2))
	first := contrast.Verdicts(r)[0].Group
	answer.Verdicts(r)
	check.Equal(t, contrast.Verdicts(r)[0].Group, first)
}

// TestFromSteps: a question that compares two transports at several sizes says from which one on one is faster, by the
// verdicts of its claims.
func TestFromSteps(t *testing.T) {
	for _, c := range map[string]struct {
		ms   [3]float64 // of the second transport, at three sizes; the first takes 10
		want string
	}{
		"always":    {[3]float64{20, 30, 40}, "\na is shown to be faster than b from below 1 KiB on, the first of 3 up to 1 MiB.\n"},
		"from one":  {[3]float64{10, 30, 40}, "\na is shown to be faster than b from 32 KiB on, one of 3 up to 1 MiB.\n"},
		"the other": {[3]float64{30, 30, 5}, "\nb is shown to be faster than a from 1 MiB on, one of 3 up to 1 MiB.\n"},
		"nowhere":   {[3]float64{30, 30, 10}, "\nAt 1 MiB, the last of 3, neither a nor b is shown to be faster.\n"},
	} {
		r := benchtest.Result()
		q := result.Question{Name: "a/b", Text: "From which size on?"}
		for i, bytes := range []int64{1 << 10, 32 << 10, 1 << 20} {
			m := result.Model{Name: fmt.Sprintf("uniform:%d/16", bytes), Tensors: 16, Bytes: bytes}
			r.Cells = append(r.Cells, benchtest.Cell("a", m, 1, 1, benchtest.Eight(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Eight(c.ms[i])...))
			q.Claims = append(q.Claims, "round transport=a model="+m.Name+" against transport=b")
		}
		r.Questions = []result.Question{q}
		holds(t, "\n"+shown(t, r, "answers"), c.want)
		r.Questions[0].Claims = q.Claims[:2]
		lacks(t, shown(t, r, "answers"), "up to 1 MiB") // a claim is missing
	}
}

// TestShareOverTraining: a question that computes a share for several times of training has them in a table and as curves.
func TestShareOverTraining(t *testing.T) {
	r := benchtest.Result(eight("inproc", 10), eight("a", 20), eight("b", 40))
	r.Questions = []result.Question{{Name: "a/step", Text: "Which part?", Claims: []string{
		"moving_share transport=a computed 10ms 70ms", "moving_share transport=b computed 10ms 70ms", "moving_share transport=gone computed 10ms 70ms"}}}
	text, err := render(".", "r.json answers a", map[string]*result.Result{"r.json": r})
	check.OK(t, err)
	holds(t, text, "    line [33, 11]\n    line [60, 27]\n", "blue: a; orange: b.", "| b         |         70.0 |   27 ± 1 |", "Not answered: ")
}
