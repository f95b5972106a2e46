package slab

import (
	"testing"

	"ipcbench/internal/test/check"
)

// TestHandleRoundTrip: B14: an encoded handle has less than 64 bytes and decodes to an
// equal one.
func TestHandleRoundTrip(t *testing.T) {
	want := Handle{Offset: 1<<63 + 2, Length: 3 << 50, Generation: 1<<64 - 5, Index: 1<<31 + 7}
	b := want.Append(nil)
	got := check.Value(DecodeHandle(b))(t)
	check.Equal(t, got, want)
	check.That(t, len(b) == HandleSize && len(b) < 64, "it takes %d bytes", len(b))
	_, err := DecodeHandle(b[1:])
	check.That(t, err != nil, "decoded a part of a handle")
}

func FuzzDecodeHandle(f *testing.F) {
	f.Add(Handle{Offset: 64, Length: 64, Generation: 1}.Append(nil), 64)
	f.Add(Handle{Offset: 1<<64 - 64, Length: 128}.Append(nil), 128)
	mem := make([]byte, 1000)
	p := newPool(heap(1000))
	f.Fuzz(func(t *testing.T, b []byte, length int) {
		h, err := DecodeHandle(b)
		if err != nil {
			return
		}
		view, err := h.Slice(mem, length)
		check.That(t, err != nil || len(view) == length && uint64(length) == h.Length, "got %d bytes of %d", len(view), length)
		_, err = p.Pin(h)
		check.That(t, err != nil, "an empty pool has a block")
	})
}
