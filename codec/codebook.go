package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"ipcbench/tensor"
)

// A book is how kc, stc and skc send values: a table of f32s, then for each value
// its number in the table. A number takes 1, 2, 4 or 8 bits, as few as can be; the
// first of a byte is in its lowest bits.
type book struct {
	size  int // of the table
	table [256]float32
}

// width returns how many bits a number takes.
func (b *book) width() int {
	w := 1
	for 1<<w < b.size {
		w *= 2
	}
	return w
}

// bytes returns how long n values are.
func (b *book) bytes(n int) int { return 4*b.size + (n*b.width()+7)/8 }

// begin writes the table and returns the place of the numbers, all of them 0.
func (b *book) begin(dst []byte) []byte {
	for i, x := range b.table[:b.size] {
		little.PutUint32(dst[4*i:], math.Float32bits(x))
	}
	clear(dst[4*b.size:])
	return dst[4*b.size:]
}

// open reads the table, of anything, and returns the numbers.
func (b *book) open(src []byte) ([]byte, error) {
	for i := range b.size {
		x := math.Float32frombits(little.Uint32(src[4*i:]))
		if x-x != 0 {
			return nil, fmt.Errorf("value %d of the table is %v", i, x)
		}
		b.table[i] = x
	}
	return src[4*b.size:], nil
}

// look returns value i, whose number may be anything.
func (b *book) look(numbers []byte, i, width int) (float32, error) {
	at := i * width
	k := int(numbers[at/8]>>(at%8)) & (1<<width - 1)
	if k >= b.size {
		return 0, fmt.Errorf("number %d in a table of %d", k, b.size)
	}
	return b.table[k], nil
}

// kc is k-means clusters of the values.
type kc struct {
	book
	clusters
	scratch []float32
}

func (k *kc) takes(in words) (words, error) {
	return words{tensor.U8, k.bytes(in.bytes / in.dtype.Size())}, wantFloats(in)
}

func (k *kc) encode(dst, _, cur []byte, in words) (int, error) {
	values := floats(&k.scratch, cur, in.dtype)
	n := k.bytes(len(values))
	if len(dst) < n || !k.fit(values, &k.book) {
		return 0, errPlain
	}
	k.number(k.begin(dst[:n]), values, k.width())
	return n, nil
}

func (k *kc) decode(dst, _, src []byte, in words) (int, error) {
	values := room(&k.scratch, dst, in.dtype)
	if want := k.bytes(len(values)); len(src) != want {
		return 0, fmt.Errorf("%d bytes, want %d", len(src), want)
	}
	numbers, err := k.open(src)
	if err != nil {
		return 0, err
	}
	width := k.width()
	for i := range values {
		if values[i], err = k.look(numbers, i, width); err != nil {
			return 0, err
		}
	}
	if in.dtype != tensor.F32 {
		tensor.Narrow(dst, values, in.dtype)
	}
	return len(dst), nil
}

// changes sends the words that differ most from the base, each by its difference's
// number in a book. Before the book stands how many there are, and behind it, for
// each, how many words lie between it and the one before: varints.
type changes struct {
	selector
	book
	clusters
	percent float64
	ternary bool      // stc: the table is minus and plus the mean magnitude; else skc: clusters
	diffs   []float32 // of the words that are sent
}

func (*changes) takes(in words) (words, error) { return opaque(in.bytes), wantFloats(in) }

func (c *changes) encode(dst, base, cur []byte, in words) (int, error) {
	size := in.dtype.Size()
	cut, n := c.find(base, cur, in.dtype, share(c.percent, len(cur)/size))
	var count [binary.MaxVarintLen64]byte
	head := binary.PutUvarint(count[:], uint64(n))
	gaps := head + c.bytes(n)
	if len(dst) < gaps+n {
		return 0, errPlain
	}
	copy(dst, count[:head])
	c.diffs = c.diffs[:0]
	end, last := gaps, -1
	for from := 0; from < len(cur); from += compared * size {
		for i, key := range c.compare(base, cur, from, in.dtype) {
			if !cut.keeps(key) {
				continue
			}
			if len(dst)-end < binary.MaxVarintLen64 {
				return 0, errPlain
			}
			at := from/size + i
			end += binary.PutUvarint(dst[end:], uint64(at-last-1))
			last = at
			c.diffs = append(c.diffs, c.diff[i])
		}
	}
	if !c.fill(dst[head:gaps]) {
		return 0, errPlain
	}
	return end, nil
}

// fill writes the book of diffs, and reports whether all of them are numbers.
func (c *changes) fill(dst []byte) bool {
	if !c.ternary {
		if !c.fit(c.diffs, &c.book) {
			return false
		}
		c.number(c.begin(dst), c.diffs, c.width())
		return true
	}
	sum := 0.0
	for _, d := range c.diffs {
		sum += math.Abs(float64(d))
	}
	mean := float32(sum / float64(len(c.diffs)))
	if mean-mean != 0 {
		return false
	}
	c.table[0], c.table[1] = -mean, mean
	numbers := c.begin(dst)
	for i, d := range c.diffs {
		if d > 0 {
			numbers[i/8] |= 1 << (i % 8)
		}
	}
	return true
}

func (c *changes) decode(dst, base, src []byte, in words) (int, error) {
	size := in.dtype.Size()
	all := len(dst) / size
	count, head := binary.Uvarint(src)
	if head <= 0 || count > uint64(all) {
		return 0, fmt.Errorf("%d changes of %d words", count, all)
	}
	n := int(count)
	if len(src) < head+c.bytes(n) {
		return 0, fmt.Errorf("%d bytes are too few for %d changes", len(src), n)
	}
	gaps := src[head+c.bytes(n):]
	numbers, err := c.open(src[head:])
	if err != nil {
		return 0, err
	}
	copy(dst, base)
	width, next := c.width(), uint64(0)
	for i := range n {
		x, err := c.look(numbers, i, width)
		if err != nil {
			return 0, err
		}
		gap, used := binary.Uvarint(gaps)
		if used <= 0 || gap >= uint64(all)-next {
			return 0, fmt.Errorf("change %d of %d is %d words behind word %d of %d", i, n, gap, next, all)
		}
		at := int(next + gap)
		add(dst[at*size:(at+1)*size], x, in.dtype)
		next, gaps = uint64(at)+1, gaps[used:]
	}
	if len(gaps) > 0 {
		return 0, fmt.Errorf("%d bytes behind the last of %d changes", len(gaps), n)
	}
	return len(dst), nil
}

// add adds x to the float in word.
func add(word []byte, x float32, d tensor.DType) {
	if d == tensor.F64 {
		little.PutUint64(word, math.Float64bits(math.Float64frombits(little.Uint64(word))+float64(x)))
		return
	}
	var old [1]float32
	tensor.Widen(old[:], word, d)
	old[0] += x
	tensor.Narrow(word, old[:], d)
}
