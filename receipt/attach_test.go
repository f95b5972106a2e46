package receipt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// TestAttachKnowsTypes: concrete types inside interfaces are found by name if they are known.
func TestAttachKnowsTypes(t *testing.T) {
	type unknown struct{ N int }
	type other struct{ N int }
	tests := []struct {
		name  string
		v     any
		known []any
		want  string // text in the error
	}{
		{"predeclared", []any{int8(1), []string{"a"}, map[string]any{"b": []float32{1}}, Tensor{}, []byte{1}}, nil, ""},
		{"given", []any{unknown{1}, &unknown{2}}, []any{unknown{}}, ""},
		{"given by a container", []any{unknown{1}, &unknown{2}}, []any{[]map[string]unknown{}}, ""},
		{"not given", []any{unknown{1}}, nil, `[0]: type "receipt.unknown" is unknown`},
		{"given another", []any{unknown{1}}, []any{other{}, nil}, `type "receipt.unknown" is unknown`},
		{"not a listed composite", []any{[][]int{{1}}}, nil, `type "[][]int" is unknown`},
		{"error value", []any{fmt.Stringer(time.Second)}, []any{time.Second}, ""},
	}
	for _, test := range tests {
		d := mustDetach(t, test.v, DefaultDepth)
		var out any
		err := Attach(d.Receipt, packed(t, d), &out, test.known...)
		if test.want == "" {
			check.OK(t, err, test.name)
			check.Same(t, cmp.Diff(test.v, out), test.name)
		} else {
			check.Fails(t, err, test.want, test.name)
			check.Equal(t, out, nil, test.name)
		}
	}
}

// TestAttachRefusesAmbiguousNames: if two types declared in functions have one name, Attach rejects the name.
func TestAttachRefusesAmbiguousNames(t *testing.T) {
	a := func() any { type local struct{ A int }; return local{1} }()
	b := func() any { type local struct{ A int }; return local{1} }()
	d := mustDetach(t, []any{a}, DefaultDepth)
	var out []any
	check.Fails(t, Attach(d.Receipt, packed(t, d), &out, a, b), "or is ambiguous")
	check.OK(t, Attach(d.Receipt, packed(t, d), &out, a))
}

func TestAttachChecksTheVariable(t *testing.T) {
	v := network{Epoch: 3}
	d := mustDetach(t, v, DefaultDepth)
	p := packed(t, d)
	changed := func() any {
		type network struct{ Epoch string }
		return &network{}
	}()
	tests := []struct {
		into any
		want string
	}{
		{nil, "must be a pointer"},
		{v, "must be a pointer"},
		{(*network)(nil), "must be a pointer"},
		{new(layer), `type "receipt.network" is unknown`},
		{new(*network), "found a receipt.network, must be a *receipt.network"},
		{new(error), "is unknown"},
		{changed, "differs"},
	}
	for _, test := range tests {
		check.Fails(t, Attach(d.Receipt, p, test.into), test.want)
	}
}

