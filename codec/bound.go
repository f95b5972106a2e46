package codec

import (
	"fmt"

	"ipcbench/tensor"
)

// A Bound is the largest error of a value that arrives: Relative × M + Absolute. M is the
// magnitude of the value sent or, if Block is not 0, the largest magnitude in its block.
// Absolute matters only near 0. The zero Bound means that values arrive bit for bit.
type Bound struct {
	Relative, Absolute float64
	Block              int // values per block
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

// Bound returns the error bound for tensors of type d, or false if there is none: topk,
// kc, stc and skc may lose any amount. NaNs and infinities arrive as such.
func (p *Pipeline) Bound(d tensor.DType) (Bound, bool) {
	var b Bound
	if p == nil {
		return b, true
	}
	in := words{dtype: d}
	for _, s := range p.steps {
		out, err := s.make(s.value).accepts(in)
		switch {
		case err != nil: // sent plain
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

// boundBF16 returns half a unit in the last of 8 significant bits, plus half of the
// smallest denormal.
func boundBF16(tensor.DType) Bound { return Bound{Relative: 1. / 256, Absolute: 0x1p-134} }

// boundInt8 returns half of one of 127 steps, and a little more for the rounding of the
// scale. For f16 and bf16, it includes the rounding to that type.
func boundInt8(d tensor.DType) Bound {
	switch d {
	case tensor.F16:
		return Bound{1. / 225, 0x1p-24, scaleBlock}
	case tensor.BF16:
		return Bound{1. / 127, 0x1p-133, scaleBlock}
	}
	return Bound{1. / 253, 0x1p-142, scaleBlock}
}
