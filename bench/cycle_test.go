package bench_test

import (
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/skip"
)

// TestQuickPlan: a quick run has six blocks of each cell and of each floor, no
// fewer and no more, so that every interval has 95 % confidence.
func TestQuickPlan(t *testing.T) {
	skip.Long(t)
	h := host()
	p, err := bench.DefaultPlan(bench.Quick)
	check(t, err)
	r, err := bench.RunWithFloors(t.Context(), options(t, h, p, spec(t, h, "grpc-stream", "cnn", 1, 1)), "futex")
	check(t, err)
	check(t, r.Validate())
	if r.Plan.Rules != 3 || r.Plan.Blocks != 6 || len(r.Cells) != 2 {
		t.Fatalf("plan %+v of %d cells", r.Plan, len(r.Cells))
	}
	for _, c := range r.Cells {
		var blocks [][]float64
		for _, b := range c.Blocks {
			var rounds []float64
			for _, ns := range b.Round {
				rounds = append(rounds, float64(ns))
			}
			blocks = append(blocks, rounds)
		}
		if i := stat.Of(blocks); len(blocks) != 6 || !i.Sure() || i.Confidence < 0.95 || c.Stopped != "blocks" || !c.Proved() {
			t.Errorf("%s: %d blocks, interval %+v, stopped by %q", c.ID(), len(blocks), i, c.Stopped)
		}
	}
	names := map[string]bool{}
	for _, f := range r.Floors {
		names[f.Name] = true
		if len(f.Blocks) < 6 {
			t.Errorf("floor %s: %d blocks", f.Name, len(f.Blocks))
		}
	}
	if !names["futex"] || !names["work"] || !names["rpc-empty"] {
		t.Errorf("floors %v", names)
	}
}

// TestOneTimedRound: a block of a single timed round is proved, every update of it,
// and wrong bytes in that round are found (guard 3).
func TestOneTimedRound(t *testing.T) {
	h := host()
	p := quick(t)
	p.Time, p.WarmTime = time.Duration(p.Blocks), 0
	for _, c := range measure(t, h, p, spec(t, h, "pickle", "cnn", 2, 3)).Cells {
		for _, b := range c.Blocks {
			// The rounds are the cold one, a proved one, the timed one, a proved one.
			if len(b.Round) != 1 || b.Proof.Rounds != 2 || b.Proof.Updates != 6 || b.Proof.Hashed != 4 {
				t.Errorf("%s: %d timed rounds, proof %+v", c.ID(), len(b.Round), b.Proof)
			}
		}
	}
	o := options(t, h, p, spec(t, h, "pickle", "cnn", 1, 1))
	o.Against = []string{self(t)}
	r, err := bench.RunWithFloors(t.Context(), o)
	check(t, err)
	for _, c := range r.Cells {
		if n := len(c.Blocks[0].Round); n != 1 {
			t.Errorf("%s of build %s: %d timed rounds, want 1 in both builds", c.ID(), c.Build, n)
		}
	}
	_, err = bench.RunWithFloors(t.Context(), options(t, h, p, spec(t, h, "damaged-up:round=2", "uniform:4KiB/3", 1, 2)))
	if err == nil || !strings.Contains(err.Error(), "round 2: the new model's hash") {
		t.Errorf("got %v, want the timed round refused", err)
	}
}
