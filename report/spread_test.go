package report

import (
	"bytes"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
)

// TestSpread: the difference between runs of the same cells is shown beside their intervals,
// which do not contain it (guard 29). Cells that a run lacks do not count.
func TestSpread(t *testing.T) {
	shown := func(runs ...*result.Result) string {
		var b bytes.Buffer
		check.Must(t, WriteSpread(&b, "text", runs, doc.TextOptions{Width: 100}))
		return b.String()
	}
	a, b := benchtest.Result(eight("a", 20), eight("b", 10)), benchtest.Result(eight("a", 22), eight("c", 10))
	got := shown(a, b)
	holds(t, strings.Join(strings.Fields(got), " "), "The median rounds of 1 cell differ by up to 10 % between the 2 runs. Of 2 intervals, 2 do not hold the median of another run.",
		"a cnn workers=1 clients=1 20.0 +- 0.4 22.0 +- 0.4 1.10")
	check.Equal(t, shown(a, benchtest.Result(eight("c", 10))), "", "no common cell")
}
