package tensor

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// A Change is the share of a tensor's elements, or of its whole rows of dimension 0, that
// a round changes. The zero Change means all elements, by the rule of [Train].
//
// Otherwise one element (or row) is chosen in each stretch of 1/share, at a position that
// depends on the seed. So the share is the same throughout a tensor. A chosen element
// always changes, but a number stays a number, an infinity an infinity, and a NaN a NaN.
//
// A dense change is one of all floats, each by about that share of its value, as in a step of
// training. docs/reference/arithmetic.md has the formulas.
type Change struct {
	parts       int // millionths; 0 means all
	rows, dense bool
}

const million = 1_000_000

// ParseChange reads a share such as "2%", "0.5%", "2%/rows" or "dense:0.1%", from 0.0001% to
// 100%. "100%" is the zero Change, also with "/rows".
func ParseChange(text string) (Change, error) {
	share, dense := strings.CutPrefix(text, "dense:")
	share, rows := strings.CutSuffix(share, "/rows")
	number, percent := strings.CutSuffix(share, "%")
	whole, fraction, dot := strings.Cut(number, ".")
	const digits = 4 // a millionth is 0.0001 %
	parts, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", max(0, digits-len(fraction))), 10, 32)
	if !percent || err != nil || len(fraction) > digits || whole == "" || dot && fraction == "" || parts < 1 || parts > million || dense && rows {
		return Change{}, fmt.Errorf("%q must be a share from 0.0001%% to 100%% of the elements, such as 2%% or 0.5%%, of the rows, such as 2%%/rows, or of each value, such as dense:0.1%%", text)
	}
	if parts == million && !dense {
		return Change{}, nil
	}
	return Change{int(parts), rows, dense}, nil
}

func (c Change) String() string {
	if c.parts == 0 {
		return "100%"
	}
	text := strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%04d", c.parts/10_000, c.parts%10_000), "0"), ".") + "%"
	switch {
	case c.rows:
		text += "/rows"
	case c.dense:
		text = "dense:" + text
	}
	return text
}

func (c Change) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

func (c *Change) UnmarshalText(text []byte) (err error) {
	*c, err = ParseChange(string(text))
	return err
}

// Share returns the average share of elements that change: above 0 and at most 1.
func (c Change) Share() float64 {
	if c.all() {
		return 1
	}
	return float64(c.parts) / million
}

// all reports whether all elements change.
func (c Change) all() bool { return c.parts == 0 || c.dense }

// mask returns the bits that change in elements of type d if all do, repeated over 8 bytes. A
// dense change flips low bits of floats at random. With k of m bits of a mantissa, values of a
// uniform logarithm change by 0.24 * 2^(k-m) on average.
func (c Change) mask(d DType) uint64 {
	mask := dtypes[d].mask
	if c.dense && d.wordBase() != 0 {
		m := bits.Len64(mask)
		k := int(math.Round(math.Log2(float64(c.parts)/million/0.24))) + m
		mask &= 1<<min(max(k, 1), m) - 1
	}
	return repeated(mask, d)
}

// Rows reports whether whole rows change.
func (c Change) Rows() bool { return c.rows }

// runs iterates over the ranges of elements of one tensor that change, in order. Stretch
// j is from j/share to (j+1)/share. The position in it is a number that depends on j, or
// one more if the stretch before chose that element. For shares above one half, the
// elements that stay are chosen in this way. So two clients choose independently, however
// large the share is.
type runs struct {
	rows, width int
	share       uint64
	stay        bool
	stream      uint64

	j       uint64
	decided int // rows before this one are done
}

// runs returns the iterator for a tensor with this many rows and elements in use.
func (c Change) runs(rows, elems int, stream uint64) runs {
	r := runs{rows: elems, width: 1, share: uint64(c.parts), stream: stream}
	if c.rows {
		r.rows, r.width = rows, elems/max(rows, 1)
	}
	if r.stay = r.share > million/2; r.stay {
		r.share = million - r.share
	}
	return r
}

// next returns the next range, which may be empty. If more is false, from and to are the
// end of the tensor.
func (r *runs) next() (from, to int, more bool) {
	if r.decided >= r.rows {
		end := r.rows * r.width
		return end, end, false
	}
	within, _ := bits.Mul64(scatter(r.stream+(r.j+1)*golden), million)
	at := min(max(int((r.j*million+within)/r.share), r.decided), r.rows)
	from, to = at, min(at+1, r.rows)
	if r.stay {
		from, to = r.decided, at
	}
	r.j++
	r.decided = at + 1
	return from * r.width, to * r.width, true
}

// apply sets tensor t of to, which is as long as in from, to the changed tensor of from.
func (c Change) apply(to, from *Package, t int, stream uint64) {
	if c.all() {
		xor(to, from, t, stream, c.mask(from.Layout().Spec(t).DType))
		return
	}
	d, data := from.Layout().Spec(t).DType, to.View(t)
	copy(data, from.View(t))
	r := c.runs(from.Rows(t), len(data)/d.Size(), stream)
	dtypes[d].elements.alter(data, d, r)
}

type bitsOf interface {
	uint8 | uint16 | uint32 | uint64
}

func (elements[W, A, T]) alter(data []byte, d DType, r runs) {
	words, mask := Slice[W](data), W(dtypes[d].mask)
	for from, to, more := r.next(); more; from, to, more = r.next() {
		for i := from; i < to; i++ {
			words[i] = altered(words[i], mask, r.stream, i)
		}
	}
}

// altered returns w, element i, with some bits of the mask flipped, at least one. For an
// infinity or a NaN it flips the sign, because other bits would turn one into the other.
func altered[T bitsOf](w, mask T, stream uint64, i int) T {
	exponent := ^mask << 1 >> 1 // exponent bits of a float; 0 for an integer
	if exponent != 0 && w&exponent == exponent {
		return w ^ ^mask ^ exponent
	}
	return w ^ max(T(word(stream, i))&mask, 1)
}

func (c Change) prove(to, from *Package, t int, stream uint64) error {
	if c.all() {
		return proveXor(to, from, t, stream, c.mask(from.Layout().Spec(t).DType))
	}
	spec, got, src := from.Layout().Spec(t), to.View(t), from.View(t)
	r := c.runs(from.Rows(t), len(src)/spec.DType.Size(), stream)
	return dtypes[spec.DType].elements.proveAltered(got, src, t, spec, r)
}

func (elements[W, A, T]) proveAltered(update, model []byte, t int, spec Spec, r runs) error {
	got, src := Slice[W](update), Slice[W](model)
	mask, size := W(dtypes[spec.DType].mask), spec.DType.Size()
	check := func(i int, want W) error {
		if got[i] != want {
			return mismatch(t, spec, size*i, size*i+size, uint64(got[i]), uint64(want))
		}
		return nil
	}
	for done, more := 0, true; more; {
		var from, to int
		from, to, more = r.next()
		if !bytes.Equal(update[size*done:size*from], model[size*done:size*from]) {
			for i := done; i < from; i++ {
				if err := check(i, src[i]); err != nil {
					return err
				}
			}
		}
		for i := from; i < to; i++ {
			if err := check(i, altered(src[i], mask, r.stream, i)); err != nil {
				return err
			}
		}
		done = to
	}
	return nil
}
