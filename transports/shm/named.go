package shm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// names are the names of a session's segments. They consist of what the segment
// is for, so that different ones differ, and of numbers, so that they are short.
type names struct{ dir string }

func (n names) model(serial uint64, tensor int) string {
	return filepath.Join(n.dir, fmt.Sprintf("model-%d-%d", serial, tensor))
}

func (n names) update(lane int, serial uint64, tensor int) string {
	return filepath.Join(n.dir, fmt.Sprintf("update-%d-%d-%d", lane, serial, tensor))
}

// A modelServer keeps each tensor of a model in a named segment. Without reuse all
// of them are made anew for every model.
type modelServer struct {
	*server
	names  names
	reuse  bool
	serial uint64 // of the bundle that was made last
	next   int    // of the models: the one that is reserved next, or is

	mu     sync.Mutex
	models [2]model // guarded by mu
}

// A model is one of the two.
type model struct {
	*bundle // nil if it was not made
	beside  driver.Beside
}

func (s *modelServer) make(root string) error {
	dir, err := scratch.New(root)
	if err != nil {
		return err
	}
	s.own(dir.Close) // with the names of segments that are lent
	s.own(func() error { return errors.Join(s.models[0].close(), s.models[1].close()) })
	s.names = names{dir.Path()}
	return nil
}

func (s *modelServer) Reserve() (*tensor.Package, error) {
	s.mu.Lock()
	b := s.models[s.next].bundle
	s.mu.Unlock()
	if b != nil && s.reuse {
		return b.pkg, nil
	}
	err := b.close()
	if err == nil {
		s.serial++
		b, err = makeBundle(s.o.Down, s.serial, func(i int) (*slab.Memory, error) {
			return slab.CreateFile(s.names.model(s.serial, i), segmentSize(s.o.Down, i), slab.Untouched)
		})
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.models[s.next].bundle = b
	s.mu.Unlock()
	return b.pkg, nil
}

func (s *modelServer) Publish(_ context.Context, p *tensor.Package) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.models[s.next]
	m.beside.Copy(p, m.serial)
	s.next = 1 - s.next
	return nil
}

// order returns that of job j with the model p, if there is one.
func (s *modelServer) order(p *tensor.Package, j driver.Job, update slab.Handle) order {
	t := order{job: j, bare: true, update: update}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.models {
		if m := &s.models[i]; m.bundle != nil && m.pkg == p {
			t.with(m.handle(), m.beside)
		}
	}
	return t
}

// A modelWorker maps them read-only.
type modelWorker struct {
	*worker
	names  names
	models shelf
}

func newModelWorker(w *worker, dir string) *modelWorker {
	m := &modelWorker{worker: w, names: names{dir}}
	m.models = newShelf(w, w.o.Down, 2, slab.ReadOnly, m.names.model) // with reuse, the one before is kept
	return m
}

func (w *modelWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	return w.receive(ctx, w.models.at)
}

// With pass=name updates lie in named segments, too, which the server makes before a
// round's first job. Names go both ways. Without reuse a worker maps what they name
// for one job.
type (
	namedServer struct {
		*modelServer

		places   sync.Mutex
		buffers  []buffers // guarded by places: by lane
		released bool      // guarded by places: so is all memory but that of updates that are lent
	}
	namedWorker struct {
		*modelWorker
		updates shelf
		reuse   bool
	}
)

// buffers are the places for a lane's updates.
type buffers struct {
	all    []buffer
	issued *buffer // of the job that is out; nil if none is
}

type buffer struct {
	*bundle
	used bool // it has been lent
	lent bool // it is
}

