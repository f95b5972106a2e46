package slab

import (
	"encoding/binary"
	"fmt"
)

// Align is what every block's offset is a multiple of, in bytes: a cache line,
// and the alignment of tensors in package tensor.
const Align = 64

// HandleSize is the size of an encoded handle in bytes.
const HandleSize = 8 + 8 + 8 + 4

// A Handle names a block of a pool, in any process. The generation is new for
// every block, so that a handle whose block was released is noticed although
// another block lies there by now. The zero Handle names nothing.
type Handle struct {
	Offset     uint64
	Length     uint64
	Generation uint64
	Index      uint32 // of the pool's own record
}

// Append appends the encoded handle to b.
func (h Handle) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Offset)
	b = binary.LittleEndian.AppendUint64(b, h.Length)
	b = binary.LittleEndian.AppendUint64(b, h.Generation)
	return binary.LittleEndian.AppendUint32(b, h.Index)
}

// DecodeHandle reads the handle at the start of b. What it says has to be
// checked before it is used.
func DecodeHandle(b []byte) (Handle, error) {
	if len(b) < HandleSize {
		return Handle{}, fmt.Errorf("slab: handle of %d bytes, want %d", len(b), HandleSize)
	}
	return Handle{
		Offset:     binary.LittleEndian.Uint64(b),
		Length:     binary.LittleEndian.Uint64(b[8:]),
		Generation: binary.LittleEndian.Uint64(b[16:]),
		Index:      binary.LittleEndian.Uint32(b[24:]),
	}, nil
}

// Within reports what keeps h from naming length bytes of a slab with the given
// capacity.
func (h Handle) Within(capacity, length int) error {
	switch {
	case h.Offset > uint64(capacity) || h.Length > uint64(capacity)-h.Offset: // never adds what a peer sent
		return fmt.Errorf("slab: handle to %d bytes at %d of %d: %w", h.Length, h.Offset, capacity, ErrBounds)
	case h.Offset%Align != 0:
		return fmt.Errorf("slab: handle to offset %d: %w", h.Offset, ErrAlignment)
	case h.Length != uint64(length):
		return fmt.Errorf("slab: handle to %d bytes, want %d: %w", h.Length, length, ErrLength)
	}
	return nil
}

// Slice returns the length bytes of mem that h names.
func (h Handle) Slice(mem []byte, length int) ([]byte, error) {
	if err := h.Within(len(mem), length); err != nil {
		return nil, err
	}
	end := int(h.Offset) + length
	return mem[h.Offset:end:end], nil
}
