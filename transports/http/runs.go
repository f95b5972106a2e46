package http

import (
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// A run is where consecutive tensors of a model lie in the server's slab, one
// after another and with generations that follow one another. A model that was
// placed undisturbed is one run, however many tensors it has.
type run struct {
	First  int          `json:"first"` // tensor
	Count  int          `json:"count"`
	Handle store.Handle `json:"handle"` // of the first
}

// next returns the handle of a block of n bytes that was reserved right after h,
// of a stamped pool.
func next(h slab.Handle, n int) (slab.Handle, error) {
	extent, ok := slab.Extent(int(h.Length), true)
	if !ok || h.Offset > 1<<62 {
		return slab.Handle{}, slab.ErrBounds
	}
	return slab.Handle{Offset: h.Offset + uint64(extent), Length: uint64(n), Generation: h.Generation + 1}, nil
}

// follows reports whether b was reserved right after a.
func follows(a, b slab.Handle) bool {
	n, err := next(a, int(b.Length))
	b.Index = 0
	return err == nil && n == b
}
