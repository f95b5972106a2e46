package driver

import (
	"bytes"
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

// A Pair is the two models that a server keeps, on the heap: the published one and
// the next one.
type Pair struct {
	models [2]*tensor.Package

	mu        sync.Mutex
	published int    // guarded by mu: which of them is; -1 before the first Publish
	receipt   []byte // guarded by mu: its receipt, whose bytes never change
}

// NewPair returns two models of layout l.
func NewPair(l *tensor.Layout) *Pair {
	return &Pair{models: [2]*tensor.Package{tensor.AllocTouched(l), tensor.AllocTouched(l)}, published: -1}
}

// Reserve returns the model that is not published.
func (p *Pair) Reserve() *tensor.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.published == 0 {
		return p.models[1]
	}
	return p.models[0]
}

// Publish makes the model that Reserve returns the published one.
func (p *Pair) Publish() {
	next := p.Reserve()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published, p.receipt = 0, bytes.Clone(next.Receipt) // the slice's memory is the user's again
	if next == p.models[1] {
		p.published = 1
	}
}

// Current returns the published model, or nil if there is none, and the receipt that
// it was published with.
func (p *Pair) Current() (model *tensor.Package, receipt []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.published < 0 {
		return nil, nil
	}
	return p.models[p.published], p.receipt
}
