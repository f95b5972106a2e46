package http

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"ipcbench/scratch"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// slabs are the server's shared memory: one slab for the models and one for each
// lane's updates. The store makes its own in the same directory.
type slabs struct {
	dir    *scratch.Dir
	size   slabSizes
	models *slabModels
	lanes  []laneSlab
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

// slabSizes are the capacities of a session's slabs.
type slabSizes struct{ models, updates, store int }

// total returns the bytes of the slabs that a session has from the start.
func (s slabSizes) total(lanes int) int64 {
	total := int64(s.models)
	if int64(s.updates) > (math.MaxInt64-total)/int64(lanes) {
		return math.MaxInt64
	}
	return total + int64(lanes)*int64(s.updates)
}

func sizesOf(o driver.Options, c config) (s slabSizes, err error) {
	if !c.shm {
		return s, nil
	}
	if c.pool > 0 {
		return slabSizes{c.pool, c.pool, c.pool}, nil
	}
	s.store = storeRoom(o)
	for i := range o.Down.Len() {
		n, ok := slab.Extent(o.Down.Bytes(i), true)
		if !ok || n > 1<<60-s.models {
			return s, fmt.Errorf("tensors of %d bytes overflow", o.Down.Payload())
		}
		s.models += n
	}
	s.models = max(2*s.models, slab.Align)
	s.updates, err = slab.SizeOf(o.Up, o.Depth)
	return s, err
}

func newSlabs(o driver.Options, c config, ledgers []tensor.Ledger) (p *slabs, err error) {
	size, err := sizesOf(o, c)
	if err != nil {
		return nil, err
	}
	p = &slabs{size: size}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if p.dir, err = scratch.New(scratch.SharedMemory); err != nil {
		return p, err
	}
	if p.models, err = newSlabModels(filepath.Join(p.dir.Path(), "models"), size.models, o.Down); err != nil {
		return p, err
	}
	for n := range o.Lanes {
		l, err := newLaneSlab(filepath.Join(p.dir.Path(), fmt.Sprintf("updates-%d", n)), size.updates, o.Up, &ledgers[n])
		if err != nil {
			return p, err
		}
		p.lanes = append(p.lanes, l)
	}
	return p, nil
}

func newLaneSlab(path string, size int, l *tensor.Layout, ledger *tensor.Ledger) (laneSlab, error) {
	mem, nonce, err := slab.CreateNamed(path, size)
	if err != nil {
		return laneSlab{}, err
	}
	u, err := slab.NewUpdates(mem, l, ledger)
	if err == nil {
		err = mem.Protect() // the worker writes, and nobody else
	}
	p := laneSlab{updates: u, ref: store.NewSlabRef(path, nonce)}
	if err == nil {
		err = p.permit(modeReaders)
	}
	if err != nil {
		return laneSlab{}, errors.Join(err, mem.Close())
	}
	return p, nil
}

// store returns where the store makes its slab, and how large.
func (p *slabs) store() (path string, size int) {
	return filepath.Join(p.dir.Path(), "stored"), p.size.store
}

// close gives all memory up. That of updates which are lent lives until they
// are released.
func (p *slabs) close() error {
	var err error
	if p.models != nil {
		err = p.models.close()
	}
	for _, l := range p.lanes {
		err = errors.Join(err, l.updates.Close())
	}
	if p.dir != nil {
		err = errors.Join(err, p.dir.Close())
	}
	return err
}

// slabModels keeps the server's two models, tensor by tensor, in a stamped pool
// from which other processes read. What does not fit lies on the heap, and
// travels as a body.
type slabModels struct {
	pool    *slab.Pool
	ref     *store.SlabRef
	layout  *tensor.Layout
	slots   [2]slabModel
	current int // slot of the published model, -1 before the first
	ready   int // slot of the reserved model, -1 if there is none
}

// A slabModel is one of the two models. Round after round it gets blocks at the
// same places, so its package is made once.
type slabModel struct {
	p       *tensor.Package
	handles []slab.Handle // of tensors, zero where one lies on the heap
	views   [][]byte
	heap    [][]byte // memory of tensors that did not fit, kept
	runs    []run    // where the tensors lie, as workers are told
}

func newSlabModels(path string, size int, l *tensor.Layout) (*slabModels, error) {
	pool, nonce, err := slab.CreatePool(path, size)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, modeReaders); err != nil {
		return nil, errors.Join(err, pool.Close(context.Background())) // nothing is in flight
	}
	m := &slabModels{pool: pool, ref: store.NewSlabRef(path, nonce), layout: l, current: -1, ready: -1}
	for i := range m.slots {
		m.slots[i] = slabModel{
			handles: make([]slab.Handle, l.Len()), views: make([][]byte, l.Len()), heap: make([][]byte, l.Len()),
		}
	}
	return m, nil
}

