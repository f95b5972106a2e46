package bench

import (
	"testing"
	"time"

	"ipcbench/internal/test/check"
)

// TestPace: the remaining time follows from the mean durations of steps. In the first cycle, there is none.
func TestPace(t *testing.T) {
	const s = time.Second
	r := &run{Options: Options{Plan: Plan{Blocks: 6, Time: 10 * s, Precision: 0.05}}, started: time.Now()}
	one, other := &cell{}, &cell{}
	other.result.Workers = 2 // it is not a peer
	r.cells = []*cell{one, other}
	block := Block{Round: []int64{int64(s)}}
	first, second, floor := &step{cell: one}, &step{cell: other}, &step{}
	r.steps = []*step{first, second, floor}
	left := func(want time.Duration, wantMore bool) {
		t.Helper()
		got, more := r.left()
		check.That(t, got == want && more == wantMore, "%v left, more %v; want %v, %v", got, more, want, wantMore)
	}
	var got Progress
	shown := func() Progress {
		r.pace.begin(r, first)
		r.progress("one")
		return got
	}
	r.progress("nobody looks")
	r.Options.Progress = func(p Progress) { got = p }

	one.result.Blocks, one.spent = []Block{block}, s
	first.runs, first.took = 1, 3*s
	shown()
	check.That(t, got.What == "one" && got.Done == 1 && got.Plan == 12 && got.Left == 0, "in the first cycle: %+v", got)

	floor.runs, floor.took = 1, s
	other.result.Blocks, other.spent, r.cycle = []Block{block}, s, 1
	second.runs, second.took = 1, 4*s
	left(5*3*s+5*4*s+5*s, false)
	shown()
	check.That(t, got.Done == 2 && got.Plan == 12 && !got.More && got.Left > 39*s && got.Left <= 40*s, "in the second cycle: %+v", got)
	first.runs, first.took = 2, 10*s
	r.profiling = []*step{{cell: other}}
	left(5*5*s+(5+fewestProfiled)*4*s+5*s, false)
	r.profiling[0].runs = 1

	// After the planned blocks, cells go on until they are precise or have used up their time; floors are measured in
	// every fourth cycle.
	for range 5 {
		one.result.Blocks, other.result.Blocks = append(one.result.Blocks, block), append(other.result.Blocks, block)
	}
	one.spent, other.result.Stopped, floor.runs, floor.took, r.cycle = 6*s, "precision", 6, 6*s, 6
	left(4*5*s+s, true)
	shown()
	check.That(t, got.Done == 12 && got.Plan == 6+7 && got.More && got.Left > 0, "after the planned blocks: %+v", got)
}
