package bench

import (
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/transports"
	"ipcbench/transports/inproc"
)

// TestPace: the remaining time follows from the mean durations of steps. In the first cycle, there is none.
func TestPace(t *testing.T) {
	const h = time.Hour
	control := check.Value(transports.NewVariant(inproc.New(), nil))(t)
	r := &run{Options: Options{Control: control, Plan: result.Plan{Blocks: 6, Time: 10 * h, Precision: 0.05}}, started: time.Now()}
	one, other := &cell{}, &cell{}
	other.result.Workers = 2 // it is not a peer
	r.cells = []*cell{one, other}
	block := result.Block{Round: []int64{int64(h)}}
	first, second, floor := &step{cell: one}, &step{cell: other}, &step{}
	r.steps = []*step{first, second, floor}
	r.progress("nobody looks")
	shows := func(done, plan int, left time.Duration, more bool) {
		t.Helper()
		r.Options.Progress = func(p Progress) {
			check.That(t, p.What == "one" && p.Done == done && p.Plan == plan && p.More == more && p.Left > left-h && p.Left <= left,
				"got %+v, want block %d of %d, %v left, more %v", p, done, plan, left, more)
		}
		r.pace.begin(r, first)
		r.progress("one")
	}
	one.result.Blocks, one.spent = []result.Block{block}, h
	first.runs, first.took = 1, 3*h
	shows(1, 12, 0, false)

	other.result.Blocks, other.spent, r.cycle = []result.Block{block}, h, 1
	second.runs, second.took, floor.runs, floor.took = 1, 4*h, 1, h
	shows(2, 12, 5*3*h+5*4*h+5*h, false)
	first.runs, first.took = 2, 10*h
	r.profiling = []*step{{cell: other}}
	shows(2, 12, 5*5*h+(5+fewestProfiled)*4*h+5*h, false)
	r.profiling[0].runs = 1

	// After the planned blocks, cells go on until they are precise or have used up their time; floors are measured in
	// every fourth cycle.
	for range 5 {
		one.result.Blocks, other.result.Blocks = append(one.result.Blocks, block), append(other.result.Blocks, block)
	}
	one.spent, other.result.Stopped, floor.runs, floor.took, r.cycle = 6*h, "precision", 6, 6*h, 6
	shows(12, 6+7, 4*5*h+h, true)
}
