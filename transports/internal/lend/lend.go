// Package lend keeps the heap memory of transports that cannot share memory:
// packages that are made once, lent, released and lent again.
//
// It is not an allocator: all packages of a bank have one layout and exist from
// the start, so a bank's memory is bounded and a loan never waits.
package lend

import (
	"errors"
	"fmt"
	"sync"

	"ipcbench/tensor"
)

// A Bank lends packages of one layout.
type Bank struct {
	what     string
	size     int
	ledger   *tensor.Ledger
	giveBack func(*tensor.Package) // takeBack, made once: a loan allocates nothing

	mu   sync.Mutex
	idle []*tensor.Package // guarded by mu; its capacity is the bank's size
}

// NewBank returns a bank of n packages on the heap, their memory touched. what
// names them in errors. Loans are counted in ledger.
func NewBank(what string, l *tensor.Layout, n int, ledger *tensor.Ledger) *Bank {
	idle := make([]*tensor.Package, n)
	for i := range idle {
		idle[i] = tensor.AllocTouched(l)
	}
	b := &Bank{what: what, size: n, ledger: ledger, idle: idle}
	b.giveBack = b.takeBack
	return b
}

// Lend returns a package, which is out until it is released. It is an error if
// all are.
func (b *Bank) Lend() (*tensor.Package, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.idle) == 0 {
		return nil, fmt.Errorf("all %d %s are out", b.size, b.what)
	}
	p := b.idle[len(b.idle)-1]
	b.idle = b.idle[:len(b.idle)-1]
	p.Lend(b.ledger, b.giveBack)
	return p, nil
}

func (b *Bank) takeBack(p *tensor.Package) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, p)
}

// A Model keeps the server's two models: the published one and the next one.
type Model struct {
	bank   *Bank
	ledger tensor.Ledger // models are the server's own and never counted as lent to its caller

	mu      sync.Mutex
	current *tensor.Package // guarded by mu; nil before the first Publish
}

// NewModel returns two models of layout l in heap memory.
func NewModel(l *tensor.Layout) *Model {
	m := &Model{}
	m.bank = NewBank("models", l, 2, &m.ledger)
	return m
}

// Reserve returns the model that is not published.
func (m *Model) Reserve() (*tensor.Package, error) { return m.bank.Lend() }

// Publish makes p current and takes the one before back.
func (m *Model) Publish(p *tensor.Package) error {
	if p == nil {
		return errors.New("no model")
	}
	m.mu.Lock()
	before := m.current
	m.current = p
	m.mu.Unlock()
	if before != nil && before != p {
		before.Release()
	}
	return nil
}

// Current returns the published model.
func (m *Model) Current() (*tensor.Package, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current == nil {
		return nil, errors.New("no model was published")
	}
	return m.current, nil
}
