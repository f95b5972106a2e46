package http

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// memory is where the server keeps what travels: its models, and with shared memory a
// slab for them and one for each lane's updates. The store makes its own beside them.
type memory struct {
	dir    *scratch.Dir // of the slabs; nil without shared memory
	models *models
	lanes  []*laneSlab // nil without shared memory
}

// A laneSlab is the slab of one lane's updates. The server allocates in it, the
// lane's worker writes.
type laneSlab struct {
	updates *slab.Updates
	ref     *store.SlabRef
}

// Modes of the slabs' names. The kernel refuses to open one for writing that must
// not be, to all but root. The server maps its slabs when it makes them.
const (
	modeReaders = 0o400
	modeWriter  = 0o600 // while the lane's worker may map its slab
)

// permit sets the mode of the slab's name.
func (p *laneSlab) permit(mode os.FileMode) error { return os.Chmod(p.ref.Path, mode) }

// proof returns where a worker writes what proves that it shares the slab.
func (p *laneSlab) proof(h slab.Handle) []byte {
	mem := p.updates.Memory().Bytes()
	if n := uint64(len(mem)); h.Offset > n || n-h.Offset < challengeSize {
		return nil
	}
	return mem[h.Offset:][:challengeSize]
}

// sizes are the capacities of a session's slabs; zero without shared memory.
type sizes struct{ models, updates int }

// total returns the bytes of the slabs that a session has from the start.
func (s sizes) total(lanes int) int64 {
	total := int64(s.models)
	if int64(s.updates) > (math.MaxInt64-total)/int64(lanes) {
		return math.MaxInt64
	}
	return total + int64(lanes)*int64(s.updates)
}

func sizesOf(o driver.Options, c config) (s sizes, err error) {
	if !c.shm || c.pool > 0 {
		return sizes{c.pool, c.pool}, nil
	}
	for i := range o.Down.Len() {
		n, ok := slab.Extent(o.Down.Bytes(i))
		if !ok || n > 1<<60-s.models {
			return s, fmt.Errorf("tensors of %d bytes overflow", o.Down.Payload())
		}
		s.models += n
	}
	s.models = max(2*s.models, slab.Align)
	s.updates, err = slab.SizeOf(o.Up, o.Depth)
	return s, err
}

// newMemory makes the memory of a session, and says where the store may make a slab.
func newMemory(o driver.Options, c config) (m *memory, stored string, err error) {
	m = &memory{models: newModels(o.Down, c.misses), lanes: make([]*laneSlab, o.Lanes)}
	if !c.shm {
		for _, s := range m.models.both {
			s.onHeap(o.Down)
		}
		return m, "", nil
	}
	size, err := sizesOf(o, c)
	if err == nil {
		m.dir, err = scratch.New(scratch.SharedMemory)
	}
	if err == nil {
		err = m.models.share(filepath.Join(m.dir.Path(), "models"), size.models)
	}
	for n := 0; n < o.Lanes && err == nil; n++ {
		m.lanes[n], err = newLaneSlab(filepath.Join(m.dir.Path(), fmt.Sprintf("updates-%d", n)), size.updates, o)
	}
	if err != nil {
		return nil, "", errors.Join(err, m.close())
	}
	return m, filepath.Join(m.dir.Path(), "stored"), nil
}

// close gives all memory up. That of updates which are lent lives until they
// are released.
func (m *memory) close() error {
	err := m.models.close()
	for _, l := range m.lanes {
		if l != nil {
			err = errors.Join(err, l.updates.Close())
		}
	}
	if m.dir != nil {
		err = errors.Join(err, m.dir.Close())
	}
	return err
}

