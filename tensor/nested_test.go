package tensor

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// numbers returns a tensor of n bytes that hold the numbers from first on.
func numbers(n int, first byte) *Tensor {
	t := &Tensor{DType: U8, Shape: []int{n}, Data: make([]byte, n)}
	for i := range t.Data {
		t.Data[i] = first + byte(i)
	}
	return t
}

func mustDetach(t testing.TB, v any, depth int) *Detached {
	t.Helper()
	d, err := Detach(v, depth)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustLayout(t testing.TB, specs []Spec) *Layout {
	t.Helper()
	l, err := NewLayout(specs)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// packed returns what d took apart in a package of its own memory.
func packed(t testing.TB, d *Detached) *Package {
	t.Helper()
	p := Alloc(mustLayout(t, d.Specs))
	if err := d.CopyTo(p); err != nil {
		t.Fatal(err)
	}
	return p
}

func mustAttach(t testing.TB, p *Package, into any, known ...any) {
	t.Helper()
	if err := Attach(p.Receipt, p, into, known...); err != nil {
		t.Fatal(err)
	}
}

// trip sends v through a package and returns what arrives.
func trip[T any](t testing.TB, v T, depth int, known ...any) T {
	t.Helper()
	var out T
	mustAttach(t, packed(t, mustDetach(t, v, depth)), &out, known...)
	return out
}

func names(specs []Spec) []string {
	var all []string
	for _, s := range specs {
		all = append(all, s.Name)
	}
	return all
}

type layer struct {
	Weight *Tensor
	Bias   Tensor
}

type network struct {
	Layers []layer
	ByName map[string]*Tensor
	Extra  any
	Pair   [2]*Tensor
	Epoch  int
	Notes  string
}

func sampleNetwork() *network {
	tied := numbers(3, 10)
	return &network{
		Layers: []layer{{numbers(4, 1), *numbers(2, 5)}, {Weight: tied}},
		ByName: map[string]*Tensor{"head.weight": tied, "a": numbers(1, 30)},
		Extra:  map[string]any{"list": []any{1.5, numbers(6, 40), "text", nil, []*Tensor{numbers(0, 0)}}},
		Pair:   [2]*Tensor{nil, numbers(5, 50)},
		Epoch:  7, Notes: "ü",
	}
}

// B5, B10: tensors in structs, maps, slices, arrays, pointers and interfaces,
// more than three deep, are each taken out once and put back.
func TestDetachFindsTensorsEverywhere(t *testing.T) {
	v := sampleNetwork()
	d := mustDetach(t, v, DefaultDepth)
	want := []string{
		"Layers[0].Weight", "Layers[0].Bias", "Layers[1].Weight", "ByName.a",
		"Extra.list[1]", "Extra.list[4][0]", "Pair[1]",
	}
	if diff := cmp.Diff(want, names(d.Specs)); diff != "" {
		t.Error(diff)
	}
	if len(d.Untouched) != 0 {
		t.Errorf("untouched: %v", d.Untouched)
	}
	p := packed(t, d)
	var out *network
	mustAttach(t, p, &out)
	if diff := cmp.Diff(v, out); diff != "" {
		t.Error(diff)
	}
	if out.Layers[1].Weight != out.ByName["head.weight"] {
		t.Error("a shared tensor is not shared any more")
	}
}

// B5: once a value lies in a package, packing it again moves nothing: its memory
// is read-only here, so a write would crash.
func TestCopyToLeavesWhatIsInPlace(t *testing.T) {
	d := mustDetach(t, sampleNetwork(), DefaultDepth)
	l := mustLayout(t, d.Specs)
	mem, err := syscall.Mmap(-1, 0, l.Size(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(mem) })
	p := NewPackage(l, mem)
	if err := d.CopyTo(p); err != nil {
		t.Fatal(err)
	}
	var out *network
	mustAttach(t, p, &out)
	if err := syscall.Mprotect(mem, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	again := mustDetach(t, out, DefaultDepth)
	if err := again.CopyTo(p); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Receipt, d.Receipt) {
		t.Error("the receipt of the attached value is another one")
	}
}

// B7: the receipt has no tensor bytes, and its size does not depend on theirs;
// the value does not change. The gigabyte is address space that nobody touches.
func TestReceiptHasNoTensorBytes(t *testing.T) {
	type update struct {
		ID     int
		Params map[string]*Tensor
	}
	sizes := map[int]bool{}
	for _, n := range []int{1 << 10, 1 << 20, 1 << 30} {
		mem, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Munmap(mem)
		half := n / 2
		v := update{5, map[string]*Tensor{"w": {U8, []int{half}, mem[:half]}, "b": {U8, []int{half}, mem[half:]}}}
		d := mustDetach(t, v, DefaultDepth)
		sizes[len(d.Receipt)] = true
		if len(d.Data) != 2 || &d.Data[1][0] != &mem[0] || len(d.Data[1]) != half {
			t.Errorf("%d bytes: the data is not the value's own", n)
		}
		if w := v.Params["w"]; v.ID != 5 || len(v.Params) != 2 || w.Shape[0] != half || &w.Data[0] != &mem[0] {
			t.Errorf("%d bytes: the value has changed: %v", n, v)
		}
	}
	if len(sizes) != 1 {
		t.Errorf("receipts of 1 KiB to 1 GiB have different sizes: %v", sizes)
	}

	pattern := []byte("these bytes are a tensor's")
	d := mustDetach(t, &Tensor{DType: U8, Shape: []int{len(pattern)}, Data: pattern}, DefaultDepth)
	if bytes.Contains(d.Receipt, pattern[:4]) {
		t.Error("tensor bytes in the receipt")
	}
}

// B8, B9: what a worker changed arrives: fields from the receipt, numbers from
// the buffer. The tensors are views of the buffer, and no handle is left.
func TestAttachJoinsReceiptAndBuffer(t *testing.T) {
	type result struct {
		ID    int
		Loss  any
		Model *network
	}
	model := packed(t, mustDetach(t, result{Model: sampleNetwork()}, DefaultDepth))

	// The worker attaches, changes, and writes its numbers in place.
	update := Alloc(model.Layout())
	update.CopyFrom(model)
	var work result
	mustAttach(t, update, &work)
	work.ID, work.Loss = 5, 999
	for i := range work.Model.Layers[0].Weight.Data {
		work.Model.Layers[0].Weight.Data[i] = byte(200 + i)
	}
	if err := mustDetach(t, work, DefaultDepth).CopyTo(update); err != nil {
		t.Fatal(err)
	}

	var got result
	mustAttach(t, update, &got)
	if got.ID != 5 || got.Loss != 999 {
		t.Errorf("metadata is %v and %v, want 5 and 999", got.ID, got.Loss)
	}
	want := sampleNetwork()
	want.Layers[0].Weight.Data = []byte{200, 201, 202, 203}
	if diff := cmp.Diff(want, got.Model); diff != "" {
		t.Error(diff)
	}
	update.View(0)[0] = 77
	if w := got.Model.Layers[0].Weight.Data; w[0] != 77 || cap(w) != len(w) {
		t.Error("the tensor is no view of the buffer")
	}
}

// nest returns t inside n slices.
func nest(t *Tensor, n int) any {
	var v any = t
	for range n {
		v = []any{v}
	}
	return v
}

// B11, B12: a tensor at the limit is processed; one below is not, is reported,
// and arrives all the same. DefaultDepth is 10, which the documentation says.
func TestDepth(t *testing.T) {
	if DefaultDepth != 10 {
		t.Errorf("default depth is %d; DESIGN and help say 10", DefaultDepth)
	}
	for _, limit := range []int{0, 1, 3, DefaultDepth} {
		in := mustDetach(t, nest(numbers(9, 1), limit), limit)
		if len(in.Specs) != 1 || len(in.Untouched) != 0 {
			t.Errorf("limit %d: at it: %d tensors, untouched %v", limit, len(in.Specs), in.Untouched)
		}
		v := nest(numbers(9, 1), limit+1)
		below := mustDetach(t, v, limit)
		if len(below.Specs) != 0 || len(below.Untouched) != 1 || below.Untouched[0] != strings.Repeat("[0]", limit+1) {
			t.Errorf("limit %d: below it: %d tensors, untouched %v", limit, len(below.Specs), below.Untouched)
		}
		if diff := cmp.Diff(v, trip(t, v, limit)); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

// Pointers and interfaces are not levels; structs, maps, slices and arrays are.
func TestDepthCountsContainers(t *testing.T) {
	type box struct{ V any }
	w := numbers(3, 1)
	p := &w
	tests := []struct {
		name  string
		v     any
		depth int
	}{
		{"pointers", &p, 0},
		{"struct", &box{&p}, 1},
		{"array", [1]any{w}, 1},
		{"map", map[string]any{"a": &box{[]*Tensor{w}}}, 3},
	}
	for _, test := range tests {
		if d := mustDetach(t, test.v, test.depth); len(d.Specs) != 1 {
			t.Errorf("%s: not found at depth %d", test.name, test.depth)
		}
		if d := mustDetach(t, test.v, test.depth-1); len(d.Untouched) != 1 {
			t.Errorf("%s: found at depth %d", test.name, test.depth-1)
		}
	}
}

// A tensor in several places counts where it is least deep, however the walk
// gets there first, and stays one tensor.
func TestDepthOfSharedTensors(t *testing.T) {
	w := numbers(8, 1)
	alias := *w // another struct, the same memory
	shared := &layer{Weight: w}
	type value struct {
		First  any // walked first
		Second any
	}
	for name, v := range map[string]value{
		"same pointer":   {nest(w, 5), w},
		"same memory":    {nest(w, 5), alias},
		"same container": {[]any{[]any{shared}}, shared},
	} {
		d := mustDetach(t, v, 2)
		if len(d.Specs) != 1 || len(d.Untouched) != 0 {
			t.Errorf("%s: %d tensors, untouched %v", name, len(d.Specs), d.Untouched)
		}
		if diff := cmp.Diff(v, trip(t, v, 2, &layer{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Two tensors with the same memory share it again, also when they were left in
// the receipt. With another shape or type they travel one by one.
func TestSharedMemory(t *testing.T) {
	a := numbers(8, 1)
	same, other := *a, Tensor{DType: I32, Shape: []int{2}, Data: a.Data}
	v := []Tensor{*a, same, other}
	for _, depth := range []int{0, 1} {
		d := mustDetach(t, v, depth)
		if depth == 1 && len(d.Specs) != 2 || depth == 0 && len(d.Untouched) != 3 {
			t.Errorf("depth %d: %d tensors, untouched %v", depth, len(d.Specs), d.Untouched)
		}
		out := trip(t, v, depth)
		if diff := cmp.Diff(v, out); diff != "" {
			t.Error(diff)
		}
		if &out[0].Data[0] != &out[1].Data[0] || &out[0].Data[0] == &out[2].Data[0] {
			t.Errorf("depth %d: shared memory came back differently", depth)
		}
		out[0].Shape[0] = 99
		if out[1].Shape[0] == 99 {
			t.Errorf("depth %d: shapes share memory", depth)
		}
	}
}

type ring struct {
	Name string
	W    *Tensor
	Next *ring
	Any  any
	List []any
	Map  map[string]any
}

// B13: values that contain themselves, by pointer, slice, map and interface, end
// in all three operations and come back the same.
func TestCycles(t *testing.T) {
	within(t, 10*time.Second, func() {
		a, b := &ring{Name: "a", W: numbers(4, 1)}, &ring{Name: "b"}
		a.Next, b.Next, b.Any, b.W = b, a, &a.Next, a.W
		a.List = []any{nil, a}
		a.List[0] = a.List
		a.Map = map[string]any{}
		a.Map["self"] = a.Map

		d := mustDetach(t, a, DefaultDepth)
		if len(d.Specs) != 1 {
			t.Errorf("%d tensors, want 1", len(d.Specs))
		}
		p := packed(t, d)
		var out *ring
		mustAttach(t, p, &out, new(*ring))
		switch {
		case out.Next.Next != out, out.W != out.Next.W, out.Name != "a", out.Next.Name != "b",
			out.List[1] != any(out), &out.List[0].([]any)[0] != &out.List[0],
			reflect.ValueOf(out.Map["self"]).Pointer() != reflect.ValueOf(out.Map).Pointer():
			t.Error("the shape of the value has changed")
		}
		if again := mustDetach(t, out, DefaultDepth); !bytes.Equal(again.Receipt, d.Receipt) {
			t.Error("the receipt of what came back is another one")
		}
	})

	type loop *loop
	within(t, 10*time.Second, func() {
		var l loop
		l = &l
		out := trip(t, l, DefaultDepth)
		if *out != out {
			t.Error("a pointer to itself is one no more")
		}
	})
}

// within fails the test if f takes longer.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("no end after %v", limit)
	}
}

// B14: a handle takes less than 64 bytes, whatever the tensor, and comes back
// equal.
func TestHandle(t *testing.T) {
	for _, s := range []Spec{{DType: U8}, {DType: F64, Shape: slices.Repeat([]int{math.MaxInt}, 50)}} {
		h := newHandle(math.MaxUint32, s)
		b, err := h.AppendBinary(nil)
		if err != nil || len(b) >= 64 {
			t.Errorf("%d bytes, error %v", len(b), err)
		}
		var back Handle
		if err := back.UnmarshalBinary(b); err != nil || back != h {
			t.Errorf("%v became %v, error %v", h, back, err)
		}
		for _, b := range [][]byte{nil, b[1:], append(b, 0)} {
			if back.UnmarshalBinary(b) == nil {
				t.Errorf("%d bytes pass for a handle", len(b))
			}
		}
	}
}

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

func TestEqualValuesGiveEqualReceipts(t *testing.T) {
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
