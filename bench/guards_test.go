package bench_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
)

// The tests of this file quote the numbers of those guards of docs/measuring.md
// that are in the driver. Others are in package stat and in report.

// A liar is a transport that delivers wrong bytes in one round, now and then the
// way real ones do: a byte that was damaged, or what was there before.
type liar struct {
	driver.Transport
	name string
	lie  func(w *liarWorker, model, update *tensor.Package)
}

// liars returns the transports that lie.
func liars(honest driver.Transport) []driver.Transport {
	return []driver.Transport{
		liar{honest, "damaged-up", func(_ *liarWorker, _, update *tensor.Package) { last(update)[2] ^= 1 << 6 }},
		liar{honest, "damaged-up-least", func(_ *liarWorker, _, update *tensor.Package) { last(update)[0] ^= 1 }}, // which averaging may round away
		liar{honest, "damaged-down", func(_ *liarWorker, model, _ *tensor.Package) { last(model)[2] ^= 1 << 6 }},
		liar{honest, "stale-down", func(w *liarWorker, model, _ *tensor.Package) { model.CopyFrom(w.before) }},
		liar{honest, "stale-up", func(w *liarWorker, _, update *tensor.Package) { update.CopyFrom(w.sent) }},
		liar{honest, "short-up", func(w *liarWorker, _, update *tensor.Package) { clear(last(update)) }}, // all but the last tensor was sent
	}
}

// last returns the last tensor that has bytes.
func last(p *tensor.Package) []byte {
	for i := p.Len() - 1; ; i-- {
		if len(p.View(i)) > 0 {
			return p.View(i)
		}
	}
}

func (l liar) Name() string { return l.name }

func (l liar) Settings() []driver.Setting {
	return append(l.Transport.Settings(), driver.Setting{Name: "round", Default: "0", Kind: driver.Count, Max: 100, Help: "when it lies"})
}

func (l liar) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w, err := l.Transport.Dial(ctx, e, lane, o)
	return &liarWorker{Worker: w, liar: l, round: o.Settings.Int("round"), before: tensor.Alloc(o.Down), sent: tensor.Alloc(o.Up)}, err
}

type liarWorker struct {
	driver.Worker
	liar
	round  int
	now    int
	before *tensor.Package // the model of the round before
	sent   *tensor.Package // the update before
}

func (w *liarWorker) Name() string { return w.liar.name }

func (w *liarWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	j, p, d, err := w.Worker.Receive(ctx)
	if err != nil {
		return j, p, d, err
	}
	w.now = j.Round
	switch {
	case w.now == w.round && strings.HasSuffix(w.name, "-down"):
		w.lie(w, p, nil)
	default:
		w.before.CopyFrom(p)
	}
	return j, p, d, nil
}

func (w *liarWorker) Submit(ctx context.Context, p *tensor.Package) error {
	switch {
	case w.now == w.round && strings.Contains(w.name, "-up"):
		w.lie(w, nil, p)
	default:
		w.sent.CopyFrom(p)
	}
	return w.Worker.Submit(ctx, p)
}

// TestWrongBytes: one damaged bit on either way, or the model of the round
// before, ends the run with an error that names the round, whether that round is
// proved or only hashed (guards 1, 2, 3). A damage so small that the average of
// the updates rounds it away is seen in proved rounds only.
func TestWrongBytes(t *testing.T) {
	h := host()
	for _, tt := range []struct{ variant, want string }{
		{"damaged-up", "round 0: the new model's hash"},
		{"damaged-up:round=1", "round 1, client 0: tensor"}, // proved
		{"damaged-up-least:round=1", "round 1, client 0: tensor"},
		{"damaged-up:round=4", "round 4: the new model's hash"},
		{"damaged-down", "round 0: the new model's hash"},
		{"damaged-down:round=1", "round 1, client 0: tensor"},
		{"stale-down:round=1", "round 1, client 0: tensor"},
		{"stale-down:round=4", "round 4: the new model's hash"},
	} {
		t.Run(tt.variant, func(t *testing.T) {
			if tt.variant != "damaged-up" && tt.variant != "damaged-down" {
				skip.Long(t)
			}
			p := quick(t)
			p.Rounds, p.Blocks = 6, 1
			_, err := bench.RunWithFloors(t.Context(), options(t, h, p, spec(t, h, tt.variant, "uniform:4KiB/3", 1, 2)))
			check.That(t, err != nil && strings.Contains(err.Error(), tt.want) && strings.Contains(err.Error(), tt.variant),
				"got error %v, want one of %s that holds %q", err, tt.variant, tt.want)
		})
	}
}

