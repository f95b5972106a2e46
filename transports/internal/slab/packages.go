package slab

import (
	"errors"
	"fmt"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// Packages are packages of one layout at fixed places of one memory. They are made once,
// so that a handle resolves to tensors without an allocation.
type Packages struct {
	mem    *Memory
	layout *tensor.Layout
	extent int
	places []*tensor.Package
}

// SizeOf returns the size of a memory for n packages of layout l. It fails on overflow.
func SizeOf(l *tensor.Layout, n int) (int, error) {
	extent, ok := place(l.Size())
	if !ok || extent > int(^uint(0)>>1)/n {
		return 0, fmt.Errorf("slab: %d packages of %d bytes overflow", n, l.Size())
	}
	return extent * n, nil
}

// Sizes returns the sizes of a session's memories: for the two models, and for the depth
// updates of each lane. It fails if their sum overflows.
func Sizes(down, up *tensor.Layout, lanes, depth int) (models, updates int, err error) {
	if models, err = SizeOf(down, 2); err == nil {
		updates, err = SizeOf(up, depth)
	}
	if err == nil && updates > (int(^uint(0)>>1)/2-models)/lanes {
		err = fmt.Errorf("slab: %d lanes of %d bytes overflow", lanes, updates)
	}
	return models, updates, err
}

// NewPackages returns as many packages of layout l as fit into mem, and takes ownership of
// mem.
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

// Pair returns the first two packages as a server's pair of models.
func (p *Packages) Pair() *driver.Pair[Handle] {
	return driver.PairOf(func(h Handle) (*tensor.Package, Handle, error) {
		model, err := p.At(h)
		return model, h, err
	}, p.handle(0), p.handle(1))
}

func (p *Packages) handle(i int) Handle {
	return Handle{Offset: uint64(i * p.extent), Length: uint64(p.layout.Size())}
}

// At returns the package that h names. h may come from another process; it fails if h does
// not name a package.
func (p *Packages) At(h Handle) (*tensor.Package, error) {
	if err := h.Within(p.mem.Len(), p.layout.Size()); err != nil {
		return nil, err
	}
	i := int(h.Offset) / p.extent
	if int(h.Offset)%p.extent != 0 || i >= len(p.places) {
		return nil, fmt.Errorf("slab: handle to offset %d, packages are %d apart: %w", h.Offset, p.extent, ErrAlignment)
	}
	return p.places[i], nil
}

// Memory returns the memory of the packages.
func (p *Packages) Memory() *Memory { return p.mem }

// Close drops the reference to the memory.
func (p *Packages) Close() error { return p.mem.Close() }

// Updates are one lane's packages for updates, on the server. The server reserves one for
// each job and lends it to its user when the update arrives. One goroutine reserves.
type Updates struct {
	*Packages
	bank       *driver.Bank[Handle]
	generation uint64 // of the last reservation, so that the answer to an earlier job is noticed
}

// NewUpdates returns as many updates of layout l as fit into mem, and takes ownership of
// mem. It counts lent updates in ledger.
func NewUpdates(mem *Memory, l *tensor.Layout, ledger *tensor.Ledger) *Updates {
	u, next := &Updates{Packages: NewPackages(mem, l)}, -1
	place := func(Handle) (*tensor.Package, Handle, error) {
		mem.Keep() // until the bank frees this place
		next++
		return u.places[next], u.handle(next), nil
	}
	u.bank, _ = driver.BankOf(len(u.places), ledger, place, func(Handle) error { return mem.Close() }) // place never fails
	return u
}

// Reserve returns the handle of a free place for the next job's update. It replaces an
// earlier reservation that was not lent. It never waits: if all places are lent, the error
// is a [driver.OutError].
func (u *Updates) Reserve() (Handle, error) {
	h, err := u.bank.Reserve()
	if err == nil {
		u.generation++
		h.Generation = u.generation
	}
	return h, err
}

// Lend lends the update that was reserved last until it is released.
func (u *Updates) Lend() (*tensor.Package, error) { return u.bank.Lend() }

// Close drops the references to the memory. Lent updates keep it mapped until they are
// released.
func (u *Updates) Close() error { return errors.Join(u.bank.Close(), u.Packages.Close()) }
