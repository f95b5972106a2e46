package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A pair is a driver's server and workers, called as package transports calls them. It
// proves rules that only package transports uses: two models are published, and each job
// names one of them or none.
type pair struct {
	t       *testing.T
	o       driver.Options
	server  driver.Server
	workers []driver.Worker
	ledger  tensor.Ledger
	serial  int // number of the latest model
}

// A version is a published model with the hash and receipt that must arrive. The zero
// version means no model.
type version struct {
	*tensor.Package
	hash    uint64
	receipt string
}

func openPair(t *testing.T, v transports.Variant, l *tensor.Layout, lanes int) *pair {
	t.Helper()
	dir := check.Value(scratch.New(scratch.Roots()[0]))(t)
	e, p := endpoint.New(dir.Path()), &pair{t: t}
	e.Variant = v.String()
	p.o = driver.Options{Down: l, Up: l, Lanes: lanes, Clients: 8, Depth: 2, Settings: v.Settings, Out: &p.ledger}
	p.server = check.Value(v.Subject.(driver.Transport).Listen(t.Context(), e, p.o))(t)
	for n := range lanes {
		at := endpoint.At(e.Addr(), e.Secret())
		at.Variant = e.Variant
		w := check.Value(v.Subject.(driver.Transport).Dial(t.Context(), at, n, p.o))(t)
		p.workers = append(p.workers, w)
	}
	t.Cleanup(func() {
		ctx := waiting.Context(t)
		done := make(chan struct{})
		go func() { // workers leave while the server waits for them
			defer close(done)
			for _, w := range p.workers {
				if !t.Failed() {
					_, _, _, err := w.Receive(ctx)
					check.Must(t, ignoreEOF(err))
				}
				_ = w.Close(nil)
			}
		}()
		err := p.server.Shutdown(ctx)
		<-done
		if check.Must(t, dir.Close()); err != nil || p.ledger.Out() > 0 {
			t.Errorf("shutdown: got error %v, and %d updates are out", err, p.ledger.Out())
		}
	})
	return p
}

// publish publishes a new model. f sets its used rows.
func (p *pair) publish(f func(*tensor.Package) error) version {
	p.t.Helper()
	m := check.Value(p.server.Reserve())(p.t)
	m.ResetRows()
	check.Must(p.t, f(m))
	p.serial++
	tensor.Fill(m, uint64(p.serial))
	v := version{m, m.Hash(), fmt.Sprint("model ", p.serial)}
	m.Receipt = append(m.Receipt[:0], v.receipt...)
	check.Must(p.t, p.server.Publish(p.t.Context(), m))
	copy(m.Receipt, "xxxxx") // the caller may reuse its memory
	return v
}

// whole publishes a model with all rows in use.
func (p *pair) whole() version {
	p.t.Helper()
	return p.publish(func(*tensor.Package) error { return nil })
}

// seen returns the text by which a worker reports that it got v.
func (v version) seen() string {
	if v.Package == nil {
		return "no model"
	}
	return fmt.Sprintf("%016x %s", v.hash, v.receipt)
}

// dispatch sends a job with model v, or with none, to a lane. Once goOn is closed, the
// worker submits an update whose receipt describes the model it got. collect waits for the
// update and checks it.
func (p *pair) dispatch(lane int, v version, j driver.Job, goOn <-chan struct{}) (collect func()) {
	p.t.Helper()
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(p.t.Context()) // a failed worker sends nothing
	go func() {
		err := p.turn(lane, goOn)
		if err != nil {
			cancel()
		}
		failed <- err
	}()
	check.Must(p.t, p.server.Dispatch(p.t.Context(), lane, v.Package, j))
	return func() {
		p.t.Helper()
		defer cancel()
		u, _, err := p.server.Collect(ctx, lane)
		check.Must(p.t, errors.Join(err, <-failed))
		defer u.Release()
		want := fmt.Sprintf("round %d client %d: %s", j.Round, j.Client, v.seen())
		got := string(u.Receipt)
		check.Need(p.t, got == want, "lane %d has got %q, want %q", lane, got, want)
		if v.Package != nil {
			check.Need(p.t, v.Hash() == v.hash, "%s has changed while a job with it was out", v.receipt)
			check.Must(p.t, tensor.Prove(u, v.Package, Key(j)))
		}
	}
}

// turn carries out the worker's part of a job.
func (p *pair) turn(lane int, goOn <-chan struct{}) error {
	ctx, w := p.t.Context(), p.workers[lane]
	j, m, d, err := w.Receive(ctx)
	if err != nil {
		return err
	}
	var got version
	came := driver.Amount{Tensors: d.Body.Tensors + d.Handle.Tensors + d.Cached.Tensors, Bytes: d.Body.Bytes + d.Handle.Bytes + d.Cached.Bytes}
	switch {
	case m != nil && came != driver.All(m), m == nil && came != (driver.Amount{}):
		return fmt.Errorf("%+v were delivered", d)
	case m != nil:
		got = version{m, m.Hash(), string(m.Receipt)}
	}
	if goOn != now {
		<-goOn
	}
	if m != nil && m.Hash() != got.hash {
		return errors.New("the model has changed while it was lent")
	}
	u, err := w.Reserve()
	if err != nil {
		return err
	}
	u.ResetRows()
	if m == nil {
		tensor.Fill(u, uint64(j.Client))
	} else if err := tensor.Train(u, m, Key(j)); err != nil {
		return err
	}
	u.Receipt = append(u.Receipt[:0], fmt.Sprintf("round %d client %d: %s", j.Round, j.Client, got.seen())...)
	return w.Submit(ctx, u)
}

