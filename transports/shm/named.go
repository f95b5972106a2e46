package shm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// names builds the file names of a session's segments: the purpose and short numbers.
type names struct{ dir string }

func (n names) model(serial uint64, tensor int) string {
	return filepath.Join(n.dir, fmt.Sprintf("model-%d-%d", serial, tensor))
}

func (n names) update(serial uint64, tensor int) string {
	return filepath.Join(n.dir, fmt.Sprintf("update-%d-%d", serial, tensor))
}

// A modelServer keeps each tensor of a model in a named segment. Without reuse, every
// model gets new segments.
type modelServer struct {
	*server
	names  names
	reuse  bool
	serial atomic.Uint64 // serial of the latest segment set
	models *driver.Pair[*segmentSet]
}

func (s *modelServer) make(root string) error {
	dir, err := scratch.New(root)
	if err != nil {
		return err
	}
	s.own(dir.Close) // also removes the files of updates that are still lent
	s.own(func() error {
		models := s.models.Memories()
		return errors.Join(models[0].close(), models[1].close())
	})
	s.names, s.models = names{dir.Path()}, driver.PairOf(s.renew)
	return nil
}

// renew returns memory for the next model: new segments, unless old ones are reused.
func (s *modelServer) renew(old *segmentSet) (*tensor.Package, *segmentSet, error) {
	if old != nil && s.reuse {
		return old.pkg, old, nil
	}
	return s.replace(old, s.o.Down, s.names.model)
}

// replace closes old, if there is one, and makes a segment set of new segments at these paths.
func (s *modelServer) replace(
	old *segmentSet, l *tensor.Layout, path func(serial uint64, i int) string,
) (*tensor.Package, *segmentSet, error) {
	if err := old.close(); err != nil {
		return nil, nil, err
	}
	serial := s.serial.Add(1)
	b, err := makeSegmentSet(l, serial, func(i int) (*slab.Memory, error) {
		return slab.CreateFile(path(serial, i), segmentSize(l, i), slab.Untouched.In(s.o.Pages))
	})
	if err != nil {
		return nil, nil, err
	}
	return b.pkg, b, nil
}

// newUpdate replaces old by a segment set for an update, which this process never writes.
func (s *modelServer) newUpdate(old *segmentSet) (*tensor.Package, *segmentSet, error) {
	p, b, err := s.replace(old, s.o.Up, s.names.update)
	if err == nil {
		err = b.protect()
	}
	return p, b, err
}

func (s *modelServer) Reserve() (*tensor.Package, error) { return s.models.Reserve() }

func (s *modelServer) Publish(context.Context, *tensor.Package) error {
	s.models.Publish()
	return nil
}

// order returns the order for job j with the model p, which may be nil.
func (s *modelServer) order(p *tensor.Package, j driver.Job, update slab.Handle) order {
	t := order{job: j, bare: true, update: update}
	if p != nil {
		m := s.models.Published(p)
		t.with(m.Memory.handle(), m.Beside)
	}
	return t
}

// A modelWorker maps a modelServer's models read-only.
type modelWorker struct {
	*worker
	names  names
	models segmentCache
	reuse  bool
}

func newModelWorker(w *worker, dir string) *modelWorker {
	m := &modelWorker{worker: w, names: names{dir}, reuse: w.o.Settings.On("reuse")}
	m.models = newSegmentCache(w, w.o.Down, 2, slab.ReadOnly, m.names.model) // with reuse=on, both models stay mapped
	return m
}

func (w *modelWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	return w.receive(ctx, w.models.at)
}

// unmap keeps no mapping of a model that the server will remove.
func (w *modelWorker) unmap() error {
	if w.reuse {
		return nil
	}
	return w.models.close()
}

// With pass=name, updates are also in named segments, which the server makes before a
// round's first job. Messages refer to them by serial. Without reuse, a worker maps
// them for one job only.
type (
	namedServer struct {
		*modelServer
		updates []*driver.Bank[*segmentSet] // by lane
	}
	namedWorker struct {
		*modelWorker
		updates segmentCache
	}
)

func (s *namedServer) make() error {
	for range s.o.Lanes {
		updates, err := driver.BankOf(s.o.Depth, s.o.Out, s.newUpdate, (*segmentSet).close)
		s.own(updates.Close)
		if err != nil {
			return err
		}
		s.updates = append(s.updates, updates)
	}
	return nil
}

func (s *namedServer) Publish(ctx context.Context, p *tensor.Package) error {
	err := s.modelServer.Publish(ctx, p)
	for n := 0; n < len(s.updates) && err == nil && !s.reuse; n++ {
		err = s.updates[n].Renew()
	}
	return err
}

func (s *namedServer) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	b, err := s.updates[n].Reserve()
	if err != nil {
		return err
	}
	return s.post(n, s.order(model, j, b.handle()))
}

func newNamedWorker(models *modelWorker) *namedWorker {
	w := &namedWorker{modelWorker: models}
	w.updates = newSegmentCache(w.worker, w.o.Up, w.o.Depth, slab.ReadWrite, w.names.update)
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
	p, err := s.updates[n].Lend()
	return collected(r, p, err)
}

// A segmentCache keeps the models or updates that a worker has mapped, at most limit, by serial.
type segmentCache struct {
	layout *tensor.Layout
	pages  pages.Size
	limit  int
	access slab.Access
	path   func(serial uint64, i int) string
	mapped map[uint64]*segmentSet
}

func newSegmentCache(w *worker, l *tensor.Layout, limit int, a slab.Access, path func(serial uint64, i int) string) segmentCache {
	s := segmentCache{layout: l, pages: w.o.Pages, limit: limit, access: a, path: path, mapped: map[uint64]*segmentSet{}}
	w.own(s.close)
	return s
}

// at returns the package with handle h, and maps it if it is not mapped yet.
func (s segmentCache) at(h slab.Handle) (*tensor.Package, error) {
	if h.Length != uint64(s.layout.Size()) || h.Offset != 0 {
		return nil, fmt.Errorf("handle must be to %d bytes at 0, not %d at %d: %w", s.layout.Size(), h.Length, h.Offset, slab.ErrLength)
	}
	if b := s.mapped[h.Generation]; b != nil {
		return b.pkg, nil
	}
	if len(s.mapped) >= s.limit {
		return nil, fmt.Errorf("handle to package %d: %w", h.Generation, slab.ErrUnknown)
	}
	b, err := takeSegmentSet(s.layout, h.Generation, func(i int) (*slab.Memory, error) {
		return slab.OpenFile(s.path(h.Generation, i), segmentSize(s.layout, i), s.access, slab.Untouched.In(s.pages))
	})
	if err != nil {
		return nil, err
	}
	s.mapped[h.Generation] = b
	return b.pkg, nil
}

func (s segmentCache) close() (err error) {
	for _, b := range s.mapped {
		err = errors.Join(err, b.close())
	}
	clear(s.mapped)
	return err
}
