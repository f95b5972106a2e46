package codec

import (
	"fmt"
	"math"

	"ipcbench/tensor"
)

// bf16 sends each f32 or f64 as the nearest bf16 (the upper half of an f32), ties to
// even. An f64 is rounded once.
type bf16 struct{}

func (bf16) accepts(in words) (words, error) {
	if in.dtype != tensor.F32 && in.dtype != tensor.F64 {
		return words{}, fmt.Errorf("needs f32 or f64, not %v", in.dtype)
	}
	return words{tensor.BF16, in.bytes / in.dtype.Size() * 2}, nil
}

func (bf16) encode(dst, _, cur []byte, in words) (int, error) {
	size := in.dtype.Size()
	for at := 0; at < len(cur); at += chunk {
		end := min(at+chunk, len(cur))
		prefetch(cur[at:end])
		if !narrow(dst[at/size*2:end/size*2], cur[at:end], in.dtype) {
			return 0, errPlain
		}
	}
	return in.bytes / size * 2, nil
}

func (bf16) decode(dst, _, src []byte, in words) (int, error) {
	widen(dst, src, in.dtype)
	return len(dst), nil
}

// Four f32 are rounded at a time, from two 64-bit loads. If no magnitude exceeds most,
// rounding is an addition that carries into no other element.
const (
	inf32  = 0x7f800000 // bits of infinity; larger magnitudes are NaNs
	most   = 0x7f7f7fff // largest magnitude that does not round to infinity
	signs  = 0x8000000080000000
	beyond = (1<<31 - 1 - most) * 0x0000000100000001 // adding it to a magnitude above most sets the sign bit
)

// narrow rounds src's elements (d is F32 or F64) to bf16 in dst, ties to even. Infinities
// stay infinities. A NaN stays a NaN and keeps its upper bits. It returns false if a
// finite value became an infinity.
func narrow(dst, src []byte, d tensor.DType) bool {
	fits := true
	if d == tensor.F64 {
		for ; len(src) >= 8; dst, src = dst[2:], src[8:] {
			h, ok := nearest(roundToOdd(little.Uint64(src)))
			little.PutUint16(dst, h)
			fits = fits && ok
		}
		return fits
	}
	dst = dst[:len(src)/2]
	i := 0
	for ; i+16 <= len(src); i += 16 {
		x, y := (*[16]byte)(src[i:]), (*[8]byte)(dst[i/2:])
		a, b := little.Uint64(x[:8]), little.Uint64(x[8:])
		if ((a&^signs+beyond)|(b&^signs+beyond))&signs == 0 {
			a += 0x00007fff00007fff + a>>16&0x0000000100000001
			b += 0x00007fff00007fff + b>>16&0x0000000100000001
			little.PutUint32(y[:4], uint32(a)>>16|uint32(a>>32)&0xffff0000)
			little.PutUint32(y[4:], uint32(b)>>16|uint32(b>>32)&0xffff0000)
		} else if !narrowEach(y[:], x[:]) {
			fits = false
		}
	}
	return narrowEach(dst[i/2:], src[i:]) && fits
}

func narrowEach(dst, src []byte) bool {
	fits := true
	for ; len(src) >= 4; dst, src = dst[2:], src[4:] {
		h, ok := nearest(little.Uint32(src))
		little.PutUint16(dst, h)
		fits = fits && ok
	}
	return fits
}

// nearest returns the bf16 nearest to the f32 with bits b, ties to even, and false if a
// finite value became an infinity.
func nearest(b uint32) (uint16, bool) {
	h, m := uint16(b>>16), b&^(1<<31)
	switch {
	case m > inf32 && h&0x7f == 0:
		return h | 0x40, true // a NaN with only lower bits would become an infinity
	case m >= inf32:
		return h, true
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16), m <= most
}

// roundToOdd returns the bits of an f32 that rounds to the same bf16 as the f64 with bits
// b. The f64 is truncated, and the last bit is set if anything was cut off. Rounding to
// nearest twice would give a wrong result near a tie.
func roundToOdd(b uint64) uint32 {
	sign := uint32(b>>32) & (1 << 31)
	if b<<1 > 0x7ff<<53 { // a NaN: processors convert its bits differently
		return sign | inf32 | uint32(b>>29)&0x7fffff | 1
	}
	x := math.Float64frombits(b &^ (1 << 63))
	f := float32(x)
	m := math.Float32bits(f)
	if wide := float64(f); wide != x {
		if wide > x {
			m--
		}
		m |= 1
	}
	return sign | m
}

// widen writes src's bf16 elements to dst as elements of type d (F32 or F64), exactly.
func widen(dst, src []byte, d tensor.DType) {
	if d == tensor.F64 {
		for ; len(src) >= 2; dst, src = dst[8:], src[2:] {
			h := little.Uint16(src)
			x := math.Float64bits(float64(math.Float32frombits(uint32(h) << 16)))
			if h&0x7f80 == 0x7f80 { // infinities and NaNs, for the same reason as in roundToOdd
				x = uint64(h&0x8000)<<48 | 0x7ff<<52 | uint64(h&0x7f)<<45
			}
			little.PutUint64(dst, x)
		}
		return
	}
	for ; len(src) >= 8 && len(dst) >= 16; dst, src = dst[16:], src[8:] {
		w := little.Uint64(src)
		little.PutUint64(dst, w<<16&0xffff0000|w<<32&0xffff000000000000)
		little.PutUint64(dst[8:], w>>16&0xffff0000|w&0xffff000000000000)
	}
	for ; len(src) >= 2; dst, src = dst[4:], src[2:] {
		little.PutUint32(dst, uint32(little.Uint16(src))<<16)
	}
}

// chunk is the number of bytes to work on at a time, so that they stay in the first-level
// cache.
const chunk = 16 << 10

// prefetch reads one byte per cache line of b, so that the processor fetches many lines at
// once. A loop with much work per element requests few lines at a time and waits for
// them. prefetch makes bf16 a quarter faster.
//
//go:noinline
func prefetch(b []byte) (sum byte) {
	for ; len(b) >= 64; b = b[64:] {
		sum ^= b[0]
	}
	return sum
}
