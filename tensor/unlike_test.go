package tensor

import (
	"bytes"
	"fmt"
	"testing"

	"ipcbench/internal/test/check"
)

// The tests of this file check the arithmetic of updates unlike the model: with another layout, or with lengths of
// their own.

// unlike returns pairs of a model and an update: with a smaller and a larger layout, and with varying lengths.
func unlike(t testing.TB) map[string][2]*Package {
	small := mustLayout(t, []Spec{{Name: "A", DType: F16, Shape: []int{3, 5}}, {Name: "n", DType: I64}, {Name: "e", DType: F32, Shape: []int{0}}})
	l := ragged(t)
	model, update := Alloc(l), Alloc(l)
	setRows(t, model, 3, 2, 77, 0)
	setRows(t, update, 5, 0, 20, 0)
	return map[string][2]*Package{
		"smaller": {Alloc(mixedLayout(t)), Alloc(small)},
		"larger":  {Alloc(small), Alloc(mixedLayout(t))},
		"rows":    {model, update},
	}
}

// TestTrainUnlike: Train fills an update unlike its model with sound numbers and writes nothing after the rows in use.
// Every bit of model and update counts.
func TestTrainUnlike(t *testing.T) {
	for name, pair := range unlike(t) {
		model, update := pair[0], pair[1]
		key := Key{Seed: 3, Round: 1, Client: 2}
		Fill(model, 7)
		train := func() uint64 {
			t.Helper()
			check.Must(t, Train(update, model, key))
			return update.Hash()
		}
		hash := train()
		sound(t, update)
		for i := range update.Len() {
			rest := update.View(i)[len(update.View(i)):cap(update.View(i))]
			check.Need(t, !update.Layout().Spec(i).Var || bytes.Count(rest, []byte{0}) == len(rest),
				"%s: a byte behind the rows in use of tensor %d was written", name, i)
		}
		prove := func() error { return Prove(update, model, key) }
		check.Must(t, prove(), name)
		flip(update, 5, func(i, bit int) {
			check.Need(t, prove() != nil, "%s: bit %d of tensor %d of the update is wrong and not found", name, bit, i)
		})
		flip(model, 7, func(i, bit int) {
			check.Need(t, prove() != nil, "%s: bit %d of tensor %d of the model was wrong and is not found", name, bit, i)
		})
		for _, other := range []Key{{Seed: 4, Round: 1, Client: 2}, {Seed: 3, Round: 2, Client: 2}, {Seed: 3, Round: 1, Client: 3}} {
			key = other
			check.That(t, train() != hash, "%s: %+v gives the update of another key", name, other)
		}
	}
}

// flip calls f with every step'th bit of p flipped.
func flip(p *Package, step int, f func(tensor, bit int)) {
	for i := range p.Len() {
		data := p.View(i)
		for bit := 0; bit < 8*len(data); bit += step {
			data[bit/8] ^= 1 << (bit % 8)
			f(i, bit)
			data[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// TestDigestOfTwoWords: the digest changes if two 64-bit words change in the same bits, swap places or both lose a
// sign.
func TestDigestOfTwoWords(t *testing.T) {
	p := Alloc(vector(t, F64, 64))
	Fill(p, 1)
	words, want := Slice[uint64](p.View(0)), digest(p)
	masks := []uint64{1<<63 | 1<<31, 1<<63 | 1<<47 | 1<<31 | 1<<15, 1<<64 - 1} // signs of narrower floats, and all bits
	for bit := range 64 {
		masks = append(masks, 1<<bit)
	}
	for i := range words {
		for j := range i {
			for _, mask := range masks {
				words[i] ^= mask
				words[j] ^= mask
				check.Need(t, digest(p) != want, "bits %x of words %d and %d", mask, i, j)
				words[i] ^= mask
				words[j] ^= mask
			}
			words[i], words[j] = words[j], words[i]
			check.Need(t, digest(p) != want, "words %d and %d may trade places", i, j)
			words[i], words[j] = words[j], words[i]
		}
	}
}

// TestAdvance: Advance makes a sound model that depends on every bit of the average and of the previous model.
func TestAdvance(t *testing.T) {
	for name, pair := range unlike(t) {
		model, average := pair[0], pair[1]
		next := Alloc(model.Layout())
		Fill(model, 1)
		Fill(average, 2)
		advance := func() uint64 {
			t.Helper()
			check.Must(t, Advance(next, model, average, Change{}))
			return next.Hash()
		}
		hash := advance()
		sound(t, next)
		for i := range next.Len() {
			check.Equal(t, next.Rows(i), model.Rows(i), name, "rows of tensor", i)
		}
		for _, p := range []*Package{model, average} {
			flip(p, 11, func(i, bit int) {
				check.Need(t, advance() != hash, "%s: bit %d of tensor %d makes no difference", name, bit, i)
			})
		}
	}
	check.That(t, Advance(Alloc(vector(t, F32, 1)), Alloc(vector(t, F32, 1)), Alloc(vector(t, F32, 2)), Change{}) != nil,
		"models of two layouts pass")
}

// TestUnlikeVectors: the numbers that docs/reference/arithmetic.md gives, which other languages must compute too.
func TestUnlikeVectors(t *testing.T) {
	model := Alloc(mustLayout(t, []Spec{{Name: "w", DType: F32, Shape: []int{3}}, {Name: "n", DType: U8, Shape: []int{2}, Var: true}}))
	copy(Slice[float32](model.View(0)), []float32{1, -2, 0.5})
	copy(model.View(1), []byte{7, 9})
	update, next := Alloc(mustLayout(t, []Spec{{Name: "d", DType: F32, Shape: []int{3}}})), Alloc(model.Layout())
	for _, test := range []struct {
		rows         int
		digest       uint64
		update, next string
	}{
		{2, 0xf4abdc265db68bea, "0def823f7be3b33fbfd5903f", "8925933f639470c0e323063f c8f7"},
		{1, 0x6b9356639ca74a48, "8fdb863fd8ca9a3ffdc9b43f", "9f7aed3f50b67fc0ed786a3f 60"},
		{0, 0x2015671b6a739070, "2d7b8f3f8045c83ff805ee3f", "a3a2813f239f14c049a1133f "},
	} {
		check.Must(t, model.SetRows(1, test.rows))
		check.Must(t, Train(update, model, Key{Seed: 1, Round: 2, Client: 3}))
		check.Must(t, Advance(next, model, update, Change{}))
		u, n := fmt.Sprintf("%x", update.View(0)), fmt.Sprintf("%x %x", next.View(0), next.View(1))
		d := digest(model)
		check.That(t, d == test.digest && u == test.update && n == test.next, "{%d, %#x, %q, %q},", test.rows, d, u, n)
	}
}
