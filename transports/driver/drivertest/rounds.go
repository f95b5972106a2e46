package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// funcs returns the worker functions of the suite's sessions.
func funcs() map[string]trainer.Func {
	train := func(c *trainer.Job) error { return tensor.Train(c.Update, c.Model, Key(c.Job)) }
	plain := func(f trainer.Train) trainer.Func {
		return func([]byte) (trainer.Train, error) { return f, nil }
	}
	// A function of third fails in client 3 of round 1.
	third := func(fails func(c *trainer.Job)) trainer.Func {
		return plain(func(c *trainer.Job) error {
			if c.Round == 1 && c.Client == 3 {
				fails(c)
			}
			return train(c)
		})
	}
	return map[string]trainer.Func{
		"train": plain(train),
		"masked": plain(func(c *trainer.Job) error {
			err := train(c)
			mask(c.Update, c.Client)
			return err
		}),
		// The first client of a round is the last one to finish.
		"slow-first": plain(func(c *trainer.Job) error {
			if c.Client == 0 {
				pause()
			}
			return train(c)
		}),
		"fail": plain(func(c *trainer.Job) error {
			if c.Client == 3 {
				return fmt.Errorf("out of luck")
			}
			return train(c)
		}),
		"wrong": plain(func(c *trainer.Job) error {
			err := train(c)
			if c.Round == 1 && c.Client == 3 {
				c.Update.View(1)[21] ^= 1
			}
			return err
		}),
		"stop": third(func(*trainer.Job) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			select {} // the kernel may stop another thread first
		}),
		"kill": third(func(c *trainer.Job) {
			c.Update.View(0)[0]++ // in the middle of writing
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}),
		"exit": third(func(*trainer.Job) { os.Exit(0) }),
	}
}

// parties is the number of clients that mask their updates.
const parties = 3

// mask masks the floats of a client's update. Each two clients share random numbers, which
// one of them adds and the other one subtracts, so that they cancel in the sum.
func mask(update *tensor.Package, client int) {
	floats := tensor.Slice[float32](update.View(0))
	for other := range parties {
		shared := rand.New(rand.NewPCG(uint64(min(client, other)), uint64(max(client, other))))
		sign := float32(cmp.Compare(client, other))
		for i := range floats {
			floats[i] += sign * (2000*shared.Float32() - 1000)
		}
	}
}

// testMasked: O23: the average of updates that clients have masked, as in secure
// aggregation, is the average of the plain ones, except for rounding. Each masked update
// arrives byte for byte.
func testMasked(t *testing.T, tr driver.Transport) {
	l := small(t)
	var clients []trainer.Client
	for id := range parties {
		clients = append(clients, trainer.Client{ID: id, Weight: 1})
	}
	plain, sent := trainer.NewReference(l, l, seed), tensor.Alloc(l)
	tensor.Fill(plain.Model, seed)
	check.Must(t, plain.Round(t.Context(), clients))
	launchers(t, tr, func(t *testing.T, launcher trainer.Launcher) {
		s := check.Value(trainer.Open(t.Context(), trainer.Config{
			Variant: variant(t, tr), Down: l, Up: l, Workers: 2, Clients: parties, Func: "masked", Launcher: launcher,
		}))(t)
		model := check.Value(s.Reserve(0))(t)
		tensor.Fill(model, seed)
		trained := check.Value(s.Publish(t.Context(), 0, model))(t)
		next := check.Value(s.Reserve(0))(t)
		arrives := func(c trainer.Client, update *tensor.Package) error {
			err := tensor.Train(sent, trained, Key(driver.Job{Client: c.ID}))
			mask(sent, c.ID)
			return errors.Join(err, tensor.Same(update, sent))
		}
		check.Must(t, s.Fold(t.Context(), trainer.Round{Clients: clients}, trainer.NewFold(l, l), next, trained, arrives))
		want := tensor.Slice[float32](plain.Model.View(0))
		for i, x := range tensor.Slice[float32](next.View(0)) {
			check.Need(t, check.Nearly(float64(x), float64(want[i]), 1e-3),
				"element %d: the average of masked updates is %v, want %v", i, x, want[i])
		}
		check.Must(t, check.Err(s.Close()))
	})
}

// pause lets other lanes overtake. No result depends on its duration.
func pause() {
	waiting.Pause(20 * time.Millisecond)
}

