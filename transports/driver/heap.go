package driver

import (
	"fmt"
	"sync"

	"ipcbench/tensor"
)

// A Bank lends packages of one layout on the heap. It makes all of them at the start, so
// its memory is bounded and Lend never waits or allocates. It is safe for concurrent use.
type Bank struct {
	ledger   *tensor.Ledger
	giveBack func(*tensor.Package) // takeBack as a value, made once so that Lend does not allocate

	mu   sync.Mutex
	idle []*tensor.Package // guarded by mu: packages not lent; its capacity is the bank's size
}

// NewBank returns a bank of n packages of layout l. It counts lent packages in ledger.
func NewBank(l *tensor.Layout, n int, ledger *tensor.Ledger) *Bank {
	b := &Bank{ledger: ledger, idle: make([]*tensor.Package, n)}
	for i := range b.idle {
		b.idle[i] = tensor.AllocTouched(l)
	}
	b.giveBack = b.takeBack
	return b
}

// Lend lends a package until it is released. It returns an error if all packages are
// lent.
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
// It is safe for concurrent use.
type Pair struct {
	mu     sync.Mutex
	models [2]*tensor.Package
	beside [2]Beside // guarded by mu: data of each model's last publication
	next   int       // guarded by mu: index of the model that Reserve returns
	serial uint64    // guarded by mu: serial number of the last publication
}

// Beside is the data that travels with a model's tensors. Receipt and Rows are copies,
// which stay valid until the same model is published again.
type Beside struct {
	Receipt []byte // copied, because Package.Receipt is its user's memory
	Rows    []byte // numbers of rows in use, as [tensor.Package.AppendRows] encodes them
	Serial  uint64 // 1 for the first publication, 2 for the next
}

// Copy sets b to copies of p's receipt and rows, and to serial. It reuses b's memory.
func (b *Beside) Copy(p *tensor.Package, serial uint64) {
	b.Receipt, b.Rows, b.Serial = append(b.Receipt[:0], p.Receipt...), p.AppendRows(b.Rows[:0]), serial
}

// NewPair returns two models of layout l on the heap.
func NewPair(l *tensor.Layout) *Pair { return PairOf(tensor.AllocTouched(l), tensor.AllocTouched(l)) }

// PairOf returns a pair of two models that a driver has made, in memory of its choice.
func PairOf(a, b *tensor.Package) *Pair { return &Pair{models: [2]*tensor.Package{a, b}} }

// Reserve returns the model whose publication is older, or that was never published.
func (p *Pair) Reserve() *tensor.Package {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.models[p.next]
}

// Publish publishes the model that Reserve returns, so that Reserve returns the other.
func (p *Pair) Publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	p.beside[p.next].Copy(p.models[p.next], p.serial)
	p.next = 1 - p.next
}

// Published returns the data of model's last publication, or the zero Beside if model is
// nil. It panics if model does not belong to the pair.
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
	panic("driver: a job with a model of another server")
}
