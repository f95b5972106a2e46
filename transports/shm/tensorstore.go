package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"ipcbench/phase"
	"ipcbench/scratch"
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

// tensorStore keeps each tensor in a named segment. Without reuse, all segments
// are made anew for every model that is published: those of the next model, and
// every buffer that an update was written to. With it they live as long as the
// session.
type tensorStore struct {
	o       driver.Options
	dir     *scratch.Dir
	names   names
	reuse   bool
	ledger  *tensor.Ledger
	passing *passing // with pass=fd, how updates arrive; nil otherwise

	mu        sync.Mutex // guards what follows
	serial    uint64
	published *bundle // nil before the first Publish
	reserved  *bundle // nil if none is
	idle      *bundle // with reuse, the model that is neither
	lanes     [][]buffer
	closed    bool
}

// A buffer is a place for one update of a lane.
type buffer struct {
	*bundle
	state bufferState
}

type bufferState uint8

const (
	fresh  bufferState = iota // made and never used
	issued                    // of the job that is out
	lent
	used // released
)

func newTensorStore(root string, o driver.Options, ledger *tensor.Ledger) (*tensorStore, error) {
	dir, err := scratch.New(root)
	if err != nil {
		return nil, err
	}
	s := &tensorStore{o: o, dir: dir, names: names{dir.Path()}, reuse: o.Settings.On("reuse"), ledger: ledger}
	if o.Settings.Get("pass") == "fd" {
		s.passing = newPassing(o, ledger)
		return s, nil
	}
	for n := range o.Lanes {
		s.lanes = append(s.lanes, make([]buffer, o.Depth))
		for i := range s.lanes[n] {
			if err := s.renew(n, &s.lanes[n][i]); err != nil {
				return nil, errors.Join(err, s.close())
			}
		}
	}
	return s, nil
}

// renew gives a buffer new segments, without those that it had.
func (s *tensorStore) renew(lane int, b *buffer) error {
	err := b.close()
	*b = buffer{}
	if err != nil {
		return err
	}
	s.serial++
	serial := s.serial
	b.bundle, err = makeBundle(s.o.Up, serial, func(i int) (*slab.Memory, error) {
		return slab.CreateFile(s.names.update(lane, serial, i), segmentSize(s.o.Up, i), slab.Untouched)
	})
	if err == nil {
		err = b.protect() // the server makes them and never writes
	}
	return err
}

func (s *tensorStore) reserve() (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved != nil {
		return nil, errors.New("reserve of a model while another one is reserved")
	}
	if s.idle != nil {
		s.reserved, s.idle = s.idle, nil
		return s.reserved.pkg, nil
	}
	s.serial++
	serial := s.serial
	var err error
	s.reserved, err = makeBundle(s.o.Down, serial, func(i int) (*slab.Memory, error) {
		return slab.CreateFile(s.names.model(serial, i), segmentSize(s.o.Down, i), slab.Untouched)
	})
	if err != nil {
		return nil, err
	}
	return s.reserved.pkg, nil
}

