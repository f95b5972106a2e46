package slab

import (
	"ipcbench/internal/test/check"
	"math/rand/v2"
	"testing"
)

// B14: a handle takes less than 64 bytes and comes back equal.
func TestHandleRoundTrip(t *testing.T) {
	for range 100 {
		h := Handle{Offset: rand.Uint64(), Length: rand.Uint64(), Generation: rand.Uint64(), Index: rand.Uint32()}
		b := h.Append(nil)
		got, err := DecodeHandle(b)
		check.Need(t, err == nil && got == h && len(b) == HandleSize && len(b) < 64,
			"got %+v, %v from %d bytes, want %+v", got, err, len(b), h)
	}
	_, err := DecodeHandle(make([]byte, HandleSize-1))
	check.That(t, err != nil, "decoded half a handle")
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
		if view, err := h.Slice(mem, length); err == nil && (len(view) != length || uint64(length) != h.Length) {
			t.Errorf("got %d bytes of %d", len(view), length)
		}
		if _, err := p.Pin(h); err == nil {
			t.Error("an empty pool has a block")
		}
	})
}
