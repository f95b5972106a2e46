package slab

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ipcbench/internal/crash"
	"ipcbench/tensor"
)

// A Memory is a block of memory that this process has mapped. It is unmapped by
// the last Close: one by its owner and one for every Keep.
type Memory struct {
	bytes   []byte
	mapping []byte   // what mmap returned
	file    *os.File // of a memfd that this process made, nil otherwise
	path    string   // of a named file that this process made, removed at the end

	refs atomic.Int64 // owner and keepers; 0 means unmapped
}

// An Access says what a mapping may be used for.
type Access bool

// The kinds of access.
const (
	ReadOnly  Access = false
	ReadWrite Access = true
)

// A Paging says when the page tables of a mapping are filled in. The pages
// themselves are always reserved when the memory is made.
type Paging bool

// The kinds of paging.
const (
	Touched   Paging = true  // at once: no later access faults
	Untouched Paging = false // page by page, by the first access to each
)

func newMemory(mapping []byte, size int) *Memory {
	m := &Memory{mapping: mapping, bytes: mapping[:size:size]}
	m.refs.Store(1)
	return m
}

// Anonymous returns touched memory of this process alone.
func Anonymous(size int) (*Memory, error) {
	b, err := unix.Mmap(-1, 0, whole(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("slab: map %d bytes of anonymous memory: %w", size, err)
	}
	tensor.Touch(b)
	return newMemory(b, size), nil
}

// Memfd returns memory behind a descriptor, which another process can map with
// [Open]. Its size is sealed, its pages are reserved, and it has no name in any
// directory; name is for display in /proc. The access is this process's own.
func Memfd(name string, size int, a Access, p Paging) (*Memory, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("slab: make memfd %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := reserve(f, size); err != nil {
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

// CreateFile returns memory behind a new file at path, mode 0600, which the last
// Close removes. It is an error if the file exists. A file cannot be sealed: keep
// it in a private directory.
func CreateFile(path string, size int, p Paging) (*Memory, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("slab: %w", err)
	}
	defer f.Close() // the mapping outlives it
	err = reserve(f, size)
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

// OpenFile maps the file at path that another process made with CreateFile, if
// it has the given size.
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

// sizeSeals keep a peer from truncating the memory under our feet. F_SEAL_SEAL
// comes with Freeze: once nobody else needs a mapping to write to.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// Open maps the memory behind a descriptor that came from another process, and
// takes f. Seals and size are checked first: a descriptor that could shrink
// would turn a later access into a SIGBUS.
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
	if size < 0 || st.Size != int64(whole(size)) {
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

// Freeze forbids new writable mappings of a memfd, in any process, and any
// further seal. Mappings that exist keep their access.
func (m *Memory) Freeze() error {
	if _, err := unix.FcntlInt(m.file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("slab: freeze %s: %w", m.file.Name(), err)
	}
	return nil
}

// whole returns the size of the mapping for size bytes: an empty one does not
// exist.
func whole(size int) int {
	if size == 0 {
		return Align
	}
	return size
}

// reserveStep is how many bytes are reserved with one call. Kernels before Linux
// 6.11 or so undo a call that a signal interrupts: one that takes longer than the
// time between two signals, of a CPU profile say, would never end.
const reserveStep = 2 << 20

// reserve gives f its size and has the kernel set its pages aside.
func reserve(f *os.File, size int) error {
	if size < 0 {
		panic(fmt.Sprintf("slab: memory of %d bytes", size))
	}
	// Truncate comes first since an interrupted fallocate leaves a shorter file.
	if err := f.Truncate(int64(whole(size))); err != nil {
		return fmt.Errorf("slab: size %s to %d bytes: %w", f.Name(), size, err)
	}
	for at, end := int64(0), int64(whole(size)); at < end; {
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

// mapFile maps f, which the caller closes.
func mapFile(f *os.File, size int, a Access, p Paging) (*Memory, error) {
	prot := unix.PROT_READ
	if a == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(int(f.Fd()), 0, whole(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("slab: map %s: %w", f.Name(), err)
	}
	switch {
	case p == Untouched:
	case a == ReadWrite:
		tensor.Touch(b)
	default:
		_ = crash.Guard(func() error { look(b); return nil }) // a file may have shrunk: whoever uses it finds out
	}
	return newMemory(b, size), nil
}

// look fills in the page tables of memory that is only read, whose pages are there: each
// fault brings 16 pages, and asking the kernel for all of them takes ten times as long.
//
//go:noinline
func look(b []byte) (sum byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		sum += b[i]
	}
	return sum
}

// Protect takes this process's own right to write to the mapping: an attempt is
// a fault from now on.
func (m *Memory) Protect() error {
	if err := unix.Mprotect(m.mapping, unix.PROT_READ); err != nil {
		return fmt.Errorf("slab: protect: %w", err)
	}
	return nil
}

// Bytes returns the memory: not a copy. It may be used until the last Close.
func (m *Memory) Bytes() []byte { return m.bytes }

// Len returns the size in bytes.
func (m *Memory) Len() int { return len(m.bytes) }

// File returns the descriptor of a memfd, to hand to another process, and nil
// for other memory. It belongs to m.
func (m *Memory) File() *os.File { return m.file }

// Keep holds the memory until one more Close. It panics if m is unmapped
// already.
func (m *Memory) Keep() {
	if m.refs.Add(1) <= 1 {
		panic("slab: Keep of unmapped memory")
	}
}

// Close lets go of the memory. The last Close unmaps it; whoever looks at it
// later is killed by a fault.
func (m *Memory) Close() error {
	switch n := m.refs.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		panic("slab: memory closed more often than kept")
	}
	err := unix.Munmap(m.mapping)
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
