package codec

import "crypto/subtle"

// xor sends the exclusive or of tensor and base: elements of the same size, most of them
// 0.
type xor struct{}

func (xor) accepts(in words) (words, error) { return in, nil }

func (xor) encode(dst, base, cur []byte, _ words) (int, error) {
	return subtle.XORBytes(dst, base, cur), nil
}

func (xor) decode(dst, base, src []byte, _ words) (int, error) {
	return subtle.XORBytes(dst, base, src), nil
}

// shuffle sends byte 0 of all elements, then byte 1 of all, and so on, so that similar
// bytes are adjacent. HDF5 and Blosc have the same filter.
type shuffle struct{}

func (shuffle) accepts(in words) (words, error) { return in, nil }

func (shuffle) encode(dst, _, cur []byte, in words) (int, error) {
	size := in.dtype.Size()
	n := len(cur) / size
	for i := transpose(dst, cur, n, size, planes2, planes4); i < n; i++ {
		for k := range size {
			dst[k*n+i] = cur[i*size+k]
		}
	}
	return len(cur), nil
}

func (shuffle) decode(dst, _, src []byte, in words) (int, error) {
	size := in.dtype.Size()
	n := len(src) / size
	for i := transpose(dst, src, n, size, words2, words4); i < n; i++ {
		for k := range size {
			dst[i*size+k] = src[k*n+i]
		}
	}
	return len(dst), nil
}

// transpose moves as many of n elements as there is a fast way for their size, and returns
// the number moved.
func transpose(dst, src []byte, n, size int, two, four func(dst, src []byte, n int) int) int {
	switch size {
	case 1:
		return copy(dst, src)
	case 2:
		return two(dst, src, n)
	case 4:
		return four(dst, src, n)
	}
	return 0
}

// planes2 and planes4 move n elements of 2 or 4 bytes to the byte planes in dst, except
// the last n % 8, and return the number moved. words2 and words4 are their inverses.
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

// In planes4, each 8 bytes hold two elements. zip turns them into four pairs of bytes,
// one pair per plane. The pairs of four such groups are then transposed.
func planes4(dst, src []byte, n int) (i int) {
	for ; i+8 <= n; i += 8 {
		b := (*[32]byte)(src[4*i:])
		p, q := zip(little.Uint64(b[:])), zip(little.Uint64(b[8:]))
		r, s := zip(little.Uint64(b[16:])), zip(little.Uint64(b[24:]))
		p, r = swap(p, r, 32, halves)
		q, s = swap(q, s, 32, halves)
		p, q = swap(p, q, 16, quarters)
		r, s = swap(r, s, 16, quarters)
		little.PutUint64(dst[i:], p)
		little.PutUint64(dst[n+i:], q)
		little.PutUint64(dst[2*n+i:], r)
		little.PutUint64(dst[3*n+i:], s)
	}
	return i
}

func words4(dst, src []byte, n int) (i int) {
	for ; i+8 <= n; i += 8 {
		p, q := swap(little.Uint64(src[i:]), little.Uint64(src[n+i:]), 16, quarters)
		r, s := swap(little.Uint64(src[2*n+i:]), little.Uint64(src[3*n+i:]), 16, quarters)
		p, r = swap(p, r, 32, halves)
		q, s = swap(q, s, 32, halves)
		b := (*[32]byte)(dst[4*i:])
		little.PutUint64(b[:], unzip(p))
		little.PutUint64(b[8:], unzip(q))
		little.PutUint64(b[16:], unzip(r))
		little.PutUint64(b[24:], unzip(s))
	}
	return i
}

// Masks of the lower half of 64 bits, and of the lower half of each 32 bits.
const (
	halves   = 0x00000000ffffffff
	quarters = 0x0000ffff0000ffff
)

// swap exchanges the bits lower<<shift of a with the bits lower of b.
func swap(a, b uint64, shift int, lower uint64) (uint64, uint64) {
	t := (a>>shift ^ b) & lower
	return a ^ t<<shift, b ^ t
}

// unzip moves the even bytes of x to its lower half and the odd bytes to its upper half.
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
