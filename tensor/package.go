package tensor

import (
	"fmt"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A Package is a receipt and the tensors of one layout: a global model on its
// way down, or a client's update on its way up.
//
// A package belongs to the transport that made it and is lent to its user. The
// memory of its tensors may be shared with other processes and, where the
// contract says so, be read-only. It must not be used after it was released.
type Package struct {
	// Receipt is everything that is not a tensor. The sender sets it before it
	// hands the package over and may reuse the slice's memory afterwards; the
	// receiver must not change it.
	Receipt []byte

	// Coding says of each tensor what it is an encoding of, and Plain holds what was
	// encoded: of a model what it decodes to, for whoever cannot decode. Both are nil of a package
	// whose tensors are what they are. The sender sets them before it hands the package
	// over, and leaves what they hold as it is until it has the package back. No receiver
	// gets them, and a transport that has no words for them ignores them.
	Coding []Coding
	Plain  *Package

	layout *Layout
	data   [][]byte // the bytes in use
	rows   []int    // in use, of every tensor; nil if no length varies

	lent   atomic.Bool
	ledger *Ledger
	free   func(*Package)
}

// A Coding says what the bytes of an encoded tensor are made of.
type Coding struct {
	Spec     Spec     // of the tensor that they decode to
	Steps    []string // by name, in the order of encoding; none: they are the tensor's own
	Lossless bool     // they decode to exactly what the sender had
	Base     int64    // the version of the model from which they are the difference; -1 if they stand alone
}

// NewPackage returns a package whose tensors lie in mem at the offsets of l. It
// keeps mem, which must start at a multiple of 8, and panics if mem is smaller
// than l.Size.
func NewPackage(l *Layout, mem []byte) *Package {
	if len(mem) < l.size {
		panic(fmt.Sprintf("tensor: %d bytes of memory for a layout of %d", len(mem), l.size))
	}
	p := &Package{layout: l, data: make([][]byte, len(l.specs))}
	for i, off := range l.offsets {
		p.data[i] = mem[off : off+l.sizes[i] : off+l.sizes[i]]
	}
	p.ResetRows()
	return p
}

// NewScattered returns a package whose tensor i is data[i]. It keeps data, whose
// entries it changes with the rows in use, and panics if its lengths are not those of l.
func NewScattered(l *Layout, data [][]byte) *Package {
	if len(data) != len(l.specs) {
		panic(fmt.Sprintf("tensor: %d tensors for a layout of %d", len(data), len(l.specs)))
	}
	for i, d := range data {
		if len(d) != l.sizes[i] {
			panic(fmt.Sprintf("tensor: %q: %d bytes, layout says %d", l.specs[i].Name, len(d), l.sizes[i]))
		}
	}
	p := &Package{layout: l, data: data}
	p.ResetRows()
	return p
}

// Layout returns the layout that p was made with.
func (p *Package) Layout() *Layout { return p.layout }

// Len returns the number of tensors.
func (p *Package) Len() int { return len(p.data) }

// View returns the memory of tensor i: not a copy. Where its length varies, it is
// that of the rows in use.
func (p *Package) View(i int) []byte { return p.data[i] }

// CopyFrom copies all tensors, their rows in use and the receipt of q, which must
// have the same layout, into p.
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

// Hash returns a digest of the bytes of all tensors, in order, without padding.
// Packages with equal tensors have equal hashes wherever their memory lies. Where
// lengths vary, the rows in use count and how many they are.
func (p *Package) Hash() uint64 { return p.hash(func(int, uint64) {}) }

// Hashes returns the hash after each tensor. The last is that of the package.
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
		h = mix(h, uint64(p.rows[i])) // a row may have no bytes
	}
	return h
}

// Lend marks p as given out, counted in ledger, until Release calls free. It
// panics if p is already out: that is a fault of the transport.
func (p *Package) Lend(ledger *Ledger, free func(*Package)) {
	if !p.lent.CompareAndSwap(false, true) {
		panic("tensor: package lent twice")
	}
	p.ledger, p.free = ledger, free
	ledger.out.Add(1)
}

// Release gives a lent package back. Any goroutine may call it, also after the
// transport was shut down. It panics if p is not out, since somebody else may
// already be writing to that memory.
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

// A Ledger counts packages that are out. The zero Ledger is empty.
type Ledger struct{ out atomic.Int64 }

// Out returns how many packages have been lent and not yet released.
func (l *Ledger) Out() int { return int(l.out.Load()) }
