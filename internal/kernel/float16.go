package kernel

import "math"

// BF16ToFloat32 converts a bfloat16, which is the upper half of a float32, exactly.
func BF16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToBF16 rounds f to the nearest bfloat16, ties to even. NaNs remain NaNs.
func Float32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x0040 // quiet, so that rounding cannot make it an infinity
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// F16ToFloat32 converts an IEEE 754 binary16 exactly.
func F16ToFloat32(h uint16) float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)<<13
	if rest >= 0x0f800000 { // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | rest)
	}
	// As a float32, rest is too small by the difference of the exponents' biases.
	// Multiplying by a power of two is exact, also for subnormals.
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(rest)*0x1p112))
}

// Float32ToF16 rounds f to the nearest binary16, ties to even. Values beyond its range
// become infinities; NaNs remain NaNs.
func Float32ToF16(f float32) uint16 {
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
