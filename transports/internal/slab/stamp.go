package slab

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// stampSize is the number of bytes before a block for its stamp: one cache line, so that
// the block stays aligned.
const stampSize = Align

// stampAt returns the 64-bit number at mem[offset:offset+8], which processes share. It
// panics if the range is outside mem or not aligned, which callers must check.
func stampAt(mem []byte, offset int) *atomic.Uint64 {
	const size = 8
	if offset < 0 || offset > len(mem)-size {
		panic(fmt.Sprintf("slab: stamp at %d of %d bytes", offset, len(mem)))
	}
	p := unsafe.Pointer(&mem[offset])
	if uintptr(p)%size != 0 {
		panic(fmt.Sprintf("slab: stamp at %p is not aligned", p))
	}
	// This is safe because:
	//  - bounds and alignment were checked above,
	//  - an atomic.Uint64 is one 64-bit number (checked below, at compile time):
	//    it holds no pointers and every bit pattern is valid,
	//  - the result points into mem: the mapping is kept by the Memory that
	//    the caller holds.
	return (*atomic.Uint64)(p)
}

var _ [8]byte = [unsafe.Sizeof(atomic.Uint64{})]byte{}