// layouts returns layouts that have broken implementations, by name (guard 16).
func layouts(t *testing.T) map[string]*tensor.Layout {
	all := map[string]*tensor.Layout{}
	var mixed []tensor.Spec
	for _, d := range tensor.DTypes() {
		all["dtype="+d.String()] = Layout(t,
			tensor.Spec{Name: "scalar", DType: d},
			tensor.Spec{Name: "empty", DType: d, Shape: []int{3, 0, 2}},
			tensor.Spec{Name: "one", DType: d, Shape: []int{1}},
			tensor.Spec{Name: "matrix", DType: d, Shape: []int{17, 31}},
		)
		mixed = append(mixed, tensor.Spec{Name: d.String(), DType: d, Shape: []int{65}})
	}
	all["mixed"] = Layout(t, mixed...)
	all["none"] = Layout(t)
	all["only empty"] = Layout(t, tensor.Spec{Name: "e", DType: tensor.F32, Shape: []int{0}})
	all["one byte"] = Layout(t, tensor.Spec{Name: "b", DType: tensor.U8, Shape: []int{1}})
	var powers []tensor.Spec
	exponents := []int{6, 10, 12, 14, 15, 16, 20}
	thousand := 1000
	if raceDetector || testing.Short() { // the race detector checks each element
		exponents = exponents[:6]
		thousand = 100
	}
	for _, k := range exponents {
		for _, d := range []int{-1, 0, 1} {
			powers = append(powers, tensor.Spec{Name: fmt.Sprintf("2^%d%+d", k, d), DType: tensor.U8, Shape: []int{1<<k + d}})
		}
	}
	all["around powers of two"] = Layout(t, powers...)
	var many []tensor.Spec
	for i := range thousand {
		many = append(many, tensor.Spec{Name: fmt.Sprint(i), DType: tensor.F32, Shape: []int{256}})
	}
	all["many of 1 KiB"] = Layout(t, many...)
	all["one over 4 MiB"] = Layout(t, tensor.Spec{Name: "big", DType: tensor.F32, Shape: []int{1<<20 + 3}})
	return all
}

// run runs rounds through a session and returns the hash of every model.
func run(t *testing.T, cfg trainer.Config, rounds, clients int) []uint64 {
	t.Helper()
	cfg.Clients = clients
	p := check.Value(trainer.Open(t.Context(), cfg))(t)
	hashes, err := rounder(t.Context(), p, cfg.Down, cfg.Up, rounds, clients)
	_, closeErr := p.Close()
	check.Must(t, err)
	check.Must(t, closeErr)
	return hashes
}

func rounder(ctx context.Context, p *trainer.Session, down, up *tensor.Layout, rounds, clients int) ([]uint64, error) {
	fold, roster := trainer.NewFold(down, up), trainer.Roster(clients)
	model, err := p.Reserve(0)
	if err != nil {
		return nil, err
	}
	tensor.Fill(model, seed)
	var hashes []uint64
	for r := range rounds {
		trained, err := p.Publish(ctx, r, model)
		if err != nil {
			return hashes, err
		}
		next, err := p.Reserve(r)
		if err != nil {
			return hashes, err
		}
		err = p.Fold(ctx, trainer.Round{Number: r, Clients: roster}, fold, next, trained, func(c trainer.Client, update *tensor.Package) error {
			return tensor.Prove(update, trained, tensor.Key{Seed: seed, Round: r, Client: c.ID})
		})
		if err != nil {
			return hashes, err
		}
		hashes = append(hashes, next.Hash())
		model = next
	}
	return hashes, nil
}

// reference returns the hashes that run must return, from the same arithmetic without a
// transport.
func reference(t *testing.T, down, up *tensor.Layout, rounds, clients int) []uint64 {
	t.Helper()
	r := trainer.NewReference(down, up, seed)
	tensor.Fill(r.Model, seed)
	var hashes []uint64
	for range rounds {
		check.Must(t, r.Round(t.Context(), trainer.Roster(clients)))
		hashes = append(hashes, r.Model.Hash())
	}
	return hashes
}

func equal(t *testing.T, got, want []uint64) {
	t.Helper()
	check.Need(t, len(got) == len(want), "got %d models, want %d", len(got), len(want))
	for r := range got {
		check.Need(t, got[r] == want[r], "model of round %d has hash %016x, want %016x", r, got[r], want[r])
	}
}

// layoutHashes caches the result of reference by layout name, because most packages run the
// suite more than once.
var layoutHashes = map[string][]uint64{}

// testLayouts: O13, O25 (bit-exact for every dtype, over every transport).
func testLayouts(t *testing.T, tr driver.Transport) {
	for name, l := range layouts(t) {
		t.Run(name, func(t *testing.T) {
			want, known := layoutHashes[name]
			if !known {
				want = reference(t, l, l, 3, 3)
				layoutHashes[name] = want
			}
			launchers(t, tr, func(t *testing.T, launcher trainer.Launcher) {
				cfg := trainer.Config{Variant: variant(t, tr), Down: l, Up: l, Workers: 2, Func: "train", Launcher: launcher}
				equal(t, run(t, cfg, 3, 3), want)
			})
		})
	}
}

