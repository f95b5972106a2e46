package driver

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"ipcbench/tensor"
)

// A Renew makes a package in new memory, or in place of old. At first, old is zero or what
// the driver has given.
type Renew[M any] func(old M) (*tensor.Package, M, error)

// A HeapPair and a HeapBank have all their memory on the heap, from the start.
type (
	HeapPair = Pair[*tensor.Package]
	HeapBank = Bank[*tensor.Package]
)

// A Bank lends one lane's packages for updates. It makes all of them at the start, so its
// memory is bounded, and neither Reserve nor Lend ever waits or allocates. It is safe for
// concurrent use.
type Bank[M any] struct {
	ledger   *tensor.Ledger
	renew    Renew[M]
	free     func(M) error
	giveBack func(*tensor.Package) // takeBack as a value, made once so that Lend does not allocate

	mu       sync.Mutex
	loans    []loan[M] // guarded by mu
	reserved int       // guarded by mu: index of the next loan, or -1
	closed   bool      // guarded by mu
}

type loan[M any] struct {
	pkg    *tensor.Package
	memory M
	used   bool // it was lent since its memory was made
	lent   bool // it is lent now
}

// An OutError is the error of a Bank of that size if all its packages are lent.
type OutError int

func (n OutError) Error() string { return fmt.Sprintf("all %d updates of the lane are out", int(n)) }

var errClosed = errors.New("the session is over")

// NewBank returns a bank of a lane's updates on the heap.
func NewBank(o Options) *HeapBank {
	renew := func(*tensor.Package) (*tensor.Package, *tensor.Package, error) {
		p := o.Alloc(o.Up)
		return p, p, nil
	}
	b, _ := BankOf(o.Depth, o.Out, renew, func(*tensor.Package) error { return nil }) // renew never fails
	return b
}

// BankOf returns a bank of n packages in memory from renew. free is called with the memory
// of each package, once the bank is closed and the package is not lent.
func BankOf[M any](n int, ledger *tensor.Ledger, renew Renew[M], free func(M) error) (*Bank[M], error) {
	b := &Bank[M]{ledger: ledger, renew: renew, free: free, loans: make([]loan[M], n), reserved: -1}
	b.giveBack = b.takeBack
	for i := range b.loans {
		b.loans[i].used = true
	}
	return b, b.Renew()
}

// Renew renews the memory of all packages that were lent since it was made, and are
// neither lent nor reserved.
func (b *Bank[M]) Renew() (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.loans {
		l := &b.loans[i]
		if !l.used || l.lent || i == b.reserved {
			continue
		}
		if l.pkg, l.memory, err = b.renew(l.memory); err != nil {
			return err
		}
		l.used = false
	}
	return nil
}

// Reserve returns the memory of the package that the next Lend lends. The package stays
// free until then.
func (b *Bank[M]) Reserve() (memory M, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reserved = slices.IndexFunc(b.loans, func(l loan[M]) bool { return !l.lent }); b.reserved < 0 {
		return memory, OutError(len(b.loans))
	}
	return b.loans[b.reserved].memory, nil
}

// Lend lends the reserved package, or any if none is reserved, until it is released. It
// returns an OutError if all packages are lent.
func (b *Bank[M]) Lend() (*tensor.Package, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed { // its memory is freed, and a worker may submit after Shutdown
		return nil, errClosed
	}
	i := b.reserved
	if i < 0 {
		i = slices.IndexFunc(b.loans, func(l loan[M]) bool { return !l.lent })
	}
	if i < 0 {
		return nil, OutError(len(b.loans))
	}
	l := &b.loans[i]
	l.used, l.lent, b.reserved = true, true, -1
	l.pkg.ResetRows()
	l.pkg.Lend(b.ledger, b.giveBack)
	return l.pkg, nil
}

func (b *Bank[M]) takeBack(p *tensor.Package) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.loans[slices.IndexFunc(b.loans, func(l loan[M]) bool { return l.pkg == p })]
	l.lent = false
	if b.closed {
		_ = b.free(l.memory) // Release cannot return an error
	}
}

// Close frees the memory of all packages: of lent ones when they are released. It must be
// called at most once.
func (b *Bank[M]) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	var errs []error
	for _, l := range b.loans {
		if !l.lent {
			errs = append(errs, b.free(l.memory))
		}
	}
	return errors.Join(errs...)
}

// A Pair is the two models that a server keeps. Either may be published. It is safe for
// concurrent use.
type Pair[M any] struct {
	renew Renew[M]

	mu     sync.Mutex
	models [2]Model[M] // guarded by mu
	next   int         // guarded by mu: index of the model that Reserve returns
	serial uint64      // guarded by mu: serial number of the last publication
}

// A Model is one of a pair's models, with the data of its last publication.
type Model[M any] struct {
	Package *tensor.Package
	Memory  M // for example a handle
	Beside
}

// Beside is the data that travels with a model's tensors. Receipt and Rows are copies,
// which stay valid until the same model is published again.
type Beside struct {
	Receipt []byte // copied, because Package.Receipt is its user's memory
	Rows    []byte // numbers of rows in use, as [tensor.Package.AppendRows] encodes them
	Serial  uint64 // 1 for the first publication, 2 for the next
}

// NewPair returns two models on the heap.
func NewPair(o Options) *HeapPair {
	keep := func(old *tensor.Package) (*tensor.Package, *tensor.Package, error) { return old, old, nil }
	return PairOf(keep, o.Alloc(o.Down), o.Alloc(o.Down))
}

// PairOf returns a pair of models with these memories, if they are given. Each Reserve
// renews the memory of its model.
func PairOf[M any](renew Renew[M], memories ...M) *Pair[M] {
	p := &Pair[M]{renew: renew}
	for i, m := range memories {
		p.models[i].Memory = m
	}
	return p
}

// Reserve returns the model whose publication is older, or that was never published.
func (p *Pair[M]) Reserve() (*tensor.Package, error) {
	p.mu.Lock()
	old := p.models[p.next].Memory
	p.mu.Unlock()
	next, memory, err := p.renew(old) // unlocked, so that jobs with the other model are not held up
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.models[p.next]
	m.Package, m.Memory = next, memory
	return next, err
}

// Publish publishes the model that Reserve returned, so that Reserve returns the other.
func (p *Pair[M]) Publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	m := &p.models[p.next]
	m.Receipt, m.Rows, m.Serial = append(m.Receipt[:0], m.Package.Receipt...), m.Package.AppendRows(m.Rows[:0]), p.serial
	p.next = 1 - p.next
}

// Published returns the pair's model in this package, or the zero Model if that is nil. It
// panics if the package does not belong to the pair.
func (p *Pair[M]) Published(model *tensor.Package) Model[M] {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch model {
	case nil:
		return Model[M]{}
	case p.models[0].Package:
		return p.models[0]
	case p.models[1].Package:
		return p.models[1]
	}
	panic("driver: a job with a model of another server")
}

// Memories returns the memory of both models, for the end of a session.
func (p *Pair[M]) Memories() [2]M {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [2]M{p.models[0].Memory, p.models[1].Memory}
}
