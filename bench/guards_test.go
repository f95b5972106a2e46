package bench_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
)

// The tests of this file quote numbers of guards in docs/reference/guards.md. Other guards are tested in packages stat
// and report.

// TestMeasuredTime: times are measured intervals, and each is within the interval that encloses it. Bytes are payload,
// counted once, whatever the wire carries (guards 4 and 5).
func TestMeasuredTime(t *testing.T) {
	r := measure(t, short(t, 8, 2), "pickle cnn workers=2 clients=3")
	c := cellOf(t, r, "pickle")
	check.Equal(t, c.Payload(), 2*248_024*3, "the model and an update for each client")
	proved(t, c)
	for _, b := range c.Blocks {
		var sum int64
		for i, ns := range b.Round {
			sum += ns
			for k := i * 3; k < i*3+3; k++ {
				check.That(t, b.RTT[k] <= ns, "round %d took %d ns, a client in it %d ns", i, ns, b.RTT[k])
				check.That(t, min(b.Down[k], b.Up[k], b.Train[k]) > 0 && b.Down[k]+b.Up[k] <= b.RTT[k],
					"job %d: down %d, train %d, up %d, rtt %d ns", k, b.Down[k], b.Train[k], b.Up[k], b.RTT[k])
			}
		}
		check.That(t, b.Unattributed >= 0 && b.Unattributed <= sum, "%d of %d ns are not attributed", b.Unattributed, sum)
		check.That(t, time.Duration(sum) <= r.Elapsed, "rounds of %v in a run of %v", time.Duration(sum), r.Elapsed)
		payload, wire := c.Payload()*int64(len(b.Round)), b.Server.Counts[phase.WireSent]+b.Server.Counts[phase.WireReceived]
		check.That(t, wire > payload && wire <= payload*11/10, "%d bytes on the wire for a payload of %d", wire, payload)
	}
}

// TestColdApart: the first round is recorded apart, with its page faults, and is not a timed round (guard 6). There
// was room to record every span (guard 7).
func TestColdApart(t *testing.T) {
	p := short(t, 12, 2)
	p.Warmup = 2
	for _, c := range measure(t, p, "shm-slab cnn workers=2 clients=4").Cells {
		for _, b := range c.Blocks {
			check.That(t, b.Cold.Round > 0 && b.Cold.Server.CPU() >= 0 && len(b.Cold.Processes) == len(b.Processes),
				"%s: cold round of %d ns, of %d workers, want %d", c.ID(), b.Cold.Round, len(b.Cold.Processes), len(b.Processes))
			// The cold round, 2 of warm-up and 6 timed ones are hashed, and 3 proved ones: the second round, every
			// eighth and the last.
			check.That(t, len(b.Round) == 6 && b.Proof.Hashed == 1+1+2+6+2 && b.Proof.Rounds == 3 && b.Proof.Updates == 3*4,
				"%s: %d timed rounds, proof %+v", c.ID(), len(b.Round), b.Proof)
			check.That(t, b.SpanCost > 0 && b.Spans >= int64(len(b.Round)*4*6),
				"%s: %d spans, %d ns each", c.ID(), b.Spans, b.SpanCost)
		}
	}
}

// TestWarmTime: if two short rounds do not warm a session up, more are run until the warm-up time is over; a warm-up
// time of 0 means none. A block has at most 100 timed rounds (guard 6).
func TestWarmTime(t *testing.T) {
	for _, warm := range []time.Duration{0, time.Second} { // a round takes a small part of 1 s on any machine
		p := short(t, 0, 1)
		p.WarmTime, p.Time = warm, time.Minute
		longest := 0
		for _, c := range measure(t, p, "shm-slab cnn").Cells {
			b := c.Blocks[0]
			// The cold, the timed and the proved rounds are hashed too; subtract them to get the rounds of warm-up.
			rounds := b.Proof.Hashed - 1 - len(b.Round) - b.Proof.Rounds
			check.That(t, (rounds > 0) == (warm > 0), "%s: %d rounds to warm up, asked for %v", c.ID(), rounds, warm)
			longest = max(longest, len(b.Round))
		}
		check.Equal(t, longest, 100, "timed rounds of the longest block, in a time that is enough for hundreds")
	}
}

