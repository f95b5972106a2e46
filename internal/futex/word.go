package futex

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Size is the size of a word in bytes. Its address must be a multiple of Size.
const Size = 4

// The operations of futex(2). They lack FUTEX_PRIVATE_FLAG, with which the kernel would
// only look for waiters in the caller's address space.
const (
	opWait = 0
	opWake = 1
)

// A Word refers to a 32-bit number in memory that several processes map. Copies of a Word
// refer to the same number. The zero Word must not be used.
//
// The methods of [atomic.Uint32] are sequentially consistent across processes too: a
// process that Loads a new value also sees all data written to the shared memory before
// the Store.
type Word struct{ *atomic.Uint32 }

// At returns the word at mem[offset:offset+4]. It returns an error if that is outside mem
// or its address is not a multiple of 4.
//
// The caller must keep mem mapped while the word is in use. A mapping without PROT_WRITE
// is enough to Load, Wait, Spin and Wake.
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
	//  - the result points into mem: it keeps heap memory alive, and the caller keeps
	//    mapped memory mapped.
	return Word{(*atomic.Uint32)(p)}, nil
}

var _ [Size]byte = [unsafe.Sizeof(atomic.Uint32{})]byte{}

// wait sleeps until w is woken, but at most for nanoseconds, and not at all if the value of
// w is not old. Signals end it too, so the caller must check w again.
//
// It uses Syscall6 instead of RawSyscall6, so that the runtime can run other goroutines
// during the sleep.
func (w Word) wait(old uint32, nanoseconds int64) error {
	timeout := unix.NsecToTimespec(nanoseconds)
	// Both pointers are converted in the call's argument list, so that the compiler keeps
	// their targets alive and in place until the call returns. The kernel reads timeout
	// and the word, and writes neither.
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w.Uint32)), opWait, uintptr(old),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
	switch errno {
	case 0, syscall.EAGAIN, syscall.EINTR, syscall.ETIMEDOUT:
		return nil
	}
	return fmt.Errorf("futex: wait: %w", errno)
}

// wake wakes up to n waiters of w.
func (w Word) wake(n int32) error {
	// As in wait; the kernel only uses the address to find the waiters.
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w.Uint32)), opWake, uintptr(n), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("futex: wake: %w", errno)
	}
	return nil
}
