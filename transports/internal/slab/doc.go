// Package slab stores many tensors in one memory that several processes can map.
//
//   - A [Memory] is such a memory: anonymous, behind a sealed memfd, or behind a named
//     file. Its pages are reserved when it is made, so that a lack of memory is an error
//     then instead of a fault later.
//   - [Packages] divides a Memory into equal places for models or for updates.
//   - A [Pool] allocates tensors of any size in a named Memory, as a ring. Blocks are
//     aligned to 64 bytes. Allocation goes upwards, continues at zero at the end, and
//     never reuses a live block.
//   - A [Handle] is the position of a block. It is sent to other processes, which check
//     it before they read.
//   - A [Reader] reads the blocks of another process's named pool.
//   - A [Copier] copies packages between slabs and the heap, and a [CloningServer] copies
//     updates out of slabs.
//
// A block is reserved, written, published, read and released. One process allocates and
// publishes. Others only read, which the kernel enforces if it can.
//
// The kernel protects a memfd: its size is sealed, and once the peer has mapped it, no
// process can make another writable mapping. A named file cannot be sealed. It is in a
// private directory, has mode 0600, and its size is checked when it is mapped. Still,
// processes of the same user can write to it or truncate it at any time. Access to a page
// that was cut off is a fault, SIGBUS. So all code that touches named memory runs inside
// crash.Guard, which turns a fault into an error with the file's name. It guards a pool's
// stamps in this package, and the bytes of models and updates in packages transports (around
// drivers), trainer (around worker functions), bench and transports/http.
//
// The pool has no size classes, because a session's blocks are one model's tensors, which
// come and go in the same order every round. So a ring does not fragment. Size classes
// would waste up to half of the memory: 66.6 MB of tensors between 12 bytes and 49 MB. If
// blocks are released in another order, allocation skips live blocks.
//
// Reserve never waits, because the holder of the blocks may be waiting for its caller. If
// the pool is full, the error states the need and the capacity.
package slab

import (
	"errors"
	"fmt"
)

// Errors of this package wrap these: problems with a handle, file or descriptor from
// another process, and wrong uses of a pool.
var (
	ErrBounds     = errors.New("range is outside the slab")
	ErrAlignment  = errors.New("offset is not a multiple of 64")
	ErrLength     = errors.New("length is not the tensor's")
	ErrStale      = errors.New("handle is stale: its block was released")
	ErrOther      = errors.New("handle is not the job's")
	ErrUnknown    = errors.New("handle was never given out")
	ErrInFlight   = errors.New("block is not published yet")
	ErrClosed     = errors.New("pool is closed")
	ErrSeals      = errors.New("descriptor is not sealed against changes of its size")
	ErrSize       = errors.New("size is not what was announced")
	ErrHeader     = errors.New("not a slab of this version")
	ErrNonce      = errors.New("slab belongs to another session")
	ErrNotRegular = errors.New("not a regular file")
	ErrNotOwn     = errors.New("belongs to another user, or is in a directory that others can write to")
)

// A FullError is the error of reserving a block that does not fit.
type FullError struct {
	Need     int // bytes, padding included
	Used     int // bytes of all live blocks, padding included
	Capacity int // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("slab: need %d bytes in one piece: %d of %d are in use", e.Need, e.Used, e.Capacity)
}