func (s *namedServer) make() error {
	s.own(s.free)
	for n := range s.o.Lanes {
		s.buffers = append(s.buffers, buffers{all: make([]buffer, s.o.Depth)})
		for i := range s.buffers[n].all {
			if err := s.renew(n, &s.buffers[n].all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// renew gives a buffer new segments, without those that it had.
func (s *namedServer) renew(n int, b *buffer) error {
	err := b.close()
	*b = buffer{}
	if err != nil {
		return err
	}
	s.serial++
	b.bundle, err = makeBundle(s.o.Up, s.serial, func(i int) (*slab.Memory, error) {
		return slab.CreateFile(s.names.update(n, s.serial, i), segmentSize(s.o.Up, i), slab.Untouched)
	})
	if err == nil {
		err = b.protect() // the server makes them and never writes
	}
	return err
}

func (s *namedServer) Publish(ctx context.Context, p *tensor.Package) error {
	if err := s.modelServer.Publish(ctx, p); err != nil || s.reuse {
		return err
	}
	s.places.Lock()
	defer s.places.Unlock()
	for n := range s.buffers {
		for i := range s.buffers[n].all {
			if b := &s.buffers[n].all[i]; b.used && !b.lent && b != s.buffers[n].issued {
				if err := s.renew(n, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *namedServer) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	update, err := s.issue(n)
	if err != nil {
		return err
	}
	return s.post(n, s.order(model, j, update))
}

// issue returns the handle of the memory for the update of lane n's next job.
func (s *namedServer) issue(n int) (slab.Handle, error) {
	s.places.Lock()
	defer s.places.Unlock()
	l := &s.buffers[n]
	for i := range l.all {
		if !l.all[i].lent {
			l.issued = &l.all[i]
			return l.issued.handle(), nil
		}
	}
	return slab.Handle{}, fmt.Errorf("all %d updates of the lane are out", s.o.Depth)
}

func newNamedWorker(models *modelWorker) *namedWorker {
	w := &namedWorker{modelWorker: models, reuse: models.o.Settings.On("reuse")}
	w.updates = newShelf(w.worker, w.o.Up, w.o.Depth, slab.ReadWrite, func(serial uint64, i int) string {
		return w.names.update(w.n, serial, i)
	})
	return w
}

func (w *namedWorker) Reserve() (*tensor.Package, error) { return w.updates.at(w.order.update) }

func (w *namedWorker) Submit(_ context.Context, p *tensor.Package) error {
	if !w.reuse { // no segment lives longer than the server keeps it
		if err := errors.Join(w.models.close(), w.updates.close()); err != nil {
			return err
		}
	}
	return w.post(p)
}

func (s *namedServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	r, err := s.fetch(ctx, n)
	if err != nil {
		return collected(r, nil, err)
	}
	p, err := s.lend(n, r.update)
	return collected(r, p, err)
}

// lend lends the update of lane n, which the worker says is h.
func (s *namedServer) lend(n int, h slab.Handle) (*tensor.Package, error) {
	s.places.Lock()
	defer s.places.Unlock()
	b := s.buffers[n].issued
	if h != b.handle() {
		return nil, fmt.Errorf("update %+v, the job was given %+v: %w", h, b.handle(), slab.ErrOther)
	}
	b.used, b.lent, s.buffers[n].issued = true, true, nil
	b.pkg.Lend(s.o.Out, func(*tensor.Package) { s.takeBack(b) })
	return b.pkg, nil
}

func (s *namedServer) takeBack(b *buffer) {
	s.places.Lock()
	defer s.places.Unlock()
	b.lent = false
	if s.released {
		_ = b.close() // its name is gone already: nothing but unmapping is left
	}
}

func (s *namedServer) free() (err error) {
	s.places.Lock()
	defer s.places.Unlock()
	s.released = true
	for n := range s.buffers {
		for i := range s.buffers[n].all {
			if b := &s.buffers[n].all[i]; !b.lent {
				err = errors.Join(err, b.close())
			}
		}
	}
	return err
}

// A shelf keeps the bundles of one kind that a worker has mapped, by serial: at most
// limit.
type shelf struct {
	layout *tensor.Layout
	limit  int
	access slab.Access
	path   func(serial uint64, i int) string
	mapped map[uint64]*bundle
}

func newShelf(w *worker, l *tensor.Layout, limit int, a slab.Access, path func(serial uint64, i int) string) shelf {
	s := shelf{layout: l, limit: limit, access: a, path: path, mapped: map[uint64]*bundle{}}
	w.own(s.close)
	return s
}

// at returns the package that h names, mapped before or now.
func (s shelf) at(h slab.Handle) (*tensor.Package, error) {
	if h.Length != uint64(s.layout.Size()) || h.Offset != 0 {
		return nil, fmt.Errorf("handle to %d bytes at %d, the layout has %d: %w", h.Length, h.Offset, s.layout.Size(), slab.ErrLength)
	}
	if b := s.mapped[h.Generation]; b != nil {
		return b.pkg, nil
	}
	if len(s.mapped) >= s.limit {
		return nil, fmt.Errorf("handle to package %d: %w", h.Generation, slab.ErrUnknown)
	}
	b, err := takeBundle(s.layout, h.Generation, func(i int) (*slab.Memory, error) {
		return slab.OpenFile(s.path(h.Generation, i), segmentSize(s.layout, i), s.access, slab.Untouched)
	})
	if err != nil {
		return nil, err
	}
	s.mapped[h.Generation] = b
	return b.pkg, nil
}

func (s shelf) close() (err error) {
	for _, b := range s.mapped {
		err = errors.Join(err, b.close())
	}
	clear(s.mapped)
	return err
}
