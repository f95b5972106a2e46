package store

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// What is accepted as a table is what was encoded, and names a size that its
// shape has.
func FuzzTable(f *testing.F) {
	f.Add(Meta{"f32", []int{64, 3}, 768}.appendEntry(nil))
	f.Add(Meta{"c64", nil, 8}.appendEntry(Meta{"u8", []int{0, 1 << 40}, 0}.appendEntry(nil)))
	f.Add([]byte("\x02u8\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; len(rest) > 0; {
			before := rest
			k, after, err := parseEntry(rest)
			if err != nil {
				if MatchManifest(b, b) != nil {
					t.Error("a table is not equal to itself")
				}
				return
			}
			again, _, err := parseEntry(k.appendEntry(nil))
			if err != nil || again.DType != k.DType || !slices.Equal(again.Shape, k.Shape) || again.Size != k.Size {
				t.Errorf("%+v comes back as %+v, %v", k, again, err)
			}
			_ = MatchManifest(b, k.appendEntry(nil)) // must not panic
			rest = after
			if len(rest) >= len(before) {
				t.Fatal("parsing does not advance")
			}
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
			if len(id) == 0 || len(id) > maxID || id[0] == '.' || bytes.ContainsAny(id, "/\\%\r\n\x00 ") {
				t.Errorf("accepted id %q", id)
			}
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
		if err != nil || !slices.Equal(again, shape) {
			t.Errorf("%q: %v, then %v, %v", s, shape, again, err)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add("00112233445566778899aabbccddeeff", strings.Repeat("0", 56))
	f.Add("zz", "")
	f.Fuzz(func(t *testing.T, nonce, handle string) {
		if n, err := (SlabRef{Nonce: nonce}).Decode(); err == nil && !strings.EqualFold(NewSlabRef("", n).Nonce, nonce) {
			t.Errorf("nonce %q is %x", nonce, n)
		}
		if h, err := Handle(handle).Decode(); err == nil && !strings.EqualFold(string(EncodeHandle(h)), handle) {
			t.Errorf("handle %q is %+v", handle, h)
		}
	})
}
