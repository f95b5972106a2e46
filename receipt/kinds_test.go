package receipt

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

type kinds struct {
	Bool    bool
	Int     int
	Int8    int8
	Int16   int16
	Int32   int32
	Int64   int64
	Uint    uint
	Uint8   uint8
	Uint16  uint16
	Uint32  uint32
	Uint64  uint64
	F32     float32
	F64     float64
	String  string
	Bytes   []byte
	Array   [3]byte
	Floats  []float64
	Grid    [2][2]int16
	Nil     []int
	Empty   []int
	NilMap  map[int]int
	Map     map[int8]struct{ A, B string }
	Nothing struct{}
	Many    []struct{}
	Big     [][0]int
	_       int
	When    time.Time
	P       **int
	Err     error
	Any     any
	Zero    Tensor
	Named   duration
}

type duration int64

func sampleKinds() kinds {
	n := 7
	p := &n
	return kinds{
		true, math.MinInt, math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64,
		math.MaxUint, math.MaxUint8, math.MaxUint16, math.MaxUint32, math.MaxUint64,
		float32(math.Inf(-1)), math.SmallestNonzeroFloat64,
		"a\x00\xff", []byte{1, 2, 3}, [3]byte{4, 5, 6}, []float64{1, 2}, [2][2]int16{{1, -2}, {3, -4}},
		nil, []int{}, nil,
		map[int8]struct{ A, B string }{-1: {"x", "y"}, 1: {}},
		struct{}{}, make([]struct{}, 3), make([][0]int, 4), 0,
		time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC), &p, nil, duration(4), Tensor{}, 5,
	}
}

// TestKinds: values of every kind other than tensors come back unchanged.
func TestKinds(t *testing.T) {
	v := sampleKinds()
	check.Same(t, cmp.Diff(v, trip(t, v, DefaultDepth), cmp.AllowUnexported(kinds{})))
}

func TestRoots(t *testing.T) {
	got := trip(t, *numbers(3, 1), 0)
	check.That(t, slices.Equal(got.Data, []byte{1, 2, 3}), "a tensor came back as %v", got)
	check.Equal(t, trip[any](t, nil, 0), nil, "nil")
	check.Equal(t, trip[*Tensor](t, nil, 0), nil, "a nil tensor")
	list := []any{uint8(1), map[string]float32{"x": 2}, "s"}
	check.Equal(t, trip[any](t, list, 0), any(list), "a list")
}

// TestMapKeys: tensors in maps are in the order of their keys, of every kind.
func TestMapKeys(t *testing.T) {
	type name string
	one := func() *Tensor { return numbers(1, 1) }
	v := map[string]any{
		"int":  map[int]*Tensor{-1: one(), 10: one(), 9: one()},
		"uint": map[uint16]*Tensor{10: one(), 9: one()},
		"name": map[name]*Tensor{"b": one(), "aa": one(), "": one()},
	}
	want := []string{"int[-1]", "int[9]", "int[10]", "name.", "name.aa", "name.b", "uint[9]", "uint[10]"}
	check.Same(t, cmp.Diff(want, names(mustDetach(t, v, DefaultDepth).Specs)))
	known := []any{map[int]*Tensor{}, map[uint16]*Tensor{}, map[name]*Tensor{}}
	check.Same(t, cmp.Diff(v, trip(t, v, DefaultDepth, known...)))
}

func TestNewTensor(t *testing.T) {
	w, err := NewTensor(tensor.F64, 3, 5)
	check.That(t, err == nil && len(tensor.Slice[float64](w.Data)) == 15 && slices.Equal(w.Shape, []int{3, 5}),
		"%v, error %v", w, err)
	check.Fails(t, check.Err(NewTensor(tensor.F64, math.MaxInt, 5)), "overflow")
	check.Fails(t, check.Err(NewTensor(0)), "invalid dtype(0)")
}

type hidden struct {
	Name string
	lock int
}

