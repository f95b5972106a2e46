package tensor

import (
	"fmt"
	"unsafe"
)

// A Number is a Go type for viewing a tensor's elements. f16 and bf16 are viewed as
// uint16.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Slice returns b as a slice of T: a view, not a copy. Bytes at the end that fill no
// element are left out. Slice panics if b does not start at a multiple of T's size; the
// memory of packages always does.
func Slice[T Number](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	if len(b) < size {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(size) != 0 {
		panic(fmt.Sprintf("tensor: memory at %p is not aligned to %d", p, size))
	}
	// This is safe because:
	//  - the alignment was checked above,
	//  - T holds no pointers, and every bit pattern is a valid T,
	//  - the new slice ends at or before the end of b,
	//  - the result points into b's memory and so keeps it alive.
	return unsafe.Slice((*T)(p), len(b)/size)
}

// Alloc returns a package for l in new heap memory, aligned to [Align] and zeroed.
func Alloc(l *Layout) *Package { return inMemory(l, make([]byte, l.size+Align)) }

// inMemory returns a package for l in mem, which has room to align it.
func inMemory(l *Layout, mem []byte) *Package {
	if l.size == 0 {
		return NewPackage(l, mem)
	}
	// An integer copy of the address only chooses where the slice starts; the slice
	// expression below is bounds-checked.
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (Align - 1))
	return NewPackage(l, mem[skip:skip+l.size])
}

// toPage returns the number of bytes of b, which must not be empty, before its first page
// boundary.
func toPage(b []byte) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page) // the address is only read
}