// TestLyingReceipts: a receipt for another package, or one that was cut or changed, is rejected, and the variable is
// unchanged.
func TestLyingReceipts(t *testing.T) {
	type value struct {
		W, V *Tensor
		Flag bool
		N    uint8
		Map  map[int8]bool
		List []int64
		P, Q *int
		S    *string
		Any  []any
	}
	n := 1
	d := mustDetach(t, value{W: numbers(4, 1), V: numbers(4, 5), Map: map[int8]bool{1: true, 2: true}, P: &n, Q: &n}, 1)
	whole := packed(t, d)
	refuse := func(name, want string, receipt []byte, p *tensor.Package) {
		t.Helper()
		out := value{N: 42}
		check.Fails(t, Attach(receipt, p, &out), want, name)
		check.Same(t, cmp.Diff(value{N: 42}, out), name, "the variable has changed")
	}

	for i := range d.Receipt {
		refuse(fmt.Sprint("cut after ", i), "", d.Receipt[:i], whole)
	}
	refuse("longer", "1 bytes after the end", append(bytes.Clone(d.Receipt), 0), whole)
	refuse("version", "not a receipt of version 2", append([]byte{1}, d.Receipt[1:]...), whole)

	spec := tensor.Spec{DType: tensor.U8, Shape: []int{4}}
	for name, specs := range map[string][]tensor.Spec{
		"package of one":         {spec},
		"package of none":        {},
		"package of other type":  {spec, {DType: tensor.I8, Shape: []int{4}}},
		"package of other shape": {spec, {DType: tensor.U8, Shape: []int{2, 2}}},
		"package of three":       {spec, spec, spec},
	} {
		refuse(name, "tensor ", d.Receipt, tensor.Alloc(mustLayout(t, specs)))
	}

	// The parts of the receipt after the header: two pointers with a tensor each, flag, number, map, list, two
	// pointers, string, list.
	const tail = 2*(1+1+handleSize) + 1 + 1 + (1 + 1 + 4) + 1 + (1 + 1) + 1 + 1 + 1
	head := d.Receipt[:len(d.Receipt)-tail]
	// A second W leaves V's tensor without a place.
	twice := bytes.Clone(d.Receipt)
	copy(twice[len(head)+2+handleSize:], twice[len(head):][:2+handleSize])
	refuse("handle twice", "tensor 1 of the package (\"V\") has no place", twice, whole)

	none := tensor.Alloc(mustLayout(t, nil))
	huge, large := binary.AppendUvarint(nil, 1<<62), binary.AppendVarint(nil, 1<<62)
	valid := []byte{0, 0, 1, 7, 0, 0, 0, 0, 0, 0}
	ok := value{}
	err := Attach(append(bytes.Clone(head), valid...), none, &ok)
	check.Need(t, err == nil && ok.Flag && ok.N == 7, "the test's own receipt: %+v, %v", ok, err)
	join := func(parts ...[]byte) []byte { return bytes.Join(append([][]byte{head}, parts...), nil) }
	inline := func(dtype tensor.DType, rest ...byte) []byte {
		return join([]byte{refNew, tensorInlined, byte(dtype)}, rest, valid[1:])
	}
	tests := []struct {
		want    string
		receipt []byte
	}{
		{"Flag: bool is 2", join([]byte{0, 0, 2}, valid[3:])},
		{"N: 256 is not a valid uint8", join([]byte{0, 0, 1, 0x80, 2}, valid[4:])},
		{"N: ", join([]byte{0, 0, 1}, bytes.Repeat([]byte{0xff}, 11))}, // a varint of 11 bytes
		{"Map: length 4611686018427387904: the receipt is cut off", join([]byte{0, 0, 1, 7, refNew}, huge)},
		{"Map: map key 1 is out of order after 2", join([]byte{0, 0, 1, 7, refNew, 2, 4, 0, 2, 0}, valid[5:])},
		{"Map: map key 1 is out of order after 1", join([]byte{0, 0, 1, 7, refNew, 2, 2, 0, 2, 0}, valid[5:])},
		{"Map: 128 is not a valid int8", join([]byte{0, 0, 1, 7, refNew, 1, 0x80, 2, 0}, valid[5:])},
		{"List: length 4611686018427387904", join([]byte{0, 0, 1, 7, 0, refNew}, huge)},
		{"List: length 18446744073709551615", join([]byte{0, 0, 1, 7, 0, refNew}, binary.AppendUvarint(nil, 1<<64-1))}, // beyond int
		{"P: refers to unknown object 0 of 0", join([]byte{0, 0, 1, 7, 0, 0, refFirst, 0, 0, 0})},
		{"P: refers to unknown object 18446744073709551613 of 0", join([]byte{0, 0, 1, 7, 0, 0}, binary.AppendUvarint(nil, 1<<64-1))},
		{"S: refers to a *int, must be a *string", join([]byte{0, 0, 1, 7, 0, 0, refNew, 2, 0, refFirst, 0})},
		{"S: the receipt is cut off", join([]byte{0, 0, 1, 7, 0, 0, 0, 0, refNew}, huge)}, // a string that is too long
		{"Any[0]: unknown type 7 of 1", join(valid[:9], []byte{refNew, 1, 9})},
		{"Any[0]: the receipt is cut off", join(valid[:9], []byte{refNew, 1, refFirst})},     // the type of the variable
		{"Any[0]: the receipt is cut off", join(valid[:9], []byte{refNew, 1, refNew}, huge)}, // a type's name that is too long
		{`Any[0]: type "interface {}" is unknown`, join(valid[:9], []byte{refNew, 1, refNew, 12}, []byte("interface {}"), make([]byte, 8))},
		{`Any[0]: type "int" is unknown, differs`, join(valid[:9], []byte{refNew, 1, refNew, 3}, []byte("int"), make([]byte, 8))},
		{`W: tensor: "tensor": invalid dtype(0)`, inline(0, 0, 0)},
		{"W: tensor: \"tensor\": invalid dtype(11)", inline(11, 0, 0)},
		{"W: 0 bytes of data for u8 [4611686018427387904]", inline(tensor.U8, append([]byte{refNew, 1}, append(large, refNil)...)...)},
		{"W.Data: length 4611686018427387904: the receipt is cut off", inline(tensor.U8, append([]byte{refNil, refNew}, huge...)...)},
		{"overflow", inline(tensor.F64, append([]byte{refNew, 1}, append(large, refNil)...)...)},
		{"W.Shape: length 4611686018427387904", inline(tensor.U8, append([]byte{refNew}, huge...)...)},
		{"W: tensor: \"tensor\": negative dimension", inline(tensor.U8, refNew, 1, 1, refNil)},
		{"W: 3 is not a kind of tensor", join([]byte{refNew, 3}, valid[1:])},
	}
	for _, test := range tests {
		refuse("changed", test.want, test.receipt, none)
	}
}

