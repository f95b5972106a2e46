package transports

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"ipcbench/codec"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// headed returns a layout with a tensor of each kind that headers distinguish.
func headed(t testing.TB) *tensor.Layout {
	t.Helper()
	l := check.Value(tensor.NewLayout([]tensor.Spec{
		{Name: "w", DType: tensor.F32, Shape: []int{10}},
		{Name: "rows", DType: tensor.F32, Shape: []int{5, 3}, Var: true},
		{Name: "nothing", DType: tensor.F32, Shape: []int{5, 0}, Var: true},
		{Name: "scalar", DType: tensor.F64},
	}))(t)
	return l
}

func goodHeader() *header {
	return &header{version: 300, base: 299, tensors: []packed{
		{codec.Coded, 40, 0}, {codec.Plain, 24, 2}, {codec.Unchanged, 0, 4}, {codec.Plain, 8, 0},
	}}
}

// TestHeader: a header reads as it was written, the bytes after it are left, and it has at
// most 64 bytes per tensor.
func TestHeader(t *testing.T) {
	l := headed(t)
	for _, want := range []*header{goodHeader(), {version: 0, base: -1, tensors: make([]packed, 4)}, {version: math.MaxInt64 / 4, base: math.MaxInt64/4 - 1, tensors: make([]packed, 4)}} {
		if want.tensors[0].bytes == 0 {
			want.tensors[0].bytes, want.tensors[3].bytes = 40, 8
		}
		b := want.append(nil, "xor+shuffle+zstd", l)
		check.That(t, len(b) <= 64*l.Len(), "a header of %d bytes for %d tensors", len(b), l.Len())
		got := header{tensors: make([]packed, l.Len())}
		rest, err := got.read(append(b, "receipt"...), "xor+shuffle+zstd", l)
		check.That(t, err == nil && string(rest) == "receipt" && got.version == want.version && got.base == want.base,
			"got %+v and %q, %v, want %+v", got, rest, err, want)
		for i, w := range want.tensors {
			check.Equal(t, got.tensors[i], w, "tensor", i)
		}
	}
}

// TestHeaderRefuses: the error for an invalid header names the fault and the tensor.
func TestHeaderRefuses(t *testing.T) {
	l := headed(t)
	good := goodHeader().append(nil, "gaps", l)
	with := func(f func(*header)) []byte {
		h := goodHeader()
		f(h)
		return h.append(nil, "gaps", l)
	}
	replaced := func(at int, b ...byte) []byte { return append(append(bytes.Clone(good[:at]), b...), good[at+1:]...) }
	const version, count, first = 10, 14, 15 // offsets of these fields
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"nothing":             {nil, `begin with "ipcd", not ""`},
		"a user's receipt":    {[]byte("receipt of mine"), `begin with "ipcd", not "rece"`},
		"another format":      {replaced(4, 2), "the header's format must be [1], not [2]"},
		"another codec":       {goodHeader().append(nil, "gzip", l), `packed with codec "gzip", but the session's is "gaps"`},
		"a longer codec":      {replaced(5, 0xff, 0x7f), "length of the codec must be at most 1024, not 16383"},
		"no codec":            {good[:5], "length of the codec: not a number"},
		"a cut codec":         {good[:8], `packed with codec "ga", but the session's is "gaps"`},
		"a cut version":       {good[:version+1], "version: not a number"},
		"a large version":     {replaced(version, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff, 0x01, 0), "version must be at most 4611686018427387904, not 18"},
		"a needless byte":     {replaced(version+1, 0x80, 0), "version: not a number"},
		"fewer tensors":       {replaced(count, 3), "3 tensors, the layout 4"},
		"more than there are": {replaced(count, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f), "tensors, the layout 4"},
		"no tensor":           {good[:first], `tensor "w": unknown mode []`},
		"a mode":              {replaced(first, 3), `tensor "w": unknown mode [3]`},
		"a cut length":        {good[:first+1], `tensor "w": length: not a number`},
		"shorter":             {with(func(h *header) { h.tensors[0].bytes = 36 }), `tensor "w": its unpacked length must be 40, not 36`},
		"longer":              {with(func(h *header) { h.tensors[0].bytes = 44 }), `tensor "w": length must be at most 40, not 44`},
		"much longer":         {with(func(h *header) { h.tensors[0].bytes = math.MaxInt64 }), `tensor "w": length must be at most 40, not 9223372036854775807`},
		"rows":                {with(func(h *header) { h.tensors[1].rows = 6 }), `tensor "rows": rows must be at most 5, not 6`},
		"rows and bytes":      {with(func(h *header) { h.tensors[1].rows = 1 }), `tensor "rows": its unpacked length must be 12, not 24`},
		"rows of nothing":     {with(func(h *header) { h.tensors[2].rows = 1 << 40 }), `tensor "nothing": rows must be at most 5, not 1099511627776`},
		"a cut tensor":        {good[:len(good)-1], `tensor "scalar": length: not a number`},
	} {
		h := header{tensors: make([]packed, l.Len())}
		_, err := h.read(c.b, "gaps", l)
		check.That(t, err != nil && strings.Contains(err.Error(), c.want), "%s: got error %v, want %q", name, err, c.want)
	}
}

// FuzzHeader: whatever a peer sends, an accepted header fits the layout, and encoding it
// again gives the same bytes.
func FuzzHeader(f *testing.F) {
	l := headed(f)
	f.Add(goodHeader().append(nil, "gaps", l))
	f.Add(append((&header{base: -1, tensors: []packed{{0, 40, 0}, {0, 60, 5}, {0, 0, 5}, {0, 8, 0}}}).append(nil, "gaps", l), "receipt"...))
	f.Add([]byte("ipcd\x01\x04gaps"))
	f.Add([]byte("ipcd\x01\x04gaps\x00\x00\x04\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := header{tensors: make([]packed, l.Len())}
		rest, err := h.read(b, "gaps", l)
		if err != nil {
			return
		}
		again := append(h.append(nil, "gaps", l), rest...)
		check.That(t, bytes.Equal(again, b), "%x reads as %+v, which is %x", b, h, again)
		for i, p := range h.tensors {
			if p.bytes < 0 || p.bytes > l.Bytes(i) || p.mode > codec.Coded || p.rows < 0 || l.Spec(i).Var && p.rows > l.Spec(i).Shape[0] {
				t.Errorf("%x: tensor %d is %+v", b, i, p)
			}
		}
		check.That(t, h.version >= 0 && h.base >= -1, "%x: versions %d and %d", b, h.version, h.base)
	})
}
