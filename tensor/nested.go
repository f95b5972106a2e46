package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// DefaultDepth is how deep Detach looks for tensors unless the user says
// otherwise.
const DefaultDepth = 10

// maxNesting is how deep a value may be nested at all, counting every pointer
// and interface. It bounds the stack, whoever made the receipt.
const maxNesting = 10_000

// A Tensor is an array of numbers inside a Go value. Its zero value stands for
// no tensor.
type Tensor struct {
	DType DType
	Shape []int  // as in Spec
	Data  []byte // the elements in row-major order; Of views them as numbers
}

// NewTensor returns a tensor of zeros.
func NewTensor(d DType, shape ...int) (*Tensor, error) {
	t := &Tensor{DType: d, Shape: slices.Clone(shape)}
	n, err := t.spec("tensor").Bytes()
	if err != nil {
		return nil, err
	}
	t.Data = make([]byte, n)
	return t, nil
}

func (t *Tensor) spec(name string) Spec { return Spec{Name: name, DType: t.DType, Shape: t.Shape} }

// check reports whether the data is as long as type and shape say.
func (t *Tensor) check() error {
	n, err := t.spec("tensor").Bytes()
	if err != nil {
		return err
	}
	if len(t.Data) != n {
		return fmt.Errorf("%d bytes of data for %v %v, want %d", len(t.Data), t.DType, t.Shape, n)
	}
	return nil
}

// isZero reports whether t is the zero Tensor.
func (t *Tensor) isZero() bool { return t.DType == 0 && t.Shape == nil && t.Data == nil }

// A Handle stands in a receipt where a tensor was. Its size does not depend on
// the tensor's.
type Handle struct {
	Index uint32 // of the tensor in its package
	Check uint64 // a digest of the tensor's type and shape
}

// handleSize is the size of an encoded Handle.
const handleSize = 4 + 8

func newHandle(index int, s Spec) Handle {
	return Handle{Index: uint32(index), Check: xxh3.Hash(s.appendShape([]byte{byte(s.DType)}))}
}

// AppendBinary appends the encoded handle to b. It never fails.
func (h Handle) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, h.Index)
	return binary.LittleEndian.AppendUint64(b, h.Check), nil
}

// UnmarshalBinary is the inverse of AppendBinary.
func (h *Handle) UnmarshalBinary(b []byte) error {
	if len(b) != handleSize {
		return fmt.Errorf("tensor: handle of %d bytes, want %d", len(b), handleSize)
	}
	h.Index, h.Check = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])
	return nil
}

// Detached is a value taken apart: a receipt and tensors.
type Detached struct {
	// Receipt is everything that is not a tensor, with a Handle where each tensor
	// was.
	Receipt []byte

	// Specs are the tensors in the order of their handles, named after the path
	// at which each was found first, such as "layers[3].weight".
	Specs []Spec

	// Data is the memory of the tensors: the value's own, not a copy.
	Data [][]byte

	// Untouched are the paths of tensors that lie deeper than the limit. They
	// travel inside the receipt.
	Untouched []string
}

// Detach takes v apart. It looks for values of type [Tensor] in structs, maps,
// slices, arrays, pointers and interfaces, and does not change v.
//
// A tensor at depth at most depth becomes a tensor of its own; a deeper one
// stays in the receipt and is reported. v itself is at depth 0, and each struct,
// map, slice and array around a tensor adds one; pointers and interfaces add
// nothing. A tensor that is found in several places counts where it is least deep.
//
// What is shared in v is shared again after [Attach]: pointers, maps and slices
// that are the same, and tensors with the same memory, type and shape, which
// travel once. So v may contain itself. Pointers to a part of something else in
// v become pointers to a copy of that part.
//
// A value always gives the same receipt: maps are sorted by key.
//
// Detach fails, naming the path, on what cannot be put together again in another
// process: functions, channels, uintptrs, unsafe pointers, map keys that hold
// pointers or interfaces, and unexported fields, unless their struct implements
// [encoding.BinaryMarshaler] and [encoding.BinaryUnmarshaler], which then say
// what travels. Blank fields are left out.
func Detach(v any, depth int) (*Detached, error) {
	e := newEncoder(v, depth)
	if err := e.root(v); err != nil {
		return nil, fmt.Errorf("tensor: detach: %v: %w", e.path, err)
	}
	e.d.Receipt = e.out
	return e.d, nil
}

// CopyTo copies the tensors to p and sets p's receipt. p must have tensors of the
// same types and shapes in the same order; its layout's names do not matter. A
// tensor that already lies in its place is left alone: a value that was attached
// to p, and changed in place, is not copied.
func (d *Detached) CopyTo(p *Package) error {
	if len(d.Specs) != p.Len() {
		return fmt.Errorf("tensor: copy %d tensors to a package of %d", len(d.Specs), p.Len())
	}
	low, high := p.bounds()
	for i, s := range d.Specs {
		want := p.layout.Spec(i)
		if s.DType != want.DType || !slices.Equal(s.Shape, want.Shape) {
			return fmt.Errorf("tensor: copy %s: it is %v %v, the package has %v %v at %d",
				s.Name, s.DType, s.Shape, want.DType, want.Shape, i)
		}
		if sameMemory(d.Data[i], p.data[i]) || address(d.Data[i]) >= high || address(d.Data[i])+uintptr(len(d.Data[i])) <= low {
			continue
		}
		for j, view := range p.data {
			if overlap(d.Data[i], view) {
				return fmt.Errorf("tensor: copy %s: it lies in the place of %s", s.Name, d.Specs[j].Name)
			}
		}
	}
	for i, b := range d.Data {
		if !sameMemory(b, p.data[i]) {
			copy(p.data[i], b)
		}
	}
	p.Receipt = d.Receipt
	return nil
}

// bounds returns the lowest and the highest address of p's tensors.
func (p *Package) bounds() (low, high uintptr) {
	low = math.MaxUint
	for _, b := range p.data {
		if len(b) > 0 {
			low, high = min(low, address(b)), max(high, address(b)+uintptr(len(b)))
		}
	}
	return low, high
}

// sameMemory reports whether a and b are the same bytes of memory.
func sameMemory(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Attach puts together what [Detach] took apart, and stores it where into points
// to: a pointer to a variable of the type that Detach was given, or of an
// interface type that it implements. The tensors are views of p's memory, not
// copies: they are valid as long as p is.
//
// Receipts come from other processes: everything in them is checked. On an error
// the variable is left as it was.
//
// An interface may hold any predeclared type, slices of them and maps from string
// to them, tensors, the types that occur in the variable's type, pointers to
// those, and the types of the values in known.
func Attach(receipt []byte, p *Package, into any, known ...any) error {
	d := decoder{in: receipt, p: p, used: make([]bool, p.Len()), known: known}
	if err := d.root(into); err != nil {
		return fmt.Errorf("tensor: attach: %v: %w", d.path, err)
	}
	return nil
}

// A path says where in a value something stands.
type path []step

// A step is a field, a key or an index.
type step struct {
	name  string // of a field or, as text, a key
	index int    // of an element; -1 if the step has a name
}

// String writes a path such as "layers[3].weight".
func (p path) String() string {
	if len(p) == 0 {
		return "value"
	}
	const ends = 8 // steps to show at each end of a path too long to read
	var b bytes.Buffer
	for i, s := range p {
		switch {
		case len(p) > 3*ends && i == ends:
			b.WriteString("…")
		case len(p) > 3*ends && i > ends && i < len(p)-ends:
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		default:
			if i > 0 && !strings.HasPrefix(s.name, "[") {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		}
	}
	return b.String()
}
