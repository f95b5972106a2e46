package driver

import (
	"fmt"
	"sync"

	"ipcbench/tensor"
)

// A Bank lends packages of one layout on the heap: made once, lent, released and
// lent again. It is not an allocator: all packages exist from the start, so a bank's
// memory is bounded and a loan never waits.
type Bank struct {
	ledger   *tensor.Ledger
	giveBack func(*tensor.Package) // takeBack, made once: a loan allocates nothing

	mu   sync.Mutex
	idle []*tensor.Package // guarded by mu; its capacity is the bank's size
}

// NewBank returns a bank of n packages. Loans are counted in ledger.
func NewBank(l *tensor.Layout, n int, ledger *tensor.Ledger) *Bank {
	b := &Bank{ledger: ledger, idle: make([]*tensor.Package, n)}
	for i := range b.idle {
		b.idle[i] = tensor.AllocTouched(l)
	}
	b.giveBack = b.takeBack
	return b
}

// Lend returns a package, which is out until it is released. It is an error if
// all are.
func (b *Bank) Lend() (*tensor.Package, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) == 0 {
		return nil, fmt.Errorf("all %d updates of the lane are out", cap(b.idle))
	}
	p := b.idle[len(b.idle)-1]
	b.idle = b.idle[:len(b.idle)-1]
	p.ResetRows()
	p.Lend(b.ledger, b.giveBack)
	return p, nil
}

func (b *Bank) takeBack(p *tensor.Package) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, p)
}

// A Pair is the two models that a server keeps. Either may be published.
type Pair struct {
	mu     sync.Mutex
	models [2]*tensor.Package
	beside [2]Beside // guarded by mu: of each, when it was published last
	next   int       // guarded by mu: which of them Reserve returns
	serial uint64    // guarded by mu: of the one that was published last
}

// Beside is what travels of a published model beside its tensors: copies, whose memory
// is used again when the model is published again.
type Beside struct {
	Receipt []byte // a package's own belongs to its user
	Rows    []byte // in use: see [tensor.Package.AppendRows]
	Serial  uint64 // 1 for the first model that was published, 2 for the next
}

// Copy makes b what travels beside p.
func (b *Beside) Copy(p *tensor.Package, serial uint64) {
	b.Receipt, b.Rows, b.Serial = append(b.Receipt[:0], p.Receipt...), p.AppendRows(b.Rows[:0]), serial
}

// NewPair returns two models of layout l on the heap.
func NewPair(l *tensor.Layout) *Pair { return PairOf(tensor.AllocTouched(l), tensor.AllocTouched(l)) }

// PairOf returns a pair of models that lie wherever their driver keeps them.
func PairOf(a, b *tensor.Package) *Pair { return &Pair{models: [2]*tensor.Package{a, b}} }

// Reserve returns the model that was published longest ago, or not yet.
func (p *Pair) Reserve() *tensor.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.models[p.next]
}

// Publish makes the model that Reserve returns a published one.
func (p *Pair) Publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	p.beside[p.next].Copy(p.models[p.next], p.serial)
	p.next = 1 - p.next
}

// Published returns what travels beside model, as it was published last: nothing if
// model is nil. It panics if the model is none of the pair.
func (p *Pair) Published(model *tensor.Package) Beside {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch model {
	case nil:
		return Beside{}
	case p.models[0]:
		return p.beside[0]
	case p.models[1]:
		return p.beside[1]
	}
	panic("driver: a job with a model of somebody else's")
}