// TestMeasuredTime: times are measured intervals, each inside of the one that
// encloses it, and bytes are payload, counted once, whatever the wire carries
// (guards 4 and 5).
func TestMeasuredTime(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds = 8
	r := measure(t, h, p, spec(t, h, "pickle", "cnn", 2, 3))
	c := cellOf(t, r, "pickle")
	if want := int64(2 * 248_024 * 3); c.Payload() != want {
		t.Errorf("payload of a round is %d bytes, want %d: the model and an update for each client", c.Payload(), want)
	}
	for _, b := range c.Blocks {
		var sum int64
		for i, ns := range b.Round {
			sum += ns
			for _, rtt := range b.RTT[i*3 : i*3+3] {
				check.That(t, rtt <= ns, "round %d took %d ns, a client in it %d ns", i, ns, rtt)
			}
		}
		check.That(t, b.Unattributed >= 0 && b.Unattributed <= sum, "%d of %d ns are not attributed", b.Unattributed, sum)
		check.That(t, time.Duration(sum) <= r.Elapsed, "rounds of %v in a run of %v", time.Duration(sum), r.Elapsed)
		payload, wire := c.Payload()*int64(len(b.Round)), b.Server.Counts[phase.WireSent]+b.Server.Counts[phase.WireReceived]
		check.That(t, wire > payload && wire <= payload*11/10, "%d bytes on the wire for a payload of %d", wire, payload)
		body := b.Counts()[phase.BodyBytes]
		check.That(t, body == payload, "%d bytes of tensors were moved, want the payload, %d", body, payload)
	}
}

// TestColdApart: the first round stands apart, with its page faults, and not
// among the timed ones (guard 6). Recording had room for every span (guard 7).
func TestColdApart(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Warmup = 12, 2
	r := measure(t, h, p, spec(t, h, "shm-slab", "cnn", 2, 4))
	for _, c := range r.Cells {
		for _, b := range c.Blocks {
			check.That(t, b.Cold.Round > 0 && b.Cold.Server.CPU() >= 0 && len(b.Cold.Processes) == len(b.Processes),
				"%s: cold round of %d ns, of %d workers, want %d", c.ID(), b.Cold.Round, len(b.Cold.Processes), len(b.Processes))
			// The cold one, those to warm up, and the timed ones are hashed, as are the
			// proved ones: the second round, every eighth and the last.
			check.That(t, len(b.Round) == 6 && b.Proof.Hashed == 1+1+2+6+2 && b.Proof.Rounds == 3 && b.Proof.Updates == 3*4,
				"%s: %d timed rounds, proof %+v", c.ID(), len(b.Round), b.Proof)
			check.That(t, b.SpanCost > 0 && b.Spans >= int64(len(b.Round)*4*6),
				"%s: %d spans, %d ns each", c.ID(), b.Spans, b.SpanCost)
		}
	}
}

// TestWarmTime: rounds that are too short for the first two of them to warm a
// session up are so many that they take the time for it, unless none is wanted; and
// a block has no more of them than say something new (guard 6).
func TestWarmTime(t *testing.T) {
	h := host()
	for _, warm := range []time.Duration{0, time.Second} { // of which a round takes a small part on any machine
		p := quick(t)
		p.WarmTime, p.Blocks, p.Time = warm, 1, time.Minute
		longest := 0
		for _, c := range measure(t, h, p, spec(t, h, "shm-slab", "cnn", 1, 1)).Cells {
			for _, b := range c.Blocks {
				// Besides those that warm up, the cold one, the timed and the proved ones are hashed.
				rounds := b.Proof.Hashed - 1 - len(b.Round) - b.Proof.Rounds
				check.That(t, (rounds > 0) == (warm > 0), "%s: %d rounds to warm up, asked for %v", c.ID(), rounds, warm)
				longest = max(longest, len(b.Round))
			}
		}
		check.That(t, longest == 100,
			"the longest block has %d timed rounds, of a time that is enough for hundreds; want 100", longest)
	}
}

