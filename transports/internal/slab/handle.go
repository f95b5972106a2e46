package slab

import (
	"encoding/binary"
	"fmt"
)

// Align is the alignment of blocks, in bytes: a cache line, and the alignment of tensors
// in package tensor.
const Align = 64

// HandleSize is the size of an encoded handle in bytes.
const HandleSize = 8 + 8 + 8 + 4

// A Handle names a block of a slab, in any process. Each block has a new generation, so
// that a handle to a released block is noticed even if another block has its place. The
// zero Handle names nothing.
type Handle struct {
	Offset     uint64 // bytes from the start of the slab
	Length     uint64 // bytes
	Generation uint64
	Index      uint32 // of the pool's record of the block
}

// Append appends the encoded handle to b.
func (h Handle) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, h.Offset)
	b = binary.LittleEndian.AppendUint64(b, h.Length)
	b = binary.LittleEndian.AppendUint64(b, h.Generation)
	return binary.LittleEndian.AppendUint32(b, h.Index)
}

// DecodeHandle reads the handle at the start of b. It must be checked before use, for
// example with Within. DecodeHandle fails only if b is too short.
func DecodeHandle(b []byte) (Handle, error) {
	if len(b) < HandleSize {
		return Handle{}, fmt.Errorf("slab: a handle must have %d bytes, not %d", HandleSize, len(b))
	}
	return Handle{
		Offset:     binary.LittleEndian.Uint64(b),
		Length:     binary.LittleEndian.Uint64(b[8:]),
		Generation: binary.LittleEndian.Uint64(b[16:]),
		Index:      binary.LittleEndian.Uint32(b[24:]),
	}, nil
}

// Within returns an error unless h names an aligned range of exactly length bytes in a
// slab of the given capacity.
func (h Handle) Within(capacity, length int) error {
	switch {
	case h.Offset > uint64(capacity) || h.Length > uint64(capacity)-h.Offset: // no sum, because a peer's values could overflow
		return fmt.Errorf("slab: handle to %d bytes at %d of %d: %w", h.Length, h.Offset, capacity, ErrBounds)
	case h.Offset%Align != 0:
		return fmt.Errorf("slab: handle to offset %d: %w", h.Offset, ErrAlignment)
	case h.Length != uint64(length):
		return fmt.Errorf("slab: handle to %d bytes of a block of %d: %w", h.Length, length, ErrLength)
	}
	return nil
}

// Slice returns the length bytes of mem that h names, or the error of Within.
func (h Handle) Slice(mem []byte, length int) ([]byte, error) {
	if err := h.Within(len(mem), length); err != nil {
		return nil, err
	}
	end := int(h.Offset) + length
	return mem[h.Offset:end:end], nil
}
