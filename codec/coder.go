package codec

import (
	"bytes"
	"errors"
	"fmt"

	"ipcbench/tensor"
)

var errNone = errors.New("there is no codec")

// A Mode is how one tensor was packed.
type Mode uint8

// The numbers are sent.
const (
	Plain     Mode = iota // the tensor's own bytes
	Unchanged             // no bytes: the tensor equals its base
	Coded                 // the output of the pipeline's last stage
)

func (m Mode) String() string {
	if m > Coded {
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
	return [...]string{"plain", "unchanged", "coded"}[m]
}

// A Coder packs and unpacks tensors with one pipeline. It keeps scratch memory for the
// largest tensor so far. Only one goroutine may use it at a time.
type Coder struct {
	stages []stage
	steps  []step  // parallel to stages
	base   int     // number of stages up to the last that needs a base; 0 if none does
	forms  []words // forms of the current tensor: before each stage and after the last

	cur   [][]byte // scratch: output of each stage except the last, for the tensor
	bases [][]byte // the same for the base
}

// NewCoder returns a Coder for p.
func (p *Pipeline) NewCoder() *Coder {
	if p == nil {
		return &Coder{}
	}
	n := len(p.steps)
	c := &Coder{steps: p.steps, forms: make([]words, n+1), cur: make([][]byte, n), bases: make([][]byte, n)}
	for i, s := range p.steps {
		st := s.make(s.value)
		if z, ok := st.(*zstd); ok && i > 0 {
			z.bytes = p.steps[i-1].ends
		}
		c.stages = append(c.stages, st)
		if s.base {
			c.base = i + 1
		}
	}
	return c
}

// Pack packs cur, a tensor of spec s, into dst, and returns the mode and the number of
// bytes written. dst must have room for len(cur) bytes and must not overlap cur or base.
//
// base must be the tensor that the receiver will pass to [Coder.Unpack], or nil. If it is
// nil and the pipeline needs a base, the tensor is sent plain. Other pipelines ignore
// base. Pack keeps none of its arguments. It fails if their lengths do not fit s.
func (c *Coder) Pack(dst, base, cur []byte, s tensor.Spec) (Mode, int, error) {
	if err := c.check(base, cur, s); err != nil {
		return Plain, 0, err
	}
	if len(dst) < len(cur) {
		return Plain, 0, fmt.Errorf("codec: %q: room for %d bytes is too small for a tensor of %d", s.Name, len(dst), len(cur))
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

// Unpack restores to dst the tensor of spec s that [Coder.Pack] packed into src. dst must
// have the tensor's size and may be base. base must equal the one that Pack had.
//
// src is untrusted: malformed content is an error. Then dst may have been written in
// part.
func (c *Coder) Unpack(m Mode, dst, base, src []byte, s tensor.Spec) error {
	if err := c.check(base, dst, s); err != nil {
		return err
	}
	switch {
	case m > Coded:
		return fmt.Errorf("codec: %q: unknown %v", s.Name, m)
	case m == Plain && len(src) != len(dst), m == Unchanged && len(src) != 0, m == Coded && len(src) >= len(dst):
		return fmt.Errorf("codec: %q: %d bytes are not the %v form of %d", s.Name, len(src), m, len(dst))
	case m != Plain && base == nil && len(dst) > 0 && (c.base > 0 || m == Unchanged):
		return fmt.Errorf("codec: %q is %v, but there is no base", s.Name, m)
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
		n, err := c.decode(0, dst, base, src)
		if err == nil {
			err = c.forms[0].fits(n)
		}
		if err != nil {
			return fmt.Errorf("codec: %q: %w", s.Name, err)
		}
	}
	return nil
}

// check compares the lengths of data and, unless it is nil, base with s.
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
		return errNone
	}
	c.forms[0] = words{d, n}
	for i, st := range c.stages {
		if c.forms[i+1], err = st.accepts(c.forms[i]); err != nil {
			return fmt.Errorf("%s %w", c.steps[i], err)
		}
	}
	return nil
}

// encode runs all stages; the last one writes to dst.
func (c *Coder) encode(dst, base, cur []byte) (n int, err error) {
	last := len(c.stages) - 1
	if final := c.forms[last+1]; final.dtype != 0 && len(dst) < final.bytes {
		return 0, errPlain
	}
	for i, st := range c.stages {
		out := dst
		if i < last {
			out = grow(&c.cur[i], c.forms[i+1].bytes)
		}
		if n, err = st.encode(out, base, cur, c.forms[i]); err != nil {
			return 0, err
		}
		cur = out[:n]
		if base, err = c.baseAfter(i, base); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// decode undoes stage i and all later ones. It writes the restored input of stage i to
// dst and returns its length: len(dst), or less if that input is opaque.
func (c *Coder) decode(i int, dst, base, src []byte) (n int, err error) {
	if c.steps[i].place == pick { // only the sender chooses elements
		return c.decode(i+1, dst, base, src)
	}
	if i+1 < len(c.stages) {
		made, err := c.baseAfter(i, base)
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
	if err = c.forms[i+1].fits(len(src)); err == nil {
		n, err = c.stages[i].decode(dst, base, src, c.forms[i])
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.steps[i].name, err)
	}
	return n, nil
}

// baseAfter returns the base for the stage after i: stage i's encoding of its own base; nil
// if no later stage needs one.
func (c *Coder) baseAfter(i int, base []byte) ([]byte, error) {
	if i+1 >= c.base {
		return nil, nil
	}
	if c.steps[i].place == pick {
		return base, nil
	}
	out := grow(&c.bases[i], c.forms[i+1].bytes)
	_, err := c.stages[i].encode(out, nil, base, c.forms[i])
	return out, err
}

// grow returns n bytes of scratch memory *b, which it replaces if too small. They are
// aligned for every type.
func grow(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, max(n, 64))
	}
	return (*b)[:n]
}