// TestEachProcessCounts: workers are real processes, and what each of them costs
// in the timed rounds is its own, over the same rounds (guards 8 and 9).
func TestEachProcessCounts(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 3, 1
	s := spec(t, h, "shm-slab", "uniform:4KiB/3", 2, 4)
	s.TrainMS = 20
	r := measure(t, h, p, s)
	c := cellOf(t, r, "shm-slab")
	b := c.Blocks[0]
	check.Need(t, c.Launcher == "processes" && len(b.Processes) == 2,
		"launcher %s with %d workers, want 2 processes", c.Launcher, len(b.Processes))
	if in := cellOf(t, r, "inproc"); in.Launcher != "goroutines" || len(in.Blocks[0].Processes) != 0 {
		t.Errorf("the control is not marked as one: launcher %s", in.Launcher)
	}
	// 4 clients in 3 rounds burn 20 ms each, none of it in the server and none of
	// it outside of the timed rounds.
	const burnt = 3 * 4 * 20 * time.Millisecond
	var spent time.Duration
	for _, w := range b.Processes {
		spent += w.Usage.CPU()
	}
	if spent < burnt || spent > 2*burnt || b.Server.Usage.CPU() > burnt/2 {
		t.Errorf("workers used %v, the server %v: want %v in the workers", spent, b.Server.Usage.CPU(), burnt)
	}
	if all := b.System.Busy + b.System.Idle + b.System.Steal; all < burnt/2 {
		t.Errorf("the whole machine's CPU time is %+v", b.System)
	}
}

// TestOrder: blocks of all cells are run in an order that its seed gives, not
// one cell after the other; each is a session of its own. The seed is drawn for each
// run that is not given one, and the result holds it (guard 10).
func TestOrder(t *testing.T) {
	h := host()
	order := func(seed uint64) (drawn uint64, names []string) {
		p := quick(t)
		p.Rounds, p.Blocks, p.OrderSeed = 3, 3, seed
		pickle, slab := spec(t, h, "pickle", "uniform:4KiB/3", 1, 1), spec(t, h, "shm-slab", "cnn", 1, 1)
		slab.Model = pickle.Model
		r := measure(t, h, p, pickle, slab)
		type at struct {
			position int
			cell     string
		}
		var all []at
		for _, c := range r.Cells {
			for _, b := range c.Blocks {
				all = append(all, at{b.Position, c.Variant})
			}
		}
		slices.SortFunc(all, func(a, b at) int { return cmp.Compare(a.position, b.position) })
		for i, a := range all {
			check.That(t, a.position == i, "position %d is missing", i)
			names = append(names, a.cell)
		}
		return r.Plan.OrderSeed, names
	}
	seed, first := order(0)
	again, same := order(seed)
	check.That(t, seed != 0 && again == seed && slices.Equal(first, same),
		"seed %d gave %v, and then %d %v", seed, first, again, same)
	for cycle := range 3 { // a block of each before the next of any
		three := slices.Sorted(slices.Values(first[cycle*3 : cycle*3+3]))
		check.That(t, slices.Equal(three, []string{"inproc", "pickle", "shm-slab"}), "cycle %d: %v", cycle, three)
	}
	_, seven := order(7)
	_, eight := order(8)
	check.That(t, !slices.Equal(seven, eight), "seeds 7 and 8 give the same order: %v", seven)
	next, _ := order(0)
	check.That(t, next != seed, "two runs have drawn the same seed, %d", seed)
}

// TestCanaryIsSlower: the canary's slowdown is time that its workers really
// spend, in training, and its twin has none (guard 14).
func TestCanaryIsSlower(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 8, 2
	o := options(t, h, p, spec(t, h, "pickle", "cnn", 1, 2))
	o.Canary = 5
	r, err := bench.RunWithFloors(t.Context(), o)
	check.Must(t, err)
	check.Must(t, r.Validate())
	if len(r.Cells) != 2 || r.Canary == nil || r.Canary.Slowdown != 5 {
		t.Fatalf("%d cells, canary %+v: want 2 and a canary beside them", len(r.Cells), r.Canary)
	}
	c := cellOf(t, r, "pickle")
	// What the copy burns is reckoned from the blocks that there were before.
	fastest := slices.Min(slices.Concat(c.Blocks[0].Round, c.Blocks[1].Round))
	for name, tt := range map[string]struct {
		cell  bench.Cell
		burnt bool
	}{"same": {r.Canary.Same, false}, "slow": {r.Canary.Slow, true}} {
		if tt.cell.ID() != c.ID() || !tt.cell.Proved() || len(tt.cell.Blocks) != p.Blocks || len(c.Blocks) != p.Blocks {
			t.Errorf("%s: is %s, proved %v, has %d blocks, and the cell %d", name, tt.cell.ID(), tt.cell.Proved(), len(tt.cell.Blocks), len(c.Blocks))
		}
		for _, b := range tt.cell.Blocks {
			train := b.Phases["train"]
			if most := 5 * fastest * int64(len(b.Round)); tt.burnt && train < most {
				t.Errorf("slow: %d ns in training, want at least the %d that are burnt there", train, most)
			}
		}
	}
	same, slow, err := r.Pairs()
	check.Must(t, err)
	for _, pair := range []*bench.Result{same, slow} {
		check.Must(t, pair.Validate())
		if !pair.Plan.Interleaved || len(pair.Cells) != 2 || pair.Cells[0].Build != "base" || pair.Cells[1].Build != "head" {
			t.Errorf("a pair is %+v", pair.Cells)
		}
	}
}

