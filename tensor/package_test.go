package tensor

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func mustLayout(t testing.TB, specs []Spec) *Layout {
	t.Helper()
	l, err := NewLayout(specs)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// panics reports what f panics with, "" if it does not.
func panics(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text, _ = r.(string)
		}
	}()
	f()
	return ""
}

var twoTensors = []Spec{{Name: "a", DType: U8, Shape: []int{65}}, {Name: "b", DType: F32, Shape: []int{2}}}

func TestPackageViewsItsMemory(t *testing.T) {
	l := mustLayout(t, twoTensors)
	mem := make([]byte, l.Size()+1)
	p := NewPackage(l, mem)
	p.View(0)[64], p.View(1)[7] = 1, 2
	if mem[64] != 1 || mem[128+7] != 2 || p.Len() != 2 || p.Layout() != l {
		t.Error("tensors do not lie at their offsets")
	}
	for i := range p.Len() {
		if v := p.View(i); len(v) != l.Bytes(i) || cap(v) != len(v) {
			t.Errorf("view %d has length %d and capacity %d, want %d: appending would reach the next tensor", i, len(v), cap(v), l.Bytes(i))
		}
	}
	if text := panics(func() { NewPackage(l, mem[:l.Size()-1]) }); !strings.Contains(text, "191 bytes of memory for a layout of 192") {
		t.Errorf("too little memory: %q", text)
	}
}

func TestScatteredPackage(t *testing.T) {
	l := mustLayout(t, twoTensors)
	a, b := make([]byte, 65), make([]byte, 8)
	if p := NewScattered(l, [][]byte{a, b}); &p.View(0)[0] != &a[0] || &p.View(1)[0] != &b[0] {
		t.Error("the tensors are not what was given")
	}
	if text := panics(func() { NewScattered(l, [][]byte{a}) }); !strings.Contains(text, "1 tensors for a layout of 2") {
		t.Errorf("too few tensors: %q", text)
	}
	if text := panics(func() { NewScattered(l, [][]byte{a, a}) }); !strings.Contains(text, `"b": 65 bytes, layout says 8`) {
		t.Errorf("wrong length: %q", text)
	}
}

// Equal tensors have equal hashes wherever they lie; the padding and the receipt
// do not count; every bit does.
func TestPackageCopyAndHash(t *testing.T) {
	l := mustLayout(t, twoTensors)
	p, q := Alloc(l), NewScattered(l, [][]byte{make([]byte, 65), make([]byte, 8)})
	Fill(p, 1)
	p.Receipt = []byte("receipt")
	q.CopyFrom(p)
	if string(q.Receipt) != "receipt" || &q.Receipt[0] == &p.Receipt[0] {
		t.Errorf("receipt %q was not copied", q.Receipt)
	}
	q.Receipt = nil
	if !bytes.Equal(q.View(0), p.View(0)) || !bytes.Equal(q.View(1), p.View(1)) || q.Hash() != p.Hash() {
		t.Error("the copy is not equal")
	}
	padded := make([]byte, l.Size())
	padded[100] = 1
	padding := NewPackage(l, padded)
	padding.CopyFrom(p)
	if padding.Hash() != p.Hash() {
		t.Error("padding counts in the hash")
	}
	for i := range q.Len() {
		for bit := range 8 * len(q.View(i)) {
			q.View(i)[bit/8] ^= 1 << (bit % 8)
			if q.Hash() == p.Hash() {
				t.Fatalf("bit %d of tensor %d does not count in the hash", bit, i)
			}
			q.View(i)[bit/8] ^= 1 << (bit % 8)
		}
	}
	if text := panics(func() { p.CopyFrom(Alloc(mustLayout(t, twoTensors))) }); text == "" {
		t.Error("copied from another layout")
	}
}

// A byte that moves from the end of one tensor to the start of the next is
// noticed.
func TestHashKnowsWhereTensorsEnd(t *testing.T) {
	hash := func(sizes ...int) uint64 {
		var specs []Spec
		for _, n := range sizes {
			specs = append(specs, Spec{DType: U8, Shape: []int{n}})
		}
		return Alloc(mustLayout(t, specs)).Hash()
	}
	if hash(1, 2) == hash(2, 1) || hash(3) == hash(1, 2) || hash(3) == hash(3, 0) {
		t.Error("packages of other tensors have one hash")
	}
}

func TestLendAndRelease(t *testing.T) {
	var ledger Ledger
	p := Alloc(mustLayout(t, twoTensors))
	if text := panics(p.Release); text != "tensor: package released twice" {
		t.Errorf("release of what was not lent: %q", text)
	}
	var freed *Package
	for range 2 { // a package is lent again and again
		freed = nil
		p.Lend(&ledger, func(q *Package) {
			freed = q
			if ledger.Out() != 1 {
				t.Errorf("%d out while the package is being freed, want 1", ledger.Out())
			}
		})
		if text := panics(func() { p.Lend(&ledger, nil) }); text != "tensor: package lent twice" {
			t.Errorf("lent twice: %q", text)
		}
		if ledger.Out() != 1 {
			t.Errorf("%d out, want 1", ledger.Out())
		}
		p.Release()
		if freed != p || ledger.Out() != 0 {
			t.Errorf("freed %p, %d out", freed, ledger.Out())
		}
	}
	if text := panics(p.Release); text != "tensor: package released twice" {
		t.Errorf("released twice: %q", text)
	}
	p.Lend(&ledger, nil)
	p.Release()
}

// However many goroutines release a package at once, one does.
func TestReleaseOnce(t *testing.T) {
	var ledger Ledger
	p := Alloc(mustLayout(t, twoTensors))
	for range 100 {
		p.Lend(&ledger, nil)
		var panicked sync.Map
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				if panics(p.Release) != "" {
					panicked.Store(i, true)
				}
			})
		}
		group.Wait()
		n := 0
		panicked.Range(func(any, any) bool { n++; return true })
		if n != 3 || ledger.Out() != 0 {
			t.Fatalf("%d of 4 releases panicked, %d packages out", n, ledger.Out())
		}
	}
}

func TestAllocIsAligned(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 4096, 1<<20 + 1} {
		l := mustLayout(t, []Spec{{DType: U8, Shape: []int{n}}, {DType: F64, Shape: []int{3}}})
		p := Alloc(l)
		for i := range p.Len() {
			if at := reflect.ValueOf(p.View(i)).Pointer(); len(p.View(i)) > 0 && at%Align != 0 {
				t.Errorf("%d bytes: tensor %d lies at %#x", n, i, at)
			}
		}
	}
	Alloc(mustLayout(t, nil))
}

func TestOfIsAView(t *testing.T) {
	p := Alloc(mustLayout(t, []Spec{{DType: U8, Shape: []int{15}}}))
	b := p.View(0)
	words := Slice[uint32](b)
	if len(words) != 3 || cap(words) != 3 {
		t.Errorf("15 bytes are %d words of capacity %d, want 3", len(words), cap(words))
	}
	words[2] = 0x04030201
	if !bytes.Equal(b[8:12], []byte{1, 2, 3, 4}) {
		t.Errorf("bytes are % x: no view, or not little-endian", b[8:12])
	}
	if Slice[float64](b[:7]) != nil || Slice[float64](nil) != nil {
		t.Error("less than an element is not nothing")
	}
	if text := panics(func() { Slice[uint32](b[1:]) }); !strings.Contains(text, "not aligned to 4") {
		t.Errorf("misaligned memory: %q", text)
	}
	if len(Slice[uint8](b[1:])) != 14 {
		t.Error("bytes need no alignment")
	}
}
