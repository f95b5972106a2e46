package receipt

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
)

// numbers returns a tensor of n bytes: first, first+1 and so on.
func numbers(n int, first byte) *Tensor {
	t := &Tensor{DType: tensor.U8, Shape: []int{n}, Data: make([]byte, n)}
	for i := range t.Data {
		t.Data[i] = first + byte(i)
	}
	return t
}

func mustDetach(t testing.TB, v any, depth int) *Detached {
	t.Helper()
	return check.Value(Detach(v, depth))(t)
}

func mustLayout(t testing.TB, specs []tensor.Spec) *tensor.Layout {
	t.Helper()
	return check.Value(tensor.NewLayout(specs))(t)
}

// packed returns d's tensors and receipt in a package with its own memory.
func packed(t testing.TB, d *Detached) *tensor.Package {
	t.Helper()
	p := tensor.Alloc(mustLayout(t, d.Specs))
	check.Must(t, d.CopyTo(p))
	return p
}

func mustAttach(t testing.TB, p *tensor.Package, into any, known ...any) {
	t.Helper()
	check.Must(t, Attach(p.Receipt, p, into, known...))
}

// trip sends v through a package and returns the value that arrives.
func trip[T any](t testing.TB, v T, depth int, known ...any) T {
	t.Helper()
	var out T
	mustAttach(t, packed(t, mustDetach(t, v, depth)), &out, known...)
	return out
}

