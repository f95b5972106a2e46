package contrast_test

import (
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
)

// TestMarks: effects that one number cannot show are marked (guards 11 and 15).
func TestMarks(t *testing.T) {
	counted := func(handles, bodies int64, fallbacks map[string]int64) result.Cell {
		c := benchtest.Cell("http-shm", benchtest.Models["cnn"], 1, 1, 10, 10, 10)
		benchtest.Count(benchtest.Count(c, "handle.tensors", handles), "body.tensors", bodies)
		for reason, n := range fallbacks {
			benchtest.Count(c, "fallback."+reason, n)
		}
		return c
	}
	rounds := func(ms func(block, round int) float64) result.Cell {
		return benchtest.Rounds(func(b, k int) float64 { return ms(b, k) + 0.01*float64((k*7+b*3)%5) })
	}
	stopped := counted(0, 0, nil)
	stopped.Stopped = "interrupted"
	const own = " of the tensors used the transport's own mechanism"
	for _, tt := range []struct {
		name string
		cell result.Cell
		want string
	}{
		{"no counters", counted(0, 0, nil), ""},
		{"handles", counted(40, 0, nil), ""},
		{"bodies", counted(0, 40, nil), ""},
		{"fallback", counted(30, 10, map[string]int64{"full": 6, "dtype": 4}), "only 75 %" + own + ": dtype 12, full 18"},
		{"silent", counted(30, 10, nil), "only 75 %" + own},
		{"never local", counted(0, 40, map[string]int64{"remote": 40}), "only 0 %" + own + ": remote 120"},
		{"nearly", counted(99999, 1, map[string]int64{"full": 1}), "only 99.9 %" + own + ": full 3"}, // all did not
		{"interrupted", stopped, "the measurement was interrupted"},
		{"quiet", rounds(func(_, _ int) float64 { return 10 }), ""},
		{"two modes", rounds(func(b, k int) float64 { return 4 + 12*float64((k+b)%2) }),
			"rounds fall into two groups: 4.02 ms (50 %) and 16.0 ms (50 %)"},
		{"drift within", rounds(func(_, k int) float64 { return 10 + 0.2*float64(k) }),
			"rounds changed by +32 % within a block"},
		{"drift across", rounds(func(b, _ int) float64 { return 10 + float64(b) }),
			"rounds changed by +40 % from the first to the last block"},
		{"outliers", rounds(func(_, k int) float64 { return map[bool]float64{true: 50, false: 10}[k%8 == 0] }),
			"18 of 120 rounds far from the median"},
	} {
		got := ""
		for _, m := range contrast.Marks(metrics.New(benchtest.Result(tt.cell)).Cells[0]) {
			got += m.Text
		}
		check.Equal(t, got, tt.want, tt.name)
	}
}

// TestOutOfTime: a cell says how wide its interval is if time ran out before the asked precision.
func TestOutOfTime(t *testing.T) {
	r := benchtest.Result(benchtest.Cell("http-shm", benchtest.Models["cnn"], 1, 1, 8, 12, 9, 11, 10, 10))
	check.Equal(t, metrics.New(r).Cells[0].OutOfTime(), 0.2)
}