// TestEachProcessCounts: workers are real processes. Each one's usage in the timed rounds is its own, and covers the
// same rounds (guards 8 and 9).
func TestEachProcessCounts(t *testing.T) {
	r := measure(t, short(t, 3, 1), "shm-slab uniform:4KiB/3 workers=2 clients=4 train-ms=20")
	c, in := cellOf(t, r, "shm-slab"), cellOf(t, r, "inproc")
	b := c.Blocks[0]
	check.Need(t, c.Launcher == "processes" && len(b.Processes) == 2,
		"launcher %s with %d workers, want 2 processes", c.Launcher, len(b.Processes))
	check.That(t, in.Launcher == "goroutines" && len(in.Blocks[0].Processes) == 0,
		"the control is not marked as one: launcher %s", in.Launcher)
	// 4 clients in 3 rounds burn 20 ms each, all of it in the workers and in the timed rounds.
	const burnt = 3 * 4 * 20 * time.Millisecond
	spent := b.Processes[0].Usage.CPU() + b.Processes[1].Usage.CPU()
	check.That(t, spent >= burnt && spent <= 2*burnt && b.Server.Usage.CPU() <= burnt/2,
		"workers used %v, the server %v: want %v in the workers", spent, b.Server.Usage.CPU(), burnt)
	check.That(t, b.System.Busy+b.System.Idle+b.System.Steal >= burnt/2, "the whole machine's CPU time is %+v", b.System)
}

// TestOrder: blocks of all cells run in an order that depends on the seed, and a block of each cell runs before the
// next block of any. Without a given seed, each run draws one and records it in the result (guard 10).
func TestOrder(t *testing.T) {
	order := func(seed uint64) (uint64, []string) {
		p := short(t, 3, 3)
		p.OrderSeed = seed
		r := measure(t, p, "pickle uniform:4KiB/3", "shm-slab uniform:4KiB/3")
		names := make([]string, 9)
		for _, c := range r.Cells {
			for _, b := range c.Blocks {
				names[b.Position] = c.Variant
			}
		}
		return r.Plan.OrderSeed, names
	}
	seed, first := order(0)
	again, same := order(seed)
	check.That(t, seed != 0 && again == seed && slices.Equal(first, same),
		"seed %d gave %v, and then %d %v", seed, first, again, same)
	for three := range slices.Chunk(first, 3) { // a block of each cell before the next block of any
		check.Equal(t, slices.Sorted(slices.Values(three)), []string{"inproc", "pickle", "shm-slab"}, first)
	}
	_, seven := order(7)
	_, eight := order(8)
	check.That(t, !slices.Equal(seven, eight), "seeds 7 and 8 give the same order: %v", seven)
	next, _ := order(0)
	check.That(t, next != seed, "two runs have drawn the same seed, %d", seed)
}

// TestCanaryIsSlower: the canary's slow copy really spends the extra time in training, and its equal copy does not
// (guard 14).
func TestCanaryIsSlower(t *testing.T) {
	o := options(t, short(t, 8, 2), "pickle cnn clients=2")
	o.Canary = 5
	r := run(t, o)
	check.Need(t, len(r.Cells) == 2 && r.Canary != nil && r.Canary.Slowdown == 5,
		"%d cells, canary %+v: want 2 and a canary beside them", len(r.Cells), r.Canary)
	c := cellOf(t, r, "pickle")
	for _, copied := range []result.Cell{r.Canary.Same, r.Canary.Slow} {
		proved(t, copied)
		check.That(t, copied.ID() == c.ID() && len(copied.Blocks) == 2 && len(c.Blocks) == 2,
			"%s has %d blocks, and %s %d", copied.ID(), len(copied.Blocks), c.ID(), len(c.Blocks))
	}
	// The burnt time is derived from the blocks measured before.
	fastest := slices.Min(slices.Concat(c.Blocks[0].Round, c.Blocks[1].Round))
	for _, b := range r.Canary.Slow.Blocks {
		train, least := b.Phases["train"], 5*fastest*int64(len(b.Round))
		check.That(t, train >= least, "%d ns in training, want at least the %d that are burnt there", train, least)
	}
	same, slow, err := r.Pairs()
	check.Must(t, err)
	for _, pair := range []*result.Result{same, slow} {
		check.Must(t, pair.Validate())
		check.That(t, pair.Plan.Baseline == "base" && len(pair.Cells) == 2 && pair.Cells[0].Program == "base" && pair.Cells[1].Program == "head",
			"a pair is %+v", pair.Cells)
	}
}

