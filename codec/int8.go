package codec

import (
	"fmt"
	"math"

	"ipcbench/tensor"
)

// absmax is int8. For each block of values, it sends a scale (f32, the largest magnitude
// ÷ 127), then a byte per value, the nearest multiple of the scale. A tensor with a NaN,
// an infinity or a value beyond f32 is sent plain. Blocks are as in Dettmers et al.,
// "8-bit Optimizers via Block-wise Quantization", 2021, but steps are equal.
type absmax struct {
	scratch []float32
}

// scaleBlock is the number of values per scale.
const scaleBlock = 4096

func (*absmax) accepts(in words) (words, error) {
	n := in.bytes / in.dtype.Size()
	return words{tensor.U8, n + 4*((n+scaleBlock-1)/scaleBlock)}, needFloats(in)
}

func (a *absmax) encode(dst, _, cur []byte, in words) (int, error) {
	size := in.dtype.Size()
	for len(cur) > 0 {
		from := cur[:min(len(cur), scaleBlock*size)]
		prefetch(from)
		x := floats(&a.scratch, from, in.dtype)
		top := magnitude(x)
		absmax := float64(math.Float32frombits(top))
		scale := float32(absmax / 127)
		if top >= inf32 || !scaleOK(scale) {
			return 0, errPlain
		}
		little.PutUint32(dst, math.Float32bits(scale))
		steps := 0.0 // steps per unit
		if top > 0 {
			steps = 127 / absmax
		}
		quantizeAll(dst[4:], x, steps)
		dst, cur = dst[4+len(x):], cur[len(from):]
	}
	out, err := a.accepts(in)
	return out.bytes, err
}

// quantizeAll writes each value of x as the nearest multiple of 1/steps.
func quantizeAll(dst []byte, x []float32, steps float64) {
	i := 0
	for ; i+4 <= len(x); i += 4 { // 1.5 times as fast as one at a time
		v, q := (*[4]float32)(x[i:]), (*[4]byte)(dst[i:])
		q[0], q[1], q[2], q[3] = quantize(v[0], steps), quantize(v[1], steps), quantize(v[2], steps), quantize(v[3], steps)
	}
	for ; i < len(x); i++ {
		dst[i] = quantize(x[i], steps)
	}
}

// quantize rounds v × steps to nearest, ties to even. An f64 near 3<<51 has no bits for a
// fraction, so the addition rounds, and the last byte of the sum is the integer's.
func quantize(v float32, steps float64) byte {
	return byte(math.Float64bits(float64(float64(v)*steps) + 3<<51))
}

// magnitude returns the bits of the largest magnitude in x: inf32 or more if there is an
// infinity or a NaN.
func magnitude(x []float32) uint32 {
	var a, b, c, d uint32 // four, which do not wait for one another
	for ; len(x) >= 4; x = x[4:] {
		a = max(a, math.Float32bits(x[0])&^(1<<31))
		b = max(b, math.Float32bits(x[1])&^(1<<31))
		c = max(c, math.Float32bits(x[2])&^(1<<31))
		d = max(d, math.Float32bits(x[3])&^(1<<31))
	}
	for _, v := range x {
		a = max(a, math.Float32bits(v)&^(1<<31))
	}
	return max(a, b, c, d)
}

func (a *absmax) decode(dst, _, src []byte, in words) (int, error) {
	for at := 0; at < len(dst); {
		to := dst[at:min(at+scaleBlock*in.dtype.Size(), len(dst))]
		x := room(&a.scratch, to, in.dtype)
		scale := math.Float32frombits(little.Uint32(src))
		if !scaleOK(scale) {
			return 0, fmt.Errorf("invalid scale %v", scale)
		}
		for i, q := range src[4 : 4+len(x)] {
			x[i] = float32(int8(q)) * scale
		}
		if in.dtype != tensor.F32 {
			tensor.Narrow(to, x, in.dtype)
		}
		at, src = at+len(to), src[4+len(x):]
	}
	return len(dst), nil
}

func needFloats(in words) error {
	if !in.dtype.Float() {
		return fmt.Errorf("needs floats, not %v", in.dtype)
	}
	return nil
}

// scaleOK reports whether scale is not negative and 127 × scale is finite.
func scaleOK(scale float32) bool {
	return math.Float32bits(127*scale) < inf32
}

// floats returns src's elements, of type d, as float32: for f32 a view of src, otherwise
// a copy in *scratch, which it replaces if too small.
func floats(scratch *[]float32, src []byte, d tensor.DType) []float32 {
	x := room(scratch, src, d)
	if d != tensor.F32 {
		tensor.Widen(x, src, d)
	}
	return x
}

// room returns memory for the elements of b as float32: b itself for f32, else *scratch.
func room(scratch *[]float32, b []byte, d tensor.DType) []float32 {
	if d == tensor.F32 {
		return tensor.Slice[float32](b)
	}
	n := len(b) / d.Size()
	if cap(*scratch) < n {
		*scratch = make([]float32, n)
	}
	return (*scratch)[:n]
}
