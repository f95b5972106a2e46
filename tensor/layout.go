package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// Align is the alignment of every tensor in a [Layout], in bytes: one cache line, and
// enough for any vector load.
const Align = 64

// A Spec is the name, type and shape of one tensor of a model.
type Spec struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"`
	Shape []int  `json:"shape,omitempty"` // no entry is a scalar; an entry of 0 is an empty tensor

	// Var makes dimension 0 a capacity: each package sets how many of its rows are in
	// use. See [Package.SetRows].
	Var bool `json:"var,omitempty"`
}

// elems returns the number of elements, or an error if a dimension is negative or the
// number overflows.
func (s Spec) elems() (int, error) {
	n, zero := 1, false
	for _, d := range s.Shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("tensor: %q: negative dimension in shape %v", s.Name, s.Shape)
		case d == 0:
			zero = true
		case n > math.MaxInt/d:
			return 0, fmt.Errorf("tensor: %q: shape %v overflows", s.Name, s.Shape)
		default:
			n *= d
		}
	}
	if zero {
		return 0, nil
	}
	return n, nil
}

// Bytes returns the size of the tensor in bytes, at capacity if it is Var. An invalid
// type, a Var scalar, a negative dimension or an overflow is an error.
func (s Spec) Bytes() (int, error) {
	if !s.DType.Valid() {
		return 0, fmt.Errorf("tensor: %q: invalid %v", s.Name, s.DType)
	}
	if s.Var && len(s.Shape) == 0 {
		return 0, fmt.Errorf("tensor: %q: a scalar cannot vary in length", s.Name)
	}
	n, err := s.elems()
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt/s.DType.Size() {
		return 0, fmt.Errorf("tensor: %q: %v elements of %v overflow", s.Name, n, s.DType)
	}
	return n * s.DType.Size(), nil
}

// A Layout is an ordered list of specs with an offset for each in one block of memory. It
// is immutable. Two packages have the same layout only if they have the same *Layout.
type Layout struct {
	specs   []Spec
	offsets []int // of each tensor in the block, in bytes; multiples of Align
	sizes   []int // of each tensor, in bytes
	size    int   // of the block, in bytes; a multiple of Align
	payload int   // sum of sizes
	vars    []int // indices of the Var tensors
}

// NewLayout places specs in order, each at a multiple of [Align]. It copies specs.
// Invalid specs and a size that overflows are errors.
func NewLayout(specs []Spec) (*Layout, error) {
	l := &Layout{
		specs:   make([]Spec, len(specs)),
		offsets: make([]int, len(specs)),
		sizes:   make([]int, len(specs)),
	}
	for i, s := range specs {
		n, err := s.Bytes()
		if err != nil {
			return nil, err
		}
		if l.size > math.MaxInt-n-Align {
			return nil, fmt.Errorf("tensor: %q: layout overflows", s.Name)
		}
		l.specs[i] = s
		l.specs[i].Shape = slices.Clone(s.Shape)
		if s.Var {
			l.vars = append(l.vars, i)
		}
		l.offsets[i], l.sizes[i] = l.size, n
		l.size += (n + Align - 1) &^ (Align - 1)
		l.payload += n
	}
	return l, nil
}

// Len returns the number of tensors.
func (l *Layout) Len() int { return len(l.specs) }

// Spec returns the spec of tensor i. The caller must not change its shape.
func (l *Layout) Spec(i int) Spec { return l.specs[i] }

// Specs returns all specs; [NewLayout] makes an equal layout of them in another process.
// The caller must not change their shapes.
func (l *Layout) Specs() []Spec { return slices.Clone(l.specs) }

// Offset returns the offset of tensor i in the block, in bytes.
func (l *Layout) Offset(i int) int { return l.offsets[i] }

// Var reports whether any tensor is Var. The sizes of a layout are at capacity.
func (l *Layout) Var() bool { return l.vars != nil }

// Bytes returns the size of tensor i, in bytes.
func (l *Layout) Bytes(i int) int { return l.sizes[i] }

// Size returns the size of the block with padding, in bytes.
func (l *Layout) Size() int { return l.size }

// Payload returns the sum of the sizes of all tensors, in bytes, without padding: the
// bytes that count as delivered.
func (l *Layout) Payload() int { return l.payload }

// Digest returns a hash (XXH3) of all specs. Peers compare it to check that they have the
// same layout.
func (l *Layout) Digest() uint64 {
	var b []byte
	for _, s := range l.specs {
		b = binary.AppendUvarint(b, uint64(len(s.Name)))
		b = append(b, s.Name...)
		d := byte(s.DType)
		if s.Var {
			d |= 0x80 // no data type has this bit
		}
		b = append(b, d)
		b = binary.AppendUvarint(b, uint64(len(s.Shape)))
		b = s.appendShape(b)
	}
	return xxh3.Hash(b)
}

func (s Spec) appendShape(b []byte) []byte {
	for _, d := range s.Shape {
		b = binary.AppendUvarint(b, uint64(d))
	}
	return b
}
