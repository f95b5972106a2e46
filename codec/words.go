package codec

import (
	"crypto/subtle"
	"fmt"
)

// xor sends which bits changed: words of the same size, most of them 0.
type xor struct{}

func (xor) takes(in words) (words, error) { return in, nil }

func (xor) encode(dst, base, cur []byte, _ words) (int, error) {
	if len(dst) < len(cur) {
		return 0, errPlain
	}
	return subtle.XORBytes(dst, base, cur), nil
}

func (xor) decode(dst, base, src []byte, _ words) (int, error) {
	if len(src) != len(dst) {
		return 0, fmt.Errorf("%d bytes for %d", len(src), len(dst))
	}
	return subtle.XORBytes(dst, base, src), nil
}

// shuffle sends the first byte of all words, then the second of all, and so on:
// like comes to like.
type shuffle struct{}

func (shuffle) takes(in words) (words, error) { return in, nil }

func (shuffle) encode(dst, _, cur []byte, in words) (int, error) {
	if len(dst) < len(cur) {
		return 0, errPlain
	}
	size := in.dtype.Size()
	n := len(cur) / size
	i := 0
	switch size {
	case 1:
		i = copy(dst, cur)
	case 2:
		i = planes2(dst, cur, n)
	case 4:
		i = planes4(dst, cur, n)
	case 8:
		i = planes8(dst, cur, n)
	}
	for ; i < n; i++ {
		for k := range size {
			dst[k*n+i] = cur[i*size+k]
		}
	}
	return len(cur), nil
}

func (shuffle) decode(dst, _, src []byte, in words) (int, error) {
	if len(src) != len(dst) {
		return 0, fmt.Errorf("%d bytes for %d", len(src), len(dst))
	}
	size := in.dtype.Size()
	n := len(src) / size
	i := 0
	switch size {
	case 1:
		i = copy(dst, src)
	case 2:
		i = words2(dst, src, n)
	case 4:
		i = words4(dst, src, n)
	case 8:
		i = words8(dst, src, n)
	}
	for ; i < n; i++ {
		for k := range size {
			dst[i*size+k] = src[k*n+i]
		}
	}
	return len(dst), nil
}

// planes2 moves words of 2 bytes to the planes in dst, and leaves a few. It returns how many it
// moved. So do the others; each is the inverse of its neighbour.
func planes2(dst, src []byte, n int) (i int) {
	for ; i+8 <= n; i += 8 {
		b := (*[16]byte)(src[2*i:])
		p, q := swap(unzip(little.Uint64(b[:])), unzip(little.Uint64(b[8:])), 32, halves)
		little.PutUint64(dst[i:], p)
		little.PutUint64(dst[n+i:], q)
	}
	return i
}

func words2(dst, src []byte, n int) (i int) {
	for ; i+8 <= n; i += 8 {
		p, q := swap(little.Uint64(src[i:]), little.Uint64(src[n+i:]), 32, halves)
		b := (*[16]byte)(dst[2*i:])
		little.PutUint64(b[:], zip(p))
		little.PutUint64(b[8:], zip(q))
	}
	return i
}

// planes4 transposes two blocks of 8 words, side by side.
func planes4(dst, src []byte, n int) (i int) {
	for ; i+16 <= n; i += 16 {
		b := (*[64]byte)(src[4*i:])
		row := func(k int) uint64 { return uint64(little.Uint32(b[4*k:])) | uint64(little.Uint32(b[32+4*k:]))<<32 }
		p, q, r, s, p8, q8, r8, s8 := transpose(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7))
		put16(dst[i:], p, p8)
		put16(dst[n+i:], q, q8)
		put16(dst[2*n+i:], r, r8)
		put16(dst[3*n+i:], s, s8)
	}
	return i
}

