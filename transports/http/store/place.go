package store

import (
	"encoding/hex"
	"fmt"

	"ipcbench/transports/internal/slab"
)

// A SlabRef names a slab of the server: where it lies, and the nonce that
// proves it.
type SlabRef struct {
	Path  string `json:"path"`
	Nonce string `json:"nonce"`
}

// NewSlabRef names the slab at path.
func NewSlabRef(path string, n slab.Nonce) *SlabRef {
	return &SlabRef{Path: path, Nonce: hex.EncodeToString(n[:])}
}

// Decode returns the nonce.
func (r SlabRef) Decode() (n slab.Nonce, err error) {
	b, err := hex.DecodeString(r.Nonce)
	if err != nil || len(b) != len(n) {
		return n, fmt.Errorf("nonce %.40q of slab: want %d hexadecimal digits", r.Nonce, 2*len(n))
	}
	return slab.Nonce(b), nil
}

// A Handle is a slab's handle as it travels in JSON and header fields.
type Handle string

// EncodeHandle spells h.
func EncodeHandle(h slab.Handle) Handle { return Handle(hex.EncodeToString(h.Append(nil))) }

// Decode returns the handle.
func (h Handle) Decode() (slab.Handle, error) {
	b, err := hex.DecodeString(string(h))
	if err != nil || len(b) != slab.HandleSize {
		return slab.Handle{}, fmt.Errorf("handle %.60q: want %d hexadecimal digits", string(h), 2*slab.HandleSize)
	}
	return slab.DecodeHandle(b)
}

// Reasons why a tensor does not go through shared memory.
const (
	Off     = "off"     // it was switched off
	Full    = "full"    // the slab has no room for it
	Missing = "missing" // a setting keeps it out of the slab
	DType   = "dtype"   // the slab holds tensors of the ten types only
	Remote  = "remote"  // the peer could not open the slab, or not find its nonce in it
	Stale   = "stale"   // the slab does not hold it any more
)
