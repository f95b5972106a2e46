package bench

import (
	"testing"
	"time"

	"ipcbench/internal/test/check"
)

// TestPace: the remaining time follows from the durations of steps or, before they have run, from their estimates,
// corrected by the error of other estimates.
func TestPace(t *testing.T) {
	const s = time.Second
	r := &run{Options: Options{Plan: Plan{Blocks: 6, Time: 10 * s, Precision: 0.05}}, started: time.Now()}
	one, other := &cell{}, &cell{}
	other.result.Workers = 2 // it is not a peer
	r.cells = []*cell{one, other}
	floor := &step{guess: s}
	r.steps = []*step{{cell: one, guess: s}, {cell: other, guess: 2 * s}, floor}
	left := func(want time.Duration, wantMore bool) {
		t.Helper()
		got, more := r.left()
		check.That(t, got == want+finishing && more == wantMore, "%v left, more %v; want %v, %v", got-finishing, more, want, wantMore)
	}
	left(6*(s+2*s+s), false) // all are estimates

	block := Block{Round: []int64{int64(s)}}
	one.result.Blocks, one.spent = []Block{block}, s
	r.steps[0].runs, r.steps[0].took = 1, 3*s // three times the estimate
	left(5*3*s+6*3*2*s+6*3*s, false)

	floor.runs, floor.took = 1, s
	other.result.Blocks, other.spent = []Block{block}, s
	r.steps[1].runs, r.steps[1].took = 1, 4*s
	left(5*3*s+5*4*s+5*s, false)

	// After the planned blocks, cells go on until they are precise or have used up their time; floors are measured in
	// every fourth cycle.
	for range 5 {
		one.result.Blocks, other.result.Blocks = append(one.result.Blocks, block), append(other.result.Blocks, block)
	}
	one.spent, other.result.Stopped, floor.runs, r.cycle = 6*s, "precision", 6, 6
	floor.took = 6 * s
	left(4*3*s+s, true)

	r.progress("nobody looks")
	var got Progress
	r.Options.Progress = func(p Progress) { got = p }
	r.pace.begin(r, r.steps[0])
	r.progress("one")
	check.That(t, got.What == "one" && got.Done == 12 && got.Plan == 6+7 && got.More && got.Left > 0, "got %+v", got)
}
