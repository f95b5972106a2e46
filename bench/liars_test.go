package bench_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A liar delivers wrong bytes in one round, as faulty transports do: a damaged byte, or data of an earlier round.
type liar struct {
	driver.Transport
	name     string
	down, up func(w *liarWorker, p *tensor.Package)
}

// liars returns the liars, and late, whose server has the update before the worker's Submit returns and counts the
// call.
func liars(honest driver.Transport) []driver.Transport {
	of := func(name string, down, up func(w *liarWorker, p *tensor.Package)) driver.Transport {
		return liar{honest, name, down, up}
	}
	damage := func(_ *liarWorker, p *tensor.Package) { last(p)[2] ^= 1 << 6 }
	return []driver.Transport{
		of("damaged-up", nil, damage),
		of("damaged-up-least", nil, func(_ *liarWorker, p *tensor.Package) { last(p)[0] ^= 1 }), // averaging may round this away
		of("damaged-down", damage, nil),
		of("stale-down", func(w *liarWorker, p *tensor.Package) { p.CopyFrom(w.model) }, nil),
		of("stale-up", nil, func(w *liarWorker, p *tensor.Package) { p.CopyFrom(w.update) }),
		of("short-up", nil, func(_ *liarWorker, p *tensor.Package) { clear(last(p)) }), // as if the last tensor had not been sent
		of("late", nil, nil),
	}
}

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

func (l liar) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w, err := l.Transport.Dial(ctx, e, lane, o)
	return &liarWorker{Worker: w, liar: l, round: o.Settings.Int("round"),
		model: tensor.Alloc(o.Down), update: tensor.Alloc(o.Up), calls: o.Rec.Counter(phase.Calls + "late")}, err
}

type liarWorker struct {
	driver.Worker
	liar
	round, now    int
	model, update *tensor.Package // of the round before
	calls         *phase.Counter
}

func (w *liarWorker) Name() string { return w.liar.name }

// pass falsifies p in the liar's round, and otherwise keeps a copy of p.
func (w *liarWorker) pass(lie func(*liarWorker, *tensor.Package), p, before *tensor.Package) {
	if lie != nil && w.now == w.round {
		lie(w, p)
	} else {
		before.CopyFrom(p)
	}
}

func (w *liarWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	j, p, d, err := w.Worker.Receive(ctx)
	if err == nil {
		w.now = j.Round
		w.pass(w.down, p, w.model)
	}
	return j, p, d, err
}

func (w *liarWorker) Submit(ctx context.Context, p *tensor.Package) error {
	w.pass(w.up, p, w.update)
	err := w.Worker.Submit(ctx, p)
	if w.liar.name == "late" {
		waiting.Pause(2 * time.Millisecond)
		w.calls.Add(1)
	}
	return err
}

// TestWrongBytes: one damaged bit in either direction, or data of an earlier round, ends the run with an error that
// names the cell and the round. That holds for proved rounds, such as round 1, and for rounds that are only hashed
// (guards 1, 2, 3). Damage that averaging rounds away is found in proved rounds only. All of this also holds for
// updates unlike the model, and if few elements change.
func TestWrongBytes(t *testing.T) {
	const plain, lora, change = "uniform:4KiB/3", "cnn up=lora:1", "cnn change=2%"
	for _, tt := range []struct{ variant, work, want string }{
		{"damaged-up", plain, "round 0: the new model's hash"},
		{"damaged-up:round=1", plain, "round 1, client 0: tensor"},
		{"damaged-up-least:round=1", plain, "round 1, client 0: tensor"},
		{"damaged-up:round=4", plain, "round 4: the new model's hash"},
		{"damaged-down", plain, "round 0: the new model's hash"},
		{"damaged-down:round=1", plain, "round 1, client 0: tensor"},
		{"stale-down:round=1", plain, "round 1, client 0: tensor"},
		{"stale-down:round=4", plain, "round 4: the new model's hash"},
		{"damaged-up", lora, "round 0: the new model's hash"},
		{"damaged-up-least:round=1", lora, "round 1, client 0: tensor 5"},
		{"damaged-down:round=1", lora, "round 1, client 0: tensor 0"}, // then every tensor of the update is wrong
		{"stale-down:round=4", lora, "round 4: the new model's hash"},
		{"stale-up:round=1", lora, "round 1, client 0: tensor 0"},
		{"stale-up:round=4", lora, "round 4: the new model's hash"},
		{"short-up", lora, "round 0: the new model's hash"},
		{"short-up:round=1", lora, "round 1, client 0: tensor 5"},
		{"damaged-up:round=1", change, "round 1, client 0: tensor"},
		{"damaged-down:round=1", change, "round 1, client 0: tensor"},
		{"stale-up:round=1", change, "round 1, client 0: tensor 0"},
		{"stale-down:round=4", change, "round 4: the new model's hash"},
		{"stale-up:round=4", change, "round 4: the new model's hash"},
	} {
		model, unusual, _ := strings.Cut(tt.work, " ")
		t.Run(tt.variant+" "+tt.work, func(t *testing.T) {
			fails(t, options(t, short(t, 6, 1), tt.variant+" "+tt.work+" clients=2"), tt.want, tt.variant+" "+model, unusual)
		})
	}
}

// TestLateEnds: a span that a worker records after the server has gone on still counts in its round.
func TestLateEnds(t *testing.T) {
	p := short(t, 10, 2)
	p.Verify = session.VerifyAll // every second round ends the window
	for _, b := range cellOf(t, measure(t, p, "late uniform:4KiB/3 workers=2 clients=4"), "late").Blocks {
		check.Equal(t, b.Counts()[phase.Calls+"late"], int64(4*len(b.Round)), "calls, 4 in each round")
		check.That(t, b.Phases["submit"] != 0, "block %d: no span of submit", b.Index)
	}
}
