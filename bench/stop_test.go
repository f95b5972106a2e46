package bench

import (
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestStop: a cell stops when it is precise or its time is up, but not before it has the fewest blocks, and records the
// reason.
func TestStop(t *testing.T) {
	r := &run{Options: Options{Plan: result.Plan{Blocks: 6, Time: time.Second, Precision: 0.05}}}
	const ms = int64(time.Millisecond)
	cellOf := func(blocks int, spread int64) *cell {
		c := &cell{}
		for i := range blocks {
			b := result.Block{Round: []int64{100*ms + int64(i)*spread}}
			c.spent += charge(&b)
			c.result.Blocks = append(c.result.Blocks, b)
		}
		return c
	}
	for _, tt := range []struct {
		name string
		cell *cell
		want string
	}{
		{"too few blocks", cellOf(5, 0), ""},
		{"precise", cellOf(6, 0), "precision"},
		{"not precise", cellOf(6, 10*ms), ""},
		{"time is up", cellOf(9, 10*ms), "time"},
	} {
		check.Equal(t, r.enough(tt.cell, []*cell{tt.cell}), tt.want, tt.name, "stops by")
	}

	short, long := charge(&result.Block{Round: []int64{ms, ms}}), charge(&result.Block{Round: []int64{100 * ms, 50 * ms}})
	check.That(t, short == leastCharge && long == 150*time.Millisecond, "blocks of 2 and 150 ms count for %v and %v", short, long)

	// Cells of the same work stop together: a cell that went on alone would be compared over a different period
	// (guard 10).
	control, one, other := cellOf(6, 0), cellOf(6, 10*ms), cellOf(6, 0)
	one.result.Variant, other.result.Workers = "one", 2
	r.cells = []*cell{control, one, other}
	check.That(t, !r.finished(control) && !r.finished(one) && r.finished(other),
		"stopped: control %q, one %q, other work %q; want the last alone", control.result.Stopped, one.result.Stopped, other.result.Stopped)
	*one = *cellOf(9, 10*ms) // 1.26 s, and the control 0.7 s: less than two seconds together
	*control = *cellOf(7, 0)
	check.That(t, !r.finished(control) && !r.finished(one),
		"stopped: control %q, one %q, before the time of both was spent", control.result.Stopped, one.result.Stopped)
	*one = *cellOf(10, 10*ms)
	check.That(t, r.finished(control) && r.finished(one) && control.result.Stopped == "precision" && one.result.Stopped == "time",
		"stopped: control %q, one %q; want precision and time", control.result.Stopped, one.result.Stopped)
}
