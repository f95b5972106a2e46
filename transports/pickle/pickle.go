package pickle

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/gobs"
)

// New returns the transport "pickle".
func New() driver.Transport { return pickle{} }

type pickle struct{}

func (pickle) Name() string { return "pickle" }

func (pickle) Settings() []driver.Setting {
	return append([]driver.Setting{
		driver.OnOff("elems", false, "send slices of numbers, encoded one by one, instead of bytes; gob makes signalling NaNs of f32 quiet"),
	}, driver.NetworkSettings()...)
}

func (pickle) Traits(s driver.Settings) driver.Traits { return driver.Traits{Reach: s.Reach()} }

func (pickle) Check(driver.Options) error { return nil }

func (pickle) Needs(driver.Options) (driver.Needs, error) { return driver.Needs{}, nil }

// Footprint counts two models and the updates in flight at the server, and a model and
// an update at each worker. The total is doubled, because gob allocates a buffer for
// every value and the garbage collector runs only when the heap has doubled.
func (pickle) Footprint(o driver.Options) int64 {
	down, up := int64(o.Down.Size()), int64(o.Up.Size())
	return 2 * (2*down + int64(o.Lanes)*(int64(o.Depth)*up+down+up))
}

func (pickle) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	s, err := listen(ctx, e, o)
	if err != nil {
		return nil, err
	}
	return pickleServer{s}, nil
}

func (pickle) Dial(ctx context.Context, e *endpoint.Endpoint, n int, o driver.Options) (driver.Worker, error) {
	w, err := dial(ctx, e, n, o)
	if err != nil {
		return nil, err
	}
	return pickleWorker{w}, nil
}

// A job and its model are sent in one message, and an update in one message.
type (
	pickleServer struct{ *server }
	pickleWorker struct{ *worker }
)

func (s pickleServer) Dispatch(ctx context.Context, n int, model *tensor.Package, j driver.Job) error {
	l, err := s.dispatch(ctx, n, j)
	if err != nil {
		return err
	}
	return l.send(ctx, j.ID(n), gobs.Header{Job: j, Receipt: s.models.Published(model).Receipt, Bare: model == nil}, model)
}

func (w pickleWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	var h gobs.Header
	err := w.conn.receive(ctx, w.unknownJob(), &h, w.model)
	return w.accepted(h, err)
}

func (w pickleWorker) Submit(ctx context.Context, p *tensor.Package) error {
	return w.conn.send(ctx, w.job.ID(w.lane), w.submitted(p), p)
}

func (s pickleServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	return s.collect(n, func(l *lane, id phase.ID, h *gobs.Header, p *tensor.Package) error {
		return l.receive(ctx, id, h, p)
	})
}
