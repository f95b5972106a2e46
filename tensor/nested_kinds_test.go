package tensor

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	C64     complex64
	C128    complex128
	String  string
	Bytes   []byte
	Array   [3]byte
	Floats  []float64
	Grid    [2][2]int16
	Nil     []int
	Empty   []int
	NilMap  map[int]int
	Map     map[[2]int8]struct{ A, B string }
	Bools   map[bool]float32
	Keys    map[complex64]uint
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
		float32(math.Inf(-1)), math.SmallestNonzeroFloat64, complex(1, -2), complex(math.MaxFloat64, 0),
		"a\x00\xff", []byte{1, 2, 3}, [3]byte{4, 5, 6}, []float64{1, 2}, [2][2]int16{{1, -2}, {3, -4}},
		nil, []int{}, nil,
		map[[2]int8]struct{ A, B string }{{1, -1}: {"x", "y"}, {-1, 1}: {}},
		map[bool]float32{true: 1, false: 2}, map[complex64]uint{complex(1, 2): 3, complex(1, -2): 4},
		struct{}{}, make([]struct{}, 3), make([][0]int, 1<<40), 0,
		time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC), &p, nil, duration(4), Tensor{}, 5,
	}
}

// Everything that is not a tensor comes back as it was.
func TestKinds(t *testing.T) {
	v := sampleKinds()
	v.Big = nil // too many to compare one by one
	if diff := cmp.Diff(v, trip(t, v, DefaultDepth), cmp.AllowUnexported(kinds{})); diff != "" {
		t.Error(diff)
	}
	if got := len(trip(t, sampleKinds(), DefaultDepth).Big); got != 1<<40 {
		t.Errorf("%d elements of no size came back", got)
	}
}

func TestRoots(t *testing.T) {
	if got := trip(t, *numbers(3, 1), 0); !slices.Equal(got.Data, []byte{1, 2, 3}) {
		t.Errorf("a tensor came back as %v", got)
	}
	if got := trip[any](t, nil, 0); got != nil {
		t.Errorf("nil came back as %v", got)
	}
	if got := trip[*Tensor](t, nil, 0); got != nil {
		t.Errorf("a nil tensor came back as %v", got)
	}
	if got := trip[any](t, []any{uint8(1), map[string]float32{"x": 2}, "s"}, 0); len(got.([]any)) != 3 {
		t.Errorf("a list came back as %v", got)
	}
}

// The order of keys of every kind is fixed, and is that of the numbers.
func TestMapKeys(t *testing.T) {
	type key struct {
		A [2]int8
		B struct{ C string }
		_ int
	}
	v := map[string]any{
		"bool": map[bool]*Tensor{true: numbers(1, 1), false: nil},
		"int":  map[int]*Tensor{-1: numbers(1, 1), 10: numbers(1, 1), 9: numbers(1, 1)},
		"key": map[key]*Tensor{
			{A: [2]int8{1, -1}}:          numbers(1, 1),
			{A: [2]int8{1, -2}}:          numbers(1, 1),
			{B: struct{ C string }{"b"}}: numbers(1, 1),
			{B: struct{ C string }{"a"}}: numbers(1, 1),
		},
		"uint":  map[uint16]*Tensor{10: numbers(1, 1), 9: numbers(1, 1)},
		"float": map[float32]*Tensor{-0.5: numbers(1, 1), -1: numbers(1, 1)},
	}
	want := []string{
		"bool[true]", "float[-1]", "float[-0.5]", "int[-1]", "int[9]", "int[10]",
		"key[{[0 0] {a} 0}]", "key[{[0 0] {b} 0}]", "key[{[1 -2] {} 0}]", "key[{[1 -1] {} 0}]",
		"uint[9]", "uint[10]",
	}
	if diff := cmp.Diff(want, names(mustDetach(t, v, DefaultDepth).Specs)); diff != "" {
		t.Error(diff)
	}
	known := []any{map[bool]*Tensor{}, map[int]*Tensor{}, map[key]*Tensor{}, map[uint16]*Tensor{}, map[float32]*Tensor{}}
	if diff := cmp.Diff(v, trip(t, v, DefaultDepth, known...), cmp.AllowUnexported(key{})); diff != "" {
		t.Error(diff)
	}
}

func TestNewTensor(t *testing.T) {
	w, err := NewTensor(F64, 3, 5)
	if err != nil || len(Of[float64](w.Data)) != 15 || !slices.Equal(w.Shape, []int{3, 5}) {
		t.Errorf("%v, error %v", w, err)
	}
	if _, err := NewTensor(F64, math.MaxInt, 5); err == nil {
		t.Error("no error for a shape that overflows")
	}
	if _, err := NewTensor(0); err == nil {
		t.Error("no error for no type")
	}
}

