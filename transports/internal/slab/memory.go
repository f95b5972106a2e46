package slab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ipcbench/internal/crash"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
)

// A Memory is a mapping of this process. It has references: its owner's, and one for
// each Keep. Each reference needs one Close; the last Close unmaps the memory.
type Memory struct {
	bytes   []byte
	mapping []byte   // the whole mapping, which munmap needs
	file    *os.File // the memfd, if this process made one; nil otherwise
	path    string   // the named file, if this process made one; removed by the last Close

	refs atomic.Int64 // references; 0 means unmapped
}

// An Access is the kind of access that a mapping allows.
type Access bool

const (
	ReadOnly  Access = false
	ReadWrite Access = true
)

// A Paging is the size of the pages of a mapping, and the time when its page tables are filled. The
// pages themselves are always reserved when the memory is made.
type Paging struct {
	size    pages.Size
	touched bool
}

// Pagings with pages as the machine is configured.
var (
	Touched   = Paging{touched: true} // page tables are filled when the memory is mapped: no later access faults
	Untouched = Paging{}              // they are filled per page, by the first access to it
)

// In returns p with pages of that size.
func (p Paging) In(s pages.Size) Paging {
	p.size = s
	return p
}

func newMemory(mapping []byte, size int) *Memory {
	m := &Memory{mapping: mapping, bytes: mapping[:size:size]}
	m.refs.Store(1)
	return m
}

// Anonymous returns touched memory that other processes cannot map.
func Anonymous(size int, s pages.Size) (*Memory, error) {
	b, err := s.Map(-1, mappingSize(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("slab: map %d bytes of anonymous memory: %w", size, err)
	}
	tensor.Touch(b, s)
	return newMemory(b, size), nil
}

// Memfd returns memory behind a descriptor ([Memory.File]), which another process can map
// with [Open]. Its size is sealed, its pages are reserved, and it has no name in any
// directory; name is only shown in /proc. a is the access of this process.
func Memfd(name string, size int, a Access, p Paging) (*Memory, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("slab: make memfd %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := reserve(f, "", size, p.size); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, sizeSeals); err != nil {
		f.Close()
		return nil, fmt.Errorf("slab: seal memfd %s: %w", name, err)
	}
	m, err := mapFile(f, size, a, p)
	if err != nil {
		f.Close()
		return nil, err
	}
	m.file = f
	return m, nil
}

// CreateFile returns memory behind a new file at path, with mode 0600. The last Close
// removes the file. CreateFile fails if it exists. The directory should be private,
// because files cannot be sealed.
func CreateFile(path string, size int, p Paging) (*Memory, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("slab: %w", err)
	}
	defer f.Close() // the mapping outlives it
	err = reserve(f, filepath.Dir(path), size, p.size)
	var m *Memory
	if err == nil {
		m, err = mapFile(f, size, ReadWrite, p)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	m.path = path
	return m, nil
}

// OpenFile maps the file at path, which another process made with CreateFile. It fails if
// the file has another size.
func OpenFile(path string, size int, a Access, p Paging) (*Memory, error) {
	flags := os.O_RDONLY
	if a == ReadWrite {
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("slab: %w", err)
	}
	defer f.Close()
	if err := checkSize(f, size); err != nil {
		return nil, fmt.Errorf("slab: open %s: %w", path, err)
	}
	return mapFile(f, size, a, p)
}

// sizeSeals prevent a peer from changing the size. Freeze adds F_SEAL_SEAL, once all
// writable mappings exist.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// Open maps the memory behind a descriptor from another process. It takes ownership of f
// and closes it. It fails unless f has this size and is sealed, because later accesses to
// a memory that has shrunk would raise SIGBUS.
func Open(f *os.File, size int, a Access, p Paging) (*Memory, error) {
	defer f.Close() // the mapping outlives it
	err := checkSize(f, size)
	if err == nil {
		err = checkSeals(f)
	}
	if err != nil {
		return nil, fmt.Errorf("slab: open %s: %w", f.Name(), err)
	}
	return mapFile(f, size, a, p)
}

func checkSize(f *os.File, size int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	if size < 0 || st.Size != int64(mappingSize(size)) {
		return fmt.Errorf("%d bytes announced, %d found: %w", size, st.Size, ErrSize)
	}
	return nil
}

func checkSeals(f *os.File) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSeals, err) // not a memfd
	}
	if seals&sizeSeals != sizeSeals {
		return ErrSeals
	}
	return nil
}

