package tensor

import (
	"fmt"
	"math"
)

// bf16ToFloat32 widens a bfloat16: the upper half of a float32.
func bf16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// float32ToBF16 rounds f to the nearest bfloat16, ties to even. A NaN stays a
// NaN.
func float32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x0040 // quiet, so that rounding cannot make it an infinity
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// f16ToFloat32 widens an IEEE 754 binary16, exactly.
func f16ToFloat32(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	if rest >= 0x0f800000 { // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | rest)
	}
	// As a float32, rest is too small by the difference of the exponents' biases.
	// Multiplying by a power of two is exact, also for subnormals.
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

// float32ToF16 rounds f to the nearest binary16, ties to even. What is too
// large becomes an infinity; a NaN stays a NaN.
func float32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x47800000: // 65536 and above, infinity included
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal
		// Adding 0.5 leaves the result in the low bits of the sum, rounded to
		// nearest even by the addition itself: an ulp of 0.5 is 2^-24.
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1 // may carry into the exponent, and at 65520 into infinity
	return sign | uint16((b-(127-15)<<23)>>13)
}

// Widen writes src's elements, floats of type d, to dst as float32s: exactly, but
// those of f64, which it rounds to nearest even. dst has as many elements.
func Widen(dst []float32, src []byte, d DType) {
	switch d {
	case F16:
		widenF16(dst, Slice[uint16](src))
	case BF16:
		widenBF16(dst, Slice[uint16](src))
	case F32:
		copy(dst, Slice[float32](src))
	case F64:
		for i, x := range Slice[float64](src) {
			dst[i] = float32(x)
		}
	default:
		panic(fmt.Sprintf("tensor: widen %v, which is no float", d))
	}
}

// Narrow is the inverse of Widen, and rounds to nearest even.
func Narrow(dst []byte, src []float32, d DType) {
	switch d {
	case F16:
		narrowF16(Slice[uint16](dst), src)
	case BF16:
		narrowBF16(Slice[uint16](dst), src)
	case F32:
		copy(Slice[float32](dst), src)
	case F64:
		wide := Slice[float64](dst)[:len(src)]
		for i, x := range src {
			wide[i] = float64(x)
		}
	default:
		panic(fmt.Sprintf("tensor: narrow to %v, which is no float", d))
	}
}

// The halves' parts of it: loops that a compiler can inline the conversion into.

func widenF16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = f16ToFloat32(x)
	}
}

func widenBF16(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = bf16ToFloat32(x)
	}
}

func narrowF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = float32ToF16(x)
	}
}

func narrowBF16(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = float32ToBF16(x)
	}
}
