package tensor

import (
	"fmt"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A Package is a receipt and the tensors of one layout: a model sent by the server, or an
// update sent by a client.
//
// A package belongs to the transport that made it and is lent to its user. Its memory may
// be shared with other processes; if the transport's contract says so, it is read-only. A
// package must not be used after its release.
type Package struct {
	// Receipt is all data other than tensors. The sender sets it before sending and may
	// reuse its memory afterwards. The receiver must not change it.
	Receipt []byte

	// Coding describes how each tensor is encoded. Plain is the package that was encoded
	// (for a model, the decoded one), to serve receivers that cannot decode. Both are nil
	// if the package is not encoded. The sender sets them before sending, and must not
	// change their contents until the package is released. They are not sent as such:
	// transports whose protocol does not describe encodings ignore them.
	Coding []Coding
	Plain  *Package

	layout *Layout
	data   [][]byte // of each tensor, the rows in use
	rows   []int    // rows in use of each tensor; nil if no tensor is Var

	lent   atomic.Bool
	ledger *Ledger
	free   func(*Package)
}

// A Coding describes the encoding of one tensor.
type Coding struct {
	Spec     Spec     // of the decoded tensor
	Steps    []string // codec stages, in the order of encoding; none if the bytes are the tensor's own
	Lossless bool     // decoding gives exactly the sender's values
	Base     int64    // version of the model to decode against; -1 for none
}

// NewPackage returns a package whose tensors are parts of mem, at the offsets of l. It
// keeps mem, which must start at a multiple of 8, and panics if mem is smaller than
// l.Size.
func NewPackage(l *Layout, mem []byte) *Package {
	if len(mem) < l.size {
		panic(fmt.Sprintf("tensor: %d bytes of memory for a layout of %d", len(mem), l.size))
	}
	data := make([][]byte, len(l.specs))
	for i, off := range l.offsets {
		data[i] = mem[off : off+l.sizes[i] : off+l.sizes[i]]
	}
	return NewScattered(l, data)
}

// NewScattered returns a package whose tensor i is data[i]. It keeps data and changes its
// entries if rows in use change. It panics if the lengths are not the sizes in l.
func NewScattered(l *Layout, data [][]byte) *Package {
	if len(data) != len(l.specs) {
		panic(fmt.Sprintf("tensor: %d tensors for a layout of %d", len(data), len(l.specs)))
	}
	for i, d := range data {
		if len(d) != l.sizes[i] {
			panic(fmt.Sprintf("tensor: %q: %d bytes instead of %d", l.specs[i].Name, len(d), l.sizes[i]))
		}
	}
	p := &Package{layout: l, data: data}
	p.ResetRows()
	return p
}

func (p *Package) Layout() *Layout { return p.layout }

func (p *Package) Len() int { return len(p.data) }

// View returns the memory of tensor i, not a copy: only the rows in use.
func (p *Package) View(i int) []byte { return p.data[i] }

// CopyFrom copies all tensors of q, its rows in use and its receipt into p. It panics if
// their layouts differ.
func (p *Package) CopyFrom(q *Package) {
	if p.layout != q.layout {
		panic("tensor: copy between packages of different layouts")
	}
	for _, i := range p.layout.vars {
		p.setRows(i, q.rows[i])
	}
	for i := range p.data {
		copy(p.data[i], q.data[i])
	}
	p.Receipt = append(p.Receipt[:0], q.Receipt...)
}

// Hash returns a hash (XXH3) of all tensors in order, without padding. It depends on the
// bytes and rows in use, not on where they are in memory.
func (p *Package) Hash() uint64 { return p.hash(func(int, uint64) {}) }

// Hashes returns the hash after each tensor; the last one equals [Package.Hash].
func (p *Package) Hashes() []uint64 {
	all := make([]uint64, len(p.data))
	h := p.hash(func(i int, h uint64) { all[i] = h })
	if len(all) > 0 {
		all[len(all)-1] = h
	}
	return all
}

func (p *Package) hash(after func(i int, h uint64)) (h uint64) {
	for i, d := range p.data {
		h = xxh3.HashSeed(d, h+uint64(len(d)))
		after(i, h)
	}
	for _, i := range p.layout.vars {
		h = mix(h, uint64(p.rows[i])) // rows may have no bytes
	}
	return h
}

// Lend marks p as lent and counts it in ledger. [Package.Release] will call free, if not
// nil. Lend panics if p is lent already, which is a bug of the transport.
func (p *Package) Lend(ledger *Ledger, free func(*Package)) {
	if !p.lent.CompareAndSwap(false, true) {
		panic("tensor: package lent twice")
	}
	p.ledger, p.free = ledger, free
	ledger.out.Add(1)
}

// Release returns a lent package. Any goroutine may call it, even after the transport was
// shut down. It panics if p is not lent, because its memory may already be in use again.
func (p *Package) Release() {
	ledger, free := p.ledger, p.free
	if !p.lent.CompareAndSwap(true, false) {
		panic("tensor: package released twice")
	}
	if free != nil {
		free(p)
	}
	ledger.out.Add(-1)
}

// A Ledger counts lent packages. The zero Ledger is empty.
type Ledger struct{ out atomic.Int64 }

// Out returns the number of packages that are lent and not released.
func (l *Ledger) Out() int { return int(l.out.Load()) }