// testTLS: O13, O21. Tensors arrive through TLS as they were sent, with either kind of TLS
// and on either network. Sizes include a TLS record's (16 KiB in RFC 8446), one byte less
// and one byte more.
func testTLS(t *testing.T, tr driver.Transport) {
	if !has(tr, "tls") {
		t.Skip("the transport has no setting tls")
	}
	specs := []tensor.Spec{{Name: "none", DType: tensor.F32, Shape: []int{0}}}
	for _, n := range []int{1, 1<<14 - 1, 1 << 14, 1<<14 + 1, 1 << 17} {
		specs = append(specs, tensor.Spec{Name: fmt.Sprint(n), DType: tensor.U8, Shape: []int{n}})
	}
	l := Layout(t, specs...)
	want := reference(t, l, l, 3, 3)
	for _, settings := range []driver.Settings{{"tls": "on"}, {"tls": "mutual"}, {"tls": "mutual", "network": "tcp"}} {
		v := check.Value(transports.NewVariant(tr, settings))(t)
		t.Run(settings.String(), func(t *testing.T) {
			launchers(t, tr, func(t *testing.T, launcher trainer.Launcher) {
				cfg := trainer.Config{Variant: v, Down: l, Up: l, Workers: 2, Func: "train", Launcher: launcher}
				equal(t, run(t, cfg, 3, 3), want)
			})
		})
	}
}

// testOrder: the model is the same for any number of workers, lanes per process, depth and
// order of completion.
func testOrder(t *testing.T, tr driver.Transport) {
	l := small(t)
	want := reference(t, l, l, 5, 5)
	launchers(t, tr, func(t *testing.T, launcher trainer.Launcher) {
		for _, c := range []struct {
			workers, perProcess, depth int
			fn                         string
		}{
			{1, 1, 1, "train"}, {2, 1, 2, "train"}, {2, 1, 2, "slow-first"},
			{3, 2, 1, "slow-first"}, {4, 4, 3, "slow-first"}, {7, 3, 2, "train"},
		} {
			cfg := trainer.Config{
				Variant: variant(t, tr), Down: l, Up: l, Workers: c.workers, PerProcess: c.perProcess,
				Depth: c.depth, Func: c.fn, Launcher: launcher,
			}
			equal(t, run(t, cfg, 5, 5), want)
		}
	})
}

// breaks runs a session whose worker function breaks it. The error must contain the texts
// of want, and Close must succeed.
func breaks(t *testing.T, tr driver.Transport, l trainer.Launcher, fn string, limit time.Duration, want ...string) *trainer.Session {
	t.Helper()
	model := small(t)
	p := check.Value(trainer.Open(t.Context(), trainer.Config{
		Variant: variant(t, tr), Down: model, Up: model, Workers: 2, Clients: 5, Func: fn, Launcher: l, RoundLimit: limit,
	}))(t)
	_, err := rounder(t.Context(), p, model, model, 3, 5)
	says(t, fn, err, want...)
	check.OK(t, check.Err(p.Close()), "close after", fn)
	return p
}

// testKill: if a worker dies while it writes, or exits without an error during a job, the
// round ends with an error that names it. The worker process is gone.
func testKill(t *testing.T, tr driver.Transport) {
	if Inside(t, tr) {
		t.Skip("no process to kill: the transport does not leave this one")
	}
	for fn, how := range map[string]string{"kill": "signal: killed", "exit": "exit status 0"} {
		p := breaks(t, tr, processes(tr), fn, 0, "round 1, client 3: process ", "exited: "+how)
		for _, place := range p.Places() {
			check.That(t, syscall.Kill(place.PID, 0) != nil, "%v is alive", place)
		}
	}
}

// testStops: if a worker stops answering, the round ends at its limit with an error that
// names the round.
func testStops(t *testing.T, tr driver.Transport) {
	if Inside(t, tr) {
		t.Skip("no process to stop: the transport does not leave this one")
	}
	breaks(t, tr, processes(tr), "stop", 4*time.Second, "round 1", "stopped")
}

// testWrong: if a worker changes one bit of an update, the proof names the round, client,
// tensor and element, and the session closes in order.
func testWrong(t *testing.T, tr driver.Transport) {
	launchers(t, tr, func(t *testing.T, l trainer.Launcher) {
		breaks(t, tr, l, "wrong", 0, "round 1, client 3: tensor 1 (\"b\" u8 [1001]): bytes 16 to 24 are ", ": element 21")
	})
}

// testFunction: an error of the worker function ends the round, and names the round and
// client.
func testFunction(t *testing.T, tr driver.Transport) {
	launchers(t, tr, func(t *testing.T, l trainer.Launcher) {
		breaks(t, tr, l, "fail", 0, "round 0, client 3", "out of luck")
	})
}
