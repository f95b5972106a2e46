package codec

import (
	"bytes"
	"cmp"
	"fmt"
	"math"

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
func (p *Pipeline) Bound(d tensor.DType) (b Bound, ok bool) {
	c := p.NewCoder()
	if c.shape(d, 0) != nil { // sent plain
		return Bound{}, true
	}
	for i, s := range c.steps {
		switch {
		case s.bound != nil:
			b = s.bound(c.forms[i].dtype)
		case s.lossy:
			return Bound{}, false
		}
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

// Verify returns an error for the first element of arrived, the decoded form of sent, whose
// error is above its tensor's bound. NaNs must arrive as NaNs, infinities as themselves, and
// tensors that p does not accept bit for bit. Tensors without a bound are not compared. Both
// packages must have the same layout and rows in use.
func (p *Pipeline) Verify(arrived, sent *tensor.Package) error {
	for t := range sent.Len() {
		s := sent.Layout().Spec(t)
		b, ok := p.Bound(s.DType)
		if p.Takes(s) != nil {
			b, ok = Bound{}, true
		}
		size, got, want := s.DType.Size(), arrived.View(t), sent.View(t)
		if !ok || bytes.Equal(got, want) {
			continue
		}
		if i := b.exceeded(got, want, s.DType); i >= 0 {
			got, want = got[i*size:][:size], want[i*size:][:size]
			values := fmt.Sprintf("%x instead of %x", got, want)
			if s.DType.Float() {
				values = fmt.Sprintf("%v instead of %v", elements(got, s.DType)[0], elements(want, s.DType)[0])
			}
			return fmt.Errorf("tensor %d (%q %v %v): element %d arrived as %s: the bound of codec %s is %s", t, s.Name, s.DType, s.Shape, i, values, p, b)
		}
	}
	return nil
}

// exceeded returns the index of the first element of got whose error is above the bound, or -1.
func (b Bound) exceeded(got, sent []byte, d tensor.DType) int {
	size := d.Size()
	if b == (Bound{}) {
		for i := 0; i < len(sent); i += size {
			if !bytes.Equal(got[i:i+size], sent[i:i+size]) {
				return i / size
			}
		}
		return -1
	}
	const rounding = 1 + 0x1p-20 // the bound itself is computed with errors
	n := cmp.Or(b.Block, scaleBlock)
	for from := 0; from < len(sent)/size; from += n {
		to := min(from+n, len(sent)/size)
		y, x, largest := elements(got[from*size:to*size], d), elements(sent[from*size:to*size], d), 0.0
		for _, x := range x {
			if m := math.Abs(x); m > largest { // false for NaN
				largest = m
			}
		}
		for i, x := range x {
			m := largest
			if b.Block == 0 {
				m = math.Abs(x)
			}
			same := y[i] == x || y[i] != y[i] && x != x
			if !same && (math.IsInf(m, 0) || !(math.Abs(y[i]-x) <= (b.Relative*m+b.Absolute)*rounding)) {
				return from + i
			}
		}
	}
	return -1
}

// elements returns the values of data, which has elements of the float type d.
func elements(data []byte, d tensor.DType) []float64 {
	if d == tensor.F64 {
		return tensor.Slice[float64](data)
	}
	narrow := make([]float32, len(data)/d.Size())
	tensor.Widen(narrow, data, d)
	all := make([]float64, len(narrow))
	for i, x := range narrow {
		all[i] = float64(x)
	}
	return all
}