// Reserve places the next model, as far as the slab has room.
func (m *slabModels) Reserve() (*tensor.Package, error) {
	if m.ready >= 0 {
		return nil, errors.New("a model is reserved already")
	}
	slot := 0
	if m.current == 0 {
		slot = 1
	}
	s := &m.slots[slot]
	moved := s.p == nil
	for i := range m.layout.Len() {
		h, view, err := m.pool.Reserve(m.layout.Bytes(i))
		if isFull(err) {
			if s.heap[i] == nil {
				s.heap[i] = heapTensor(m.layout.Bytes(i))
			}
			h, view, err = slab.Handle{}, s.heap[i], nil
		}
		if err != nil {
			return nil, errors.Join(err, m.release(s, i))
		}
		moved = moved || s.handles[i].Offset != h.Offset
		s.handles[i], s.views[i] = h, view
	}
	if moved {
		s.p = tensor.NewScattered(m.layout, append([][]byte(nil), s.views...))
	}
	m.ready = slot
	return s.p, nil
}

func isFull(err error) bool {
	if err == nil {
		return false
	}
	var full *slab.FullError
	return errors.As(err, &full)
}

// heapTensor returns n bytes of aligned memory.
func heapTensor(n int) []byte { return slab.Heap(n).Bytes() }

// Publish makes p, which must be reserved, visible to readers, and the model
// before it invisible before its memory is used again.
func (m *slabModels) Publish(p *tensor.Package) error {
	if m.ready < 0 || m.slots[m.ready].p != p {
		return errors.New("publish of a model that is not reserved")
	}
	s := &m.slots[m.ready]
	s.runs = s.runs[:0]
	var before slab.Handle
	for i, h := range s.handles {
		if h == (slab.Handle{}) {
			before = h
			continue
		}
		if err := m.pool.Publish(h); err != nil {
			return err
		}
		if n := len(s.runs); before != (slab.Handle{}) && follows(before, h) {
			s.runs[n-1].Count++
		} else {
			s.runs = append(s.runs, run{First: i, Count: 1, Handle: store.EncodeHandle(h)})
		}
		before = h
	}
	old := m.current
	m.current, m.ready = m.ready, -1
	if old >= 0 {
		return m.release(&m.slots[old], m.layout.Len())
	}
	return nil
}

// release gives the blocks of the first n tensors of s back.
func (m *slabModels) release(s *slabModel, n int) error {
	var err error
	for _, h := range s.handles[:n] {
		if h != (slab.Handle{}) {
			err = errors.Join(err, m.pool.Release(h))
		}
	}
	return err
}

// runs returns where the published model lies.
func (m *slabModels) runs() []run { return m.slots[m.current].runs }

func (m *slabModels) close() error {
	var err error
	for _, i := range []int{m.current, m.ready} {
		if i >= 0 {
			err = errors.Join(err, m.release(&m.slots[i], m.layout.Len()))
		}
	}
	m.current, m.ready = -1, -1
	return errors.Join(err, m.pool.Close(context.Background())) // nothing is in flight: it does not wait
}
