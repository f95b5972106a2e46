package store

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/tensor"
)

// No manifest but the one that is wanted is accepted, and what is wrong with
// others is said.
func FuzzManifest(f *testing.F) {
	want, err := ManifestOf(vectors(f, 3, 10))
	check(f, err)
	f.Add(want.Bytes)
	f.Add(want.Bytes[:len(want.Bytes)-1])
	f.Add(append(want.Bytes[:len(want.Bytes):len(want.Bytes)], want.entry(0)...))
	f.Add([]byte("\n\n\n"))
	f.Add(bytes.Replace(want.Bytes, []byte("u8"), []byte("i8"), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := match(b, want.Bytes); (err == nil) != bytes.Equal(b, want.Bytes) {
			t.Errorf("%q: %v", b, err)
		}
		p := tensor.Alloc(vectors(t, 3, 10))
		h := http.Header{FieldTable: {strconv.Itoa(len(b))}}
		var got []byte
		body := append(bytes.Clone(b), make([]byte, 30)...)
		err := ReadRaw(bytes.NewReader(body), h, int64(len(body)), want.Bytes, want.All, p, &got)
		if (err == nil) != bytes.Equal(b, want.Bytes) {
			t.Errorf("%q: read: %v", b, err)
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
