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

// names builds the file names of a session's segments: the purpose and short numbers.
type names struct{ dir string }

func (n names) model(serial uint64, tensor int) string {
	return filepath.Join(n.dir, fmt.Sprintf("model-%d-%d", serial, tensor))
}

func (n names) update(lane int, serial uint64, tensor int) string {
	return filepath.Join(n.dir, fmt.Sprintf("update-%d-%d-%d", lane, serial, tensor))
}

// A modelServer keeps each tensor of a model in a named segment. Without reuse, every
// model gets new segments.
type modelServer struct {
	*server
	names  names
	reuse  bool
	serial uint64 // serial of the latest bundle
	next   int    // index of the model that is reserved, or reserved next

	mu     sync.Mutex
	models [2]model // guarded by mu
}

// A model is one of a modelServer's two models.
type model struct {
	*bundle // nil until the model is first reserved
	beside  driver.Beside
}

func (s *modelServer) make(root string) error {
	dir, err := scratch.New(root)
	if err != nil {
		return err
	}
	s.own(dir.Close) // also removes the files of updates that are still lent
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

// order returns the order for job j with the model p, which may be nil.
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

// A modelWorker maps a modelServer's models read-only.
type modelWorker struct {
	*worker
	names  names
	models bundleCache
}

func newModelWorker(w *worker, dir string) *modelWorker {
	m := &modelWorker{worker: w, names: names{dir}}
	m.models = newBundleCache(w, w.o.Down, 2, slab.ReadOnly, m.names.model) // with reuse=on, both models stay mapped
	return m
}

func (w *modelWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	return w.receive(ctx, w.models.at)
}

// With pass=name, updates are also in named segments, which the server makes before a
// round's first job. Messages refer to them by serial. Without reuse, a worker maps
// them for one job only.
type (
	namedServer struct {
		*modelServer

		places   sync.Mutex
		buffers  []buffers // guarded by places: by lane
		released bool      // guarded by places: all memory was released, except lent updates
	}
	namedWorker struct {
		*modelWorker
		updates bundleCache
		reuse   bool
	}
)

// buffers is the memory for a lane's updates.
type buffers struct {
	all    []buffer
	issued *buffer // buffer of the current job; nil without one
}

// A buffer is the memory for one update.
type buffer struct {
	*bundle
	used bool // it has been lent since renew
	lent bool // it is lent now
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

// renew closes a buffer's segments, if it has any, and gives it new ones.
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
		err = b.protect() // the server never writes updates
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

// issue returns the handle of a free buffer for lane n's next job.
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
	return slab.Handle{}, fmt.Errorf("all %d updates of the lane are in use", s.o.Depth)
}

func newNamedWorker(models *modelWorker) *namedWorker {
	w := &namedWorker{modelWorker: models, reuse: models.o.Settings.On("reuse")}
	w.updates = newBundleCache(w.worker, w.o.Up, w.o.Depth, slab.ReadWrite, func(serial uint64, i int) string {
		return w.names.update(w.n, serial, i)
	})
	return w
}

func (w *namedWorker) Reserve() (*tensor.Package, error) { return w.updates.at(w.order.update) }

func (w *namedWorker) Submit(_ context.Context, p *tensor.Package) error {
	if !w.reuse { // keep no mapping of segments that the server will remove
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

// lend lends the update of lane n's current job. h, from the result, must be the handle
// issued for it.
func (s *namedServer) lend(n int, h slab.Handle) (*tensor.Package, error) {
	s.places.Lock()
	defer s.places.Unlock()
	b := s.buffers[n].issued
	if h != b.handle() {
		return nil, fmt.Errorf("update must be %+v, not %+v: %w", b.handle(), h, slab.ErrOther)
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
		_ = b.close() // the file is already removed: this only unmaps
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

// A bundleCache keeps the models or updates that a worker has mapped, at most limit, by serial.
type bundleCache struct {
	layout *tensor.Layout
	limit  int
	access slab.Access
	path   func(serial uint64, i int) string
	mapped map[uint64]*bundle
}

func newBundleCache(w *worker, l *tensor.Layout, limit int, a slab.Access, path func(serial uint64, i int) string) bundleCache {
	s := bundleCache{layout: l, limit: limit, access: a, path: path, mapped: map[uint64]*bundle{}}
	w.own(s.close)
	return s
}

// at returns the package with handle h, and maps it if it is not mapped yet.
func (s bundleCache) at(h slab.Handle) (*tensor.Package, error) {
	if h.Length != uint64(s.layout.Size()) || h.Offset != 0 {
		return nil, fmt.Errorf("handle must be to %d bytes at 0, not %d at %d: %w", s.layout.Size(), h.Length, h.Offset, slab.ErrLength)
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

func (s bundleCache) close() (err error) {
	for _, b := range s.mapped {
		err = errors.Join(err, b.close())
	}
	clear(s.mapped)
	return err
}
