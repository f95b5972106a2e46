package bench

import (
	"testing"
	"time"
)

// TestStop: a cell ends when it is precise, or its time is up, or it has very
// many blocks, and not before it has the fewest; and says which it was.
func TestStop(t *testing.T) {
	r := &run{Options: Options{Plan: Plan{Blocks: 6, Time: time.Second, Precision: 0.05}}}
	const ms = int64(time.Millisecond)
	cellOf := func(blocks int, spread int64) *cell {
		c := &cell{}
		for i := range blocks {
			b := Block{Round: []int64{100*ms + int64(i)*spread}}
			c.spent += time.Duration(b.Round[0])
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
		{"short rounds", func() *cell { c := cellOf(24, 10*ms); c.spent = 0; return c }(), "blocks"},
	} {
		if got := r.enough(tt.cell); got != tt.want {
			t.Errorf("%s: stops by %q, want %q", tt.name, got, tt.want)
		}
	}

	// Two builds of a cell end together: one that went on alone would be compared
	// over another time (guard 10).
	base, head, other := cellOf(6, 0), cellOf(6, 10*ms), cellOf(6, 0)
	other.result.Variant = "another"
	r.cells = []*cell{base, head, other}
	if r.finished(base) || r.finished(head) || !r.finished(other) {
		t.Errorf("stopped: base %q, head %q, another cell %q; want the last alone", base.result.Stopped, head.result.Stopped, other.result.Stopped)
	}
	*head = *cellOf(9, 10*ms)
	*base = *cellOf(9, 0)
	if !r.finished(base) || !r.finished(head) || base.result.Stopped != "precision" || head.result.Stopped != "time" {
		t.Errorf("stopped: base %q, head %q; want precision and time", base.result.Stopped, head.result.Stopped)
	}
}

// TestBudget: a run that has used up its time ends all cells that need more, and
// says so.
func TestBudget(t *testing.T) {
	r := &run{Options: Options{Plan: Plan{Blocks: 1, Rounds: 1, Budget: time.Hour}}, started: time.Now()}
	done, more := &cell{}, &cell{}
	done.result.Blocks = []Block{{}}
	more.result.Variant = "another"
	r.cells = []*cell{done, more}
	if r.overspent() {
		t.Error("overspent at once")
	}
	r.Plan.Budget = time.Nanosecond
	if !r.overspent() || done.result.Stopped != "rounds" || more.result.Stopped != "budget" {
		t.Errorf("stopped by %q and %q, want rounds and budget", done.result.Stopped, more.result.Stopped)
	}
}
