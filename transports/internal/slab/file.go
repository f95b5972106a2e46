package slab

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"ipcbench/internal/crash"
)

// A Nonce is a random number in a named pool. Whoever opens the pool by its name and
// finds the nonce that the owner has sent shares memory with the owner, whatever
// hostnames and mount namespaces say.
type Nonce [16]byte

// The header fills the first page of a named pool:
//
//	offset  size
//	     0     8  magic and version
//	     8     8  capacity in bytes of what follows the header
//	    16    16  nonce
//	    32     8  xxh3 of the 32 bytes above
const (
	headerSize  = 4096
	headerUsed  = 40
	headerMagic = "ipcslab\x01"
)

func encodeHeader(b []byte, capacity int, n Nonce) {
	copy(b, headerMagic)
	binary.LittleEndian.PutUint64(b[8:], uint64(capacity))
	copy(b[16:32], n[:])
	binary.LittleEndian.PutUint64(b[32:], xxh3.Hash(b[:32]))
}

// decodeHeader checks the header at the start of a file of size bytes.
func decodeHeader(b []byte, size int64) (capacity int, n Nonce, err error) {
	if len(b) < headerUsed || !bytes.Equal(b[:8], []byte(headerMagic)) {
		return 0, n, ErrHeader
	}
	if binary.LittleEndian.Uint64(b[32:]) != xxh3.Hash(b[:32]) {
		return 0, n, fmt.Errorf("%w: checksum differs", ErrHeader)
	}
	c := binary.LittleEndian.Uint64(b[8:])
	if size < headerSize || c != uint64(size-headerSize) {
		return 0, n, fmt.Errorf("header says %d bytes, file has %d: %w", c, size-headerSize, ErrSize)
	}
	copy(n[:], b[16:32])
	return int(c), n, nil
}

// CreateNamed makes a named memory of size bytes at path: a new file of mode
// 0600 with a header and a nonce before the memory. The last Close removes it.
func CreateNamed(path string, size int) (*Memory, Nonce, error) {
	var n Nonce
	if size <= 0 || size > int(^uint(0)>>1)-headerSize {
		return nil, n, fmt.Errorf("slab: create %s: capacity of %d bytes", path, size)
	}
	m, err := CreateFile(path, headerSize+size, Touched)
	if err != nil {
		return nil, n, err
	}
	rand.Read(n[:]) // never fails
	if err := crash.Guard(func() error { encodeHeader(m.bytes, size, n); return nil }); err != nil {
		return nil, n, errors.Join(fmt.Errorf("slab: create %s: %w", path, err), m.Close())
	}
	m.bytes = m.bytes[headerSize:]
	return m, n, nil
}

// OpenNamed maps the named memory of another process at path, if it holds nonce.
func OpenNamed(path string, nonce Nonce, a Access) (*Memory, error) {
	flags := os.O_RDONLY
	if a == ReadWrite {
		flags = os.O_RDWR
	}
	f, err := openOwn(path, flags)
	if err != nil {
		return nil, fmt.Errorf("slab: open %s: %w", path, err)
	}
	defer f.Close() // the mapping outlives it
	size, err := checkHeader(f, nonce)
	if err != nil {
		return nil, fmt.Errorf("slab: open %s: %w", path, err)
	}
	m, err := mapFile(f, size, a, Touched)
	if err != nil {
		return nil, err
	}
	m.bytes = m.bytes[headerSize:]
	return m, nil
}

// openOwn opens a file that another process of this user has named. To open a device can
// do harm, and to follow a link leads anywhere: so the file is looked at before it is
// opened, in a directory that nobody else can write to.
func openOwn(path string, flags int) (*os.File, error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	var of, st unix.Stat_t
	if err := cmp.Or(unix.Fstat(dir, &of), unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
		return nil, err
	}
	uid := uint32(os.Geteuid())
	switch {
	case of.Uid != uid || st.Uid != uid || of.Mode&0o022 != 0:
		return nil, ErrNotOwn
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, ErrNotRegular
	}
	fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// CreatePool makes a named pool at path, in a memory as CreateNamed makes it.
func CreatePool(path string, capacity int) (*Pool, Nonce, error) {
	m, n, err := CreateNamed(path, capacity)
	if err != nil {
		return nil, n, err
	}
	return newPool(m), n, nil
}

// A Reader reads blocks of a named pool that belongs to another process. It
// maps the pool read-only.
//
// The owner may release a block at any time and write another one there. So a
// block is checked before it is read and again afterwards.
type Reader struct {
	mem    *Memory
	fence  atomic.Uint32
	closed atomic.Bool
}

// OpenReader opens the named pool at path, if it holds nonce.
func OpenReader(path string, nonce Nonce) (*Reader, error) {
	m, err := OpenNamed(path, nonce, ReadOnly)
	if err != nil {
		return nil, err
	}
	return &Reader{mem: m}, nil
}

func checkHeader(f *os.File, nonce Nonce) (size int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	var b [headerUsed]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	capacity, found, err := decodeHeader(b[:], st.Size)
	if err != nil {
		return 0, err
	}
	if found != nonce {
		return 0, ErrNonce
	}
	return headerSize + capacity, nil
}

// View returns the length bytes that h names: not a copy. What was read from
// them counts only if Check(h) still succeeds afterwards.
func (r *Reader) View(h Handle, length int) ([]byte, error) {
	b, err := h.Slice(r.mem.bytes, length)
	if err == nil {
		err = r.Check(h)
	}
	if err != nil {
		return nil, fmt.Errorf("slab: view: %w", err)
	}
	return b, nil
}

// Check reports whether the block that h names is published and not released.
func (r *Reader) Check(h Handle) error {
	if h.Offset < stampSize || h.Offset%Align != 0 || h.Offset > uint64(len(r.mem.bytes)) {
		return ErrBounds
	}
	// An acquiring load alone would let the reads of the block sink below it on
	// processors that reorder loads. A read-modify-write of a word of our own
	// keeps them above.
	r.fence.Add(1)
	if h.Generation == 0 || stampAt(r.mem.bytes, int(h.Offset)-stampSize).Load() != h.Generation {
		return ErrStale
	}
	return nil
}

// Close unmaps the pool. Nobody may look at a view any more. A second call does
// nothing.
func (r *Reader) Close() error {
	if !r.closed.CompareAndSwap(false, true) {
		return nil
	}
	return r.mem.Close()
}
