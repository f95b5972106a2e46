package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"
)

// Align is the alignment, in bytes, of every tensor in a package: one cache
// line, and enough for any vector load.
const Align = 64

// A Spec names one tensor of a model and says what it is.
type Spec struct {
	Name  string `json:"name"`
	DType DType  `json:"dtype"`
	Shape []int  `json:"shape,omitempty"` // no entry is a scalar; an entry of 0 is an empty tensor

	// Var makes dimension 0 a capacity: how many of its rows are in use is said
	// by each package. See [Package.SetRows].
	Var bool `json:"var,omitempty"`
}

// elems returns the number of elements, and an error if the shape has a
// negative entry or the count does not fit.
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

// Bytes returns the size of the tensor's data in bytes: of all rows, if they
// vary.
func (s Spec) Bytes() (int, error) {
	if !s.DType.Valid() {
		return 0, fmt.Errorf("tensor: %q: invalid %v", s.Name, s.DType)
	}
	if s.Var && len(s.Shape) == 0 {
		return 0, fmt.Errorf("tensor: %q: a scalar has no rows that could vary", s.Name)
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

// A Layout is an ordered list of specs with a place for each one in one block
// of memory. It is immutable: two packages have the same layout if and only if
// they have the same *Layout.
type Layout struct {
	specs   []Spec
	offsets []int // of each tensor in a contiguous block, multiples of Align
	sizes   []int // of each tensor, bytes
	size    int   // of the block, a multiple of Align
	payload int   // sum of sizes
	vars    []int // the tensors whose lengths vary
}

// NewLayout places specs one after another, each at a multiple of [Align].
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

// Specs returns all specs, from which [NewLayout] makes an equal layout in another
// process. The caller must not change their shapes.
func (l *Layout) Specs() []Spec { return slices.Clone(l.specs) }

// Offset returns where tensor i starts in a contiguous block, in bytes.
func (l *Layout) Offset(i int) int { return l.offsets[i] }

// Var reports whether the length of any tensor varies. The sizes of a layout are
// those of all rows, whatever a package uses of them.
func (l *Layout) Var() bool { return l.vars != nil }

// Bytes returns the size of tensor i in bytes.
func (l *Layout) Bytes(i int) int { return l.sizes[i] }

// Size returns the size of the whole block in bytes, padding included.
func (l *Layout) Size() int { return l.size }

// Payload returns the sum of the sizes of all tensors, without padding: the
// bytes that count as delivered.
func (l *Layout) Payload() int { return l.payload }

// Digest returns a hash of all names, dtypes and shapes, and of which lengths
// vary. Peers compare it to
// make sure that they speak of the same model.
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

// appendShape appends the dimensions to b.
func (s Spec) appendShape(b []byte) []byte {
	for _, d := range s.Shape {
		b = binary.AppendUvarint(b, uint64(d))
	}
	return b
}
