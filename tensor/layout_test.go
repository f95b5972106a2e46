package tensor

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// TestDTypes (A13): ten data types, their names, sizes and numbers. Numbers are stored in results and on wires, so they
// must not change.
func TestDTypes(t *testing.T) {
	want := []struct {
		name string
		size int
	}{
		{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"i8", 1},
		{"i16", 2}, {"i32", 4}, {"i64", 8}, {"bool", 1}, {"u8", 1},
	}
	all := DTypes()
	check.Need(t, len(all) == len(want), "%d types, want %d", len(all), len(want))
	for i, d := range all {
		check.That(t, int(d) == i+1 && d.String() == want[i].name && d.Size() == want[i].size && d.Valid(),
			"type %d is %v of %d bytes, want %s of %d", d, d, d.Size(), want[i].name, want[i].size)
		back, err := ParseDType(d.String())
		check.That(t, err == nil && back == d, "%v is parsed as %v, error %v", d, back, err)
	}
	for _, d := range []DType{0, lastDType + 1, 255} {
		check.That(t, !d.Valid() && d.Size() == 0 && strings.HasPrefix(d.String(), "dtype("),
			"%d passes for a type: %v", uint8(d), d)
	}
	for _, name := range []string{"", "F32", "f8", "dtype(3)"} {
		d, err := ParseDType(name)
		check.That(t, err != nil, "%q is parsed as %v", name, d)
	}
}

// wild is a name that would control a terminal. Names may come from files, so errors must quote them.
const wild = "w\x1b[2J\n"

func TestSpecBytes(t *testing.T) {
	tests := []struct {
		name  string
		dtype DType
		shape []int
		bytes int
		err   string
	}{
		{"scalar", F32, nil, 4, ""},
		{"vector", U8, []int{7}, 7, ""},
		{"matrix", F64, []int{3, 5}, 120, ""},
		{"empty", F32, []int{0}, 0, ""},
		{"largest", U8, []int{math.MaxInt}, math.MaxInt, ""},
		{"largest in elements", F64, []int{math.MaxInt}, 0, "overflow"},
		{"product too large", U8, []int{1 << 32, 1 << 31}, 0, "overflow"},
		{"product too large, empty last", U8, []int{1 << 32, 1 << 31, 0}, 0, "overflow"},
		{"negative", U8, []int{-1}, 0, "negative"},
		{"negative and empty", U8, []int{0, -1}, 0, "negative"},
		{"no type", 0, []int{1}, 0, "invalid dtype(0)"},
	}
	for _, test := range tests {
		n, err := Spec{Name: wild, DType: test.dtype, Shape: test.shape}.Bytes()
		if test.err == "" {
			check.That(t, err == nil && n == test.bytes, "%s: %d bytes, error %v, want %d", test.name, n, err, test.bytes)
			continue
		}
		check.Fails(t, err, test.err, test.name)
		check.Fails(t, err, strconv.Quote(wild), test.name)
	}
}

// TestLayoutPlaces (A8): offsets increase, are multiples of 64, and no two tensors overlap.
func TestLayoutPlaces(t *testing.T) {
	sizes := []int{0, 1, 63, 64, 65, 0, 0, 127, 128, 129, 1}
	var specs []Spec
	payload := 0
	for _, n := range sizes {
		specs = append(specs, Spec{DType: U8, Shape: []int{n}})
		payload += n
	}
	l := mustLayout(t, specs)
	at := 0
	for i, n := range sizes {
		check.That(t, l.Offset(i) == at && l.Offset(i)%Align == 0 && l.Bytes(i) == n,
			"tensor %d has %d bytes at %d, want %d at %d", i, l.Bytes(i), l.Offset(i), n, at)
		at += (n + Align - 1) / Align * Align
	}
	check.That(t, l.Len() == len(sizes) && l.Size() == at && l.Payload() == payload,
		"%d tensors, %d bytes, %d of payload, want %d, %d, %d", l.Len(), l.Size(), l.Payload(), len(sizes), at, payload)
	empty := mustLayout(t, nil)
	check.That(t, empty.Len() == 0 && empty.Size() == 0 && empty.Payload() == 0, "a layout of nothing is not empty")
}

func TestLayoutOverflow(t *testing.T) {
	half := Spec{Name: wild, DType: U8, Shape: []int{math.MaxInt/2 - Align}}
	mustLayout(t, []Spec{half, half})
	for _, specs := range [][]Spec{
		{{Name: wild, DType: U8, Shape: []int{math.MaxInt}}},
		{{Name: wild, DType: U8, Shape: []int{math.MaxInt - Align + 1}}},
		{half, half, half},
		{half, {Name: wild, DType: U8, Shape: []int{-1}}},
	} {
		check.Fails(t, check.Err(NewLayout(specs)), strconv.Quote(wild), specs)
	}
}

// TestLayoutIsImmutable: a layout owns its shapes, and its specs make an equal one.
func TestLayoutIsImmutable(t *testing.T) {
	shape := []int{2, 3}
	specs := []Spec{{Name: "a", DType: F32, Shape: shape}, {Name: "b", DType: I64}}
	l := mustLayout(t, specs)
	digest := l.Digest()
	shape[0], specs[1].Name = 9, "c"
	l.Specs()[0].Name = "d"
	want := []Spec{{Name: "a", DType: F32, Shape: []int{2, 3}}, {Name: "b", DType: I64}}
	check.Equal(t, l.Specs(), want, "the layout has changed")
	check.Equal(t, l.Spec(0), want[0], "the layout has changed")
	check.That(t, l.Digest() == digest && mustLayout(t, l.Specs()).Digest() == digest, "the same specs have another digest")
}

// TestDigestTellsLayoutsApart: every part of a layout affects its digest, and adjacent parts cannot be confused.
func TestDigestTellsLayoutsApart(t *testing.T) {
	a := Spec{Name: "a", DType: F32, Shape: []int{2, 3}}
	layouts := [][]Spec{
		{}, {a}, {a, a},
		{{Name: "b", DType: F32, Shape: []int{2, 3}}},
		{{Name: "a", DType: I32, Shape: []int{2, 3}}},
		{{Name: "a", DType: F32, Shape: []int{3, 2}}},
		{{Name: "a", DType: F32, Shape: []int{6}}},
		{{Name: "a", DType: F32, Shape: []int{2, 3, 1}}},
		{{Name: "a", DType: F32}},
		{{Name: "", DType: F32}}, {{Name: "", DType: F32}, {Name: "", DType: F32}},
		{{Name: "ab", DType: F32}, {Name: "c", DType: F32}}, {{Name: "a", DType: F32}, {Name: "bc", DType: F32}},
		{{Name: "a", DType: F32, Shape: []int{1 << 7}}}, {{Name: "a", DType: F32, Shape: []int{1 << 14}}},
	}
	seen := map[uint64]int{}
	for i, specs := range layouts {
		d := mustLayout(t, slices.Clone(specs)).Digest()
		j, taken := seen[d]
		check.That(t, !taken, "%v and %v have one digest", layouts[j], specs)
		seen[d] = i
	}
}
