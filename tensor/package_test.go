package tensor

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ipcbench/internal/test/check"
)

func mustLayout(t testing.TB, specs []Spec) *Layout {
	t.Helper()
	return check.Value(NewLayout(specs))(t)
}

// panics checks that f panics with a text that contains want.
func panics(t testing.TB, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		text, ok := recover().(string)
		check.That(t, ok && strings.Contains(text, want), "it panics with %q, want %q", text, want)
	}()
	f()
}

var twoTensors = []Spec{{Name: "a", DType: U8, Shape: []int{65}}, {Name: "b", DType: F32, Shape: []int{2}}}

func TestPackageViewsItsMemory(t *testing.T) {
	l := mustLayout(t, twoTensors)
	mem := make([]byte, l.Size()+1)
	p := NewPackage(l, mem)
	p.View(0)[64], p.View(1)[7] = 1, 2
	check.That(t, mem[64] == 1 && mem[128+7] == 2 && p.Len() == 2 && p.Layout() == l, "tensors do not lie at their offsets")
	for i := range p.Len() {
		v := p.View(i)
		check.That(t, len(v) == l.Bytes(i) && cap(v) == len(v),
			"view %d has length %d and capacity %d, want %d: appending would reach the next tensor", i, len(v), cap(v), l.Bytes(i))
	}
	panics(t, "191 bytes of memory for a layout of 192", func() { NewPackage(l, mem[:l.Size()-1]) })
}

func TestScatteredPackage(t *testing.T) {
	l := mustLayout(t, twoTensors)
	a, b := make([]byte, 65), make([]byte, 8)
	p := NewScattered(l, [][]byte{a, b})
	check.That(t, &p.View(0)[0] == &a[0] && &p.View(1)[0] == &b[0], "the tensors are not what was given")
	panics(t, "1 tensors for a layout of 2", func() { NewScattered(l, [][]byte{a}) })
	panics(t, `"b": 65 bytes instead of 8`, func() { NewScattered(l, [][]byte{a, a}) })
}

// TestPackageCopyAndHash: equal tensors have equal hashes wherever they are in memory. Every bit of them counts;
// padding and the receipt do not.
func TestPackageCopyAndHash(t *testing.T) {
	l := mustLayout(t, twoTensors)
	p, q := Alloc(l), NewScattered(l, [][]byte{make([]byte, 65), make([]byte, 8)})
	Fill(p, 1)
	p.Receipt = []byte("receipt")
	q.CopyFrom(p)
	check.That(t, string(q.Receipt) == "receipt" && &q.Receipt[0] != &p.Receipt[0], "receipt %q was not copied", q.Receipt)
	q.Receipt = nil
	check.That(t, bytes.Equal(q.View(0), p.View(0)) && bytes.Equal(q.View(1), p.View(1)) && q.Hash() == p.Hash(),
		"the copy is not equal")
	padded := make([]byte, l.Size())
	padded[100] = 1
	padding := NewPackage(l, padded)
	padding.CopyFrom(p)
	check.That(t, padding.Hash() == p.Hash(), "padding counts in the hash")
	for i := range q.Len() {
		for bit := range 8 * len(q.View(i)) {
			q.View(i)[bit/8] ^= 1 << (bit % 8)
			check.Need(t, q.Hash() != p.Hash(), "bit %d of tensor %d does not count in the hash", bit, i)
			q.View(i)[bit/8] ^= 1 << (bit % 8)
		}
	}
	panics(t, "different layouts", func() { p.CopyFrom(Alloc(mustLayout(t, twoTensors))) })
}

// TestHashKnowsWhereTensorsEnd: the hash changes if a byte moves from the end of one tensor to the start of the next.
func TestHashKnowsWhereTensorsEnd(t *testing.T) {
	hash := func(sizes ...int) uint64 {
		var specs []Spec
		for _, n := range sizes {
			specs = append(specs, Spec{DType: U8, Shape: []int{n}})
		}
		return Alloc(mustLayout(t, specs)).Hash()
	}
	check.That(t, hash(1, 2) != hash(2, 1) && hash(3) != hash(1, 2) && hash(3) != hash(3, 0),
		"packages of other tensors have one hash")
}

func TestLendAndRelease(t *testing.T) {
	var ledger Ledger
	p := Alloc(mustLayout(t, twoTensors))
	panics(t, "package released twice", p.Release)
	var freed *Package
	for range 2 { // a package can be lent repeatedly
		freed = nil
		p.Lend(&ledger, func(q *Package) {
			freed = q
			check.Equal(t, ledger.Out(), 1, "out while the package is being freed")
		})
		panics(t, "package lent twice", func() { p.Lend(&ledger, nil) })
		check.Equal(t, ledger.Out(), 1, "out")
		p.Release()
		check.That(t, freed == p && ledger.Out() == 0, "freed %p, %d out", freed, ledger.Out())
	}
	panics(t, "package released twice", p.Release)
	p.Lend(&ledger, nil)
	p.Release()
}

// TestReleaseOnce: of several goroutines that release a package at once, one succeeds.
func TestReleaseOnce(t *testing.T) {
	var ledger Ledger
	p := Alloc(mustLayout(t, twoTensors))
	for range 100 {
		p.Lend(&ledger, nil)
		var panicked atomic.Int32
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				defer func() {
					if recover() != nil {
						panicked.Add(1)
					}
				}()
				p.Release()
			})
		}
		group.Wait()
		check.Need(t, panicked.Load() == 3 && ledger.Out() == 0, "%d of 4 releases panicked, %d packages out", panicked.Load(), ledger.Out())
	}
}

func TestAllocIsAligned(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 4096, 1<<20 + 1} {
		l := mustLayout(t, []Spec{{DType: U8, Shape: []int{n}}, {DType: F64, Shape: []int{3}}})
		p := Alloc(l)
		for i := range p.Len() {
			at := reflect.ValueOf(p.View(i)).Pointer()
			check.That(t, len(p.View(i)) <= 0 || at%Align == 0, "%d bytes: tensor %d lies at %#x", n, i, at)
		}
	}
	Alloc(mustLayout(t, nil))
}

func TestOfIsAView(t *testing.T) {
	p := Alloc(mustLayout(t, []Spec{{DType: U8, Shape: []int{15}}}))
	b := p.View(0)
	words := Slice[uint32](b)
	check.That(t, len(words) == 3 && cap(words) == 3, "15 bytes are %d words of capacity %d, want 3", len(words), cap(words))
	words[2] = 0x04030201
	check.That(t, bytes.Equal(b[8:12], []byte{1, 2, 3, 4}), "bytes are % x: no view, or not little-endian", b[8:12])
	check.That(t, Slice[float64](b[:7]) == nil && Slice[float64](nil) == nil, "less than an element is not nothing")
	panics(t, "not aligned to 4", func() { Slice[uint32](b[1:]) })
	check.That(t, len(Slice[uint8](b[1:])) == 14, "bytes need no alignment")
}