func (s *tensorStore) publish(p *tensor.Package) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved == nil || p != s.reserved.pkg {
		return errors.New("publish of a model that is not reserved")
	}
	before := s.published
	s.published, s.reserved = s.reserved, nil
	if s.reuse {
		s.idle = before
		return nil
	}
	if err := before.close(); err != nil {
		return err
	}
	// All buffers of the round exist before its first job goes out.
	for n := range s.lanes {
		for i := range s.lanes[n] {
			if b := &s.lanes[n][i]; b.state == used {
				if err := s.renew(n, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *tensorStore) current() (slab.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.published == nil {
		return slab.Handle{}, errors.New("no model was published")
	}
	return s.published.handle(0), nil
}

func (s *tensorStore) issue(n int) (slab.Handle, error) {
	if s.passing != nil {
		return s.passing.issue(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lanes[n] {
		if b := &s.lanes[n][i]; b.state == fresh || b.state == used {
			b.state = issued
			return b.handle(i), nil
		}
	}
	return slab.Handle{}, fmt.Errorf("all %d updates of the lane are out", s.o.Depth)
}

func (s *tensorStore) lend(ctx context.Context, n int, h slab.Handle) (*tensor.Package, error) {
	if s.passing != nil {
		return s.passing.lend(ctx, n, h)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lanes[n] {
		b := &s.lanes[n][i]
		if b.state != issued {
			continue
		}
		if h != b.handle(i) {
			return nil, fmt.Errorf("update %+v, the job was given %+v: %w", h, b.handle(i), slab.ErrStale)
		}
		b.state = lent
		b.pkg.Lend(s.ledger, func(*tensor.Package) { s.takeBack(b) })
		return b.pkg, nil
	}
	return nil, errors.New("no update is out")
}

func (s *tensorStore) takeBack(b *buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.state = used
	if s.closed {
		_ = b.close() // its name is gone already: nothing but unmapping is left
	}
}

func (s *tensorStore) welcome(int) (string, []*os.File) { return s.names.dir, nil }

func (s *tensorStore) ready(int) error { return nil }

func (s *tensorStore) passed(n int, packet []byte, files []*os.File) error {
	if s.passing != nil {
		return s.passing.passed(n, packet, files)
	}
	closeAll(files)
	return errMessage
}

func (s *tensorStore) left(n int) {
	if s.passing != nil {
		s.passing.left(n)
	}
}

func (s *tensorStore) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	err := errors.Join(s.published.close(), s.reserved.close(), s.idle.close())
	s.published, s.reserved, s.idle = nil, nil, nil
	for n := range s.lanes {
		for i := range s.lanes[n] {
			if b := &s.lanes[n][i]; b.state != lent {
				err = errors.Join(err, b.close())
			}
		}
	}
	if s.passing != nil {
		s.passing.close()
	}
	return errors.Join(err, s.dir.Close()) // with the names of those that are lent
}

// tensorView is a worker's side. Without reuse it maps the segments for one job.
type tensorView struct {
	o     driver.Options
	n     int
	names names
	reuse bool
	link  *link
	fds   bool // updates are passed as descriptors

	models, updates map[uint64]*bundle // by serial; without reuse at most one each
	passed          *bundle            // with pass=fd, the update of the job in hand
}

func newTensorView(o driver.Options, n int, dir string, files []*os.File, l *link) (*tensorView, error) {
	closeAll(files)
	if len(files) != 0 || !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("welcome with %d descriptors and directory %q", len(files), dir)
	}
	return &tensorView{
		o: o, n: n, names: names{dir}, reuse: o.Settings.On("reuse"), link: l, fds: o.Settings.Get("pass") == "fd",
		models: map[uint64]*bundle{}, updates: map[uint64]*bundle{},
	}, nil
}

func (v *tensorView) model(h slab.Handle) (*tensor.Package, error) {
	return v.open(v.models, 2, h, v.o.Down, slab.ReadOnly, func(i int) string { return v.names.model(h.Generation, i) })
}

func (v *tensorView) update(h slab.Handle) (*tensor.Package, error) {
	if v.fds {
		var err error
		v.passed, err = makeBundle(v.o.Up, h.Generation, func(i int) (*slab.Memory, error) {
			return slab.Memfd("ipcbench-update", segmentSize(v.o.Up, i), slab.Untouched)
		})
		if err != nil {
			return nil, err
		}
		return v.passed.pkg, nil
	}
	return v.open(v.updates, v.o.Depth, h, v.o.Up, slab.ReadWrite, func(i int) string { return v.names.update(v.n, h.Generation, i) })
}

// open returns the package that h names, mapped before or now. At most limit
// packages of its kind exist.
func (v *tensorView) open(open map[uint64]*bundle, limit int, h slab.Handle, l *tensor.Layout,
	a slab.Access, path func(i int) string) (*tensor.Package, error) {
	if h.Length != uint64(l.Size()) || h.Offset != 0 {
		return nil, fmt.Errorf("handle to %d bytes at %d, the layout has %d: %w", h.Length, h.Offset, l.Size(), slab.ErrLength)
	}
	b := open[h.Generation]
	if b == nil {
		if len(open) >= limit {
			return nil, fmt.Errorf("handle to package %d: %w", h.Generation, slab.ErrUnknown)
		}
		var err error
		b, err = takeBundle(l, h.Generation, func(i int) (*slab.Memory, error) {
			return slab.OpenFile(path(i), segmentSize(l, i), a, slab.Untouched)
		})
		if err != nil {
			return nil, err
		}
		open[h.Generation] = b
	}
	return b.pkg, nil
}

func (v *tensorView) finish(ctx context.Context, _ *tensor.Package, id phase.ID) error {
	if v.passed == nil {
		return nil
	}
	return pass(ctx, v.link, v.passed, v.o.Rec, id)
}

// done unmaps what was mapped for the job, so that no segment lives longer than
// the server keeps it.
func (v *tensorView) done() error {
	err := v.passed.close()
	v.passed = nil
	if v.reuse {
		return err
	}
	return errors.Join(err, v.close())
}

func (v *tensorView) close() error {
	var err error
	for _, open := range []map[uint64]*bundle{v.models, v.updates} {
		for _, b := range open {
			err = errors.Join(err, b.close())
		}
		clear(open)
	}
	return err
}
