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

// memory is the server's memory for models and, with shared memory, the slab for them
// and one slab per lane for updates. The store has a slab of its own for tensors that
// are put.
type memory struct {
	dir    *scratch.Dir // directory of the slabs; nil without shared memory
	models *models
	lanes  []*laneSlab // one per lane; nil without shared memory
}

// A laneSlab is the slab of one lane's updates. The server allocates blocks, and the
// lane's worker writes them.
type laneSlab struct {
	updates *slab.Updates
	ref     *store.SlabRef
}

// Modes of the slabs' files. They keep all processes except root's from opening a slab
// for writing at the wrong time.
const (
	modeReaders = 0o400
	modeWriter  = 0o600 // while the lane's worker may map its slab
)

func (p *laneSlab) permit(mode os.FileMode) error { return os.Chmod(p.ref.Path, mode) }

// proof returns the bytes of block h where the worker writes its challenge, or nil if h
// is not in the slab.
func (p *laneSlab) proof(h slab.Handle) []byte {
	mem := p.updates.Memory().Bytes()
	if n := uint64(len(mem)); h.Offset > n || n-h.Offset < challengeSize {
		return nil
	}
	return mem[h.Offset:][:challengeSize]
}

// sizes are the capacities of a session's slabs in bytes; zero without shared memory.
type sizes struct{ models, updates int }

// total returns the bytes of all slabs that exist from the start of a session, or
// math.MaxInt64 on overflow.
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

// newMemory makes the memory of a session. stored is the path of the slab that the store
// may create, or empty.
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

// close releases all memory. Memory of updates that are lent is unmapped when they are
// released.
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
	if err = mem.Protect(); err == nil { // from here on the worker is the only writer
		err = l.permit(modeReaders)
	}
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	return l, nil
}

// models holds the server's two models, tensor by tensor. With shared memory they are in
// a stamped pool from which other processes read. Tensors that are kept out of it, or do
// not fit, are on the heap and travel as bodies.
type models struct {
	pool   *slab.Pool // nil without shared memory
	ref    *store.SlabRef
	layout *tensor.Layout
	misses func(i int) bool // whether tensor i must stay out of the pool
	next   int              // index in both of the model that is, or will be, reserved next

	mu   sync.Mutex
	both [2]*model // contents are guarded by mu
}

// A model is one of the two. It gets the same blocks in every round, so its package is
// made only once.
type model struct {
	p       *tensor.Package
	offer   jobAnswer     // the part of a job's answer that describes the model
	handles []slab.Handle // one per tensor; zero if the tensor is on the heap
	views   [][]byte
	heap    *tensor.Package // memory of tensors on the heap; kept once allocated
}

func newModels(l *tensor.Layout, misses func(i int) bool) *models {
	empty := func() *model { return &model{handles: make([]slab.Handle, l.Len()), views: make([][]byte, l.Len())} }
	return &models{layout: l, misses: misses, both: [2]*model{empty(), empty()}}
}

func (m *models) share(path string, size int) error {
	pool, nonce, err := slab.CreatePool(path, size)
	if err != nil {
		return err
	}
	m.pool, m.ref = pool, store.NewSlabRef(path, nonce)
	return os.Chmod(path, modeReaders)
}

// onHeap returns the model's heap memory, which it allocates the first time.
func (s *model) onHeap(l *tensor.Layout) *tensor.Package {
	if s.heap == nil {
		s.heap = tensor.AllocTouched(l)
	}
	return s.heap
}

// reserve returns the package for the next model, in the pool as far as there is room.
// The model's older contents become invisible to readers.
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

// place reserves a block for tensor i. The handle is zero if the tensor stays out of the
// pool or does not fit.
func (m *models) place(i int) (slab.Handle, []byte, error) {
	if m.misses(i) {
		return slab.Handle{}, nil, nil
	}
	h, view, err := m.pool.Reserve(m.layout.Bytes(i))
	if err != nil && isFull(err) { // the caller uses heap memory
		return slab.Handle{}, nil, nil
	}
	return h, view, err
}

func isFull(err error) bool {
	var full *slab.FullError
	return errors.As(err, &full)
}

// publish makes the reserved model visible to readers under the given name.
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

// offer returns the part of a job's answer that describes model p. It is zero if p is
// nil.
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

// A run locates consecutive tensors of a model that follow one another in the server's
// slab, with consecutive generations. A model placed without gaps is a single run.
type run struct {
	First  int          `json:"first"` // index of the first tensor
	Count  int          `json:"count"`
	Handle store.Handle `json:"handle"` // handle of the first tensor
}

// next returns the handle of a block of n bytes that was reserved in a stamped pool
// directly after h.
func next(h slab.Handle, n int) (slab.Handle, error) {
	extent, ok := slab.Extent(int(h.Length))
	if !ok || h.Offset > 1<<62 {
		return slab.Handle{}, slab.ErrBounds
	}
	return slab.Handle{Offset: h.Offset + uint64(extent), Length: uint64(n), Generation: h.Generation + 1}, nil
}

// follows reports whether b was reserved directly after a.
func follows(a, b slab.Handle) bool {
	n, err := next(a, int(b.Length))
	b.Index = 0
	return err == nil && n == b
}
