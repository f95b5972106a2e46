package tensor

import "fmt"

// A Key selects the numbers that one client of one round produces.
type Key struct {
	Seed          uint64
	Round, Client int
}

// golden is 2^64 divided by the golden ratio, made odd: consecutive multiples
// spread evenly (Knuth, The Art of Computer Programming, vol. 3, 6.4).
const golden = 0x9e3779b97f4a7c15

// stream returns the starting point of the word sequence of tensor t, by the
// finalizer of splitmix64 (Steele, Lea and Flood, 2014) after each part: so no
// seed of one round is that of another.
func (k Key) stream(t int) uint64 {
	h := uint64(0)
	for _, v := range [...]uint64{k.Seed, uint64(k.Round), uint64(k.Client), uint64(t)} {
		h += golden + v
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// word returns word i of a stream: one multiplication and one shift, so that
// making the numbers costs no more than moving them.
func word(stream uint64, i int) uint64 {
	x := (stream + uint64(i)) * golden
	return x ^ x>>32
}

// Fill writes seeded numbers to every tensor of p. They depend on the position,
// so that neither a swapped nor a shifted tensor goes unnoticed. Floats are
// finite and have a magnitude in [1, 2); bools are 0 or 1.
func Fill(p *Package, seed uint64) {
	for t := range p.Len() {
		d := p.Layout().Spec(t).DType
		mask, base := d.wordMask(), d.wordBase()
		k := Key{Seed: seed, Round: -1, Client: -1}.stream(t)
		data := p.View(t)
		words := Of[uint64](data)
		for i := range words {
			words[i] = word(k, i)&mask | base
		}
		setTail(data, word(k, len(words))&mask|base)
	}
}

// wordBase returns the bits that put a float whose other bits are in wordMask
// into [1, 2), and 0 for other types.
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

// Train is the stock worker function. It sets every word of update to the same
// word of model, exclusive-or'ed with a number that depends on the key, the
// tensor and the position. So it reads every byte of the model and writes every
// byte of the update, at about the speed of a copy, and a stale, broken or
// misplaced byte in either direction shows in the result. Bits that could make a
// float a NaN or change its magnitude are left alone.
func Train(update, model *Package, key Key) error {
	if update.Layout() != model.Layout() {
		return fmt.Errorf("tensor: train: model and update have different layouts")
	}
	for t := range model.Len() {
		mask := model.Layout().Spec(t).DType.wordMask()
		k := key.stream(t)
		from, to := model.View(t), update.View(t)
		src, dst := Of[uint64](from), Of[uint64](to)
		dst = dst[:len(src)]
		for i, w := range src {
			dst[i] = w ^ word(k, i)&mask
		}
		setTail(to, tail(from)^word(k, len(src))&mask)
	}
	return nil
}

// Prove checks every byte of update against what [Train] makes of model, and
// returns an error that names the first tensor and byte that differ.
func Prove(update, model *Package, key Key) error {
	if update.Layout() != model.Layout() {
		return fmt.Errorf("tensor: prove: model and update have different layouts")
	}
	for t := range model.Len() {
		spec := model.Layout().Spec(t)
		mask := spec.DType.wordMask()
		k := key.stream(t)
		from, got := model.View(t), update.View(t)
		src := Of[uint64](from)
		for i, g := range Of[uint64](got) {
			if want := src[i] ^ word(k, i)&mask; g != want {
				return mismatch(t, spec, 8*i, 8*i+8, g, want)
			}
		}
		rest := 8 * (len(from) % 8) // bits behind the last word
		want := (tail(from) ^ word(k, len(src))&mask) & (1<<rest - 1)
		if g := tail(got); g != want {
			return mismatch(t, spec, 8*len(src), len(from), g, want)
		}
	}
	return nil
}

func mismatch(t int, s Spec, from, to int, got, want uint64) error {
	return fmt.Errorf("tensor %d (%q %v %v): bytes %d to %d are %0*x, want %0*x",
		t, s.Name, s.DType, s.Shape, from, to, 2*(to-from), got, 2*(to-from), want)
}
