package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// gaps sends a byte for the form of positions, the number of changed elements (u32),
// their positions and their values. Positions are the numbers of unchanged elements
// between changed ones, as varints, or a bitmap, whichever is shorter.
type gaps struct{ differ }

// Forms of positions; the numbers are sent.
const (
	byGaps = iota
	byBitmap
)

// headLen is the length of the form and the number, in bytes.
const headLen = 5

var errLonger = errors.New("gaps are longer than a bitmap")

func (*gaps) accepts(in words) (words, error) { return opaque(in.bytes), indexable(in) }

func (g *gaps) encode(dst, base, cur []byte, in words) (int, error) {
	n, err := g.write(dst, base, cur, in, byGaps)
	if err == errLonger {
		return g.write(dst, base, cur, in, byBitmap)
	}
	return n, err
}

// write encodes positions in the given form. It first puts the values behind room for a
// bitmap, because the length of the positions is not known yet.
func (g *gaps) write(dst, base, cur []byte, in words, form byte) (int, error) {
	size := in.dtype.Size()
	room := headLen + (in.bytes/size+7)/8
	if room > len(dst) {
		return 0, errPlain
	}
	at, values := dst[headLen:room], dst[room:]
	if form == byBitmap {
		clear(at)
	}
	n, used, next := 0, 0, 0
	for from := 0; from < len(cur); from += block {
		end := min(from+block, len(cur))
		found := g.differ.words(base[from:end], cur[from:end], size)
		if len(found) > len(values)/size-n {
			return 0, errPlain
		}
		gather(values[n*size:], cur[from:end], found, size)
		n += len(found)
		first := from / size
		if form == byBitmap {
			for _, w := range found {
				i := first + int(w)
				at[i/8] |= 1 << (i % 8)
			}
			continue
		}
		for _, w := range found {
			gap := first + int(w) - next
			next += gap + 1
			if gap < 0x80 && used < len(at) {
				at[used] = byte(gap)
				used++
				continue
			}
			var long [binary.MaxVarintLen64]byte
			m := binary.PutUvarint(long[:], uint64(gap))
			if m > len(at)-used {
				return 0, errLonger
			}
			used += copy(at[used:], long[:m])
		}
	}
	if form == byBitmap {
		used = len(at)
	}
	dst[0] = form
	little.PutUint32(dst[1:], uint32(n))
	used += headLen
	return used + copy(dst[used:], values[:n*size]), nil
}

func (*gaps) decode(dst, base, src []byte, in words) (int, error) {
	size := in.dtype.Size()
	count := in.bytes / size
	if len(src) < headLen {
		return 0, fmt.Errorf("%d bytes are too few", len(src))
	}
	form, n, rest := src[0], int(little.Uint32(src[1:])), src[headLen:]
	if n > len(rest)/size {
		return 0, fmt.Errorf("%d changed elements do not fit in %d bytes", n, len(rest))
	}
	at, values := rest[:len(rest)-n*size], rest[len(rest)-n*size:]
	copy(dst, base)
	switch form {
	case byGaps:
		return len(dst), scatterGaps(dst, at, values, n, count, size)
	case byBitmap:
		if len(at) != (count+7)/8 {
			return 0, fmt.Errorf("a bitmap of %d bytes for %d elements", len(at), count)
		}
		return len(dst), scatterBitmap(dst, at, values, n, count, size)
	}
	return 0, fmt.Errorf("unknown form %d of positions", form)
}

func scatterGaps(dst, at, values []byte, n, count, size int) error {
	next := uint64(0)
	for i := range n {
		if len(at) == 0 {
			return fmt.Errorf("%d gaps instead of %d", i, n)
		}
		gap, m := uint64(at[0]), 1
		if gap >= 0x80 {
			if gap, m = binary.Uvarint(at); m <= 0 {
				return fmt.Errorf("gap %d of %d is cut or too large", i, n)
			}
		}
		if gap >= uint64(count)-next {
			return fmt.Errorf("gap %d of %d leads beyond the %d elements", i, n, count)
		}
		next += gap
		put(dst[int(next)*size:], values[i*size:], size)
		next++
		at = at[m:]
	}
	if len(at) > 0 {
		return fmt.Errorf("%d bytes after the last gap", len(at))
	}
	return nil
}

func scatterBitmap(dst, at, values []byte, n, count, size int) error {
	k := 0
	for i, b := range at {
		for ; b != 0; b &= b - 1 {
			w := 8*i + bits.TrailingZeros8(b)
			if w >= count || k == n {
				return fmt.Errorf("a bitmap with more bits than %d changed of %d elements", n, count)
			}
			put(dst[w*size:], values[k*size:], size)
			k++
		}
	}
	if k < n {
		return fmt.Errorf("a bitmap with %d bits for %d changed elements", k, n)
	}
	return nil
}
