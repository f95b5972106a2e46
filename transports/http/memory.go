package http

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// memory is the server's memory for models and, with shared memory, the slab for them
// and one slab per lane for updates. The store has a slab of its own for tensors that
// are put.
type memory struct {
	dir    *scratch.Dir // directory of the slabs; nil without shared memory
	models models
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
	m = &memory{models: models{layout: o.Down, pages: o.Pages, misses: c.misses}, lanes: make([]*laneSlab, o.Lanes)}
	if !c.shm {
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

// close releases all memory, and the blocks of these models. Memory of updates that are
// lent is unmapped when they are released.
func (m *memory) close(models ...*model) (err error) {
	if m.models.pool != nil {
		for _, s := range models {
			err = errors.Join(err, s.release(m.models.pool))
		}
		err = errors.Join(err, m.models.pool.Close())
	}
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
	mem, nonce, err := slab.CreateNamed(path, size, o.Pages)
	if err != nil {
		return nil, err
	}
	l := &laneSlab{ref: store.NewSlabRef(path, nonce)}
	l.updates = slab.NewUpdates(mem, o.Up, o.Out)
	if err = mem.Protect(); err == nil { // from here on the worker is the only writer
		err = l.permit(modeReaders)
	}
	if err != nil {
		return nil, errors.Join(err, l.updates.Close())
	}
	return l, nil
}

// models is memory for the server's two models, tensor by tensor. With shared memory they
// are in a stamped pool from which other processes read. Tensors that are kept out of it, or
// do not fit, are on the heap and travel as bodies.
type models struct {
	pool   *slab.Pool // nil without shared memory
	ref    *store.SlabRef
	layout *tensor.Layout
	pages  pages.Size
	misses func(i int) bool // whether tensor i must stay out of the pool
}

// A model is the memory of one of the two. It gets the same blocks in every round, so its
// package is made only once.
type model struct {
	p       *tensor.Package
	runs    []run         // locations of the tensors that are in the pool, once published
	handles []slab.Handle // one per tensor; zero if the tensor is on the heap
	views   [][]byte
	heap    *tensor.Package // memory of tensors on the heap; kept once allocated
}

// model returns memory for a model.
func (m *models) model() *model {
	s := &model{handles: make([]slab.Handle, m.layout.Len()), views: make([][]byte, m.layout.Len())}
	if m.pool == nil {
		m.onHeap(s) // before the first round
	}
	return s
}

func (m *models) share(path string, size int) error {
	pool, nonce, err := slab.CreatePool(path, size, m.pages)
	if err != nil {
		return err
	}
	m.pool, m.ref = pool, store.NewSlabRef(path, nonce)
	return os.Chmod(path, modeReaders)
}

// onHeap returns the model's heap memory, which it allocates the first time.
func (m *models) onHeap(s *model) *tensor.Package {
	if s.heap == nil {
		s.heap = tensor.AllocTouched(m.layout, m.pages)
	}
	return s.heap
}

// renew gives a model memory for its next contents, in the pool as far as there is room.
// Its older contents become invisible to readers.
func (m *models) renew(s *model) error {
	if err := s.release(m.pool); err != nil {
		return err
	}
	moved := s.p == nil
	for i := range s.handles {
		h, view, err := m.place(i)
		if err != nil {
			return err
		}
		if h == (slab.Handle{}) {
			view = m.onHeap(s).View(i)
		}
		moved = moved || len(view) > 0 && &view[0] != &s.views[i][0]
		s.handles[i], s.views[i] = h, view
	}
	if moved {
		s.p = tensor.NewScattered(m.layout, slices.Clone(s.views))
	}
	return nil
}

// place reserves a block for tensor i. The handle is zero if the tensor stays out of the
// pool or does not fit.
func (m *models) place(i int) (slab.Handle, []byte, error) {
	if m.pool == nil || m.misses(i) {
		return slab.Handle{}, nil, nil
	}
	h, view, err := m.pool.Reserve(m.layout.Bytes(i))
	if err != nil {
		var full *slab.FullError
		if errors.As(err, &full) { // the caller uses heap memory
			err = nil
		}
	}
	return h, view, err
}

// publish makes a model that is in the pool visible to readers.
func (m *models) publish(s *model) error {
	s.runs = s.runs[:0]
	var before slab.Handle
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			if err := m.pool.Publish(h); err != nil {
				return err
			}
			if before != (slab.Handle{}) && follows(before, h) {
				s.runs[len(s.runs)-1].Count++
			} else {
				s.runs = append(s.runs, run{First: i, Count: 1, Handle: store.EncodeHandle(h)})
			}
		}
		before = h
	}
	return nil
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
