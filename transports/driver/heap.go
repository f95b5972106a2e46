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

// A Pair is the two models that a server keeps: the published one and the next one.
type Pair struct {
	models   [2]*tensor.Package
	receipts [2][]byte // that they were published with: the memory of a package's own is its user's

	mu        sync.Mutex
	published int // guarded by mu: which of them is; -1 before the first Publish
}

// NewPair returns two models of layout l on the heap.
func NewPair(l *tensor.Layout) *Pair { return PairOf(tensor.AllocTouched(l), tensor.AllocTouched(l)) }

// PairOf returns a pair of models that lie wherever their driver keeps them.
func PairOf(a, b *tensor.Package) *Pair {
	return &Pair{models: [2]*tensor.Package{a, b}, published: -1}
}

// Reserve returns the model that is not published.
func (p *Pair) Reserve() *tensor.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.models[p.next()]
}

// next returns which model is not published. p.mu is held.
func (p *Pair) next() int {
	if p.published == 0 {
		return 1
	}
	return 0
}

// Publish makes the model that Reserve returns the published one.
func (p *Pair) Publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.next()
	p.receipts[n] = append(p.receipts[n][:0], p.models[n].Receipt...)
	p.published = n
}

// Current returns the published model, or nil if there is none, and the receipt that
// it was published with. Both stay what they are until the next Publish, after which
// the model is the one that Reserve returns.
func (p *Pair) Current() (model *tensor.Package, receipt []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.published < 0 {
		return nil, nil
	}
	return p.models[p.published], p.receipts[p.published]
}
