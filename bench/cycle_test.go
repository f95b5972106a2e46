package bench_test

import (
	"testing"

	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestQuickPlan: a quick run has exactly six blocks per cell and at least six per floor, so that every interval has
// 95 % confidence.
func TestQuickPlan(t *testing.T) {
	skip.Long(t)
	p := check.Value(session.DefaultPlan(session.Quick))(t)
	r := run(t, options(t, p, "grpc-stream cnn"), "futex")
	check.Need(t, r.Plan.Rules == 3 && r.Plan.Blocks == 6 && len(r.Cells) == 2, "plan %+v of %d cells", r.Plan, len(r.Cells))
	for _, c := range r.Cells {
		var blocks [][]float64
		for _, b := range c.Blocks {
			var rounds []float64
			for _, ns := range b.Round {
				rounds = append(rounds, float64(ns))
			}
			blocks = append(blocks, rounds)
		}
		i := stat.Of(blocks)
		check.That(t, len(blocks) == 6 && i.Sure() && i.Confidence >= 0.95 && c.Stopped == "blocks" && c.Proved(),
			"%s: %d blocks, interval %+v, stopped by %q", c.ID(), len(blocks), i, c.Stopped)
	}
	names := map[string]bool{}
	for _, f := range r.Floors {
		names[f.Name] = true
		check.That(t, len(f.Blocks) >= 6, "floor %s: %d blocks", f.Name, len(f.Blocks))
	}
	check.That(t, names["futex"] && names["work"] && names["rpc-empty"], "floors %v", names)
}

// TestOneTimedRound: a block with a single timed round is proved, with every update, and wrong bytes in that round are
// found (guard 3).
func TestOneTimedRound(t *testing.T) {
	p := short(t, 0, 1)
	p.Time, p.WarmTime = 1, 0
	o := options(t, p, "pickle cnn workers=2 clients=3")
	for _, builds := range [][]*program.Program{nil, program.Builds([]string{self(t)}, nil)} {
		o.Builds = builds
		for _, c := range run(t, o).Cells {
			b := c.Blocks[0]
			// The rounds are: cold, proved, timed, proved.
			check.That(t, len(b.Round) == 1 && b.Proof.Rounds == 2 && b.Proof.Updates == 6 && b.Proof.Hashed == 4,
				"%s of build %s: %d timed rounds, proof %+v", c.ID(), c.Program, len(b.Round), b.Proof)
		}
	}
	fails(t, options(t, p, "damaged-up:round=2 uniform:4KiB/3 clients=2"), "round 2: the new model's hash")
}
