package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"ipcbench/internal/machine"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/slab"
)

// Slab returns the transport shm-slab, which keeps all tensors in slabs.
func Slab() driver.Transport { return slabTransport{} }

type slabTransport struct{}

func (slabTransport) Name() string { return "shm-slab" }

func (slabTransport) Settings() []driver.Setting {
	return []driver.Setting{
		{Name: "wait", Values: []string{"block", "spin"}, Default: "block",
			Help: "sleep after waiting 20 µs for the peer, or keep spinning"},
		{Name: "copy", Values: []string{"off", "in", slab.CopyOut}, Default: "off",
			Help: "copy tensors from the heap into slabs, or out of them to read"},
	}
}

func (slabTransport) Traits(s driver.Settings) driver.Traits {
	return driver.Traits{Reach: driver.Host, Spins: spins(s)}
}

func (t slabTransport) Footprint(o driver.Options) int64 {
	models, updates, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	if err != nil {
		return math.MaxInt64
	}
	total := int64(models) + int64(o.Lanes)*int64(updates) + controlBytes(o)
	switch copies(o) {
	case "in":
		total += 2*int64(o.Down.Size()) + int64(o.Lanes)*int64(o.Up.Size())
	case slab.CopyOut:
		total += slab.CloneBytes(o)
	}
	return total
}

func (t slabTransport) Check(o driver.Options) error {
	_, _, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	if err == nil {
		err = checkMemory(t.Footprint(o))
	}
	return err
}

func (slabTransport) Needs(driver.Options) (driver.Needs, error) { return driver.Needs{}, nil }

// checkMemory returns an error if less memory than need is available. Memfds have no limit
// of their own, so the machine could run out of memory.
func checkMemory(need int64) error {
	if have, limit := machine.MemoryLimit(); need > have {
		return fmt.Errorf("the session needs %d bytes of memory, %d are available (%s)", need, have, limit)
	}
	return nil
}

func (slabTransport) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	base, err := newServer(o)
	s := &slabServer{server: base}
	if err == nil {
		err = s.make()
	}
	if err == nil {
		err = s.open(ctx, e, "")
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	switch copies(o) {
	case "in":
		return newCopyingServer(s), nil
	case slab.CopyOut:
		return slab.Cloning(s, o), nil
	}
	return s, nil
}

func (slabTransport) Dial(ctx context.Context, e *endpoint.Endpoint, n int, o driver.Options) (driver.Worker, error) {
	base, _, files, err := join(ctx, e, n, o)
	if base == nil {
		return nil, err
	}
	w := &slabWorker{worker: base}
	if err == nil {
		err = w.open(files)
	}
	var driven driver.Worker = w
	switch copies(o) { // touch memory before agree tells the server that the lane is ready
	case "in":
		driven = &copyingWorker{slabWorker: w, Copier: slab.NewCopier(o.Rec), heap: o.Alloc(o.Up)}
	case slab.CopyOut:
		driven = &cloningWorker{slabWorker: w, Copier: slab.NewCopier(o.Rec), heap: o.Alloc(o.Down)}
	}
	if err == nil {
		err = w.agree(ctx)
	}
	if err != nil {
		closeAll(files)
		return nil, errors.Join(err, w.Close(err))
	}
	return driven, nil
}

// Both models are in one slab, and each lane's updates in another. Messages contain
// handles to them and no tensors.
type (
	slabServer struct {
		*server
		places  *slab.Packages            // the slab of the models
		models  *driver.Pair[slab.Handle] // the models in it
		updates []*slab.Updates           // by lane
	}
	slabWorker struct {
		*worker
		models, updates *slab.Packages
	}
)

func (s *slabServer) make() error {
	down, up, err := slab.Sizes(s.o.Down, s.o.Up, s.o.Lanes, s.o.Depth)
	if err != nil {
		return err
	}
	models, err := slab.Memfd("ipcbench-models", down, slab.ReadWrite, slab.Touched.In(s.o.Pages))
	if err != nil {
		return err
	}
	s.own(models.Close)
	s.places = slab.NewPackages(models, s.o.Down)
	s.models = s.places.Pair()
	if err := models.Freeze(); err != nil { // allow no other writable mapping of the models
		return err
	}
	for n, l := range s.lanes {
		updates, err := slab.Memfd(fmt.Sprintf("ipcbench-updates-%d", n), up, slab.ReadOnly, slab.Touched.In(s.o.Pages)) // the server assigns memory in it but never writes to it
		if err != nil {
			return err
		}
		u := slab.NewUpdates(updates, s.o.Up, s.o.Out)
		s.own(u.Close)
		s.updates = append(s.updates, u)
		l.given, l.written = append(l.given, models, updates), append(l.written, updates)
	}
	return nil
}