// tree is the type of random values, with tensors and sharing at every level.
type tree struct {
	Name  string
	W     *Tensor
	V     Tensor
	Kids  []*tree
	Items map[string]any
	Up    *tree
	Pair  [2]any
	When  time.Time
}

func drawTree(r *rapid.T) *tree {
	var made []*tree
	tensors := []*Tensor{nil}
	draw := func(name string, n int) int { return rapid.IntRange(0, n-1).Draw(r, name) }
	drawTensor := func() *Tensor {
		if draw("new tensor", 2) == 0 {
			return tensors[draw("old tensor", len(tensors))]
		}
		shape := [][]int{nil, {0}, {3}, {2, 2}}[draw("shape", 4)]
		w := &Tensor{DType: rapid.SampledFrom(tensor.DTypes()).Draw(r, "dtype"), Shape: shape}
		n := check.Value(tensor.Spec{DType: w.DType, Shape: w.Shape}.Bytes())(r)
		w.Data = append(make([]byte, 0, n), rapid.SliceOfN(rapid.Byte(), n, n).Draw(r, "data")...)
		tensors = append(tensors, w)
		return w
	}
	var grow func(depth int) *tree
	grow = func(depth int) *tree {
		if depth == 0 || len(made) > 0 && draw("old tree", 4) == 0 {
			if len(made) == 0 {
				return nil
			}
			return made[draw("which tree", len(made))]
		}
		n := &tree{Name: rapid.String().Draw(r, "name"), W: drawTensor(), When: time.Unix(int64(draw("time", 1000)), 0).UTC()}
		made = append(made, n)
		if v := drawTensor(); v != nil {
			n.V = *v
		}
		for range draw("kids", 3) {
			n.Kids = append(n.Kids, grow(depth-1))
		}
		for i := range draw("items", 3) {
			if n.Items == nil {
				n.Items = map[string]any{}
			}
			n.Items[fmt.Sprint(i)] = []any{grow(depth - 1), drawTensor(), n.Items, 3.5, nil}[draw("item", 5)]
		}
		n.Up = made[draw("up", len(made))]
		n.Pair = [2]any{drawTensor(), n.Kids}
		return n
	}
	return grow(rapid.IntRange(0, 4).Draw(r, "depth"))
}

// TestRoundTripOfAnyValue: any value, even with cycles and sharing, comes back equal at any depth limit, with the same
// tensors. Detaching it again gives the same receipt.
func TestRoundTripOfAnyValue(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := drawTree(r)
		limit := rapid.IntRange(0, 12).Draw(r, "limit")
		d := check.Value(Detach(v, limit))(r)
		l := check.Value(tensor.NewLayout(d.Specs))(r)
		p := tensor.Alloc(l)
		check.Must(r, d.CopyTo(p))
		var out *tree
		check.Must(r, Attach(p.Receipt, p, &out, []*tree{}))
		if !reflect.DeepEqual(v, out) { // unlike cmp.Diff, it walks shared parts once
			r.Fatal("another value came back")
		}
		again := check.Value(Detach(out, limit))(r)
		if !bytes.Equal(again.Receipt, d.Receipt) || !cmp.Equal(again.Specs, d.Specs) || !cmp.Equal(again.Untouched, d.Untouched) {
			r.Fatalf("what came back detaches differently:\n%q %v %v\n%q %v %v", d.Receipt, d.Specs, d.Untouched, again.Receipt, again.Specs, again.Untouched)
		}
	})
}

// FuzzAttach: an untrusted receipt is rejected, or gives a value that can be detached and attached again.
func FuzzAttach(f *testing.F) {
	type value struct {
		K kinds
		N *network
		R *ring
		L []layer
	}
	known := []any{new(*ring), []any{}}
	loop := &ring{Name: "a"}
	loop.Next, loop.Any, loop.List = loop, loop, []any{loop, numbers(2, 3), *numbers(2, 3)}
	k := sampleKinds()
	k.Big, k.Many = nil, nil
	var p *tensor.Package
	for depth := range 4 {
		for _, v := range []value{{k, sampleNetwork(), loop, nil}, {R: loop}, {}} {
			d := mustDetach(f, v, depth)
			f.Add(d.Receipt)
			if p == nil || len(d.Specs) == 7 {
				p = packed(f, d)
			}
		}
	}
	empty := tensor.Alloc(mustLayout(f, nil))
	f.Fuzz(func(t *testing.T, receipt []byte) {
		for _, p := range []*tensor.Package{p, empty} {
			var v value
			if Attach(receipt, p, &v, known...) != nil {
				continue
			}
			d := mustDetach(t, v, DefaultDepth)
			var again value
			mustAttach(t, packed(t, d), &again, known...)
			check.That(t, bytes.Equal(mustDetach(t, again, DefaultDepth).Receipt, d.Receipt), "the value changes on its way")
		}
	})
}