// Freeze forbids new writable mappings of a memfd, in any process, and further seals.
// Existing mappings keep their access. m must come from Memfd.
func (m *Memory) Freeze() error {
	if _, err := unix.FcntlInt(m.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("slab: freeze %s: %w", m.file.Name(), err)
	}
	return nil
}

// mappingSize returns the size to map for size bytes: at least Align, because empty
// mappings are not possible.
func mappingSize(size int) int {
	if size == 0 {
		return Align
	}
	return size
}

// reserveStep is the number of bytes to reserve with one call. Kernels before about Linux
// 6.11 undo a call that a signal interrupts. So a call that takes longer than the time
// between two signals, for example of a CPU profile, would never end.
const reserveStep = 2 << 20

// reserve sets the size of f, a file in dir or a memfd, and reserves its pages. It panics if size is
// negative.
func reserve(f *os.File, dir string, size int, s pages.Size) error {
	if size < 0 {
		panic(fmt.Sprintf("slab: memory of %d bytes", size))
	}
	// Truncate first, because an interrupted fallocate leaves a shorter file.
	if err := f.Truncate(int64(mappingSize(size))); err != nil {
		return fmt.Errorf("slab: size %s to %d bytes: %w", f.Name(), size, err)
	}
	if !s.Fallocates(dir) {
		return populate(f, size, s)
	}
	for at, end := int64(0), int64(mappingSize(size)); at < end; {
		n := min(end-at, reserveStep)
		err := unix.Fallocate(int(f.Fd()), 0, at, n)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("slab: reserve %d bytes of memory for %s: %w", size, f.Name(), err)
		}
		at += n
	}
	return nil
}

// populate reserves pages of that size.
func populate(f *os.File, size int, s pages.Size) error {
	b, err := s.Map(int(f.Fd()), mappingSize(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		err = errors.Join(crash.Guard(func() error { return pages.Populate(b) }), pages.Unmap(b))
	}
	if err != nil {
		return fmt.Errorf("slab: reserve %d bytes of memory for %s in %s pages: %w", size, f.Name(), s, err)
	}
	return nil
}

// mapFile maps f. The caller must close f, before or after using the mapping.
func mapFile(f *os.File, size int, a Access, p Paging) (*Memory, error) {
	prot := unix.PROT_READ
	if a == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	b, err := p.size.Map(int(f.Fd()), mappingSize(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("slab: map %s: %w", f.Name(), err)
	}
	switch {
	case !p.touched:
	case a == ReadWrite:
		tensor.Touch(b, p.size)
	default:
		_ = crash.Guard(func() error { prefault(b); return nil }) // ignored: if the file has shrunk, its first use fails
	}
	return newMemory(b, size), nil
}

// prefault fills the page tables of read-only memory whose pages exist. Each fault maps
// 16 pages, and asking the kernel for all of them takes ten times as long.
//
//go:noinline
func prefault(b []byte) (sum byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		sum += b[i]
	}
	return sum
}

// Protect makes the mapping read-only: from now on, a write is a fault.
func (m *Memory) Protect() error {
	if err := unix.Mprotect(m.mapping, unix.PROT_READ); err != nil {
		return fmt.Errorf("slab: protect: %w", err)
	}
	return nil
}

// Bytes returns the memory itself. It must not be used after the last Close.
func (m *Memory) Bytes() []byte { return m.bytes }

// Len returns the size in bytes.
func (m *Memory) Len() int { return len(m.bytes) }

// File returns the descriptor of a memory from Memfd, to send to another process, or nil
// for other memory. m owns it.
func (m *Memory) File() *os.File { return m.file }

// Keep adds a reference, which needs one more Close. It panics if m is unmapped.
func (m *Memory) Keep() {
	if m.refs.Add(1) <= 1 {
		panic("slab: Keep of unmapped memory")
	}
}

// Close drops a reference. The last Close unmaps the memory, after which any access is a
// fault. It panics if called more often than there are references.
func (m *Memory) Close() error {
	switch n := m.refs.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		panic("slab: memory closed more often than kept")
	}
	err := pages.Unmap(m.mapping)
	m.bytes, m.mapping = nil, nil
	if m.path != "" {
		if e := os.Remove(m.path); !errors.Is(e, os.ErrNotExist) { // its directory may be gone already
			err = errors.Join(err, e)
		}
	}
	if m.file != nil {
		err = errors.Join(err, m.file.Close())
	}
	if err != nil {
		return fmt.Errorf("slab: unmap: %w", err)
	}
	return nil
}
