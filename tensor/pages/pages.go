// Package pages makes memory of tensors in pages of a chosen size, and observes what the kernel has
// done. A size and a number of bytes enter; memory leaves, and the part of it that is in huge pages.
//
// Private memory is Go's heap, whose garbage collector then runs as often as with any other size. Shared
// memory is a mapping of a file. Both are aligned to a huge page. Huge pages are transparent ones, which
// the kernel gives or not; none are set aside (hugetlb).
package pages

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Size is the size of the pages of memory.
type Size string

// The sizes.
const (
	System Size = ""      // as the machine is configured
	Small  Size = "small" // of the processor's smallest size
	Huge   Size = "huge"  // of Bytes
)

// Valid reports whether s is one of the sizes.
func (s Size) Valid() bool { return s == System || s == Small || s == Huge }

// Bytes is the size of a huge page of amd64 and of arm64 with small pages of 4 KiB.
const Bytes = 2 << 20

// Heap returns n zeroed bytes of Go's heap, in pages of that size where the memory has whole ones. It
// counts in [Observe] until it is garbage.
func (s Size) Heap(n int) []byte {
	if s == System {
		b := make([]byte, n)
		s.collected(b, b)
		return b
	}
	b := make([]byte, n+2*Bytes)
	whole := wholePages(b, n)
	_ = s.advise(whole)                         // Observe tells whether that had an effect
	_ = unix.Madvise(whole, unix.MADV_DONTNEED) // pages that are there already keep their size; new ones are zeroed, too
	s.collected(b, whole[:n:n])
	return whole[:n:n]
}

// wholePages returns the huge pages in b that hold n bytes, for which b has room.
func wholePages(b []byte, n int) []byte {
	skip := -int(address(b)) & (Bytes - 1)
	return b[skip : skip+(n+Bytes-1)/Bytes*Bytes]
}

// collected lets lent count until b, which contains it and begins an allocation, is garbage. Then the
// kernel forgets the advice, because Go will use the memory for something else.
func (s Size) collected(b, lent []byte) {
	if len(lent) < Bytes {
		return
	}
	at, n, all := address(lent), len(lent), len(b)
	add(at, n)
	runtime.SetFinalizer(unsafe.SliceData(b), func(first *byte) {
		remove(at)
		if s == System {
			return
		}
		// This is safe because only this function can still reach the bytes from first on, and the mapping that
		// replaces whole pages of them is like Go's own: private, anonymous, readable and writable.
		whole := wholePages(unsafe.Slice(first, all), n)
		const access, fresh = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED
		start := uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
		_, _, err := unix.Syscall6(unix.SYS_MMAP, start, uintptr(len(whole)), access, fresh, ^uintptr(0), 0)
		if err != 0 {
			panic(fmt.Sprintf("pages: give back %d bytes: %v", len(whole), err)) // the pages may be missing now
		}
	})
}

// advise tells the kernel the size of the pages of b, Small or Huge. A kernel without huge pages has only
// small ones.
func (s Size) advise(b []byte) error {
	advice := unix.MADV_HUGEPAGE
	if s == Small {
		advice = unix.MADV_NOHUGEPAGE
	}
	err := unix.Madvise(b, advice)
	if s == Small && errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// Map is mmap(2) of size bytes, at an address that is a multiple of Bytes unless s is System. The caller
// must call Unmap.
func (s Size) Map(fd, size, prot, flags int) ([]byte, error) {
	if s == System {
		p, err := unix.MmapPtr(fd, 0, nil, uintptr(size), prot, flags)
		return s.mapped(p, size, err)
	}
	// Reserve more addresses than are needed, and give those outside of the aligned part back.
	all := uintptr(size + Bytes)
	reserved, err := unix.MmapPtr(-1, 0, nil, all, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// The sums stay inside of the reservation, whose memory Go does not manage.
	skip := -uintptr(reserved) & (Bytes - 1)
	at := unsafe.Add(reserved, skip)
	end := (uintptr(size) + pageSize - 1) / pageSize * pageSize
	p, err := unix.MmapPtr(fd, 0, at, uintptr(size), prot, flags|unix.MAP_FIXED)
	if err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(reserved, all))
	}
	if skip > 0 {
		err = unix.MunmapPtr(reserved, skip)
	}
	if after := skip + end; after < all {
		err = errors.Join(err, unix.MunmapPtr(unsafe.Add(reserved, after), all-after))
	}
	b, err := s.mapped(p, size, err)
	if err == nil {
		err = s.advise(b)
	}
	if err != nil {
		return nil, errors.Join(err, Unmap(b))
	}
	return b, nil
}

func (s Size) mapped(p unsafe.Pointer, size int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	b := unsafe.Slice((*byte)(p), size) // the mapping has these bytes, until Unmap
	if size >= Bytes {
		add(address(b), size)
	}
	return b, nil
}

// Unmap ends a mapping. Later accesses to it are faults.
func Unmap(b []byte) error {
	remove(address(b))
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

// Populate makes the kernel provide the pages of a writable mapping that no other process writes. It
// returns an error if there is no memory for them, or faults before Linux 5.14.
func Populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	switch {
	case errors.Is(err, unix.EFAULT): // instead of SIGBUS
		return unix.ENOSPC
	case errors.Is(err, unix.EINVAL): // Linux before 5.14
		for at := 0; at < len(b); at += pageSize {
			b[at]++
			b[at]--
		}
		return nil
	}
	return err
}

const pageSize = 4096

// address returns the address of b, as a number that keeps nothing alive.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