func newLaneSlab(path string, size int, o driver.Options) (*laneSlab, error) {
	mem, nonce, err := slab.CreateNamed(path, size)
	if err != nil {
		return nil, err
	}
	l := &laneSlab{ref: store.NewSlabRef(path, nonce)}
	l.updates = slab.NewUpdates(mem, o.Up, o.Out)
	if err = mem.Protect(); err == nil { // the worker writes, and nobody else
		err = l.permit(modeReaders)
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return l, nil
}

// models keeps the server's pair of models, tensor by tensor: with shared memory in a
// stamped pool from which other processes read. What is not there, or does not fit,
// lies on the heap and travels as a body.
type models struct {
	pool   *slab.Pool // nil without shared memory
	ref    *store.SlabRef
	layout *tensor.Layout
	misses func(i int) bool // whether tensor i is kept out of the pool
	next   int              // of the two: the one that is reserved next, or is

	mu   sync.Mutex
	both [2]*model // what is in them is guarded by mu
}

// A model is one of the two. Round after round it gets blocks at the same places, so
// its package is made once.
type model struct {
	p       *tensor.Package
	offer   jobAnswer     // what every job with it says
	handles []slab.Handle // of tensors, zero where one lies on the heap
	views   [][]byte
	heap    *tensor.Package // memory of tensors that lie there, kept
}

func newModels(l *tensor.Layout, misses func(i int) bool) *models {
	empty := func() *model { return &model{handles: make([]slab.Handle, l.Len()), views: make([][]byte, l.Len())} }
	return &models{layout: l, misses: misses, both: [2]*model{empty(), empty()}}
}

// share makes the pool.
func (m *models) share(path string, size int) error {
	pool, nonce, err := slab.CreatePool(path, size)
	if err != nil {
		return err
	}
	m.pool, m.ref = pool, store.NewSlabRef(path, nonce)
	return os.Chmod(path, modeReaders)
}

// onHeap returns heap memory for a model.
func (s *model) onHeap(l *tensor.Layout) *tensor.Package {
	if s.heap == nil {
		s.heap = tensor.AllocTouched(l)
	}
	return s.heap
}

// reserve places the next model, as far as the pool has room: where it lay before,
// which is invisible to readers from now on.
func (m *models) reserve() (*tensor.Package, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.both[m.next]
	if m.pool == nil {
		s.p = s.onHeap(m.layout)
		return s.p, nil
	}
	if err := s.release(m.pool); err != nil {
		return nil, err
	}
	moved := s.p == nil
	for i := range s.handles {
		h, view, err := m.place(i)
		if err != nil {
			return nil, err
		}
		if h == (slab.Handle{}) {
			view = s.onHeap(m.layout).View(i)
		}
		moved = moved || len(view) > 0 && &view[0] != &s.views[i][0]
		s.handles[i], s.views[i] = h, view
	}
	if moved {
		s.p = tensor.NewScattered(m.layout, slices.Clone(s.views))
	}
	return s.p, nil
}

// place reserves a block for tensor i. It is none if the pool does not get it, or has no
// room.
func (m *models) place(i int) (slab.Handle, []byte, error) {
	if m.misses(i) {
		return slab.Handle{}, nil, nil
	}
	h, view, err := m.pool.Reserve(m.layout.Bytes(i))
	if err != nil && isFull(err) { // who asks allocates
		return slab.Handle{}, nil, nil
	}
	return h, view, err
}

func isFull(err error) bool {
	var full *slab.FullError
	return errors.As(err, &full)
}

// publish makes the model that is reserved, and is called name, visible to readers.
func (m *models) publish(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.both[m.next]
	a := &s.offer
	a.Model, a.Receipt, a.Rows = name, append(a.Receipt[:0], s.p.Receipt...), s.p.AppendRows(a.Rows[:0])
	a.Pool, a.Runs = m.ref, a.Runs[:0]
	var before slab.Handle
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			if err := m.pool.Publish(h); err != nil {
				return err
			}
			if before != (slab.Handle{}) && follows(before, h) {
				a.Runs[len(a.Runs)-1].Count++
			} else {
				a.Runs = append(a.Runs, run{First: i, Count: 1, Handle: store.EncodeHandle(h)})
			}
		}
		before = h
	}
	m.next = 1 - m.next
	return nil
}

// offer returns what a job with model p says: nothing of it if there is none.
func (m *models) offer(p *tensor.Package) (a jobAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.both {
		if p != nil && s.p == p {
			a = s.offer
		}
	}
	return a
}

// release gives the blocks of all tensors back.
func (s *model) release(pool *slab.Pool) (err error) {
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			err = errors.Join(err, pool.Release(h))
			s.handles[i] = slab.Handle{}
		}
	}
	return err
}

func (m *models) close() error {
	if m.pool == nil {
		return nil
	}
	return errors.Join(m.both[0].release(m.pool), m.both[1].release(m.pool), m.pool.Close())
}

// A run is where consecutive tensors of a model lie in the server's slab, one
// after another and with generations that follow one another. A model that was
// placed undisturbed is one run, however many tensors it has.
type run struct {
	First  int          `json:"first"` // tensor
	Count  int          `json:"count"`
	Handle store.Handle `json:"handle"` // of the first
}

// next returns the handle of a block of n bytes that was reserved right after h,
// of a stamped pool.
func next(h slab.Handle, n int) (slab.Handle, error) {
	extent, ok := slab.Extent(int(h.Length))
	if !ok || h.Offset > 1<<62 {
		return slab.Handle{}, slab.ErrBounds
	}
	return slab.Handle{Offset: h.Offset + uint64(extent), Length: uint64(n), Generation: h.Generation + 1}, nil
}

// follows reports whether b was reserved right after a.
func follows(a, b slab.Handle) bool {
	n, err := next(a, int(b.Length))
	b.Index = 0
	return err == nil && n == b
}
