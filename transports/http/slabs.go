package http

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

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

// proof returns where a worker writes what proves that it shares the slab.
func (p *laneSlab) proof(h slab.Handle) []byte {
	mem := p.updates.Memory().Bytes()
	if n := uint64(len(mem)); h.Offset > n || n-h.Offset < challengeSize {
		return nil
	}
	return mem[h.Offset:][:challengeSize]
}

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

func newSlabs(o driver.Options, c config) (p *slabs, err error) {
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
		l, err := newLaneSlab(filepath.Join(p.dir.Path(), fmt.Sprintf("updates-%d", n)), size.updates, o.Up, o.Out)
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
	pool            *slab.Pool
	ref             *store.SlabRef
	layout          *tensor.Layout
	next, published *slabModel
}

// A slabModel is one of the two models. Round after round it gets blocks at the
// same places, so its package is made once.
type slabModel struct {
	p       *tensor.Package
	handles []slab.Handle // of tensors, zero where one lies on the heap
	views   [][]byte
	heap    *tensor.Package // memory of tensors that did not fit, kept
	runs    []run           // where the tensors lie, as workers are told
}

func newSlabModels(path string, size int, l *tensor.Layout) (*slabModels, error) {
	pool, nonce, err := slab.CreatePool(path, size)
	if err != nil {
		return nil, err
	}
	model := func() *slabModel {
		return &slabModel{handles: make([]slab.Handle, l.Len()), views: make([][]byte, l.Len())}
	}
	m := &slabModels{pool: pool, ref: store.NewSlabRef(path, nonce), layout: l, next: model(), published: model()}
	if err := os.Chmod(path, modeReaders); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// reserve places the next model, as far as the slab has room.
func (m *slabModels) reserve() (*tensor.Package, error) {
	s, moved := m.next, m.next.p == nil
	for i := range s.handles {
		h, view, err := m.pool.Reserve(m.layout.Bytes(i))
		if err != nil {
			if !isFull(err) {
				return nil, err
			}
			if s.heap == nil {
				s.heap = tensor.AllocTouched(m.layout)
			}
			h, view = slab.Handle{}, s.heap.View(i)
		}
		moved = moved || len(view) > 0 && &view[0] != &s.views[i][0]
		s.handles[i], s.views[i] = h, view
	}
	if moved {
		s.p = tensor.NewScattered(m.layout, slices.Clone(s.views))
	}
	return s.p, nil
}

func isFull(err error) bool {
	var full *slab.FullError
	return errors.As(err, &full)
}

// publish makes the model that is reserved visible to readers, and the model before
// it invisible before its memory is used again.
func (m *slabModels) publish() error {
	s := m.next
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
	m.next, m.published = m.published, s
	return m.next.release(m.pool)
}

// release gives the blocks of all tensors back.
func (s *slabModel) release(pool *slab.Pool) (err error) {
	for i, h := range s.handles {
		if h != (slab.Handle{}) {
			err = errors.Join(err, pool.Release(h))
			s.handles[i] = slab.Handle{}
		}
	}
	return err
}

func (m *slabModels) close() error {
	return errors.Join(m.next.release(m.pool), m.published.release(m.pool), m.pool.Close(context.Background())) // nothing is in flight: it does not wait
}
