package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase/usage"
)

// TestQuickPlan: a quick run has exactly six blocks per cell, so that every interval has 95 % confidence, and measures
// floors in its first and its last cycle. A block proves its last round.
func TestQuickPlan(t *testing.T) {
	skip.Long(t)
	p := check.Value(session.DefaultPlan(session.Quick))(t)
	r := run(t, options(t, p, "grpc-stream cnn"), "futex")
	check.Need(t, r.Plan.Rules == 4 && r.Plan.Blocks == 6 && len(r.Cells) == 2, "plan %+v of %d cells", r.Plan, len(r.Cells))
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
		longer := f.Name == "work" && len(f.Blocks) > 2 // a block with more rounds than the reference has extends it
		check.That(t, len(f.Blocks) == 2 || longer || f.Name == "rpc-empty" && len(f.Blocks) == 6, "floor %s: %d blocks", f.Name, len(f.Blocks))
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

// TestNeighbours: in every cycle, the cells of one question are adjacent, as are cells of one model, workers and clients
// that answer none. Neither the order of the questions nor that of their cells is fixed.
func TestNeighbours(t *testing.T) {
	for _, asked := range []bool{false, true} {
		p := short(t, 12, 12)
		p.OrderSeed = 3 // so that cycles begin with each of the three variants
		o := options(t, p, "shm-slab uniform:4KiB/1", "shm-slab uniform:4KiB/2", "pickle uniform:4KiB/1", "pickle uniform:4KiB/2")
		group := func(c result.Cell) string { return c.Model.Name }
		if asked {
			for i := range o.Cells {
				o.Cells[i].Question = o.Cells[i].Variant.String()
			}
			group = func(c result.Cell) string { return c.Variant }
		}
		var order []string // by the position of the block
		first := map[string]bool{}
		r := run(t, o)
		for _, c := range r.Cells {
			for _, b := range c.Blocks {
				order = append(order, make([]string, max(0, b.Position+1-len(order)))...)
				order[b.Position] = c.Variant + " " + group(c)
			}
		}
		for ; len(order) > 0; order = order[len(r.Cells):] {
			first[order[0]] = true
			seen := map[string]bool{}
			last := ""
			for _, at := range order[:len(r.Cells)] {
				variant, g, _ := strings.Cut(at, " ")
				if variant == "inproc" && asked { // a control belongs to the first cell that it stands beside
					continue
				}
				check.That(t, g == last || !seen[g], "a cycle in the order %v", order[:len(r.Cells)])
				seen[g], last = true, g
			}
		}
		check.That(t, len(first) >= 3, "cycles began with %v only", first)
	}
}

// TestRandomStart: timed rounds begin after a number of rounds that is drawn for each block, but is the same for all
// programs and for runs with one order seed. These rounds are really run, and the result has their number.
func TestRandomStart(t *testing.T) {
	p := short(t, 8, 8)
	p.Warmup, p.Starts, p.OrderSeed = 1, 7, 5
	var draws [2][]int
	for i := range draws {
		o := options(t, p, "pickle uniform:4KiB/1")
		if i == 1 {
			o.Builds = program.Builds([]string{self(t)}, nil)
		}
		for _, c := range run(t, o).Cells {
			if c.Variant != "pickle" || c.Program == result.Head {
				continue
			}
			for n, b := range c.Blocks {
				untimed := b.Proof.Hashed - len(b.Round) - b.Proof.Rounds - 1 // the first round is cold
				check.That(t, untimed == b.Warmup && b.Warmup >= 1 && b.Warmup <= 8 && (n > 0 || b.Warmup <= 4), "block %d: %d warm-up rounds, %d written", n, untimed, b.Warmup)
				draws[i] = append(draws[i], b.Warmup)
			}
		}
	}
	check.Equal(t, draws[0], draws[1])
	check.That(t, len(slices.Compact(slices.Sorted(slices.Values(draws[0])))) > 3, "draws %v", draws[0])
}

// TestSpread: each cycle begins in its part of the time, the first at once and no two at the same moment of their parts;
// meanwhile no process runs. A cycle that is longer than its part is late, and the result says so. An interrupt ends a
// pause. Pauses are not a part of the run's duration.
func TestSpread(t *testing.T) {
	p := short(t, 4, 4)
	p.Spread = 4 * time.Second
	var waits []bench.Progress
	children := 0
	o := options(t, p, "shm-slab uniform:4KiB/1")
	o.Progress = func(s bench.Progress) {
		if !s.Until.IsZero() {
			waits = append(waits, s)
			children += len(check.Value(usage.ChildrenOf(os.Getpid()))(t))
		}
	}
	r := run(t, o)
	check.Need(t, len(r.Pauses) == 3 && len(waits) >= 3 && children == 0, "%d pauses, %d waits, %d children", len(r.Pauses), len(waits), children)
	check.That(t, strings.HasPrefix(waits[0].What, "the next cycle, 2 of 4, begins at ") && waits[0].Left > 2*time.Second, "%+v", waits[0])
	var paused time.Duration
	for i, at := range r.Cells[0].Blocks {
		from := time.Duration(i) * time.Second
		check.That(t, i == 0 || at.At >= from-100*time.Millisecond && at.At < from+1500*time.Millisecond, "cycle %d began after %v", i, at.At)
	}
	for _, pause := range r.Pauses {
		paused += pause.Time
		check.That(t, pause.Suspended == 0 && pause.Moved == 0, "%+v", pause)
	}
	check.That(t, r.Elapsed+paused <= 5*time.Second && paused > 1500*time.Millisecond, "%v and pauses of %v", r.Elapsed, paused)

	o = options(t, p, "shm-slab uniform:4KiB/1")
	o.Builds = program.Builds([]string{self(t)}, nil)
	r = run(t, o)
	var began [4][]bool // by cycle: whether each block began after the pause before it and before the next one
	for _, c := range r.Cells {
		for i, b := range c.Blocks {
			after := i == 0 || b.At >= r.Pauses[i-1].At+r.Pauses[i-1].Time
			began[i] = append(began[i], after && (i == 3 || b.At < r.Pauses[i].At))
		}
	}
	for i, cycle := range began { // two builds alternate within a cycle
		check.That(t, len(cycle) == len(r.Cells) && len(cycle) >= 4 && !slices.Contains(cycle, false), "cycle %d: %v", i, cycle)
	}

	p.Spread = 4 * time.Millisecond
	r = run(t, options(t, p, "shm-slab uniform:4KiB/1"))
	check.That(t, len(r.Pauses) == 3 && r.Pauses[0].Late > 0 && r.Pauses[1].Late > 0, "%+v", r.Pauses)

	p.Spread = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	o = options(t, p, "shm-slab uniform:4KiB/1")
	o.Progress = func(s bench.Progress) {
		if !s.Until.IsZero() {
			cancel()
		}
	}
	r, err := bench.Run(ctx, o)
	check.That(t, err == nil && r.Partial == "context canceled after 2 of 8 blocks", "%v, %q", err, r.Partial)
}

// TestResume: whatever cycle a run was killed in, resuming it gives a result that it could have had by itself: the same
// blocks at the same positions, with the same warm-up rounds, and samples of the same floors. Nothing of a cycle that
// had begun is kept. A run that differs is refused with the first difference.
func TestResume(t *testing.T) {
	p := short(t, 5, 5)
	p.Starts, p.OrderSeed, p.Mode = 7, 9, session.Quick
	plan := func() bench.Options {
		return options(t, p, "shm-slab uniform:4KiB/1", "pickle uniform:4KiB/1", "pickle uniform:4KiB/2")
	}
	var saved []*result.Result
	path := filepath.Join(t.TempDir(), "r.json")
	again := func(r *result.Result) *result.Result {
		check.Must(t, r.WriteFile(path))
		return check.Value(result.ReadFile(path))(t)
	}
	o := plan()
	o.Save = func(r *result.Result) error { saved = append(saved, again(r)); return nil }
	whole := run(t, o)
	check.Need(t, len(saved) == 5, "%d saves", len(saved))
	blocks := func(r *result.Result) (all []string) {
		for _, c := range r.Cells {
			for _, b := range c.Blocks {
				all = append(all, fmt.Sprintln(c.ID(), b.Index, b.Position, b.Warmup, len(b.Round), b.Proof))
			}
		}
		for _, f := range r.Floors {
			if n := len(f.Blocks); f.Name != "work" || n < 5 { // a chain that is computed again adds samples
				all = append(all, fmt.Sprintln(f.Name, f.Model, f.Condition != "", n))
			}
		}
		return all
	}
	for n, old := range saved[:4] {
		if n == 2 { // interrupted, not killed: with blocks of the next cycle
			extra := old.Cells[0].Blocks[2]
			extra.Index, extra.Position = 3, 15
			old.Cells[0].Blocks = append(old.Cells[0].Blocks, extra)
		}
		o := plan()
		o.Resume = old
		r := run(t, o)
		check.That(t, r.Partial == "" && r.Started.Equal(whole.Started), "%q, %v", r.Partial, r.Started)
		check.Equal(t, blocks(again(r)), blocks(whole), fmt.Sprint("after ", n+1))
		check.That(t, len(r.Pauses) == 1 && r.Pauses[0].Resumed && r.Cells[0].Blocks[n].At < r.Pauses[0].At && r.Cells[0].Blocks[n+1].At >= r.Pauses[0].At+r.Pauses[0].Time,
			"pause %+v between blocks %v", r.Pauses, r.Cells[0].Blocks)
	}
	for want, change := range map[string]func(o *bench.Options){
		"the run is complete":                         func(o *bench.Options) { o.Resume = whole },
		"the file's plan has seed 1, and this":        func(o *bench.Options) { o.Plan.Seed = 2 },
		"plan has spread_ns none, and this run 5e+09": func(o *bench.Options) { o.Plan.Spread = 5 * time.Second },
		"another build: ":                             func(o *bench.Options) { o.Resume.Environment.Commit = "0123456" },
		"another machine: CPU model: ":                func(o *bench.Options) { o.Resume.Environment.CPU = "another" },
		"the file lacks the cell storage ": func(o *bench.Options) {
			o.Cells = benchtest.Specs[session.Spec](t, o.Host.Transports, "shm-slab uniform:4KiB/1", "pickle uniform:4KiB/1", "pickle uniform:4KiB/2", "storage uniform:4KiB/2")
		},
		"this run has not: give the same flags": func(o *bench.Options) { o.Cells = o.Cells[:1] },
	} {
		o := plan()
		o.Resume = again(saved[2])
		change(&o)
		check.Fails(t, check.Err(bench.Run(t.Context(), o)), want)
	}
}
