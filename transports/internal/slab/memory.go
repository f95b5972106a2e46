package slab

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Memory is a block of memory that this process has mapped. It is unmapped by
// the last Close: one by its owner and one for every Keep.
type Memory struct {
	bytes    []byte
	mapping  []byte   // what mmap returned, nil for the heap
	file     *os.File // nil if the memory has no descriptor
	path     string   // of a named file that this process made, removed at the end
	writable bool

	owned atomic.Bool  // a Pool allocates in it
	refs  atomic.Int64 // owner and keepers; 0 means unmapped
}

// An Access says what a mapping may be used for.
type Access bool

// The kinds of access.
const (
	ReadOnly  Access = false
	ReadWrite Access = true
)

func newMemory(mapping []byte, size int, a Access) *Memory {
	m := &Memory{mapping: mapping, bytes: mapping[:size:size], writable: a == ReadWrite}
	m.refs.Store(1)
	return m
}

// Heap returns memory from Go's heap: what the race detector can watch.
func Heap(size int) *Memory {
	b := make([]byte, size+Align)
	skip := alignedAt(b)
	m := newMemory(nil, 0, ReadWrite)
	m.bytes = b[skip : skip+size : skip+size]
	return m
}

// Anonymous returns touched memory of this process alone.
func Anonymous(size int) (*Memory, error) {
	b, err := unix.Mmap(-1, 0, whole(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("slab: map %d bytes of anonymous memory: %w", size, err)
	}
	return newMemory(b, size, ReadWrite), nil
}

// Memfd returns touched memory behind a descriptor, which another process can
// map with [Open]. Its size is sealed, its pages are reserved, and it has no
// name in any directory; name is for display in /proc.
func Memfd(name string, size int) (*Memory, error) {
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
	return mapFile(f, size, ReadWrite)
}

// CreateFile returns touched memory behind a new file at path, mode 0600, which
// the last Close removes. It is an error if the file exists. A file cannot be
// sealed: keep it in a private directory.
func CreateFile(path string, size int) (*Memory, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("slab: %w", err)
	}
	err = reserve(f, size)
	var m *Memory
	if err == nil {
		m, err = mapFile(f, size, ReadWrite)
	} else {
		f.Close()
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	m.path = path
	return m, nil
}

// sizeSeals keep a peer from truncating the memory under our feet. F_SEAL_SEAL
// comes with Freeze: once nobody else needs a mapping to write to.
const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// Open maps the memory behind a descriptor that came from another process, and
// takes f. Seals and size are checked first: a descriptor that could shrink
// would turn a later access into a SIGBUS.
func Open(f *os.File, size int, a Access) (*Memory, error) {
	if err := checkSealed(f, size); err != nil {
		f.Close()
		return nil, fmt.Errorf("slab: open %s: %w", f.Name(), err)
	}
	return mapFile(f, size, a)
}

func checkSealed(f *os.File, size int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ErrNotRegular
	}
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSeals, err) // not a memfd
	}
	if seals&sizeSeals != sizeSeals {
		return ErrSeals
	}
	if size < 0 || st.Size != int64(whole(size)) {
		return fmt.Errorf("%d bytes announced, %d found: %w", size, st.Size, ErrSize)
	}
	return nil
}

// Freeze forbids new writable mappings and any further seal. Mappings that
// exist keep their access.
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

// reserve gives f its size and has the kernel set its pages aside.
func reserve(f *os.File, size int) error {
	if size < 0 {
		panic(fmt.Sprintf("slab: memory of %d bytes", size))
	}
	// Truncate comes first since an interrupted fallocate leaves a shorter file.
	if err := f.Truncate(int64(whole(size))); err != nil {
		return fmt.Errorf("slab: size %s to %d bytes: %w", f.Name(), size, err)
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, int64(whole(size)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("slab: reserve %d bytes of memory for %s: %w", size, f.Name(), err)
		}
		return nil
	}
}

// mapFile maps f and takes it.
func mapFile(f *os.File, size int, a Access) (*Memory, error) {
	prot := unix.PROT_READ
	if a == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	// The page tables are filled in here, so that no later access faults. The pages
	// themselves were reserved.
	b, err := unix.Mmap(int(f.Fd()), 0, whole(size), prot, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("slab: map %s: %w", f.Name(), err)
	}
	m := newMemory(b, size, a)
	m.file = f
	return m, nil
}

// Bytes returns the memory: not a copy. It may be used until the last Close.
func (m *Memory) Bytes() []byte { return m.bytes }

// Len returns the size in bytes.
func (m *Memory) Len() int { return len(m.bytes) }

// File returns the descriptor to hand to another process, nil if there is none.
// It belongs to m.
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
	var err error
	if m.mapping != nil {
		err = unix.Munmap(m.mapping)
	}
	m.bytes, m.mapping = nil, nil
	if m.path != "" {
		err = errors.Join(err, os.Remove(m.path))
	}
	if m.file != nil {
		err = errors.Join(err, m.file.Close())
	}
	if err != nil {
		return fmt.Errorf("slab: unmap: %w", err)
	}
	return nil
}
