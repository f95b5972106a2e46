package futex

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Size is how many bytes a word takes, and what its address is a multiple of.
const Size = 4

// The operations of futex(2), both without FUTEX_PRIVATE_FLAG: with it the
// kernel would look for waiters in the caller's own address space only.
const (
	opWait = 0
	opWake = 1
)

// A Word is a 32-bit number in memory that several processes map. It is a
// reference: copies of a Word are the same word. The zero Word refers to
// nothing and may not be used.
//
// Load, Store, Add and the rest of [atomic.Uint32] are sequentially consistent
// across processes, too: what was written to the shared memory before a Store
// is seen by whoever Loads the new value.
type Word struct{ *atomic.Uint32 }

// At returns the word at mem[offset:offset+4]. It reports an error if that
// lies outside mem or its address is not a multiple of 4.
//
// The caller keeps mem mapped for as long as the word is in use. A mapping
// without PROT_WRITE is enough to Load, Wait, Spin and Wake.
func At(mem []byte, offset int) (Word, error) {
	if offset < 0 || offset > len(mem)-Size {
		return Word{}, fmt.Errorf("futex: word at offset %d: outside memory of %d bytes", offset, len(mem))
	}
	p := unsafe.Pointer(&mem[offset])
	if uintptr(p)%Size != 0 {
		return Word{}, fmt.Errorf("futex: word at offset %d: address %p is not a multiple of %d", offset, p, Size)
	}
	// This is safe because:
	//  - offset+Size <= len(mem) was checked above, without overflow, since
	//    len(mem)-Size cannot be less than -Size,
	//  - the alignment was checked above,
	//  - an atomic.Uint32 is one uint32: 4 bytes, no pointers, every bit pattern
	//    is valid (the size is checked below, at compile time),
	//  - the result points into mem: heap memory stays alive through it, and that
	//    mapped memory stays mapped is the caller's promise.
	return Word{(*atomic.Uint32)(p)}, nil
}

var _ [Size]byte = [unsafe.Sizeof(atomic.Uint32{})]byte{}

// wait sleeps until somebody wakes w, but not if w does not hold old, and not
// longer than nanoseconds. That it returns says nothing about w: it also does
// so for signals.
//
// It goes through Syscall6 and not RawSyscall6, so that the runtime can give
// the processor to other goroutines meanwhile.
func (w Word) wait(old uint32, nanoseconds int64) error {
	timeout := unix.NsecToTimespec(nanoseconds)
	// Both pointers are converted in the call's own argument list, so that the
	// compiler keeps what they point to alive and in place until it returns. The
	// kernel reads timeout and the word, and writes neither.
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w.Uint32)), opWait, uintptr(old),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
	switch errno {
	case 0, syscall.EAGAIN, syscall.EINTR, syscall.ETIMEDOUT:
		return nil
	}
	return fmt.Errorf("futex: wait: %w", errno)
}

// wake wakes up to n of those who wait for w.
func (w Word) wake(n int32) error {
	// As above; the kernel only uses the address to find the waiters.
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w.Uint32)), opWake, uintptr(n), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("futex: wake: %w", errno)
	}
	return nil
}
