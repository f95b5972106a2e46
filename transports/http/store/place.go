package store

import (
	"encoding/hex"
	"fmt"

	"ipcbench/transports/internal/slab"
)

// A SlabRef names a slab of the server, and has its nonce. A process that finds the
// nonce in the file shares memory with the server.
type SlabRef struct {
	Path  string `json:"path"`
	Nonce string `json:"nonce"`
}

// NewSlabRef returns a reference to the slab at path with nonce n.
func NewSlabRef(path string, n slab.Nonce) *SlabRef {
	return &SlabRef{Path: path, Nonce: hex.EncodeToString(n[:])}
}

// Decode returns the nonce, or an error if it is malformed.
func (r SlabRef) Decode() (n slab.Nonce, err error) {
	b, err := hex.DecodeString(r.Nonce)
	if err != nil || len(b) != len(n) {
		return n, fmt.Errorf("nonce %.40q of slab: must be %d hexadecimal digits", r.Nonce, 2*len(n))
	}
	return slab.Nonce(b), nil
}

// A Handle is a slab's handle in hexadecimal, for JSON and header fields.
type Handle string

// EncodeHandle returns h in hexadecimal.
func EncodeHandle(h slab.Handle) Handle { return Handle(hex.EncodeToString(h.Append(nil))) }

// Decode returns the handle, or an error if it is malformed. It does not check that the
// handle names a block.
func (h Handle) Decode() (slab.Handle, error) {
	b, err := hex.DecodeString(string(h))
	if err != nil || len(b) != slab.HandleSize {
		return slab.Handle{}, fmt.Errorf("handle %.60q: must be %d hexadecimal digits", string(h), 2*slab.HandleSize)
	}
	return slab.DecodeHandle(b)
}

// Reasons why a tensor does not travel through shared memory. Counters and answers use
// them.
const (
	Off     = "off"     // shared memory is off
	Full    = "full"    // the slab has no room for it
	Missing = "missing" // a setting keeps it out of the slab
	DType   = "dtype"   // its element type is not one of package tensor's ten
	Remote  = "remote"  // the peer could not open the slab, or did not find the nonce in it
	Stale   = "stale"   // the slab no longer holds it
)
