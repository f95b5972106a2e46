package tensor

import (
	"encoding/binary"
	"fmt"
)

// rows returns the capacity of dimension 0; a scalar has one row.
func (s Spec) rows() int {
	if len(s.Shape) == 0 {
		return 1
	}
	return s.Shape[0]
}

// Rows returns the number of rows of tensor i that are in use. Without Var, these are all
// rows; a scalar has one row.
func (p *Package) Rows(i int) int {
	if p.rows == nil {
		return p.layout.specs[i].rows()
	}
	return p.rows[i]
}

// SetRows sets the rows in use of tensor i to the first n. The tensor must be Var, and n
// must be between 0 and its capacity. Rows that are not in use keep their memory and are
// not sent.
func (p *Package) SetRows(i, n int) error {
	s := p.layout.specs[i]
	switch {
	case !s.Var:
		return fmt.Errorf("tensor: %q: its length does not vary", s.Name)
	case n < 0 || n > s.rows():
		return fmt.Errorf("tensor: %q: %d rows, must be 0 to %d", s.Name, n, s.rows())
	}
	p.setRows(i, n)
	return nil
}

// setRows is SetRows without checks.
func (p *Package) setRows(i, n int) {
	size, row := p.layout.sizes[i], 0
	if all := p.layout.specs[i].rows(); all > 0 {
		row = size / all
	}
	p.rows[i], p.data[i] = n, p.data[i][:n*row:size]
}

// ResetRows puts all rows of every tensor in use, as in a new package.
func (p *Package) ResetRows() {
	l := p.layout
	if l.Var() && p.rows == nil {
		p.rows = make([]int, len(l.specs))
		for i, s := range l.specs {
			p.rows[i] = s.rows()
		}
	}
	for _, i := range l.vars {
		p.setRows(i, l.specs[i].rows())
	}
}

// Payload returns the bytes of all tensors that are in use, which count as delivered.
func (p *Package) Payload() int {
	n := p.layout.payload
	for _, i := range p.layout.vars {
		n -= p.layout.sizes[i] - len(p.data[i])
	}
	return n
}

// AppendRows appends the rows in use to b, as one varint per Var tensor.
// [Package.TakeRows] reads them in another process.
func (p *Package) AppendRows(b []byte) []byte {
	for _, i := range p.layout.vars {
		b = binary.AppendUvarint(b, uint64(p.rows[i]))
	}
	return b
}

// TakeRows sets the rows in use from b, which is untrusted. If AppendRows cannot have
// written b for this layout, TakeRows returns an error and changes nothing.
func (p *Package) TakeRows(b []byte) error {
	rest := b
	for _, i := range p.layout.vars {
		s := p.layout.specs[i]
		n, size := binary.Uvarint(rest)
		switch {
		case size <= 0 || size > 1 && rest[size-1] == 0: // only the shortest form of a number is valid
			return fmt.Errorf("tensor: %q: its rows are not a number", s.Name)
		case n > uint64(s.rows()):
			return fmt.Errorf("tensor: %q: %d rows, must be 0 to %d", s.Name, n, s.rows())
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("tensor: %d bytes after the rows of all tensors", len(rest))
	}
	for _, i := range p.layout.vars {
		n, size := binary.Uvarint(b)
		p.setRows(i, int(n))
		b = b[size:]
	}
	return nil
}
