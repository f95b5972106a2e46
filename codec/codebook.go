package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"ipcbench/tensor"
)

// A book is the format in which kc, stc and skc send values: a table of f32, then each
// value's index in the table. An index has 1, 2, 4 or 8 bits, the fewest that suffice;
// the first index of a byte is in its lowest bits.
type book struct {
	size  int // entries of table in use
	table [256]float32
}

func (b *book) width() int {
	w := 1
	for 1<<w < b.size {
		w *= 2
	}
	return w
}

// bytes returns the encoded length of n values.
func (b *book) bytes(n int) int { return 4*b.size + (n*b.width()+7)/8 }

// begin writes the table and returns the rest of dst, set to 0, for the indices.
func (b *book) begin(dst []byte) []byte {
	for i, x := range b.table[:b.size] {
		little.PutUint32(dst[4*i:], math.Float32bits(x))
	}
	clear(dst[4*b.size:])
	return dst[4*b.size:]
}

// open reads the table, which is untrusted, and returns the rest of src: the indices.
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

// lookup writes the values to dst whose indices, which are untrusted, are in numbers.
func (b *book) lookup(dst []float32, numbers []byte) error {
	width, most := uint(b.width()), uint8(0)
	mask := uint8(1<<width - 1)
	for i := range dst {
		at := uint(i) * width
		k := numbers[at/8] >> (at % 8) & mask
		dst[i] = b.table[k]
		most = max(most, k)
	}
	if int(most) >= b.size {
		return fmt.Errorf("index %d in a table of %d", most, b.size)
	}
	return nil
}

// kc sends the centre of each value's cluster.
type kc struct {
	book
	clusters
	scratch []float32
}

func newKC(n float64) stage { return &kc{book: book{size: int(n)}} }

func (k *kc) accepts(in words) (words, error) {
	return words{tensor.U8, k.bytes(in.bytes / in.dtype.Size())}, needFloats(in)
}

func (k *kc) encode(dst, _, cur []byte, in words) (int, error) {
	values := floats(&k.scratch, cur, in.dtype)
	n := k.bytes(len(values))
	if !k.fit(values, &k.book) {
		return 0, errPlain
	}
	k.number(k.begin(dst[:n]), values, k.width())
	return n, nil
}

func (k *kc) decode(dst, _, src []byte, in words) (int, error) {
	values := room(&k.scratch, dst, in.dtype)
	numbers, err := k.open(src)
	if err != nil {
		return 0, err
	}
	if err := k.lookup(values, numbers); err != nil {
		return 0, err
	}
	if in.dtype != tensor.F32 {
		tensor.Narrow(dst, values, in.dtype)
	}
	return len(dst), nil
}

// changes implements stc and skc: it sends the differences of the elements that differ
// most from the base. The encoding is their number, a book of the differences, and the
// number of elements skipped before each. Numbers outside the book are varints.
type changes struct {
	selector
	book
	clusters
	percent float64
	ternary bool      // stc: the table is ± the mean magnitude; else skc: cluster centres
	diffs   []float32 // differences of the elements that are sent
}

func newSTC(percent float64) stage {
	return &changes{percent: percent, ternary: true, book: book{size: 2}}
}

// newSKC uses OpenFL's six clusters and 10 %, the default share of OpenFL's STCPipeline.
// Its SKCPipeline has 1 %.
func newSKC(float64) stage { return &changes{percent: 10, book: book{size: 6}} }

func (*changes) accepts(in words) (words, error) { return opaque(in.bytes), needIndexedFloats(in) }

func (c *changes) encode(dst, base, cur []byte, in words) (int, error) {
	all := len(cur) / in.dtype.Size()
	found := c.largest(base, cur, in.dtype, share(c.percent, all))
	var count [binary.MaxVarintLen64]byte
	head := binary.PutUvarint(count[:], uint64(len(found)))
	end := head + c.bytes(len(found))
	if len(dst) < end {
		return 0, errPlain
	}
	copy(dst, count[:head])
	c.diffs = c.diffs[:0]
	for _, ch := range found {
		c.diffs = append(c.diffs, ch.diff)
	}
	if !c.fill(dst[head:end]) {
		return 0, errPlain
	}
	next := uint32(0)
	for _, ch := range found {
		if len(dst)-end < binary.MaxVarintLen32 {
			return 0, errPlain
		}
		end += binary.PutUvarint(dst[end:], uint64(ch.word-next))
		next = ch.word + 1
	}
	return end, nil
}

// fill writes the book of c.diffs. It returns false if there are none or one is not
// finite.
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
		return 0, fmt.Errorf("%d changes in %d elements", count, all)
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
	diffs := slices.Grow(c.diffs[:0], n)[:n]
	c.diffs = diffs
	if err := c.lookup(diffs, numbers); err != nil {
		return 0, err
	}
	copy(dst, base)
	next := uint64(0)
	for i, x := range diffs {
		gap, used := binary.Uvarint(gaps)
		if used <= 0 || gap >= uint64(all)-next {
			return 0, fmt.Errorf("change %d of %d is %d elements after element %d of %d", i, n, gap, next, all)
		}
		at := int(next + gap)
		add(dst[at*size:(at+1)*size], x, in.dtype)
		next, gaps = uint64(at)+1, gaps[used:]
	}
	if len(gaps) > 0 {
		return 0, fmt.Errorf("%d bytes after the last of %d changes", len(gaps), n)
	}
	return len(dst), nil
}

func add(word []byte, x float32, d tensor.DType) {
	switch d {
	case tensor.F32:
		little.PutUint32(word, math.Float32bits(math.Float32frombits(little.Uint32(word))+x))
	case tensor.F64:
		little.PutUint64(word, math.Float64bits(math.Float64frombits(little.Uint64(word))+float64(x)))
	default:
		var old [1]float32
		tensor.Widen(old[:], word, d)
		old[0] += x
		tensor.Narrow(word, old[:], d)
	}
}
