package codec

import (
	"fmt"

	"ipcbench/tensor"
)

// A Bound says how far a value that arrives is from the one that was sent, at most:
// Relative × the value's magnitude, or × the largest magnitude of the Block values
// that it was sent with, and Absolute more, which matters next to 0 only. The zero
// Bound is that of what arrives bit for bit.
type Bound struct {
	Relative, Absolute float64
	Block              int // 0: of the value itself
}

func (b Bound) String() string {
	switch {
	case b == Bound{}:
		return "exact"
	case b.Block == 0:
		return fmt.Sprintf("1/%.0f of the value", 1/b.Relative)
	}
	return fmt.Sprintf("1/%.0f of the largest of %d values", 1/b.Relative, b.Block)
}

// Bound returns the bound of tensors of type d, and false if there is none: of
// topk, kc, stc and skc nobody can say what they leave out. It holds for whatever
// is sent, NaNs and infinities too: they arrive as such.
func (p *Pipeline) Bound(d tensor.DType) (Bound, bool) {
	var b Bound
	if p == nil {
		return b, true
	}
	in := words{dtype: d}
	for _, s := range p.steps {
		out, err := s.make(s.value).takes(in)
		switch {
		case err != nil: // goes plain
			return Bound{}, true
		case s.bound != nil:
			b = s.bound(in.dtype)
		case s.lossy:
			return Bound{}, false
		}
		in = out
	}
	return b, true
}

// boundBF16 is half of the last of 8 bits, and half of the smallest number.
func boundBF16(tensor.DType) Bound { return Bound{Relative: 1. / 256, Absolute: 0x1p-134} }

// boundInt8 is half a step of 127, a little more for the rounding of the scale; and
// of 2-byte floats what they round themselves.
func boundInt8(d tensor.DType) Bound {
	switch d {
	case tensor.F16:
		return Bound{1. / 225, 0x1p-24, scaled}
	case tensor.BF16:
		return Bound{1. / 127, 0x1p-133, scaled}
	}
	return Bound{1. / 253, 0x1p-142, scaled}
}
