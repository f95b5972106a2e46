package transports

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/inproc"
)

// options returns the options of a session of one lane.
func options(t *testing.T, rec *phase.Recorder) driver.Options {
	t.Helper()
	l := layoutOf(t, tensor.Spec{Name: "a", DType: tensor.F32, Shape: []int{10}}, tensor.Spec{Name: "b", DType: tensor.U8, Shape: []int{3}})
	return driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 1, Rec: rec}
}

// round carries out one round on one lane.
func round(t *testing.T, tr driver.Transport, rec *phase.Recorder) error {
	t.Helper()
	ctx, v, e, o := t.Context(), Variant{Subject: tr}, endpoint.New(""), options(t, rec)
	s := check.Value(Listen(ctx, v, e, o))(t)
	defer func() {
		check.OK(t, s.Shutdown(ctx))
	}()
	w := check.Value(Dial(ctx, v, e, 0, o))(t)
	defer w.Close()
	model, err := s.Reserve(8)
	if err == nil {
		_, err = s.Publish(ctx, 8, model)
	}
	if err == nil {
		err = s.Dispatch(ctx, 0, driver.Job{Round: 8, Client: 9})
	}
	check.Must(t, err)
	if _, _, err = w.Receive(ctx); err != nil {
		_, _, again := w.Receive(ctx)
		check.That(t, again != nil && again.Error() == err.Error(), "on a dead lane: got %v, want %v", again, err)
		return err
	}
	update, err := w.Reserve()
	if err == nil {
		err = w.Submit(ctx, update)
	}
	check.Must(t, err)
	update, err = s.Collect(ctx, 0)
	if err == nil {
		update.Release()
	}
	return err
}

// forgetful is a driver that reports too few delivered tensors: one less in Collect, or
// none in Receive.
func forgetful(up bool) driver.Transport {
	return hooked{Transport: inproc.New(), after: func(act string, _ int, _ *tensor.Package, d *driver.Delivered) {
		switch {
		case act == "collect" && up:
			d.Handle.Tensors--
		case act == "receive" && !up:
			*d = driver.Delivered{}
		}
	}}
}

// TestAttested: package transports counts each delivered tensor once per direction. A
// driver that leaves one out fails its first round.
func TestAttested(t *testing.T) {
	rec := phase.NewRecorder(100)
	check.Must(t, round(t, inproc.New(), rec))
	if c := rec.Counts(); c[phase.HandleTensors] != 4 || c[phase.HandleBytes] != 2*43 || c[phase.BodyTensors] != 0 {
		t.Errorf("counted %v, want 4 handles of 86 bytes", c)
	}
	samples, _ := rec.Drain()
	spans := map[phase.ID][]phase.Phase{}
	for _, s := range samples {
		id := phase.ID{Lane: int(s.Lane), Round: int(s.Round), Client: int(s.Client)}
		spans[id] = append(spans[id], s.Phase)
	}
	if len(spans) != 2 || len(spans[phase.OfRound(8)]) != 2 || len(spans[phase.ID{Round: 8, Client: 9}]) != 5 {
		t.Errorf("got spans %v, want reserve and publish of the round, and dispatch, receive, reserve-update, submit and collect of the job", spans)
	}
	for _, c := range []struct {
		up   bool
		want string
	}{
		{false, "inproc: lane 0: receive: round 8, client 9: the driver counted 0 tensors of 0 bytes, but delivered 2 of 43"},
		{true, "inproc: lane 0: collect: round 8, client 9: the driver counted 1 tensors of 43 bytes, but delivered 2 of 43"},
	} {
		check.Fails(t, round(t, forgetful(c.up), nil), c.want)
	}
}

// TestMisuse: invalid options and calls that come too late are errors that name the
// problem, and do not reach the driver.
func TestMisuse(t *testing.T) {
	l := layoutOf(t, tensor.Spec{Name: "a", DType: tensor.U8, Shape: []int{3}})
	ctx, v, e := t.Context(), Variant{Subject: inproc.New()}, endpoint.New("")
	good := driver.Options{Down: l, Up: l, Lanes: 8, Clients: 1, Depth: 1}
	for _, bad := range []driver.Options{{Lanes: -1, Depth: 1}, {Depth: 1}, {Lanes: 1}, {Lanes: 1, Depth: 1, Clients: -1}} {
		bad.Down, bad.Up = l, l
		check.Fails(t, check.Err(Listen(ctx, v, e, bad)), "inproc: ", "options")
	}
	s := check.Value(Listen(ctx, v, e, good))(t)
	check.Fails(t, check.Err(Listen(ctx, v, e, good)), "inproc: listen: the session has a server already", "a second server")

	var group sync.WaitGroup
	workers := make([]*Worker, good.Lanes)
	for lane := range workers { // lanes of one process share the endpoint
		group.Go(func() {
			w, err := Dial(ctx, v, e, lane, good)
			check.OK(t, err)
			workers[lane] = w
		})
	}
	group.Wait()
	for _, w := range workers {
		check.OK(t, w.Close())
	}
	check.Fails(t, workers[3].Ping(ctx), "inproc: lane 3: ping: the lane is closed", "a ping of a closed lane")
	check.OK(t, s.Shutdown(ctx))
	check.Fails(t, s.Settle(ctx), "inproc: settle: the session is over", "settle when all is over")
}