func words4(dst, src []byte, n int) (i int) {
	for ; i+16 <= n; i += 16 {
		p, q, r, s := (*[16]byte)(src[i:]), (*[16]byte)(src[n+i:]), (*[16]byte)(src[2*n+i:]), (*[16]byte)(src[3*n+i:])
		a0, a1, a2, a3, a4, a5, a6, a7 := transpose(
			little.Uint64(p[:]), little.Uint64(q[:]), little.Uint64(r[:]), little.Uint64(s[:]),
			little.Uint64(p[8:]), little.Uint64(q[8:]), little.Uint64(r[8:]), little.Uint64(s[8:]))
		b := (*[64]byte)(dst[4*i:])
		row := func(k int, v uint64) {
			little.PutUint32(b[4*k:], uint32(v))
			little.PutUint32(b[32+4*k:], uint32(v>>32))
		}
		row(0, a0)
		row(1, a1)
		row(2, a2)
		row(3, a3)
		row(4, a4)
		row(5, a5)
		row(6, a6)
		row(7, a7)
	}
	return i
}

func planes8(dst, src []byte, n int) (i int) {
	for ; i+8 <= n; i += 8 {
		b := (*[64]byte)(src[8*i:])
		row := func(k int) uint64 { return little.Uint64(b[8*k:]) }
		a0, a1, a2, a3, a4, a5, a6, a7 := transpose(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7))
		for k, v := range [8]uint64{a0, a1, a2, a3, a4, a5, a6, a7} {
			little.PutUint64(dst[k*n+i:], v)
		}
	}
	return i
}

func words8(dst, src []byte, n int) (i int) {
	for ; i+8 <= n; i += 8 {
		row := func(k int) uint64 { return little.Uint64(src[k*n+i:]) }
		a0, a1, a2, a3, a4, a5, a6, a7 := transpose(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7))
		for k, v := range [8]uint64{a0, a1, a2, a3, a4, a5, a6, a7} {
			little.PutUint64(dst[8*(i+k):], v)
		}
	}
	return i
}

func put16(dst []byte, low, high uint64) {
	b := (*[16]byte)(dst)
	little.PutUint64(b[:], low)
	little.PutUint64(b[8:], high)
}

// What the lower half of each 64, 32 and 16 bits is.
const (
	halves   = 0x00000000ffffffff
	quarters = 0x0000ffff0000ffff
	eighths  = 0x00ff00ff00ff00ff
)

// transpose makes byte k of row i byte i of row k: halves change places, then
// quarters, then bytes.
func transpose(x0, x1, x2, x3, x4, x5, x6, x7 uint64) (_, _, _, _, _, _, _, _ uint64) {
	x0, x4 = swap(x0, x4, 32, halves)
	x1, x5 = swap(x1, x5, 32, halves)
	x2, x6 = swap(x2, x6, 32, halves)
	x3, x7 = swap(x3, x7, 32, halves)
	x0, x2 = swap(x0, x2, 16, quarters)
	x1, x3 = swap(x1, x3, 16, quarters)
	x4, x6 = swap(x4, x6, 16, quarters)
	x5, x7 = swap(x5, x7, 16, quarters)
	x0, x1 = swap(x0, x1, 8, eighths)
	x2, x3 = swap(x2, x3, 8, eighths)
	x4, x5 = swap(x4, x5, 8, eighths)
	x6, x7 = swap(x6, x7, 8, eighths)
	return x0, x1, x2, x3, x4, x5, x6, x7
}

// swap exchanges the upper parts of a and the lower parts of b.
func swap(a, b uint64, shift int, lower uint64) (uint64, uint64) {
	t := (a>>shift ^ b) & lower
	return a ^ t<<shift, b ^ t
}

// unzip moves the even bytes of x to its lower half and the odd ones to its upper.
func unzip(x uint64) uint64 {
	t := (x>>8 ^ x) & 0x0000ff000000ff00
	x ^= t ^ t<<8
	t = (x>>16 ^ x) & 0x00000000ffff0000
	return x ^ t ^ t<<16
}

// zip is the inverse of unzip.
func zip(x uint64) uint64 {
	t := (x>>16 ^ x) & 0x00000000ffff0000
	x ^= t ^ t<<16
	t = (x>>8 ^ x) & 0x0000ff000000ff00
	return x ^ t ^ t<<8
}