type hidden struct {
	Name string
	lock int
}

func TestDetachNamesWhatCannotTravel(t *testing.T) {
	type pair [2]any
	tests := []struct {
		name, want string
		v          any
	}{
		{"function", "Extra: a func() cannot travel", network{Extra: func() {}}},
		{"nil function", "f: a func() cannot travel", map[string]func(){"f": nil}},
		{"channel", "[1]: a chan int cannot travel", []any{1, make(chan int)}},
		{"uintptr", "[0]: a uintptr cannot travel", pair{uintptr(1)}},
		{"unexported field", "a.b[0].lock: the field is unexported", map[string]map[string][]*hidden{"a": {"b": {{lock: 1}}}}},
		{"root", "value: a func() cannot travel", func() {}},
		{"pointer key", "Extra: a map key cannot be a *int", network{Extra: map[*int]bool{}}},
		{"interface key", "Extra: a map key cannot be a interface {}", network{Extra: map[any]bool{}}},
		{"pointer in a key", "a map key cannot be a *int", map[[1]struct{ P *int }]bool{}},
		{"unexported field in a key", "a map key cannot be a tensor.hidden", map[hidden]bool{}},
		{"key that marshals itself", "a map key cannot be a time.Time", map[time.Time]bool{}},
		{"NaN key", "NaN is a map key", map[float64]bool{math.NaN(): true}},
		{"short data", "Layers[0].Bias: 3 bytes of data for f32 [1], want 4", network{Layers: []layer{{Bias: Tensor{F32, []int{1}, make([]byte, 3)}}}}},
		{"no dtype", "invalid dtype(0)", []Tensor{{Data: []byte{}}}},
		{"negative shape", "negative dimension", []Tensor{{DType: U8, Shape: []int{-1}}}},
	}
	for _, test := range tests {
		if _, err := Detach(test.v, DefaultDepth); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q in it", test.name, err, test.want)
		}
	}
}

// Too deep is an error that can be read, at both ends.
func TestNestingHasALimit(t *testing.T) {
	var list *ring
	for range maxNesting {
		list = &ring{Next: list}
	}
	_, err := Detach(list, DefaultDepth)
	if err == nil || !strings.Contains(err.Error(), "nested more than") || len(err.Error()) > 300 {
		t.Errorf("error %v", err)
	}

	type bomb []bomb
	d := mustDetach(t, bomb{{}}, DefaultDepth)
	receipt, _ := bytes.CutSuffix(d.Receipt, []byte{refNew, 1, refNew, 0})
	receipt = append(bytes.Clone(receipt), bytes.Repeat([]byte{refNew, 1}, 10*maxNesting)...)
	var b bomb
	if err := Attach(receipt, Alloc(mustLayout(t, nil)), &b); err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("error %v", err)
	}
}

func TestReceiptsDependOnTheValueAlone(t *testing.T) {
	first := mustDetach(t, sampleNetwork(), DefaultDepth)
	for range 20 {
		v := sampleNetwork()
		for i := range 50 { // in another order, for maps that have grown differently
			v.ByName[fmt.Sprint(i)] = nil
		}
		for i := range 50 {
			delete(v.ByName, fmt.Sprint(i))
		}
		d := mustDetach(t, v, DefaultDepth)
		if !bytes.Equal(d.Receipt, first.Receipt) || !slices.Equal(names(d.Specs), names(first.Specs)) {
			t.Fatal("the receipt depends on more than the value")
		}
	}
}

func TestCopyToChecksThePackage(t *testing.T) {
	a, b := numbers(4, 1), numbers(4, 9)
	d := mustDetach(t, []*Tensor{a, b}, 1)
	for _, specs := range [][]Spec{
		{{DType: U8, Shape: []int{4}}},
		{{DType: U8, Shape: []int{4}}, {DType: I8, Shape: []int{4}}},
		{{DType: U8, Shape: []int{4}}, {DType: U8, Shape: []int{2, 2}}},
	} {
		if err := d.CopyTo(Alloc(mustLayout(t, specs))); err == nil {
			t.Errorf("copied to %v", specs)
		}
	}
	// Two views of a package that changed places would overwrite each other.
	p := packed(t, d)
	swapped := []*Tensor{{U8, []int{4}, p.View(1)}, {U8, []int{4}, p.View(0)}}
	if err := mustDetach(t, swapped, 1).CopyTo(p); err == nil || !strings.Contains(err.Error(), "[0]: it lies in the place of [1]") {
		t.Errorf("error %v", err)
	}
}
