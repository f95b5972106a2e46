package tensor

import (
	"encoding/binary"
	"fmt"
)

// rows returns the rows of a tensor: its capacity, if its length varies.
func (s Spec) rows() int {
	if len(s.Shape) == 0 {
		return 1
	}
	return s.Shape[0]
}

// Rows returns how many rows of tensor i are in use. A tensor whose length does
// not vary uses all of dimension 0, and a scalar is one row.
func (p *Package) Rows(i int) int {
	if p.rows == nil {
		return p.layout.specs[i].rows()
	}
	return p.rows[i]
}

// SetRows says that the first n rows of tensor i, whose length must vary, are in
// use. What lies behind them stays in memory and goes nowhere.
func (p *Package) SetRows(i, n int) error {
	s := p.layout.specs[i]
	switch {
	case !s.Var:
		return fmt.Errorf("tensor: %q: its length does not vary", s.Name)
	case n < 0 || n > s.rows():
		return fmt.Errorf("tensor: %q: %d rows, want 0 to %d", s.Name, n, s.rows())
	}
	p.setRows(i, n)
	return nil
}

// setRows does it for a tensor whose length varies and n in its range.
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

// Payload returns the sum of the bytes in use of all tensors: what counts as
// delivered.
func (p *Package) Payload() int {
	n := p.layout.payload
	for _, i := range p.layout.vars {
		n -= p.layout.sizes[i] - len(p.data[i])
	}
	return n
}

// AppendRows appends the rows in use to b, for [Package.TakeRows] at the other
// end: a varint for each tensor whose length varies, so nothing if none does.
func (p *Package) AppendRows(b []byte) []byte {
	for _, i := range p.layout.vars {
		b = binary.AppendUvarint(b, uint64(p.rows[i]))
	}
	return b
}

// TakeRows sets the rows in use to those in b, which may come from anywhere: it
// must hold exactly what AppendRows writes for this layout, and is otherwise an
// error that changes nothing.
func (p *Package) TakeRows(b []byte) error {
	rest := b
	for _, i := range p.layout.vars {
		s := p.layout.specs[i]
		n, size := binary.Uvarint(rest)
		switch {
		case size <= 0 || size > 1 && rest[size-1] == 0: // there is one way to write a number
			return fmt.Errorf("tensor: %q: its rows are not a number", s.Name)
		case n > uint64(s.rows()):
			return fmt.Errorf("tensor: %q: %d rows, want 0 to %d", s.Name, n, s.rows())
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("tensor: %d bytes behind the rows of all tensors", len(rest))
	}
	for _, i := range p.layout.vars {
		n, size := binary.Uvarint(b)
		p.setRows(i, int(n))
		b = b[size:]
	}
	return nil
}