// TestEveryTransport: each one is proved, says which way its tensors went (guard
// 15), and with which settings, defaults and wait mode included (guards 17 and
// 20).
func TestEveryTransport(t *testing.T) {
	h := trainer.Host{Transports: all.Transports(), Funcs: bench.Funcs()}
	p := quick(t)
	p.Rounds, p.Blocks = 3, 1
	cells := []bench.Spec{spec(t, h, "shm-slab:wait=spin", "cnn", 2, 3)} // scalars and odd sizes are tried in the conformance suite (guard 16)
	for _, tr := range h.Transports {
		s := spec(t, h, tr.Name(), "cnn", 2, 3)
		s.Model = cells[0].Model
		cells = append(cells, s)
	}
	r := measure(t, h, p, cells...)
	if len(r.Cells) != len(cells) {
		t.Fatalf("%d cells, want %d: all transports and one with settings", len(r.Cells), len(cells))
	}
	const jobs = 3 * 3
	for _, c := range r.Cells {
		check.That(t, c.Proved(), "%s: not proved", c.ID())
		counts := c.Blocks[0].Server.Counts
		if c.Launcher == "processes" {
			counts = c.Blocks[0].Processes[0].Counts
			for name, n := range c.Blocks[0].Processes[1].Counts {
				counts[name] += n
			}
		}
		handed, moved := counts[phase.HandleTensors], counts[phase.BodyTensors]
		if want := int64(jobs * 10); handed+moved < want {
			t.Errorf("%s: %d tensors handed over and %d moved in %d jobs of 10: some went an unknown way", c.ID(), handed, moved, jobs)
		}
		check.That(t, !strings.HasPrefix(c.Variant, "shm-") || moved <= 0,
			"%s: moved %d tensors, counted as a fallback of %v", c.ID(), moved, counts)
		i := slices.IndexFunc(h.Transports, func(tr driver.Transport) bool { return tr.Name() == c.Transport })
		if want := transports.Settings(h.Transports[i]); len(c.Settings) != len(want) {
			t.Errorf("%s: records settings %v, want all %d", c.ID(), c.Settings, len(want))
		}
	}
	if c := cellOf(t, r, "shm-slab:wait=spin"); c.Settings["wait"] != "spin" || cellOf(t, r, "shm-slab").Settings["wait"] == "spin" {
		t.Errorf("the wait mode is missing: %v", c.Settings)
	}
	e := r.Environment
	if e.CPU == "" || e.Kernel == "" || e.Go == "" || e.CPUs < 1 || e.MemTotal < 1 || r.Plan.Seed == 0 || r.Plan.Mode == "" {
		t.Errorf("environment %+v, plan %+v", e, r.Plan)
	}
}

// TestOwnMemory: the peak of a small model's server is not that of the large one
// before it.
func TestOwnMemory(t *testing.T) {
	if machine.Read().Race {
		t.Skip("the race detector's own memory is in the way")
	}
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 6, 2
	small, large := spec(t, h, "pickle", "uniform:4KiB/1", 1, 1), spec(t, h, "pickle", "uniform:16MiB/4", 1, 1)
	r := measure(t, h, p, small, large)
	for _, c := range r.Cells {
		for i, b := range c.Blocks {
			if peak := b.Server.Memory.Peak; c.Model.Name == small.Model.Name && peak > 60e6 {
				t.Errorf("%s: block %d: peak of %s", c.ID(), i, tensor.FormatBytes(int(peak)))
			}
		}
	}
}