var errBroken = errors.New("broken")

// twice makes every call of a session twice, and returns the first error.
func twice(t *testing.T, tr driver.Transport) (first error) {
	t.Helper()
	ctx, v, e, o := t.Context(), Variant{Subject: tr}, endpoint.New(""), options(t, nil)
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	s, err := Listen(ctx, v, e, o)
	if note(err); err != nil {
		return first
	}
	w, err := Dial(ctx, v, e, 0, o)
	note(err)
	for range 2 {
		if w == nil {
			break
		}
		note(w.Ping(ctx))
		model, err := s.Reserve(8)
		note(err)
		_, err = s.Publish(ctx, 8, model)
		note(err)
		err = s.Dispatch(ctx, 0, driver.Job{Round: 8, Client: 9})
		if note(err); err == nil {
			_, _, err = w.Receive(ctx)
			note(err)
			update, err := w.Reserve()
			note(err)
			err = w.Submit(ctx, update)
			if note(err); err == nil {
				if update, err = s.Collect(ctx, 0); err == nil {
					update.Release()
				}
				note(err)
			}
		}
		note(s.Settle(ctx))
	}
	for range 2 {
		if w != nil {
			note(w.Close())
		}
		note(s.Shutdown(ctx))
	}
	return first
}

// TestDriverFails: a driver's error is reported with the transport, lane, act and job. A
// failed act is not tried again.
func TestDriverFails(t *testing.T) {
	for act, want := range map[string]string{
		"":               "",
		"listen":         "inproc: listen: broken",
		"dial":           "inproc: lane 0: dial: broken",
		"ping":           "inproc: lane 0: ping: broken",
		"reserve":        "inproc: reserve: round 8: broken",
		"publish":        "inproc: publish: round 8: broken",
		"dispatch":       "inproc: lane 0: dispatch: round 8, client 9: broken",
		"receive":        "inproc: lane 0: receive: broken",
		"reserve update": "inproc: lane 0: reserve: round 8, client 9: broken",
		"submit":         "inproc: lane 0: submit: round 8, client 9: broken",
		"collect":        "inproc: lane 0: collect: round 8, client 9: broken",
		"settle":         "inproc: settle: broken",
		"close":          "inproc: lane 0: close: broken",
		"shutdown":       "inproc: shutdown: broken",
	} {
		tried := 0
		err := twice(t, hooked{Transport: inproc.New(), before: func(a string) error {
			if a != act {
				return nil
			}
			tried++
			return errBroken
		}})
		switch {
		case act == "":
			check.OK(t, err, "nothing fails: got error")
		case err == nil || err.Error() != want || !errors.Is(err, errBroken):
			t.Errorf("%s: got error %v, want %s", act, err, want)
		case tried != 1:
			t.Errorf("%s: tried %d times, want once", act, tried)
		}
	}
}

// TestDriverPanics: a server's act in which the driver panics has failed, with the same context.
func TestDriverPanics(t *testing.T) {
	for act, want := range map[string]string{
		"reserve": "reserve: round 8", "publish": "publish: round 8", "settle": "settle", "shutdown": "shutdown",
		"dispatch": "lane 0: dispatch: round 8, client 9", "collect": "lane 0: collect: round 8, client 9",
	} {
		err := twice(t, hooked{Transport: inproc.New(), before: func(a string) error {
			if a == act {
				panic(errBroken)
			}
			return nil
		}})
		check.Fails(t, err, "inproc: "+want+": panic: broken", act)
	}
}

// TestOver: after the end, a session's calls return an error, and a worker whose server has
// left gets io.EOF each time. Neither calls its driver.
func TestOver(t *testing.T) {
	ctx, v, e, o := t.Context(), Variant{Subject: inproc.New()}, endpoint.New(""), options(t, nil)
	check.Fails(t, check.Err(Dial(ctx, v, e, 1, o)), "inproc: lane 1: dial: the session has 1 lanes", "dial of another lane")
	s := check.Value(Listen(ctx, v, e, o))(t)
	w, err := Dial(ctx, v, e, 0, o)
	if err == nil {
		err = s.Shutdown(ctx)
	}
	check.Must(t, err)
	for range 2 {
		if _, _, err := w.Receive(ctx); err != io.EOF {
			t.Errorf("receive: got error %v, want io.EOF", err)
		}
	}
	_, reserve := s.Reserve(8)
	_, collect := s.Collect(ctx, 0)
	_, publish := s.Publish(ctx, 8, nil)
	for act, err := range map[string]error{
		"reserve": reserve, "collect": collect, "publish": publish, "dispatch": s.Dispatch(ctx, 0, driver.Job{}), "settle": s.Settle(ctx),
	} {
		check.That(t, err != nil && strings.Contains(err.Error(), act+": ") && strings.Contains(err.Error(), "the session is over"),
			"%s: got error %v, want that the session is over", act, err)
	}
	check.OK(t, w.Close())
	_, reserve = w.Reserve()
	_, _, receive := w.Receive(ctx)
	for act, err := range map[string]error{"reserve": reserve, "receive": receive, "submit": w.Submit(ctx, nil), "ping": w.Ping(ctx)} {
		check.Fails(t, err, "inproc: lane 0: "+act+": the lane is closed", act)
	}
}
