package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// says fails the test unless err contains every text of want.
func says(t testing.TB, what string, err error, want ...string) {
	t.Helper()
	for _, text := range want {
		check.Fails(t, err, text, what)
	}
}

// testMisuse: calls out of order, at either end, return errors that name the transport,
// lane, act and job. They do not hang, crash or disturb other lanes.
func testMisuse(t *testing.T, tr driver.Transport) {
	s := open(t, tr, small(t), 3)
	name, ctx := tr.Name(), t.Context()
	foreign := tensor.Alloc(s.Options.Down)
	says(t, "dispatch without a model", s.Server.Dispatch(ctx, 0, driver.Job{Round: 4, Client: 5}),
		name+": lane 0: dispatch: round 4, client 5: no model was published")
	_, err := s.Server.Collect(ctx, 1)
	says(t, "collect without dispatch", err, name+": lane 1: collect: no job is out")
	for _, lane := range []int{-1, 3} {
		says(t, "a lane that does not exist", s.Server.Dispatch(ctx, lane, driver.Job{}), name+": dispatch: no lane ", "the session has 3")
	}
	_, err = s.Server.Publish(ctx, 0, foreign)
	says(t, "publish what was not reserved", err, name+": publish: round 0: not the package that was reserved")
	_, err = s.Server.Publish(ctx, 0, nil)
	says(t, "publish nothing", err, "not the package")

	s.Publish(1)
	s.Exchange(1, driver.Job{}).Release()
	_, err = s.Server.Collect(ctx, 1)
	says(t, "second collect of one job", err, "no job is out")
	check.Must(t, check.Err(s.Server.Reserve(0)))
	_, err = s.Server.Reserve(0)
	says(t, "reserve of a third model", err, name+": reserve: round 0: the next model is reserved already")

	w := s.Workers[0]
	_, err = w.Reserve()
	says(t, "reserve without a job", err, name+": lane 0: reserve: no job is in progress")
	says(t, "submit without a job", w.Submit(ctx, foreign), name+": lane 0: submit: no job is in progress")
	check.Must(t, s.Server.Dispatch(ctx, 0, driver.Job{Round: 2, Client: 6}))
	says(t, "second dispatch", s.Server.Dispatch(ctx, 0, driver.Job{Round: 2, Client: 7}),
		name+": lane 0: dispatch: round 2, client 7: the update of client 6 was not collected")
	job, model, err := w.Receive(ctx)
	check.Must(t, err)
	at := name + ": lane 0: "
	says(t, "submit what was not reserved", w.Submit(ctx, foreign), at+"submit: round 2, client 6: not the package that was reserved")
	_, _, err = w.Receive(ctx)
	says(t, "receive with a job in hand", err, at+"receive: round 2, client 6: the update of client 6 was not submitted")
	update := check.Value(w.Reserve())(t)
	_, err = w.Reserve()
	says(t, "second reserve", err, at+"reserve: round 2, client 6: the update is reserved already")
	check.Must(t, tensor.Train(update, model, Key(job)))
	check.Must(t, w.Submit(ctx, update)) // the earlier mistakes have done no harm
	says(t, "second submit", w.Submit(ctx, update), "no job is in progress")
	p := check.Value(s.Server.Collect(ctx, 0))(t)
	p.Release()

	s.dead(2)
}

// dead ends a lane by a call whose context has ended, and checks that later calls fail.
func (s *Session) dead(lane int) {
	ctx, t, w := s.T.Context(), s.T, s.Workers[lane]
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err := w.Receive(over)
	check.Is(t, err, context.Canceled, "receive with a context that has ended")
	_, _, err = w.Receive(ctx)
	check.Is(t, err, context.Canceled, "receive on a lane that is dead")
	check.Must(t, w.Close())
	check.Must(t, w.Close())
	_, _, err = w.Receive(ctx)
	says(t, "receive on a closed lane", err, ": lane 2: receive: the lane is closed")
	check.That(t, !errors.Is(err, io.EOF), "a closed lane is not the end of the session")
}

