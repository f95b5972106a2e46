package transports_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/inproc"
)

// forgetful is a driver that does not say how tensors came: in one direction.
type forgetful struct {
	driver.Transport
	up bool
}

func (f forgetful) Listen(ctx context.Context, e *driver.Endpoint, o driver.Options) (driver.Server, error) {
	s, err := f.Transport.Listen(ctx, e, o)
	return forgetfulServer{s, f.up}, err
}

func (f forgetful) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w, err := f.Transport.Dial(ctx, e, lane, o)
	return forgetfulWorker{w, !f.up}, err
}

type forgetfulServer struct {
	driver.Server
	forgets bool
}

func (s forgetfulServer) Collect(ctx context.Context, lane int) (*tensor.Package, driver.Delivered, error) {
	p, d, err := s.Server.Collect(ctx, lane)
	if s.forgets {
		d.Handle.Tensors-- // one of them
	}
	return p, d, err
}

type forgetfulWorker struct {
	driver.Worker
	forgets bool
}

func (w forgetfulWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	j, p, d, err := w.Worker.Receive(ctx)
	if w.forgets {
		d = driver.Delivered{}
	}
	return j, p, d, err
}

// round makes one round over one lane.
func round(t *testing.T, tr driver.Transport, rec *phase.Recorder) error {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "a", DType: tensor.F32, Shape: []int{10}}, {Name: "b", DType: tensor.U8, Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, v, e := t.Context(), transports.Variant{Transport: tr}, driver.NewEndpoint("")
	o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 1, Rec: rec}
	s, err := transports.Listen(ctx, v, e, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	w, err := transports.Dial(ctx, v, e, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	model, err := s.Reserve()
	if err == nil {
		err = s.Publish(ctx, model)
	}
	if err == nil {
		err = s.Dispatch(ctx, 0, driver.Job{Round: 8, Client: 9})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = w.Receive(ctx); err != nil {
		if _, _, again := w.Receive(ctx); again == nil || again.Error() != err.Error() {
			t.Errorf("on a dead lane: got %v, want %v", again, err)
		}
		return err
	}
	update, err := w.Reserve()
	if err == nil {
		err = w.Submit(ctx, update)
	}
	if err != nil {
		t.Fatal(err)
	}
	update, err = s.Collect(ctx, 0)
	if err == nil {
		update.Release()
	}
	return err
}

// TestAttested: each delivered tensor is counted by the layer, once for each
// direction; a driver that leaves one out fails its first round.
func TestAttested(t *testing.T) {
	rec := phase.NewRecorder(100)
	if err := round(t, inproc.New(), rec); err != nil {
		t.Fatal(err)
	}
	if c := rec.Counts(); c[phase.HandleTensors] != 4 || c[phase.HandleBytes] != 2*43 || c[phase.BodyTensors] != 0 {
		t.Errorf("counted %v, want 4 handles of 86 bytes", c)
	}
	samples, _ := rec.Drain()
	var spans [2][]phase.Phase // without and with the job
	for _, s := range samples {
		if s.Round == 8 && s.Client == 9 && s.Lane == 0 {
			spans[1] = append(spans[1], s.Phase)
		} else {
			spans[0] = append(spans[0], s.Phase)
		}
	}
	if len(spans[0]) != 0 || len(spans[1]) != 5 {
		t.Errorf("got spans %v of the job and %v of none, want dispatch, receive, lend, submit and collect of the job", spans[1], spans[0])
	}
	for _, c := range []struct {
		up   bool
		want string
	}{
		{false, "inproc: lane 0: receive: round 8, client 9: the driver has counted 0 tensors of 0 bytes, and delivered 2 of 43"},
		{true, "inproc: lane 0: collect: round 8, client 9: the driver has counted 1 tensors of 43 bytes, and delivered 2 of 43"},
	} {
		if err := round(t, forgetful{inproc.New(), c.up}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %q", err, c.want)
		}
	}
}

// TestMisuse: what makes no sense, or comes too late, is an error that names it, and
// the driver never hears of it.
func TestMisuse(t *testing.T) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "a", DType: tensor.U8, Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, v, e := t.Context(), transports.Variant{Transport: inproc.New()}, driver.NewEndpoint("")
	good := driver.Options{Down: l, Up: l, Lanes: 8, Clients: 1, Depth: 1}
	says := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", what, err, want)
		}
	}
	for _, bad := range []driver.Options{{Lanes: -1, Depth: 1}, {Depth: 1}, {Lanes: 1}, {Lanes: 1, Depth: 1, Clients: -1}} {
		bad.Down, bad.Up = l, l
		_, err := transports.Listen(ctx, v, e, bad)
		says("options", err, "inproc: ")
	}
	s, err := transports.Listen(ctx, v, e, good)
	if err != nil {
		t.Fatal(err)
	}
	_, err = transports.Listen(ctx, v, e, good)
	says("a second server", err, "inproc: listen: the session has a server already")

	var group sync.WaitGroup
	workers := make([]*transports.Worker, good.Lanes)
	for lane := range workers { // lanes of one process share the endpoint
		group.Go(func() {
			w, err := transports.Dial(ctx, v, e, lane, good)
			if err != nil {
				t.Error(err)
			}
			workers[lane] = w
		})
	}
	group.Wait()
	for _, w := range workers {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	says("a ping of a closed lane", workers[3].Ping(ctx), "inproc: lane 3: ping: the lane is closed")
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	says("settle when all is over", s.Settle(ctx), "inproc: settle: the session is over")
}
