package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

var little = binary.LittleEndian

// sparse sends the indices of all changed elements (u32), then their values.
type sparse struct{ differ }

func (*sparse) accepts(in words) (words, error) { return opaque(in.bytes), indexable(in) }

// indexable returns an error if u32 cannot number the elements.
func indexable(in words) error {
	if uint64(in.bytes/in.dtype.Size()) > math.MaxUint32 {
		return fmt.Errorf("has indices of 32 bits, too short for %d elements", in.bytes/in.dtype.Size())
	}
	return nil
}

func (p *sparse) encode(dst, base, cur []byte, in words) (int, error) {
	size := in.dtype.Size()
	most := len(dst) / (4 + size)
	indices, values := dst[:4*most], dst[4*most:]
	n := 0
	for at := 0; at < len(cur); at += block {
		end := min(at+block, len(cur))
		found := p.differ.words(base[at:end], cur[at:end], size)
		if len(found) > most-n {
			return 0, errPlain
		}
		first := uint32(at / size)
		for i, w := range found {
			little.PutUint32(indices[4*(n+i):], first+uint32(w))
		}
		gather(values[n*size:], cur[at:end], found, size)
		n += len(found)
	}
	return 4*n + copy(dst[4*n:], values[:n*size]), nil
}

func (*sparse) decode(dst, base, src []byte, in words) (int, error) {
	size := in.dtype.Size()
	n := len(src) / (4 + size)
	if len(src) != n*(4+size) {
		return 0, fmt.Errorf("%d bytes are not a whole number of indices and values", len(src))
	}
	copy(dst, base)
	indices, values := src[:4*n], src[4*n:]
	count, least := uint64(in.bytes/size), uint64(0)
	for i := range n {
		w := uint64(little.Uint32(indices[4*i:]))
		if w < least || w >= count {
			return 0, fmt.Errorf("index %d of %d is %d: indices must ascend and be below %d", i, n, w, count)
		}
		put(dst[int(w)*size:], values[i*size:], size)
		least = w + 1
	}
	return len(dst), nil
}

// block is the number of bytes that are compared at a time.
const block = 4096

// A differ finds the elements that differ between two blocks. It stores each candidate
// and then adds 1 to the count if it differs: a branch would be mispredicted at each
// change.
type differ struct {
	groups [block/8 + 1]uint16 // offsets of groups of 8 bytes that differ
	found  [block + 8]uint16
}

// words returns the indices of the elements of size bytes that differ between a and b,
// which are equally long, at most a block. The next call overwrites the result.
func (d *differ) words(a, b []byte, size int) []uint16 {
	if bytes.Equal(a, b) {
		return nil
	}
	b = b[:len(a)]
	whole := len(a) &^ 7
	g := 0
	i := 0
	for ; i+32 <= len(a); i += 32 {
		x, y := (*[32]byte)(a[i:]), (*[32]byte)(b[i:])
		d.groups[g] = uint16(i)
		g += differs(little.Uint64(x[0:8]) ^ little.Uint64(y[0:8]))
		d.groups[g] = uint16(i + 8)
		g += differs(little.Uint64(x[8:16]) ^ little.Uint64(y[8:16]))
		d.groups[g] = uint16(i + 16)
		g += differs(little.Uint64(x[16:24]) ^ little.Uint64(y[16:24]))
		d.groups[g] = uint16(i + 24)
		g += differs(little.Uint64(x[24:32]) ^ little.Uint64(y[24:32]))
	}
	for ; i < whole; i += 8 {
		d.groups[g] = uint16(i)
		g += differs(little.Uint64(a[i:]) ^ little.Uint64(b[i:]))
	}
	n := 0
	switch size {
	case 8:
		for _, i := range d.groups[:g] {
			d.found[n] = i / 8
			n++
		}
	case 4:
		for _, i := range d.groups[:g] {
			x := little.Uint64(a[i:]) ^ little.Uint64(b[i:])
			d.found[n] = i / 4
			n += differs(x & 0xffffffff)
			d.found[n] = i/4 + 1
			n += differs(x >> 32)
		}
	case 2:
		for _, i := range d.groups[:g] {
			x := little.Uint64(a[i:]) ^ little.Uint64(b[i:])
			d.found[n] = i / 2
			n += differs(x & 0xffff)
			d.found[n] = i/2 + 1
			n += differs(x >> 16 & 0xffff)
			d.found[n] = i/2 + 2
			n += differs(x >> 32 & 0xffff)
			d.found[n] = i/2 + 3
			n += differs(x >> 48)
		}
	case 1:
		for _, i := range d.groups[:g] {
			x := little.Uint64(a[i:]) ^ little.Uint64(b[i:])
			for k := range uint16(8) {
				d.found[n] = i + k
				n += differs(x >> (8 * k) & 0xff)
			}
		}
	}
	for i := whole; i < len(a); i += size {
		d.found[n] = uint16(i / size)
		if !bytes.Equal(a[i:i+size], b[i:i+size]) {
			n++
		}
	}
	return d.found[:n]
}

func differs(x uint64) (n int) {
	if x != 0 {
		n = 1
	}
	return n
}

// gather copies the elements at the given indices of src to dst.
func gather(dst, src []byte, at []uint16, size int) {
	for i, w := range at {
		put(dst[i*size:], src[int(w)*size:], size)
	}
}

func put(dst, src []byte, size int) {
	switch size {
	case 1:
		dst[0] = src[0]
	case 2:
		little.PutUint16(dst, little.Uint16(src))
	case 4:
		little.PutUint32(dst, little.Uint32(src))
	case 8:
		little.PutUint64(dst, little.Uint64(src))
	}
}