func (w *slabWorker) open(files []*os.File) error {
	if len(files) != 2 {
		return fmt.Errorf("welcome with %d descriptors of slabs, must have 2", len(files))
	}
	down, up, err := slab.Sizes(w.o.Down, w.o.Up, w.o.Lanes, w.o.Depth)
	if err != nil {
		return err
	}
	models, err := w.mapped("models", files[0], down, slab.ReadOnly)
	if err != nil {
		return err
	}
	updates, err := w.mapped("updates", files[1], up, slab.ReadWrite)
	if err != nil {
		return err
	}
	w.models, w.updates = slab.NewPackages(models, w.o.Down), slab.NewPackages(updates, w.o.Up)
	return nil
}

func (s *slabServer) Reserve() (*tensor.Package, error) { return s.models.Reserve() }

func (s *slabServer) Publish(context.Context, *tensor.Package) error {
	s.models.Publish()
	return nil
}

func (s *slabServer) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	update, err := s.updates[n].Reserve()
	if err != nil {
		return err
	}
	t := order{job: j, bare: true, update: update}
	if model != nil {
		m := s.models.Published(model)
		t.with(m.Memory, m.Beside)
	}
	return s.post(n, t)
}

func (w *slabWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	return w.receive(ctx, w.models.At)
}

func (w *slabWorker) Reserve() (*tensor.Package, error) { return w.updates.At(w.order.update) }

func (w *slabWorker) Submit(_ context.Context, p *tensor.Package) error { return w.post(p) }

func (s *slabServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	r, err := s.fetch(ctx, n)
	if err != nil {
		return collected(r, nil, err)
	}
	p, err := s.updates[n].Lend()
	return collected(r, p, err)
}

// With copy=in, model and update are written on the heap and copied into the slabs. With
// copy=out, readers copy them out and read only the copies; slab.Cloning is the server.
type (
	copyingServer struct {
		*slabServer
		slab.Copier
		heap *driver.Pair[twin]
	}
	twin          struct{ heap, shared *tensor.Package } // a model, and its copy in the slab
	copyingWorker struct {
		*slabWorker
		slab.Copier
		heap, shared *tensor.Package // current update and its copy in the slab
	}
	cloningWorker struct {
		*slabWorker
		slab.Copier
		heap *tensor.Package // copy of the current job's model
	}
)

func copies(o driver.Options) string { return o.Settings["copy"] }

// newCopyingServer returns a server whose models are on the heap, each with a copy in s.
func newCopyingServer(s *slabServer) *copyingServer {
	reserve := func(t twin) (_ *tensor.Package, _ twin, err error) {
		t.shared, err = s.Reserve()
		return t.heap, t, err
	}
	models := driver.PairOf(reserve, twin{heap: s.o.Alloc(s.o.Down)}, twin{heap: s.o.Alloc(s.o.Down)})
	return &copyingServer{slabServer: s, Copier: slab.NewCopier(s.o.Rec), heap: models}
}

func (s *copyingServer) Reserve() (*tensor.Package, error) { return s.heap.Reserve() }

func (s *copyingServer) Publish(ctx context.Context, p *tensor.Package) error {
	shared := s.heap.Published(p).Memory.shared
	s.Copy(shared, p, phase.OfRound(-1))
	s.heap.Publish()
	return s.slabServer.Publish(ctx, shared)
}

func (s *copyingServer) Dispatch(ctx context.Context, n int, model *tensor.Package, j driver.Job) error {
	return s.slabServer.Dispatch(ctx, n, s.heap.Published(model).Memory.shared, j)
}

func (w *copyingWorker) Reserve() (p *tensor.Package, err error) {
	w.shared, err = w.slabWorker.Reserve()
	return w.heap, err
}

func (w *copyingWorker) Submit(ctx context.Context, p *tensor.Package) error {
	w.Copy(w.shared, p, w.order.job.ID(w.n))
	return w.slabWorker.Submit(ctx, w.shared)
}

func (w *cloningWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	j, shared, d, err := w.slabWorker.Receive(ctx)
	if err != nil || shared == nil {
		return j, nil, d, err
	}
	w.Copy(w.heap, shared, j.ID(w.n))
	return j, w.heap, d, nil
}
