package codec

import (
	"bytes"
	"errors"
	"fmt"

	"ipcbench/tensor"
)

// A Mode says how one tensor was packed.
type Mode uint8

// Their numbers travel.
const (
	Plain     Mode = iota // the tensor's own bytes
	Unchanged             // nothing: it is the base
	Coded                 // what the pipeline made of it
)

func (m Mode) String() string {
	switch m {
	case Plain:
		return "plain"
	case Unchanged:
		return "unchanged"
	case Coded:
		return "coded"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// A Coder packs and unpacks tensors with one pipeline. It grows with the largest
// tensor and keeps what it has. One goroutine at a time uses it.
type Coder struct {
	stages []stage
	kinds  []*kind
	base   int     // so many stages, from the first, may see a base
	forms  []words // before each stage and after the last, of the tensor at hand

	cur   [][]byte // scratch: what each stage but the last makes of the tensor
	bases [][]byte // and of the base
}

// NewCoder returns a Coder for p.
func (p *Pipeline) NewCoder() *Coder {
	c := &Coder{}
	if p == nil {
		return c
	}
	n := len(p.steps)
	for i, s := range p.steps {
		st := s.make(s.value)
		if z, ok := st.(*zstd); ok && i > 0 {
			z.bytes = p.steps[i-1].ends
		}
		c.stages = append(c.stages, st)
		c.kinds = append(c.kinds, s.kind)
		if s.kind.base {
			c.base = i + 1
		}
	}
	c.forms = make([]words, n+1)
	c.cur, c.bases = make([][]byte, n), make([][]byte, n)
	return c
}

// Pack writes cur, a tensor of spec s, to dst, which must have room for len(cur)
// bytes, and returns how and how many bytes that took.
//
// Base is what the receiver will unpack with, or nil if there is none: then a
// pipeline that needs one sends the tensor plain. Pipelines that need none ignore
// it. Nothing is kept of the arguments.
func (c *Coder) Pack(dst, base, cur []byte, s tensor.Spec) (Mode, int, error) {
	if err := c.check(base, cur, s); err != nil {
		return Plain, 0, err
	}
	if len(dst) < len(cur) {
		return Plain, 0, fmt.Errorf("codec: %q: %d bytes of memory for a tensor of %d", s.Name, len(dst), len(cur))
	}
	if c.base == 0 {
		base = nil
	} else if base != nil && bytes.Equal(base, cur) {
		return Unchanged, 0, nil
	}
	if len(cur) > 0 && (base != nil || c.base == 0) && c.shape(s.DType, len(cur)) == nil {
		n, err := c.encode(dst[:len(cur)-1], base, cur)
		if err == nil {
			return Coded, n, nil
		}
		if !errors.Is(err, errPlain) {
			return Plain, 0, fmt.Errorf("codec: %q: %w", s.Name, err)
		}
	}
	return Plain, copy(dst, cur), nil
}

// Unpack is the inverse: it writes the tensor that src holds to dst, which has
// its size and may be base. Src is untrusted. On an error dst may be written in
// part.
func (c *Coder) Unpack(m Mode, dst, base, src []byte, s tensor.Spec) error {
	if err := c.check(base, dst, s); err != nil {
		return err
	}
	switch {
	case m > Coded:
		return fmt.Errorf("codec: %q: unknown %v", s.Name, m)
	case m == Plain && len(src) != len(dst), m == Unchanged && len(src) != 0, m == Coded && len(src) >= len(dst):
		return fmt.Errorf("codec: %q: %d bytes are no %v tensor of %d", s.Name, len(src), m, len(dst))
	case m != Plain && base == nil && len(dst) > 0 && (c.base > 0 || m == Unchanged):
		return fmt.Errorf("codec: %q is %v, and there is no base", s.Name, m)
	}
	switch m {
	case Plain:
		copy(dst, src)
	case Unchanged:
		copy(dst, base)
	case Coded:
		if err := c.shape(s.DType, len(dst)); err != nil {
			return fmt.Errorf("codec: %q: %w", s.Name, err)
		}
		if _, err := c.decode(0, dst, base, src); err != nil {
			return fmt.Errorf("codec: %q: %w", s.Name, err)
		}
	}
	return nil
}

// check compares the lengths of a tensor and its base, if there is one, with the
// spec.
func (c *Coder) check(base, data []byte, s tensor.Spec) error {
	n, err := s.Bytes()
	if err != nil {
		return err
	}
	if len(data) != n || base != nil && len(base) != n {
		return fmt.Errorf("codec: %q: %d bytes and a base of %d for a tensor of %d", s.Name, len(data), len(base), n)
	}
	return nil
}

// shape sets forms for a tensor of n bytes.
func (c *Coder) shape(d tensor.DType, n int) (err error) {
	if len(c.stages) == 0 {
		return errPlain
	}
	c.forms[0] = words{d, n}
	for i, st := range c.stages {
		if c.forms[i+1], err = st.takes(c.forms[i]); err != nil {
			return fmt.Errorf("%s %w", c.kinds[i].name, err)
		}
	}
	return nil
}

// encode runs the stages one after another, the last one to dst.
func (c *Coder) encode(dst, base, cur []byte) (n int, err error) {
	last := len(c.stages) - 1
	for i, st := range c.stages {
		out := dst
		if i < last {
			out = grow(&c.cur[i], c.forms[i+1].bytes)
		}
		if n, err = st.encode(out, c.seen(i, base), cur, c.forms[i]); err != nil {
			return 0, err
		}
		cur = out[:n]
		if base, err = c.next(i, base); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// decode undoes the stages from i on, whose words come to dst, and returns how
// many bytes those are: all of dst, but for what is opaque.
func (c *Coder) decode(i int, dst, base, src []byte) (n int, err error) {
	if c.kinds[i].place == pick { // the receiver need not know that words were picked
		return c.decode(i+1, dst, base, src)
	}
	if i+1 < len(c.stages) {
		made, err := c.next(i, base)
		if err != nil {
			return 0, err
		}
		below := made
		if made == nil {
			made = grow(&c.cur[i], c.forms[i+1].bytes)
		}
		if n, err = c.decode(i+1, made, below, src); err != nil {
			return 0, err
		}
		src = made[:n]
	}
	if n, err = c.stages[i].decode(dst, c.seen(i, base), src, c.forms[i]); err != nil {
		return 0, fmt.Errorf("%s: %w", c.kinds[i].name, err)
	}
	if n != len(dst) && (i == 0 || !c.kinds[i-1].ends) {
		return 0, fmt.Errorf("%s: %d bytes, want %d", c.kinds[i].name, n, len(dst))
	}
	return n, nil
}

// seen returns the base for stage i.
func (c *Coder) seen(i int, base []byte) []byte {
	if c.kinds[i].base {
		return base
	}
	return nil
}

// next returns the base for the stage after i: what stage i makes of its own.
func (c *Coder) next(i int, base []byte) ([]byte, error) {
	if i+1 >= c.base {
		return nil, nil
	}
	if c.kinds[i].place == pick {
		return base, nil
	}
	out := grow(&c.bases[i], c.forms[i+1].bytes)
	_, err := c.stages[i].encode(out, nil, base, c.forms[i])
	return out, err
}

// grow returns n bytes of the scratch memory *b, and makes it larger if need be.
// They are aligned for all types.
func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, max(n, 64))
	}
	return (*b)[:n]
}