// testUnlike: an update whose layout differs from the model's arrives as it was written,
// whether it is smaller, larger or of other types.
func testUnlike(t *testing.T, tr driver.Transport) {
	large := Layout(t,
		tensor.Spec{Name: "a", DType: tensor.BF16, Shape: []int{33, 70}},
		tensor.Spec{Name: "none", DType: tensor.F32, Shape: []int{0}},
		tensor.Spec{Name: "z", DType: tensor.F64, Shape: []int{5, 1001}},
		tensor.Spec{Name: "n", DType: tensor.I64},
		tensor.Spec{Name: "flags", DType: tensor.Bool, Shape: []int{63}},
	)
	for _, c := range []struct {
		name     string
		down, up *tensor.Layout
	}{
		{"larger", small(t), large}, {"smaller", large, small(t)}, {"nothing", small(t), Layout(t)}, {"of nothing", Layout(t), small(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Listen(t, variant(t, tr), driver.Options{Down: c.down, Up: c.up, Lanes: 2})
			s.Dial(0)
			s.Dial(1)
			for round := range 3 {
				model := s.Publish(uint64(round))
				for client := range 4 {
					j := driver.Job{Round: round, Client: client}
					p := s.Exchange(client%2, j)
					check.That(t, p.Layout() == c.up && string(p.Receipt) == receipt(j),
						"got an update of another layout, with receipt %q", p.Receipt)
					check.Must(t, tensor.Prove(p, model, Key(j)))
					p.Release()
				}
			}
			want := reference(t, c.down, c.up, 3, 3)
			launchers(t, tr, func(t *testing.T, launcher trainer.Launcher) {
				cfg := trainer.Config{Variant: s.Variant, Down: c.down, Up: c.up, Workers: 2, Func: "train", Launcher: launcher}
				equal(t, run(t, cfg, 3, 3), want)
			})
		})
	}
}

// testLengths: the used rows of a tensor whose length varies arrive in both directions,
// whether none, all, fewer or more than before.
func testLengths(t *testing.T, tr driver.Transport) {
	const most = 40
	l := Layout(t,
		tensor.Spec{Name: "fixed", DType: tensor.F32, Shape: []int{9}},
		tensor.Spec{Name: "rows", DType: tensor.F32, Shape: []int{most, 300}, Var: true},
		tensor.Spec{Name: "bytes", DType: tensor.U8, Shape: []int{most}, Var: true},
		tensor.Spec{Name: "no bytes", DType: tensor.U8, Shape: []int{most, 0}, Var: true},
		tensor.Spec{Name: "no capacity", DType: tensor.F64, Shape: []int{0, 3}, Var: true},
	)
	set := func(p *tensor.Package, n int) error {
		return errors.Join(p.SetRows(1, n), p.SetRows(2, most-n), p.SetRows(3, n))
	}
	is := func(what string, p *tensor.Package, n int) error {
		if p.Rows(0) != 9 || p.Rows(1) != n || p.Rows(2) != most-n || p.Rows(3) != n || p.Rows(4) != 0 {
			return errors.New(what + " has other rows than were sent")
		}
		return nil
	}
	s := open(t, tr, l, 1)
	for round, n := range []int{most, 0, 1, most, 7, 39, 0, 0, 20} {
		ctx, up := t.Context(), (n*7+round)%(most+1)
		model, err := s.Server.Reserve(0)
		check.Must(t, errors.Join(err, set(model, n)))
		tensor.Fill(model, uint64(round))
		model.Receipt = bytes.Repeat([]byte{'r'}, n)
		check.Must(t, check.Err(s.Server.Publish(ctx, 0, model)))
		j := driver.Job{Round: round}
		p := s.ExchangeBy(0, j, func(j driver.Job, m, u *tensor.Package) error {
			return errors.Join(is("the model", m, n), set(u, up), tensor.Train(u, m, Key(j)))
		})
		check.Must(t, errors.Join(is("the update", p, up), tensor.Prove(p, model, Key(j))))
		p.Release()
	}
}
