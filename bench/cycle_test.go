package bench_test

import (
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestQuickPlan: a quick run has six blocks of each cell and of each floor, no
// fewer and no more, so that every interval has 95 % confidence.
func TestQuickPlan(t *testing.T) {
	skip.Long(t)
	h := host()
	p, err := bench.DefaultPlan(bench.Quick)
	check.Must(t, err)
	r, err := bench.RunWithFloors(t.Context(), options(t, h, p, spec(t, h, "grpc-stream", "cnn", 1, 1)), "futex")
	check.Must(t, err)
	check.Must(t, r.Validate())
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
		check.That(t, len(f.Blocks) >= 6, "floor %s: %d blocks", f.Name, len(f.Blocks))
	}
	check.That(t, names["futex"] && names["work"] && names["rpc-empty"], "floors %v", names)
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
			check.That(t, len(b.Round) == 1 && b.Proof.Rounds == 2 && b.Proof.Updates == 6 && b.Proof.Hashed == 4,
				"%s: %d timed rounds, proof %+v", c.ID(), len(b.Round), b.Proof)
		}
	}
	o := options(t, h, p, spec(t, h, "pickle", "cnn", 1, 1))
	o.Against = []string{self(t)}
	r, err := bench.RunWithFloors(t.Context(), o)
	check.Must(t, err)
	for _, c := range r.Cells {
		n := len(c.Blocks[0].Round)
		check.That(t, n == 1, "%s of build %s: %d timed rounds, want 1 in both builds", c.ID(), c.Build, n)
	}
	_, err = bench.RunWithFloors(t.Context(), options(t, h, p, spec(t, h, "damaged-up:round=2", "uniform:4KiB/3", 1, 2)))
	check.Fails(t, err, "round 2: the new model's hash")
}
