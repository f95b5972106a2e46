package slab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"ipcbench/tensor"
)

// Packages are the packages of one layout in one memory: one for every place
// where a block of that size can lie. They are made once, so that a handle turns
// into tensors without an allocation, on either side.
type Packages struct {
	mem    *Memory
	layout *tensor.Layout
	extent int
	places []*tensor.Package
}

// SizeOf returns the size of a memory with room for n packages of layout l.
func SizeOf(l *tensor.Layout, n int) (int, error) {
	extent, ok := Extent(l.Size(), false)
	if !ok || extent > int(^uint(0)>>1)/n {
		return 0, fmt.Errorf("slab: %d packages of %d bytes overflow", n, l.Size())
	}
	return extent * n, nil
}

// Sizes returns the sizes of a session's memories: that of the pair of models, and that
// of the updates of each of its lanes.
func Sizes(down, up *tensor.Layout, lanes, depth int) (models, updates int, err error) {
	if models, err = SizeOf(down, 2); err == nil {
		updates, err = SizeOf(up, depth)
	}
	if err == nil && updates > (int(^uint(0)>>1)/2-models)/lanes {
		err = fmt.Errorf("slab: %d lanes of %d bytes overflow", lanes, updates)
	}
	return models, updates, err
}

// NewPackages returns the packages of layout l that fit into mem.
func NewPackages(mem *Memory, l *tensor.Layout) *Packages {
	extent, ok := Extent(l.Size(), false)
	if !ok {
		panic(fmt.Sprintf("slab: packages of %d bytes in a memory of %d", l.Size(), mem.Len()))
	}
	p := &Packages{mem: mem, layout: l, extent: extent, places: make([]*tensor.Package, mem.Len()/extent)}
	for i := range p.places {
		p.places[i] = tensor.NewPackage(l, mem.bytes[i*extent:(i+1)*extent])
	}
	return p
}

// At returns the package that h names, and which place it has.
func (p *Packages) At(h Handle) (int, *tensor.Package, error) {
	if err := h.Within(p.mem.Len(), p.layout.Size()); err != nil {
		return 0, nil, err
	}
	i := int(h.Offset) / p.extent
	if int(h.Offset)%p.extent != 0 || i >= len(p.places) {
		return 0, nil, fmt.Errorf("slab: handle to offset %d, packages lie %d apart: %w", h.Offset, p.extent, ErrAlignment)
	}
	return i, p.places[i], nil
}

// Models keeps a server's pair of global models in a pool: the published one and the
// next.
type Models struct {
	pool              *Pool
	packages          *Packages
	current, reserved Handle // zero if there is none
}

// NewModels returns the models of layout l in mem, which it takes and which
// must have the size that SizeOf(l, 2) says.
func NewModels(mem *Memory, l *tensor.Layout) (*Models, error) {
	pool, err := newPool(mem, false)
	if err != nil {
		return nil, err
	}
	return &Models{pool: pool, packages: NewPackages(mem, l)}, nil
}

// Memory returns the memory in which the models lie.
func (m *Models) Memory() *Memory { return m.pool.mem }

// Reserve returns where the next model is to be written.
func (m *Models) Reserve() (p *tensor.Package, err error) {
	if m.reserved, _, err = m.pool.Reserve(m.packages.layout.Size()); err == nil {
		_, p, err = m.packages.At(m.reserved)
	}
	return p, err
}

// Publish makes the model that is reserved the current one and gives the room of the
// one before back.
func (m *Models) Publish() error {
	if err := m.pool.Publish(m.reserved); err != nil {
		return err
	}
	before := m.current
	m.current, m.reserved = m.reserved, Handle{}
	return m.release(before)
}

func (m *Models) release(h Handle) error {
	if h == (Handle{}) {
		return nil
	}
	return m.pool.Release(h)
}

// Current returns the handle of the published model.
func (m *Models) Current() Handle { return m.current }

// Close gives the models and their memory up.
func (m *Models) Close() error {
	return errors.Join(m.release(m.reserved), m.release(m.current), m.pool.Close(context.Background())) // nothing is in flight: it does not wait
}

// Updates keeps one lane's updates in a pool, on the server, which does all the
// allocating. Each is reserved when a job goes out and lent when the update is
// back.
type Updates struct {
	pool     *Pool
	packages *Packages
	ledger   *tensor.Ledger
	giveBack func(*tensor.Package)

	mu      sync.Mutex // guards what follows
	handles []Handle   // by place, of the blocks that are reserved or lent
	out     Handle     // reserved and not lent; zero if there is none
	closed  bool
}

// NewUpdates returns a lane's updates of layout l in mem, which it takes. Those
// that are lent are counted in ledger.
func NewUpdates(mem *Memory, l *tensor.Layout, ledger *tensor.Ledger) (*Updates, error) {
	pool, err := newPool(mem, false)
	if err != nil {
		return nil, err
	}
	u := &Updates{pool: pool, packages: NewPackages(mem, l), ledger: ledger}
	u.handles = make([]Handle, len(u.packages.places))
	u.giveBack = u.takeBack
	return u, nil
}

// Memory returns the memory in which the updates lie.
func (u *Updates) Memory() *Memory { return u.pool.mem }

// Reserve allocates the update of the job that goes out next.
func (u *Updates) Reserve() (Handle, *tensor.Package, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
		return Handle{}, nil, ErrClosed
	case u.out != (Handle{}):
		return Handle{}, nil, errors.New("an update is reserved already")
	}
	h, _, err := u.pool.Reserve(u.packages.layout.Size())
	if err != nil {
		return Handle{}, nil, err
	}
	i, p, err := u.packages.At(h)
	if err != nil {
		return Handle{}, nil, err
	}
	u.out, u.handles[i] = h, h
	return h, p, nil
}

// Lend publishes the update that was reserved last and lends it to the server's
// user. It is an error if h, which came back from the worker, is not its handle.
func (u *Updates) Lend(h Handle) (*tensor.Package, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.out == (Handle{}) {
		return nil, errors.New("no update is reserved")
	}
	if h != u.out {
		return nil, fmt.Errorf("update %+v, the job was given %+v: %w", h, u.out, ErrStale)
	}
	_, p, err := u.packages.At(h)
	if err == nil {
		err = u.pool.Publish(h)
	}
	if err != nil {
		return nil, err
	}
	u.out = Handle{}
	p.Lend(u.ledger, u.giveBack)
	return p, nil
}

func (u *Updates) takeBack(p *tensor.Package) {
	u.mu.Lock()
	h := u.handles[slices.Index(u.packages.places, p)]
	u.mu.Unlock()
	if err := u.pool.Release(h); err != nil {
		panic(err) // it was lent, so its handle is good
	}
}

// Close gives the memory up, except for the updates that are lent: the last
// Release unmaps it. A second call does nothing.
func (u *Updates) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	var err error
	if u.out != (Handle{}) {
		err = u.pool.Release(u.out)
		u.out = Handle{}
	}
	return errors.Join(err, u.pool.Close(context.Background())) // nothing is in flight: it does not wait
}
