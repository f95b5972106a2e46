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
	if size == 1 {
		return copy(dst, cur), nil
	}
	n := len(cur) / size
	planes := places(size, n)
	var x [8]uint64
	i := 0
	for ; i+64/size <= n; i += 64 / size {
		load(&x, (*[64]byte)(cur[i*size:]), size)
		transpose(&x)
		for k, row := range x {
			little.PutUint64(dst[planes[k]+i:], row)
		}
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
	if size == 1 {
		return copy(dst, src), nil
	}
	n := len(src) / size
	planes := places(size, n)
	var x [8]uint64
	i := 0
	for ; i+64/size <= n; i += 64 / size {
		for k := range x {
			x[k] = little.Uint64(src[planes[k]+i:])
		}
		transpose(&x)
		store((*[64]byte)(dst[i*size:]), &x, size)
	}
	for ; i < n; i++ {
		for k := range size {
			dst[i*size+k] = src[k*n+i]
		}
	}
	return len(dst), nil
}

// places returns where in the planes of n words each row of a transpose begins:
// row k is byte k of 8 words, and if words are short, row size+k that of the next 8.
func places(size, n int) (all [8]int) {
	for k := range all {
		all[k] = k%size*n + k/size*8
	}
	return all
}

// load sets x to 64 bytes, as 8 rows, so that their transpose has the planes: row i
// is word i, and beside it, if words are short, word 8+i and so on.
func load(x *[8]uint64, b *[64]byte, size int) {
	switch size {
	case 8:
		for i := range x {
			x[i] = little.Uint64(b[8*i:])
		}
	case 4:
		for i := range x {
			x[i] = uint64(little.Uint32(b[4*i:])) | uint64(little.Uint32(b[32+4*i:]))<<32
		}
	case 2:
		for i := range x {
			x[i] = uint64(little.Uint16(b[2*i:])) | uint64(little.Uint16(b[16+2*i:]))<<16 |
				uint64(little.Uint16(b[32+2*i:]))<<32 | uint64(little.Uint16(b[48+2*i:]))<<48
		}
	}
}

// store is the inverse of load.
func store(b *[64]byte, x *[8]uint64, size int) {
	switch size {
	case 8:
		for i, v := range x {
			little.PutUint64(b[8*i:], v)
		}
	case 4:
		for i, v := range x {
			little.PutUint32(b[4*i:], uint32(v))
			little.PutUint32(b[32+4*i:], uint32(v>>32))
		}
	case 2:
		for i, v := range x {
			little.PutUint16(b[2*i:], uint16(v))
			little.PutUint16(b[16+2*i:], uint16(v>>16))
			little.PutUint16(b[32+2*i:], uint16(v>>32))
			little.PutUint16(b[48+2*i:], uint16(v>>48))
		}
	}
}

// transpose makes byte k of row i byte i of row k: halves change places, then
// quarters, then bytes.
func transpose(x *[8]uint64) {
	a0, a4 := swap(x[0], x[4], 32, 0x00000000ffffffff)
	a1, a5 := swap(x[1], x[5], 32, 0x00000000ffffffff)
	a2, a6 := swap(x[2], x[6], 32, 0x00000000ffffffff)
	a3, a7 := swap(x[3], x[7], 32, 0x00000000ffffffff)
	b0, b2 := swap(a0, a2, 16, 0x0000ffff0000ffff)
	b1, b3 := swap(a1, a3, 16, 0x0000ffff0000ffff)
	b4, b6 := swap(a4, a6, 16, 0x0000ffff0000ffff)
	b5, b7 := swap(a5, a7, 16, 0x0000ffff0000ffff)
	x[0], x[1] = swap(b0, b1, 8, 0x00ff00ff00ff00ff)
	x[2], x[3] = swap(b2, b3, 8, 0x00ff00ff00ff00ff)
	x[4], x[5] = swap(b4, b5, 8, 0x00ff00ff00ff00ff)
	x[6], x[7] = swap(b6, b7, 8, 0x00ff00ff00ff00ff)
}

// swap exchanges the upper parts of a with the lower parts of b, which the mask
// shows.
func swap(a, b uint64, shift int, low uint64) (uint64, uint64) {
	t := (a>>shift ^ b) & low
	return a ^ t<<shift, b ^ t
}
