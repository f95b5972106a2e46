package tensor

import (
	"bytes"
	"errors"
	"testing"

	"ipcbench/internal/test/check"
)

// stockLayouts returns layouts of one tensor for each data type and several sizes in bytes, around the step of the
// loops and around powers of two.
func stockLayouts(t testing.TB) []*Layout {
	var all []*Layout
	for _, d := range DTypes() {
		before := -1
		for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 17, 511, 512, 513, 16383, 16384, 16385} {
			if n /= d.Size(); n > before {
				all = append(all, vector(t, d, n))
			}
			before = n
		}
	}
	return all
}

// TestProveFindsEveryBit: Prove finds any wrong bit of an update, and of the model that it was trained from. (Large
// tensors: every 1021st bit.)
func TestProveFindsEveryBit(t *testing.T) {
	for _, text := range changes {
		for _, l := range stockLayouts(t) {
			model, update := Alloc(l), Alloc(l)
			key := Key{Seed: 3, Round: 1, Client: 2, Change: mustChange(t, text)}
			Fill(model, 7)
			check.Must(t, Train(update, model, key))
			check.Must(t, Prove(update, model, key), l.Spec(0))
			data, step := update.View(0), 1
			if len(data) > 64 {
				step = 1021
			}
			if testing.Short() {
				step *= 7
			}
			for bit := 0; bit < 8*len(data); bit += step {
				data[bit/8] ^= 1 << (bit % 8)
				check.Need(t, Prove(update, model, key) != nil, "%v: bit %d of the update is wrong and not found", l.Spec(0), bit)
				data[bit/8] ^= 1 << (bit % 8)

				wrong := model.View(0)
				wrong[bit/8] ^= 1 << (bit % 8)
				check.Must(t, Train(update, model, key))
				wrong[bit/8] ^= 1 << (bit % 8)
				check.Need(t, Prove(update, model, key) != nil, "%v: bit %d of the model was wrong and is not found", l.Spec(0), bit)
				check.Must(t, Train(update, model, key))
			}
		}
	}
}

// TestTrainWritesEveryByteAndNoOther: Train overwrites every byte of the tensor and none after it.
func TestTrainWritesEveryByteAndNoOther(t *testing.T) {
	for _, l := range stockLayouts(t) {
		model := Alloc(l)
		Fill(model, 1)
		key := Key{Seed: 9}
		var hashes [2]uint64
		for i, rest := range []byte{0x00, 0xff} {
			mem := bytes.Repeat([]byte{rest}, l.Size()+8)
			update := NewPackage(l, mem)
			check.Must(t, Train(update, model, key))
			hashes[i] = update.Hash()
			behind := mem[l.Payload():]
			check.That(t, bytes.Count(behind, []byte{rest}) == len(behind), "%v: bytes behind the tensor have changed", l.Spec(0))
		}
		check.That(t, hashes[0] == hashes[1], "%v: the update depends on what was in its memory", l.Spec(0))
	}
}

// TestNumbersDependOnTheKey: equal keys give equal numbers; another seed, round, client, tensor or position gives
// others.
func TestNumbersDependOnTheKey(t *testing.T) {
	specs := []Spec{{Name: "a", DType: F32, Shape: []int{1000}}, {Name: "b", DType: F32, Shape: []int{1000}}}
	l := mustLayout(t, specs)
	model := Alloc(l)
	Fill(model, 1)
	check.That(t, string(model.View(0)) != string(model.View(1)), "two tensors have the same first values")
	seen := map[uint64]Key{}
	for seed := range uint64(3) {
		for round := -1; round < 3; round++ {
			for client := -1; client < 3; client++ {
				key := Key{Seed: seed, Round: round, Client: client}
				update := Alloc(l)
				check.Must(t, Train(update, model, key))
				other, taken := seen[update.Hash()]
				check.That(t, !taken, "%+v and %+v give the same update", key, other)
				seen[update.Hash()] = key
				stale := Key{Seed: seed, Round: round + 1, Client: client}
				check.That(t, Prove(update, model, stale) != nil, "an update of %+v passes for one of %+v", key, stale)
			}
		}
	}
	words := map[uint64]bool{}
	for _, w := range Slice[uint64](model.View(0)) {
		words[w] = true
	}
	n := len(model.View(0)) / 8
	check.That(t, len(words) == n, "only %d of %d words are different", len(words), n)
}

// TestProveNamesTheDifference: the error gives the tensor and the bytes.
func TestProveNamesTheDifference(t *testing.T) {
	l := mustLayout(t, []Spec{{Name: "first", DType: F32, Shape: []int{4}}, {Name: wild, DType: U8, Shape: []int{11}}})
	model, update := Alloc(l), Alloc(l)
	Fill(model, 1)
	check.Must(t, Train(update, model, Key{}))
	tests := []struct {
		tensor, at int
		want       string
	}{
		{0, 9, `tensor 0 ("first" f32 [4]): bytes 8 to 16 are `},
		{1, 0, `tensor 1 ("w\x1b[2J\n" u8 [11]): bytes 0 to 8 are `},
		{1, 10, `tensor 1 ("w\x1b[2J\n" u8 [11]): bytes 8 to 11 are `},
	}
	for _, test := range tests {
		update.View(test.tensor)[test.at] ^= 0x80
		check.Fails(t, Prove(update, model, Key{}), test.want)
		update.View(test.tensor)[test.at] ^= 0x80
	}
}

func TestStockChecksLayouts(t *testing.T) {
	a, b := Alloc(vector(t, F32, 1)), Alloc(vector(t, F32, 1))
	check.That(t, Train(a, b, Key{}) != nil && Prove(a, b, Key{}) != nil,
		"two layouts with the same specs pass for one, or for different ones")
}

// TestWorkAllocatesNothing: after the first round, the work of a round allocates nothing.
func TestWorkAllocatesNothing(t *testing.T) {
	l := mixedLayout(t)
	model, update, next, part, a := Alloc(l), Alloc(l), Alloc(l), mustChange(t, "2%/rows"), NewAverage(l)
	average := func() error { return errors.Join(a.Fold(update, 1), a.Fold(update, 1), a.Finish()) }
	for _, c := range []struct { // in this order, because an error of Prove would allocate
		name string
		f    func() error
	}{
		{"fill", func() error { Fill(model, 1); return nil }},
		{"train", func() error { return Train(update, model, Key{}) }},
		{"prove", func() error { return Prove(update, model, Key{}) }},
		{"train a part", func() error { return Train(update, model, Key{Change: part}) }},
		{"prove a part", func() error { return Prove(update, model, Key{Change: part}) }},
		{"hash", func() error { update.Hash(); return nil }},
		{"average", func() error { return errors.Join(a.Begin(next, 2), average()) }},
		{"average differences", func() error { return errors.Join(a.BeginFrom(next, model, 2), average()) }},
	} {
		var err error
		n := testing.AllocsPerRun(10, func() { err = c.f() })
		check.That(t, n == 0 && err == nil, "%s: %v allocations, error %v", c.name, n, err)
	}
}
