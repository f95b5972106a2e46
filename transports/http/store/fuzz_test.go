package store

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// FuzzManifest: whatever a manifest contains, if it is accepted, each tensor has a possible
// shape, and the package has the size that the manifest implies.
func FuzzManifest(f *testing.F) {
	specs := []tensor.Spec{{Name: "a", DType: tensor.U8, Shape: []int{10}}, {Name: "b", DType: tensor.F32, Shape: []int{3, 2}, Var: true}, {Name: "c", DType: tensor.F64}}
	l := check.Value(tensor.NewLayout(specs))(f)
	want := check.Value(ManifestOf(l))(f)
	f.Add(want.Bytes)
	f.Add(want.Bytes[:len(want.Bytes)-1])
	f.Add(append(bytes.Clone(want.Bytes), want.metas[0].line...))
	f.Add([]byte("\n\n\n"))
	for _, change := range [][2]string{{"u8", "i8"}, {"[10]", "[11]"}, {"[3,2]", "[0,2]"}, {"[3,2]", "[-1,2]"}, {"[3,2]", "[4,2]"}, {"24", "16"}, {"[]", "[1]"}, {`"shape":[]`, `"shape":null`}} {
		f.Add(bytes.Replace(want.Bytes, []byte(change[0]), []byte(change[1]), 1))
	}
	f.Add(bytes.Replace(want.Bytes, []byte(`[3,2],"bytes":24`), []byte(`[2,2],"bytes":16`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, got := tensor.Alloc(l), []byte(nil)
		if err := want.Read(bytes.NewReader(b), len(b), want.All, p, &got); err != nil {
			return
		}
		if rows := p.Rows(1); rows < 0 || rows > 3 || p.Payload() != 10+8*rows+8 {
			t.Errorf("%q: %d rows, %d bytes", b, rows, p.Payload())
		}
		again := want.Of(p)
		if err := want.Read(bytes.NewReader(again.Bytes), len(again.Bytes), want.All, tensor.Alloc(l), &got); err != nil {
			t.Errorf("%q: what was accepted is refused: %v", again.Bytes, err)
		}
	})
}

func FuzzIDs(f *testing.F) {
	f.Add([]byte("a\nb.0\n"), false)
	f.Add([]byte(`{"shard_ids":["a","b.0"]}`), true)
	f.Add([]byte("../a\n"), false)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		ids, err := parseIDs(nil, body, isJSON)
		if err != nil {
			return
		}
		for _, id := range ids {
			check.That(t, len(id) != 0 && len(id) <= maxID && id[0] != '.' && !bytes.ContainsAny(id, "/\\%\r\n\x00 "),
				"accepted id %q", id)
		}
		if again, err := parseIDs(nil, append(bytes.Join(ids, []byte("\n")), '\n'), false); len(ids) > 0 && (err != nil || len(again) != len(ids)) {
			t.Errorf("%q: %d ids, %v", ids, len(again), err)
		}
	})
}

func FuzzShape(f *testing.F) {
	for _, s := range []string{"", "64,3,7,7", "0", "-1", "1,,2", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shape, err := parseShape(s)
		if err != nil {
			return
		}
		again, err := parseShape(formatShape(shape))
		check.That(t, err == nil && slices.Equal(again, shape), "%q: %v, then %v, %v", s, shape, again, err)
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add("00112233445566778899aabbccddeeff", strings.Repeat("0", 56))
	f.Add("zz", "")
	f.Fuzz(func(t *testing.T, nonce, handle string) {
		n, err := (SlabRef{Nonce: nonce}).Decode()
		check.That(t, err != nil || strings.EqualFold(NewSlabRef("", n).Nonce, nonce), "nonce %q is %x", nonce, n)
		if h, err := Handle(handle).Decode(); err == nil && !strings.EqualFold(string(EncodeHandle(h)), handle) {
			t.Errorf("handle %q is %+v", handle, h)
		}
	})
}
