package http

import (
	"encoding/hex"
	"fmt"

	"ipcbench/transports/internal/slab"
)

// A poolRef names a slab of the server: where it lies, and the nonce that
// proves it.
type poolRef struct {
	Path  string `json:"path"`
	Nonce string `json:"nonce"`
}

func newPoolRef(path string, n slab.Nonce) *poolRef {
	return &poolRef{Path: path, Nonce: hex.EncodeToString(n[:])}
}

func (r poolRef) nonce() (n slab.Nonce, err error) {
	b, err := hex.DecodeString(r.Nonce)
	if err != nil || len(b) != len(n) {
		return n, fmt.Errorf("nonce %.40q of slab: want %d hexadecimal digits", r.Nonce, 2*len(n))
	}
	return slab.Nonce(b), nil
}

// A hexHandle is a handle as it travels in JSON and header fields.
type hexHandle string

func encodeHandle(h slab.Handle) hexHandle { return hexHandle(hex.EncodeToString(h.Append(nil))) }

func (h hexHandle) decode() (slab.Handle, error) {
	b, err := hex.DecodeString(string(h))
	if err != nil || len(b) != slab.HandleSize {
		return slab.Handle{}, fmt.Errorf("handle %.60q: want %d hexadecimal digits", string(h), 2*slab.HandleSize)
	}
	return slab.DecodeHandle(b)
}

// A run is where consecutive tensors of a model lie in the server's slab, one
// after another and with generations that follow one another. A model that was
// placed undisturbed is one run, however many tensors it has.
type run struct {
	First  int       `json:"first"` // tensor
	Count  int       `json:"count"`
	Handle hexHandle `json:"handle"` // of the first
}

// next returns the handle of a block of n bytes that was reserved right after h,
// of a stamped pool.
func next(h slab.Handle, n int) (slab.Handle, error) {
	extent, ok := slab.Extent(int(h.Length), slab.PoolOptions{Stamped: true})
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