func TestDetachNamesWhatCannotTravel(t *testing.T) {
	type pair [2]any
	tests := []struct {
		want string
		v    any
	}{
		{"Extra: a func() cannot be sent", network{Extra: func() {}}},
		{"f: a func() cannot be sent", map[string]func(){"f": nil}},
		{"[1]: a chan int cannot be sent", []any{1, make(chan int)}},
		{"[0]: a uintptr cannot be sent", pair{uintptr(1)}},
		{"a.b[0].lock: the field is unexported", map[string]map[string][]*hidden{"a": {"b": {{lock: 1}}}}},
		{"value: a func() cannot be sent", func() {}},
		{"Extra: a map key cannot be a *int", network{Extra: map[*int]bool{}}},
		{"Extra: a map key cannot be a interface {}", network{Extra: map[any]bool{}}},
		{"a map key cannot be a [1]int", map[[1]int]bool{}},
		{"a map key cannot be a time.Time", map[time.Time]bool{}},
		{"a map key cannot be a float64: must be an integer or a string", map[float64]bool{math.NaN(): true}},
		{"value: a complex128 cannot be sent", 1i},
		{"Layers[0].Bias: 3 bytes of data for f32 [1], must be 4", network{Layers: []layer{{Bias: Tensor{tensor.F32, []int{1}, make([]byte, 3)}}}}},
		{"invalid dtype(0)", []Tensor{{Data: []byte{}}}},
		{"negative dimension", []Tensor{{DType: tensor.U8, Shape: []int{-1}}}},
	}
	for _, test := range tests {
		check.Fails(t, check.Err(Detach(test.v, DefaultDepth)), test.want)
	}
}

// TestNestingHasALimit: too deep nesting is a short error, both when detaching and when attaching.
func TestNestingHasALimit(t *testing.T) {
	var list *ring
	for range maxNesting {
		list = &ring{Next: list}
	}
	_, err := Detach(list, DefaultDepth)
	check.That(t, err != nil && strings.Contains(err.Error(), "nested more than") && len(err.Error()) <= 300, "error %v", err)

	type bomb []bomb
	d := mustDetach(t, bomb{{}}, DefaultDepth)
	receipt, _ := bytes.CutSuffix(d.Receipt, []byte{refNew, 1, refNew, 0})
	receipt = append(bytes.Clone(receipt), bytes.Repeat([]byte{refNew, 1}, 10*maxNesting)...)
	var b bomb
	check.Fails(t, Attach(receipt, tensor.Alloc(mustLayout(t, nil)), &b), "nested more than")
}

func TestReceiptsDependOnTheValueAlone(t *testing.T) {
	first := mustDetach(t, sampleNetwork(), DefaultDepth)
	for range 20 {
		v := sampleNetwork()
		for i := range 50 { // adding and removing keys changes the map's internal order
			v.ByName[fmt.Sprint(i)] = nil
		}
		for i := range 50 {
			delete(v.ByName, fmt.Sprint(i))
		}
		d := mustDetach(t, v, DefaultDepth)
		check.Need(t, bytes.Equal(d.Receipt, first.Receipt) && slices.Equal(names(d.Specs), names(first.Specs)),
			"the receipt depends on more than the value")
	}
}

func TestCopyToChecksThePackage(t *testing.T) {
	a, b := numbers(4, 1), numbers(4, 9)
	d := mustDetach(t, []*Tensor{a, b}, 1)
	for _, specs := range [][]tensor.Spec{
		{{DType: tensor.U8, Shape: []int{4}}},
		{{DType: tensor.U8, Shape: []int{4}}, {DType: tensor.I8, Shape: []int{4}}},
		{{DType: tensor.U8, Shape: []int{4}}, {DType: tensor.U8, Shape: []int{2, 2}}},
	} {
		err := d.CopyTo(tensor.Alloc(mustLayout(t, specs)))
		check.That(t, err != nil, "copied to %v", specs)
	}
}

// TestCopyToOverlaps: tensors that swapped places in the package, or overlap several of its tensors, are copied
// correctly.
func TestCopyToOverlaps(t *testing.T) {
	d := mustDetach(t, []*Tensor{numbers(4, 1), numbers(4, 9)}, 1)
	p := packed(t, d)
	swapped := []*Tensor{{tensor.U8, []int{4}, p.View(1)}, {tensor.U8, []int{4}, p.View(0)}}
	check.Must(t, mustDetach(t, swapped, 1).CopyTo(p))
	check.Equal(t, string(p.View(0))+string(p.View(1)), "\x09\x0a\x0b\x0c\x01\x02\x03\x04")
	l := mustLayout(t, []tensor.Spec{{DType: tensor.U8, Shape: []int{64}}, {DType: tensor.U8, Shape: []int{64}}})
	mem := numbers(128, 0).Data
	p = tensor.NewPackage(l, mem)
	across := []*Tensor{{tensor.U8, []int{64}, mem[1:65]}, {tensor.U8, []int{64}, mem[32:96]}}
	check.Must(t, mustDetach(t, across, 1).CopyTo(p))
	check.Equal(t, mem, append(numbers(64, 1).Data, numbers(64, 32).Data...), "memory")
}
