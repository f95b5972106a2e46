package report

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
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
		"Another run gives a round within +-21 % in 19 of 20, and a ratio of two cells of one table, which moved together, within +-0 % (it changed by 0 % typically, where blocks alone give 0.49 %).",
		"a cnn workers=1 clients=1 20.0 +- 0.4 22.0 +- 0.4 1.10 +- 0.02")
	check.Equal(t, between(t, a, benchtest.Result(eight("d", 10))), "", "no common cell")
}

// TestAnotherRun: 19 of 20 further runs keep the range that two runs give, if runs vary as they did.
func TestAnotherRun(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const cells, tries = 20, 400
	kept := 0.0
	for range tries {
		var seen []move
		draw := func() float64 { return 0.05 * random.NormFloat64() }
		var first [cells]float64
		for i := range first {
			first[i] = draw()
			seen = append(seen, move{draw() - first[i], 0})
		}
		text := strings.TrimSuffix(ranged(seen), " %")
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