// TestEveryTransport: each transport is proved, and records how every tensor travelled (guard 15) and all its
// settings, including defaults and the wait mode (guards 17 and 20). So it does with much smaller or larger updates,
// with fresh workers for every round, and with tensors nested in Go values (B23), whose handling is timed apart. Worker
// function and server check the other fields of these values (B9, B10), and that tensors are views of received memory;
// otherwise the block fails.
func TestEveryTransport(t *testing.T) {
	var cells []string
	for _, unusual := range []string{"", " up=lora:1 nested", " up=uniform:1MiB/3 respawn", " nested respawn"} {
		if unusual != "" && testing.Short() {
			continue
		}
		for _, tr := range all.Transports() { // the conformance suite tries scalars and odd sizes (guard 16)
			cells = append(cells, tr.Name()+" cnn workers=2 clients=3"+unusual)
		}
	}
	cells = append(cells, "shm-slab:wait=spin cnn workers=2 clients=3", "pickle:codec=xor+shuffle+zstd cnn workers=2 clients=3 nested change=10%")
	r := measure(t, short(t, 3, 1), cells...)
	for _, c := range r.Cells {
		check.That(t, c.Proved(), "%s: not proved", c.ID())
		b := c.Blocks[0]
		counts, up := b.Counts(), cmp.Or(c.Model.UpTensors, 10)
		handed, moved, want := counts[phase.HandleTensors], counts[phase.BodyTensors], int64(3*3*(10+up))
		check.That(t, handed+moved == want || strings.Contains(c.Variant, "codec"), // codecs leave out tensors that have not changed
			"%s: %d tensors handed over and %d moved, want %d: some went an unknown way", c.ID(), handed, moved, want)
		check.That(t, counts[phase.BodyBytes] <= c.Payload()*3, "%s: %d bytes of %d were moved", c.ID(), counts[phase.BodyBytes], c.Payload()*3)
		check.That(t, !strings.HasPrefix(c.Variant, "shm-") || moved == 0 && (c.Variant != "shm-slab" || counts[phase.Copied] == 0),
			"%s: moved %d tensors, copied %d bytes, counted as a fallback of %v", c.ID(), moved, counts[phase.Copied], counts)
		for _, p := range []phase.Phase{phase.Attach, phase.Detach, phase.Reconstruct} {
			check.That(t, (b.Phases[p.String()] > 0) == c.Nested, "%s: %d ns in phase %s", c.ID(), b.Phases[p.String()], p)
		}
		i := slices.IndexFunc(all.Transports(), func(tr driver.Transport) bool { return tr.Name() == c.Transport })
		settings := transports.Settings(all.Transports()[i])
		check.That(t, len(c.Settings) == len(settings), "%s: records settings %v, want all %d", c.ID(), c.Settings, len(settings))
	}
	spins, blocks := cellOf(t, r, "shm-slab:wait=spin").Settings, cellOf(t, r, "shm-slab").Settings
	check.That(t, spins["wait"] == "spin" && blocks["wait"] != "spin", "the wait mode is missing: %v", spins)
	e := r.Environment
	check.That(t, e.CPU != "" && e.Kernel != "" && e.Go != "" && e.CPUs >= 1 && e.MemTotal >= 1 && r.Plan.Seed != 0 && r.Plan.Mode != "",
		"environment %+v, plan %+v", e, r.Plan)
}

// TestOwnMemory: the peak memory of a small model's server does not include the large model of another block.
func TestOwnMemory(t *testing.T) {
	if machine.Read().Race {
		t.Skip("the race detector's own memory is in the way")
	}
	for _, c := range measure(t, short(t, 6, 2), "pickle uniform:4KiB/1", "pickle uniform:16MiB/4").Cells {
		for i, b := range c.Blocks {
			peak := b.Server.Memory.Peak
			check.That(t, c.Model.Bytes > 4<<10 || peak <= 60e6, "%s: block %d: peak of %d bytes", c.ID(), i, peak)
		}
	}
}
