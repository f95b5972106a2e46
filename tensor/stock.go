package tensor

import (
	"fmt"
	"math/bits"

	"ipcbench/internal/kernel"
)

// A Key selects the numbers that a client produces in a round.
type Key struct {
	Seed          uint64
	Round, Client int
	Change        Change // share of the update that differs from the model
}

const golden = kernel.Golden

// stream returns the seed of the words of tensor t. Every client, round and tensor has
// its own.
func (k Key) stream(t int) uint64 {
	return mix(k.Seed, uint64(k.Round), uint64(k.Client), uint64(t))
}

// mix returns a hash of all parts and their order.
func mix(parts ...uint64) uint64 {
	h := uint64(0)
	for _, v := range parts {
		h = scatter(h + golden + v)
	}
	return h
}

// scatter makes every bit of its result depend on every bit of h, and is injective: it is
// the finalizer of splitmix64 (Steele, Lea and Flood, 2014).
func scatter(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// word returns word i of a stream. It needs one multiplication and one shift, so
// computing words is as fast as moving them.
func word(stream uint64, i int) uint64 { return kernel.Word((stream + uint64(i)) * golden) }

// Fill writes seeded numbers to every tensor of p. They depend on the position, so
// swapped or shifted tensors are noticed. Floats are in [1, 2), and bools are 0 or 1.
func Fill(p *Package, seed uint64) {
	for t := range p.Len() {
		fill(p, t, Key{Seed: seed, Round: -1, Client: -1}.stream(t))
	}
}

// fill writes the words of stream to tensor t.
func fill(p *Package, t int, stream uint64) {
	d := p.Layout().Spec(t).DType
	mask, base := d.wordMask(), d.wordBase()
	data := p.View(t)
	words := Slice[uint64](data)
	kernel.Fill(words, stream*golden, mask, base)
	setTail(data, word(stream, len(words))&mask|base)
}

// wordBase returns the bits that, with any bits of wordMask, make a float in [1, 2). It
// is 0 for other types.
func (d DType) wordBase() uint64 {
	switch d {
	case F16:
		return 0x3c003c003c003c00
	case BF16:
		return 0x3f803f803f803f80
	case F32:
		return 0x3f8000003f800000
	case F64:
		return 0x3ff0000000000000
	}
	return 0
}

// setTail writes the low bytes of w to the last len(data) % 8 bytes.
func setTail(data []byte, w uint64) {
	for i := len(data) &^ 7; i < len(data); i++ {
		data[i] = byte(w)
		w >>= 8
	}
}

// tail is the inverse of setTail; the other bytes of its result are 0.
func tail(data []byte) (w uint64) {
	for i := len(data) - 1; i >= len(data)&^7; i-- {
		w = w<<8 | uint64(data[i])
	}
	return w
}

// Train is the built-in worker function. It XORs each 8 bytes of model with a number that
// depends on the key, the tensor and the position, and writes them to update. So it reads
// every byte of the model and writes every byte of the update, about as fast as a copy. A
// stale, damaged or misplaced byte in either direction changes the result. Floats keep
// their sign and exponent. With a [Change], only the elements that it chooses differ from
// the model.
//
// If the layouts differ or a tensor is Var, Train instead fills the update's rows in use,
// as [Fill] does. The numbers then also depend on every byte in use of the model. The
// caller sets the rows. Two layouts with equal specs are an error.
func Train(update, model *Package, key Key) error {
	same, err := sameLayout(update, model)
	if err != nil {
		return fmt.Errorf("tensor: train: %w", err)
	}
	if !same {
		d := digest(model)
		for t := range update.Len() {
			fill(update, t, mix(d, key.stream(t)))
		}
		return nil
	}
	for t := range model.Len() {
		key.Change.apply(update, model, t, key.stream(t))
	}
	return nil
}

// sameLayout reports whether the two packages have the same layout without Var tensors. Two
// layouts with equal specs are an error, because processes could disagree about whether
// they are the same.
func sameLayout(p, q *Package) (bool, error) {
	if p.layout == q.layout {
		return !p.layout.Var(), nil
	}
	if p.layout.Digest() == q.layout.Digest() {
		return false, fmt.Errorf("model and update have equal specs, so they must have the same layout")
	}
	return false, nil
}

// xor sets tensor t of to to tensor t of from, which must be as long, XORed with the
// words of stream under a mask.
func xor(to, from *Package, t int, stream, mask uint64) {
	a, b := from.View(t), to.View(t)
	src, dst := Slice[uint64](a), Slice[uint64](b)
	kernel.Mask(dst, src, stream*golden, mask)
	setTail(b, tail(a)^word(stream, len(src))&mask)
}

// Advance computes the next model from model and the average of updates of another
// layout. next becomes model, XORed under the mask of [Train] with numbers that depend on
// every byte of the average, the tensor and the position. With a [Change], only the
// elements that it chooses differ from model. next gets the rows in use of model, and
// must have its layout.
func Advance(next, model, average *Package, c Change) error {
	if next.Layout() != model.Layout() {
		return fmt.Errorf("tensor: advance: both models must have the same layout")
	}
	for _, t := range model.layout.vars {
		next.setRows(t, model.rows[t])
	}
	d := digest(average)
	for t := range model.Len() {
		c.apply(next, model, t, mix(d, uint64(t)))
	}
	return nil
}

// digest returns a hash of the bytes in use of p and their positions. It adds up all
// words of 8 bytes, each multiplied by an odd number that depends on its position. One
// wrong word always changes the sum, and several wrong words do not cancel out. No step
// depends on the one before, so the processor executes several at once.
func digest(p *Package) uint64 {
	d := uint64(0)
	for t := range p.Len() {
		data := p.View(t)
		at := mix(uint64(t), uint64(p.Rows(t)), uint64(len(data)))
		sum := kernel.Spread(tail(data), at) + kernel.Digest(Slice[uint64](data), at)
		d = mix(d, sum)
	}
	return d
}

// Prove returns nil if every byte in use of update is as [Train] computes it from model.
// Otherwise the error names the first tensor and element that differ. Like Train, it
// rejects two layouts with equal specs.
func Prove(update, model *Package, key Key) error {
	same, err := sameLayout(update, model)
	if err != nil {
		return fmt.Errorf("tensor: prove: %w", err)
	}
	if same {
		for t := range update.Len() {
			if err := key.Change.prove(update, model, t, key.stream(t)); err != nil {
				return err
			}
		}
		return nil
	}
	d := digest(model)
	for t := range update.Len() {
		if err := proveFill(update, t, mix(d, key.stream(t))); err != nil {
			return err
		}
	}
	return nil
}

func proveXor(to, from *Package, t int, stream, mask uint64) error {
	spec := from.Layout().Spec(t)
	src, got := from.View(t), to.View(t)
	words, gots := Slice[uint64](src), Slice[uint64](got)
	if i := kernel.Masked(gots, words, stream*golden, mask); i >= 0 {
		return mismatch(t, spec, 8*i, 8*i+8, gots[i], words[i]^word(stream, i)&mask)
	}
	return proveTail(got, t, spec, tail(src)^word(stream, len(words))&mask)
}

func proveFill(p *Package, t int, stream uint64) error {
	spec := p.Layout().Spec(t)
	mask, base := spec.DType.wordMask(), spec.DType.wordBase()
	got := p.View(t)
	words := Slice[uint64](got)
	if i := kernel.Filled(words, stream*golden, mask, base); i >= 0 {
		return mismatch(t, spec, 8*i, 8*i+8, words[i], word(stream, i)&mask|base)
	}
	return proveTail(got, t, spec, word(stream, len(words))&mask|base)
}

// proveTail compares the last len(got) % 8 bytes with the low bytes of want.
func proveTail(got []byte, t int, spec Spec, want uint64) error {
	want &= 1<<(8*(len(got)%8)) - 1
	if g := tail(got); g != want {
		return mismatch(t, spec, len(got)&^7, len(got), g, want)
	}
	return nil
}

// mismatch returns the error for the bytes from up to to of tensor t. got and want are
// these bytes as numbers.
func mismatch(t int, s Spec, from, to int, got, want uint64) error {
	first := from + bits.TrailingZeros64(got^want)/8
	return fmt.Errorf("tensor %d (%q %v %v): bytes %d to %d are %0*x instead of %0*x: element %d",
		t, s.Name, s.DType, s.Shape, from, to, 2*(to-from), got, 2*(to-from), want, first/s.DType.Size())
}