// now, given as goOn, lets a worker go on at once.
var now chan struct{}

// variants runs f for each variant of tr in which models travel in another way.
func variants(t *testing.T, tr driver.Transport, f func(t *testing.T, v transports.Variant)) {
	all := []driver.Settings{nil}
	for _, s := range tr.Settings() {
		switch s.Name {
		case "reuse", "cache", "elems":
			all = append(all, driver.Settings{s.Name: "on"})
		case "shm":
			all = append(all, driver.Settings{s.Name: "off"})
		case "pool": // room for some of the tensors
			all = append(all, driver.Settings{s.Name: "8KiB"})
		case "batch":
			all = append(all, driver.Settings{s.Name: "1"})
		case "missing":
			all = append(all, driver.Settings{s.Name: "50"})
		case "copy", "pass", "buffers", "marshal", "body", "conn":
			all = append(all, driver.Settings{s.Name: s.Values[1]})
		}
	}
	if testing.Short() {
		all = all[:1]
	}
	for _, s := range all {
		v := check.Value(transports.NewVariant(tr, s))(t)
		l := Vectors(t, tensor.F32, 1)
		if s != nil && tr.Check(driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1, Settings: v.Settings}) != nil {
			continue // it and a preset exclude each other
		}
		t.Run(v.String(), func(t *testing.T) { f(t, v) })
	}
}

// testTwoModels: with two published models, lanes get either one in the same round, or
// none, before and after jobs with a model.
func testTwoModels(t *testing.T, tr driver.Transport) {
	variants(t, tr, func(t *testing.T, v transports.Variant) {
		p := openPair(t, v, small(t), 3)
		a := p.whole()
		for round := range 4 {
			b := p.whole()
			for client := range 4 {
				j := func(lane int) driver.Job { return driver.Job{Round: round, Client: 10*client + lane} }
				first, second := p.dispatch(0, a, j(0), now), p.dispatch(1, b, j(1), now)
				third := p.dispatch(2, version{}, j(2), now)
				second()
				first()
				third()
				p.dispatch(0, b, j(3), now)() // a lane gets the other model after its own
				p.dispatch(1, version{}, j(4), now)()
				p.dispatch(2, a, j(5), now)()
			}
			a = b
		}
	})
}

// testSecondModel: while a worker holds the first model, the second one is reserved,
// written and published.
func testSecondModel(t *testing.T, tr driver.Transport) {
	variants(t, tr, func(t *testing.T, v transports.Variant) {
		p := openPair(t, v, small(t), 2)
		for round := range 3 {
			a, goOn := p.whole(), make(chan struct{})
			p.dispatch(0, a, driver.Job{Round: round}, now)() // so that the next update reuses memory
			held := p.dispatch(0, a, driver.Job{Round: round, Client: 1}, goOn)
			b := p.whole()
			p.dispatch(1, b, driver.Job{Round: round, Client: 2}, now)()
			p.dispatch(1, a, driver.Job{Round: round, Client: 3}, now)()
			close(goOn)
			held()
			p.dispatch(0, b, driver.Job{Round: round, Client: 4}, now)()
		}
	})
}

// testMixed: many rounds with random models, on lanes that run at their own pace. All
// tensors vary in length, from none to all of their bytes.
func testMixed(t *testing.T, tr driver.Transport) {
	const lanes, rounds = 3, 40
	var specs []tensor.Spec
	for i, n := range []int{0, 1, 63, 1000, 4097, 20_000} {
		specs = append(specs, tensor.Spec{Name: fmt.Sprint(i), DType: tensor.U8, Shape: []int{n}, Var: true})
	}
	l := Layout(t, specs...)
	variants(t, tr, func(t *testing.T, v transports.Variant) {
		p, r := openPair(t, v, l, lanes), rand.New(rand.NewPCG(1, 2))
		next := func(round int) version {
			return p.publish(func(m *tensor.Package) (err error) {
				for i := range m.Len() {
					rows := []int{0, specs[i].Shape[0], r.IntN(specs[i].Shape[0] + 1)}[(round+r.IntN(2))%3]
					err = errors.Join(err, m.SetRows(i, rows))
				}
				return err
			})
		}
		for round := range rounds {
			choice := []version{{}, next(round)}
			var collect []func()
			goOn := make(chan struct{})
			for lane := range lanes {
				collect = append(collect, p.dispatch(lane, choice[r.IntN(len(choice))], driver.Job{Round: round, Client: lane}, goOn))
				if lane == 0 && r.IntN(2) == 0 {
					choice = append(choice, next(round)) // while a job is out
				}
			}
			close(goOn)
			for _, n := range r.Perm(lanes) {
				collect[n]()
			}
			for lane := range lanes {
				p.dispatch(lane, choice[r.IntN(len(choice))], driver.Job{Round: round, Client: lanes + lane}, now)()
			}
		}
	})
}