func names(specs []tensor.Spec) []string {
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

// TestDetachFindsTensorsEverywhere (B5, B10): tensors in structs, maps, slices, arrays, pointers and interfaces, more
// than three levels deep, are each detached once and attached again.
func TestDetachFindsTensorsEverywhere(t *testing.T) {
	v := sampleNetwork()
	d := mustDetach(t, v, DefaultDepth)
	want := []string{
		"Layers[0].Weight", "Layers[0].Bias", "Layers[1].Weight", "ByName.a",
		"Extra.list[1]", "Extra.list[4][0]", "Pair[1]",
	}
	check.Same(t, cmp.Diff(want, names(d.Specs)))
	check.That(t, len(d.Untouched) == 0, "untouched: %v", d.Untouched)
	p := packed(t, d)
	var out *network
	mustAttach(t, p, &out)
	check.Same(t, cmp.Diff(v, out))
	check.That(t, out.Layers[1].Weight == out.ByName["head.weight"], "a shared tensor is not shared any more")
}

// TestCopyToLeavesWhatIsInPlace (B5): if a value's tensors are in the package already, packing it again moves nothing.
// The memory is read-only here, so a write would crash.
func TestCopyToLeavesWhatIsInPlace(t *testing.T) {
	d := mustDetach(t, sampleNetwork(), DefaultDepth)
	l := mustLayout(t, d.Specs)
	mem := check.Value(syscall.Mmap(-1, 0, l.Size(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	t.Cleanup(func() { syscall.Munmap(mem) })
	p := tensor.NewPackage(l, mem)
	check.Must(t, d.CopyTo(p))
	var out *network
	mustAttach(t, p, &out)
	check.Must(t, syscall.Mprotect(mem, syscall.PROT_READ))
	again := mustDetach(t, out, DefaultDepth)
	check.Must(t, again.CopyTo(p))
	check.That(t, bytes.Equal(again.Receipt, d.Receipt), "the receipt of the attached value is another one")
}

// TestReceiptHasNoTensorBytes (B7): the receipt has no tensor bytes, its size does not depend on theirs, and the value
// does not change. The gigabyte is address space that is never touched.
func TestReceiptHasNoTensorBytes(t *testing.T) {
	type update struct {
		ID     int
		Params map[string]*Tensor
	}
	sizes := map[int]bool{}
	for _, n := range []int{1 << 10, 1 << 20, 1 << 30} {
		mem := check.Value(syscall.Mmap(-1, 0, n, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE))(t)
		defer syscall.Munmap(mem)
		half := n / 2
		v := update{5, map[string]*Tensor{"w": {tensor.U8, []int{half}, mem[:half]}, "b": {tensor.U8, []int{half}, mem[half:]}}}
		d := mustDetach(t, v, DefaultDepth)
		sizes[len(d.Receipt)] = true
		check.That(t, len(d.Data) == 2 && &d.Data[1][0] == &mem[0] && len(d.Data[1]) == half,
			"%d bytes: the data is not the value's own", n)
		w := v.Params["w"]
		check.That(t, v.ID == 5 && len(v.Params) == 2 && w.Shape[0] == half && &w.Data[0] == &mem[0], "%d bytes: the value has changed: %v", n, v)
	}
	check.That(t, len(sizes) == 1, "receipts of 1 KiB to 1 GiB have different sizes: %v", sizes)

	pattern := []byte("these bytes are a tensor's")
	d := mustDetach(t, &Tensor{DType: tensor.U8, Shape: []int{len(pattern)}, Data: pattern}, DefaultDepth)
	check.That(t, !bytes.Contains(d.Receipt, pattern[:4]), "tensor bytes in the receipt")
}

// TestAttachJoinsReceiptAndBuffer (B8, B9): a worker's changes arrive, fields in the receipt and numbers in the buffer.
// The tensors are views of the buffer, and no handle is left.
func TestAttachJoinsReceiptAndBuffer(t *testing.T) {
	type result struct {
		ID    int
		Loss  any
		Model *network
	}
	model := packed(t, mustDetach(t, result{Model: sampleNetwork()}, DefaultDepth))

	// The worker attaches the value, changes fields, and writes numbers in place.
	update := tensor.Alloc(model.Layout())
	update.CopyFrom(model)
	var work result
	mustAttach(t, update, &work)
	work.ID, work.Loss = 5, 999
	for i := range work.Model.Layers[0].Weight.Data {
		work.Model.Layers[0].Weight.Data[i] = byte(200 + i)
	}
	check.Must(t, mustDetach(t, work, DefaultDepth).CopyTo(update))

	var got result
	mustAttach(t, update, &got)
	check.That(t, got.ID == 5 && got.Loss == 999, "metadata is %v and %v, want 5 and 999", got.ID, got.Loss)
	want := sampleNetwork()
	want.Layers[0].Weight.Data = []byte{200, 201, 202, 203}
	check.Same(t, cmp.Diff(want, got.Model))
	update.View(0)[0] = 77
	w := got.Model.Layers[0].Weight.Data
	check.That(t, w[0] == 77 && cap(w) == len(w), "the tensor is no view of the buffer")
}

// nest returns t inside n slices.
func nest(t *Tensor, n int) any {
	var v any = t
	for range n {
		v = []any{v}
	}
	return v
}

// TestDepth (B11, B12): a tensor at the limit is detached. A deeper one is reported, and arrives in the receipt.
// DefaultDepth is 10, as documented.
func TestDepth(t *testing.T) {
	check.That(t, DefaultDepth == 10, "default depth is %d; DESIGN and help say 10", DefaultDepth)
	for _, limit := range []int{0, 1, 3, DefaultDepth} {
		in := mustDetach(t, nest(numbers(9, 1), limit), limit)
		check.That(t, len(in.Specs) == 1 && len(in.Untouched) == 0,
			"limit %d: at it: %d tensors, untouched %v", limit, len(in.Specs), in.Untouched)
		v := nest(numbers(9, 1), limit+1)
		below := mustDetach(t, v, limit)
		check.That(t, len(below.Specs) == 0 && len(below.Untouched) == 1 && below.Untouched[0] == strings.Repeat("[0]", limit+1),
			"limit %d: below it: %d tensors, untouched %v", limit, len(below.Specs), below.Untouched)
		check.Same(t, cmp.Diff(v, trip(t, v, limit)), "limit", limit)
	}
}

// TestDepthCountsContainers: structs, maps, slices and arrays count as levels; pointers and interfaces do not.
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
		d := mustDetach(t, test.v, test.depth)
		check.That(t, len(d.Specs) == 1, "%s: not found at depth %d", test.name, test.depth)
		check.Equal(t, len(mustDetach(t, test.v, test.depth-1).Untouched), 1, test.name, "untouched at depth", test.depth-1)
	}
}

// TestDepthOfSharedTensors: a tensor in several places counts at its smallest depth, whichever place is walked first,
// and remains one tensor.
func TestDepthOfSharedTensors(t *testing.T) {
	w := numbers(8, 1)
	alias := *w // another struct with the same memory
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
		check.That(t, len(d.Specs) == 1 && len(d.Untouched) == 0, "%s: %d tensors, untouched %v", name, len(d.Specs), d.Untouched)
		check.Same(t, cmp.Diff(v, trip(t, v, 2, &layer{})), name)
	}
}

// TestSharedMemory: two tensors with the same memory share memory again, even if they were left in the receipt. With
// another shape or type, they travel separately.
func TestSharedMemory(t *testing.T) {
	a := numbers(8, 1)
	same, other := *a, Tensor{DType: tensor.I32, Shape: []int{2}, Data: a.Data}
	v := []Tensor{*a, same, other}
	for _, depth := range []int{0, 1} {
		d := mustDetach(t, v, depth)
		check.That(t, (depth != 1 || len(d.Specs) == 2) && (depth != 0 || len(d.Untouched) == 3),
			"depth %d: %d tensors, untouched %v", depth, len(d.Specs), d.Untouched)
		out := trip(t, v, depth)
		check.Same(t, cmp.Diff(v, out))
		check.That(t, &out[0].Data[0] == &out[1].Data[0] && (depth != 1 || &out[0].Data[0] != &out[2].Data[0]),
			"depth %d: shared memory came back differently", depth)
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

// TestCycles (B13): values that contain themselves, by pointer, slice, map or interface, pass all three operations and
// come back the same.
func TestCycles(t *testing.T) {
	waiting.Promise(t, "B13", 10*time.Second, func() {
		a, b := &ring{Name: "a", W: numbers(4, 1)}, &ring{Name: "b"}
		a.Next, b.Next, b.Any, b.W = b, a, &a.Next, a.W
		a.List = []any{nil, a}
		a.List[0] = a.List
		a.Map = map[string]any{}
		a.Map["self"] = a.Map

		d := mustDetach(t, a, DefaultDepth)
		check.Equal(t, len(d.Specs), 1, "tensors")
		p := packed(t, d)
		var out *ring
		mustAttach(t, p, &out, new(*ring))
		switch {
		case out.Next.Next != out, out.W != out.Next.W, out.Name != "a", out.Next.Name != "b",
			out.List[1] != any(out), &out.List[0].([]any)[0] != &out.List[0],
			reflect.ValueOf(out.Map["self"]).Pointer() != reflect.ValueOf(out.Map).Pointer():
			t.Error("the shape of the value has changed")
		}
		again := mustDetach(t, out, DefaultDepth)
		check.That(t, bytes.Equal(again.Receipt, d.Receipt), "the receipt of what came back is another one")
	})

	type loop *loop
	waiting.Promise(t, "B13", 10*time.Second, func() {
		var l loop
		l = &l
		out := trip(t, l, DefaultDepth)
		check.That(t, *out == out, "a pointer to itself is one no more")
	})
}

// TestHandle (B14): a handle has less than 64 bytes, whatever the tensor, and comes back equal.
func TestHandle(t *testing.T) {
	for _, s := range []tensor.Spec{{DType: tensor.U8}, {DType: tensor.F64, Shape: slices.Repeat([]int{math.MaxInt}, 50)}} {
		h := handle{math.MaxUint32, checkOf(s)}
		w := &coder{}
		w.handle(h)
		check.That(t, len(w.buf) == handleSize && handleSize < 64, "a handle of %v takes %d bytes", s, len(w.buf))
		r := &coder{reading: true, buf: w.buf}
		back := r.handle(handle{})
		check.That(t, back == h && len(r.buf) <= 0, "%v became %v", h, back)
	}
}

const handleSize = 4 + 8
