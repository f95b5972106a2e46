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
	"ipcbench/tensor/pages"
)

// A Nonce is a random number in a named memory. A process that opens the memory by name
// and finds the nonce that its owner sent shares it with the owner, regardless of
// hostnames and mount namespaces.
type Nonce [16]byte

// The header is the first page of a named memory:
//
//	offset  size
//	     0     8  magic and version
//	     8     8  bytes after the header
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

// decodeHeader reads and checks the header b of a file of size bytes.
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

// CreateNamed makes a touched memory of size bytes in a new file at path, mode 0600, behind
// a header with the returned nonce. The last Close removes the file.
func CreateNamed(path string, size int, s pages.Size) (*Memory, Nonce, error) {
	var n Nonce
	if size <= 0 || size > int(^uint(0)>>1)-headerSize {
		return nil, n, fmt.Errorf("slab: create %s: capacity of %d bytes", path, size)
	}
	m, err := CreateFile(path, headerSize+size, Touched.In(s))
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

// OpenNamed maps the named memory of another process at path. It fails unless the memory
// has this nonce and belongs to this user.
func OpenNamed(path string, nonce Nonce, a Access, s pages.Size) (*Memory, error) {
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
	m, err := mapFile(f, size, a, Touched.In(s))
	if err != nil {
		return nil, err
	}
	m.bytes = m.bytes[headerSize:]
	return m, nil
}

// openOwn opens a file whose path came from another process of this user. Opening a device
// can do harm, and links can lead anywhere. So it first checks that the file is regular
// and, with its directory, belongs to this user, and that no other user can write to the
// directory.
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

// CreatePool makes a pool in a new memory from CreateNamed.
func CreatePool(path string, capacity int, s pages.Size) (*Pool, Nonce, error) {
	m, n, err := CreateNamed(path, capacity, s)
	if err != nil {
		return nil, n, err
	}
	return newPool(m), n, nil
}

// A Reader reads blocks of another process's named pool, which it maps read-only.
//
// The owner may release a block and write another one there at any time. So a block must
// be checked before and after it is read: see View.
type Reader struct {
	mem    *Memory
	fence  atomic.Uint32
	closed atomic.Bool
}

// OpenReader opens the named pool at path like OpenNamed.
func OpenReader(path string, nonce Nonce, s pages.Size) (*Reader, error) {
	m, err := OpenNamed(path, nonce, ReadOnly, s)
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

// View returns the length bytes that h names, not a copy, after checking h. Data read from
// them is valid only if Check(h) succeeds afterwards.
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

// Check returns an error unless the block that h names is published and not released.
func (r *Reader) Check(h Handle) error {
	if h.Offset < stampSize || h.Offset%Align != 0 || h.Offset > uint64(len(r.mem.bytes)) {
		return ErrBounds
	}
	// After an acquiring load alone, processors that reorder loads could still do earlier
	// reads of the block. A read-modify-write of a private word before it prevents that.
	r.fence.Add(1)
	if h.Generation == 0 || stampAt(r.mem.bytes, int(h.Offset)-stampSize).Load() != h.Generation {
		return ErrStale
	}
	return nil
}

// Close unmaps the pool. Views must not be used any more. A second call does nothing.
func (r *Reader) Close() error {
	if !r.closed.CompareAndSwap(false, true) {
		return nil
	}
	return r.mem.Close()
}
