package report

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
)

// between returns what is written about two runs.
func between(t *testing.T, a, b *result.Result) string {
	t.Helper()
	var text bytes.Buffer
	check.Must(t, WriteAgain(&text, "text", a, b, doc.TextOptions{Width: 200}))
	return strings.Join(strings.Fields(text.String()), " ")
}

// TestAgain: two runs of the same cells have their ratio with its interval, the common shift, and the changes beside it
// (guard 29). Cells that a run lacks do not count.
func TestAgain(t *testing.T) {
	a, b := benchtest.Result(eight("a", 20), eight("b", 10), eight("c", 5)), benchtest.Result(eight("a", 22), eight("b", 11), eight("d", 10))
	text := between(t, a, b)
	holds(t, text, "By the median of 2 cells, a round of the second run took 1.10 of the time of the first. Beside that, a round changed by 0 % typically, where blocks alone give 0.35 %. "+
		"Another run on this machine gives a round within +-21 % in 19 of 20, and a ratio of two cells of one table, which moved together, within +-0 % (it changed by 0 % typically, where blocks alone give 0.49 %).",
		"a cnn workers=1 clients=1 20.0 +- 0.4 22.0 +- 0.4 1.10 +- 0.02")
	check.Equal(t, between(t, a, benchtest.Result(eight("d", 10))), "", "no common cell")
}

// TestAnotherRun: 19 of 20 further runs keep the range that two runs give, if runs vary as they did.
func TestAnotherRun(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const cells, tries = 20, 400
	kept := 0.0
	for range tries {
		var seen []contrast.Move
		draw := func() float64 { return 0.05 * random.NormFloat64() }
		var first [cells]float64
		for i := range first {
			first[i] = draw()
			seen = append(seen, contrast.Move{By: draw() - first[i]})
		}
		text := strings.TrimSuffix(strings.TrimPrefix(contrast.Another(seen), "±"), " %")
		bound := check.Value(strconv.ParseFloat(text, 64))(t) / 100
		for _, x := range first {
			if math.Abs(draw()-x) <= math.Log1p(bound) {
				kept += 1.0 / cells / tries
			}
		}
	}
	t.Logf("another run keeps the range in %.3f", kept)
	check.That(t, kept > 0.92 && kept < 0.97, "kept in %.3f", kept)
}

// TestClaimAgain: a claim says what a second run gave, in its own words, when that was, and the range for another run on
// the machine; it gives no range if the second machine is another one, or the number is the same in every block.
func TestClaimAgain(t *testing.T) {
	run := func(ms ...float64) *result.Result {
		r := benchtest.Result(eight("a", ms[0]), eight("b", ms[1]), eight("c", ms[2]))
		for i := range r.Cells {
			perRound(r.Cells[i], map[string]int64{"calls.Get": 8})
		}
		return r
	}
	first, second := run(20, 10, 10.1), run(22, 10, 12)
	second.Started = first.Started.Add(3*time.Hour + 10*time.Minute)
	claim := func(words string) string {
		text, err := render(".", "r.json claim "+words+" again s.json", map[string]*result.Result{"r.json": first, "s.json": second})
		check.OK(t, err, words)
		return text
	}
	const range3 = "; another run on this machine is within ±%s of either in 19 of 20, by 3 cells measured twice.**"
	ratio, round := fmt.Sprintf(range3, "27 %"), fmt.Sprintf(range3, "25 %")
	for words, want := range map[string]string{
		"round transport=a against transport=b": "b is 2.00 times as fast as a (95 % interval 1.98 to 2.02): 10.0 ms (9.85 to 10.1) per round instead of 20.0 ms (19.7 to 20.2), cnn, 1 worker, 1 client, 8 blocks of 2 rounds each. Measured again 3 hours later: it is 2.20 times as fast (95 % interval 2.18 to 2.22)" + ratio,
		"round transport=c against transport=b": "Measured again 3 hours later: it is from 19 % longer to 21 % longer" + ratio,
		"round transport=b":                     "Measured again 3 hours later: 10.0 ms (9.85 to 10.1)" + round,
		"rpcs transport=b":                      "Measured again 3 hours later: exactly 8.**",
		"rpcs transport=b against transport=a":  "Measured again 3 hours later: exactly 8.**",
	} {
		holds(t, claim(words), want)
	}
	second.Environment.CPU = "another"
	text := claim("round transport=a against transport=b")
	holds(t, text, "Measured again 3 hours later on another machine (CPU model: another instead of Test CPU): it is 2.20 times as fast (95 % interval 2.18 to 2.22).**")
	holds(t, between(t, first, second), "The runs give no range for another one: the second was made on another machine (CPU model: another instead of Test CPU).")
	second.Started = first.Started.Add(-50 * time.Hour)
	holds(t, claim("round transport=b"), "Measured again 2 days earlier on another machine (")
	second.Cells = second.Cells[:2]
	_, err := render(".", "r.json claim round transport=c again s.json", map[string]*result.Result{"r.json": first, "s.json": second})
	check.Fails(t, err, "in the second run: ")
}

// TestClaimAgainDerived: a metric that is computed from others gets its second value, and no range.
func TestClaimAgainDerived(t *testing.T) {
	first, second := benchtest.Pair(1, 1), benchtest.Pair(1, 1)
	second.Started = first.Started.Add(3 * time.Hour)
	claim := func(words string) string {
		both := map[string]*result.Result{"r.json": first, "s.json": second}
		text, err := render(".", "r.json claim moving_share transport=pickle "+words+"again s.json", both)
		check.OK(t, err)
		return text
	}
	holds(t, claim(""), "a round that moving tensors takes is 50 % (95 % interval 49 to 51)", "Measured again 3 hours later: 50 % (49 to 51).**")
	text := claim("computed 10ms 1s ")
	_, once, _ := strings.Cut(text, "moving tensors takes ")
	once, _, _ = strings.Cut(once, " of a round")
	holds(t, text, "Measured again 3 hours later: "+strings.Replace(once, "95 % interval ", "", 1)+".**")
	holds(t, once, "% (95 % interval ", " and ")
}

// TestAnswersMarker: a marker has the answers to the questions that it names, with a second run's values where that can
// make the claim.
func TestAnswersMarker(t *testing.T) {
	first, second := benchtest.Result(eight("a", 20), eight("b", 10), eight("c", 5)), benchtest.Result(eight("a", 22), eight("b", 10))
	first.Questions = []result.Question{
		{Name: "one/first", Text: "One?", Claims: []string{"round transport=a against transport=b"}},
		{Name: "one/next", Text: "Next?", Claims: []string{"round transport=a against transport=c"}},
		{Name: "two/more", Text: "Two?", Claims: []string{"round transport=b against transport=c"}},
	}
	second.Started = first.Started.Add(time.Hour)
	marker := func(words string) (string, error) {
		return render(".", "r.json answers "+words, map[string]*result.Result{"r.json": first, "s.json": second})
	}
	text, err := marker("one two/more again s.json")
	check.OK(t, err)
	holds(t, text, "one/first: One?", "one/next: Next?", "two/more: Two?", "3 questions, with 3 contrasts",
		"Measured again 1 hour later: it is 2.20 times as fast")
	check.Equal(t, strings.Count(text, "Measured again"), 1, text, "cell c was measured once")
	text, err = marker("one/next")
	check.OK(t, err)
	holds(t, text, "one/next: Next?", "1 question, with 1 contrast ")
	for _, other := range []string{"One?", "Two?", "again"} {
		lacks(t, text, other)
	}
	_, err = marker("on")
	check.Fails(t, err, `"on" is no question of the result: use one of one/first, one/next, two/more`)
}
