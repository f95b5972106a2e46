package slab

import (
	"fmt"
	"slices"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// Packages are the packages of one layout that have a place in one memory. They are
// made once, so that a handle turns into tensors without an allocation, on either side.
type Packages struct {
	mem    *Memory
	layout *tensor.Layout
	extent int
	places []*tensor.Package
}

// SizeOf returns the size of a memory with room for n packages of layout l.
func SizeOf(l *tensor.Layout, n int) (int, error) {
	extent, ok := place(l.Size())
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

// NewPackages returns the packages of layout l that fit into mem, which it takes.
func NewPackages(mem *Memory, l *tensor.Layout) *Packages {
	extent, ok := place(l.Size())
	if !ok {
		panic(fmt.Sprintf("slab: packages of %d bytes in a memory of %d", l.Size(), mem.Len()))
	}
	p := &Packages{mem: mem, layout: l, extent: extent, places: make([]*tensor.Package, mem.Len()/extent)}
	for i := range p.places {
		p.places[i] = tensor.NewPackage(l, mem.bytes[i*extent:(i+1)*extent])
	}
	return p
}

// Pair returns the packages as a server's pair of models. There must be two.
func (p *Packages) Pair() *driver.Pair { return driver.PairOf(p.places[0], p.places[1]) }

// Handle names one of the packages.
func (p *Packages) Handle(one *tensor.Package) Handle { return p.handle(slices.Index(p.places, one)) }

func (p *Packages) handle(i int) Handle {
	return Handle{Offset: uint64(i * p.extent), Length: uint64(p.layout.Size())}
}

// At returns the package that h names.
func (p *Packages) At(h Handle) (*tensor.Package, error) {
	if err := h.Within(p.mem.Len(), p.layout.Size()); err != nil {
		return nil, err
	}
	i := int(h.Offset) / p.extent
	if int(h.Offset)%p.extent != 0 || i >= len(p.places) {
		return nil, fmt.Errorf("slab: handle to offset %d, packages lie %d apart: %w", h.Offset, p.extent, ErrAlignment)
	}
	return p.places[i], nil
}

// Memory returns the memory in which the packages lie.
func (p *Packages) Memory() *Memory { return p.mem }

// Close gives the memory up. It is unmapped when nobody keeps it any more: with the
// release of the last of a lane's [Updates] that is lent.
func (p *Packages) Close() error { return p.mem.Close() }

// Updates are the places of one lane's updates, on the server, which chooses among
// them. One is reserved when a job goes out and lent when the update is back.
type Updates struct {
	*Packages
	ledger   *tensor.Ledger
	giveBack func(*tensor.Package)

	mu         sync.Mutex // guards what follows
	lent       []bool     // by place
	out        Handle     // reserved and not lent; zero if there is none
	generation uint64     // of the last reservation: the answer to an earlier job has another one
}

// NewUpdates returns a lane's updates of layout l in mem, which it takes. Those
// that are lent are counted in ledger.
func NewUpdates(mem *Memory, l *tensor.Layout, ledger *tensor.Ledger) *Updates {
	u := &Updates{Packages: NewPackages(mem, l), ledger: ledger}
	u.lent, u.giveBack = make([]bool, len(u.places)), u.takeBack
	return u
}

// Reserve chooses the place for the update of the job that goes out next. It never
// waits: if there is no room the error is a *FullError.
func (u *Updates) Reserve() (Handle, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.lent, false)
	if i < 0 {
		return Handle{}, &FullError{Need: u.extent, Used: len(u.lent) * u.extent, Capacity: u.mem.Len()}
	}
	u.generation++
	u.out = u.handle(i)
	u.out.Generation = u.generation
	return u.out, nil
}

// Lend lends the update that was reserved last to the server's user. It is an error
// if h, which came back from the worker, is not its handle.
func (u *Updates) Lend(h Handle) (*tensor.Package, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h != u.out || h == (Handle{}) {
		return nil, fmt.Errorf("update %+v, the job was given %+v: %w", h, u.out, ErrOther)
	}
	i := int(h.Offset) / u.extent
	u.lent[i], u.out = true, Handle{}
	u.mem.Keep()
	u.places[i].Lend(u.ledger, u.giveBack)
	return u.places[i], nil
}

func (u *Updates) takeBack(p *tensor.Package) {
	u.mu.Lock()
	u.lent[slices.Index(u.places, p)] = false
	u.mu.Unlock()
	_ = u.mem.Close() // what can go wrong is the unmapping
}
