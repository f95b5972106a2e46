// Package slab keeps tensors in one large block of memory that several
// processes can map, instead of one segment a tensor.
//
//   - A [Memory] is such a block: anonymous, behind a sealed memfd, or behind a
//     named file. Its pages are reserved when it is made, so that a full memory
//     is an error at that time and not a fault later, and touched, so that no round
//     pays for a first touch.
//   - [Packages] are the places of a Memory that holds models, or updates, and nothing
//     else.
//   - A [Pool] allocates tensors of any size in a named Memory, in a ring: 64-byte
//     aligned, upwards, back to zero when the next block does not fit, never into a
//     block that is alive.
//   - A [Handle] says where a block lies. It is what travels to other processes,
//     and what they check before they read.
//   - A [Reader] reads the blocks of another process's named pool.
//   - A [Copier] copies packages between slabs and the heap, and a [CloningServer] copies
//     updates out of them.
//
// A block is reserved, written, published, read and released. There is one
// allocator and one process that publishes; whoever else maps the memory reads
// only, and where the kernel can enforce that, it does.
//
// A memfd is protected by the kernel: its size is sealed, so that it can neither
// shrink under a mapping nor grow, and once the peer has its mapping no other
// process can get one to write to. A file with a name cannot be sealed. It lies in
// a private directory, with mode 0600, and its size is checked when it is mapped,
// but a process of the same user may open it, write to it, and truncate it at any
// time. A page that is gone is a fault, SIGBUS, for whoever touches it next. So
// whatever touches named memory does it inside of crash.Guard, which makes that an
// error with the file's name: the stamps of a pool in this package; bytes of models
// and updates in package trainer, which calls transports and worker functions, in
// package bench, and in the HTTP handlers.
//
// The pool is a ring and has no size classes. The blocks of a session hold one
// model's tensors, which come and go in the same order in every round. So a ring does
// not fragment. Classes would waste what a tensor does not fill: up to half, for 66.6
// MB of tensors between 12 bytes and 49 MB. If blocks are released in another order,
// the pointer skips those that are alive.
//
// A full pool is an error that names need and capacity. Reserving never waits:
// whoever holds the blocks may be waiting for the one that reserves.
package slab

import (
	"errors"
	"fmt"
)

// What can be wrong with a handle, a file or a descriptor that came from
// another process, and with the use of a pool. Errors of this package wrap them.
var (
	ErrBounds     = errors.New("range lies outside the slab")
	ErrAlignment  = errors.New("offset is not a multiple of 64")
	ErrLength     = errors.New("length is not the tensor's")
	ErrStale      = errors.New("handle is stale: its block was released")
	ErrOther      = errors.New("handle is not the one that was given")
	ErrUnknown    = errors.New("handle was never given out")
	ErrInFlight   = errors.New("block is not published yet")
	ErrClosed     = errors.New("pool is closed")
	ErrSeals      = errors.New("descriptor is not sealed against changes of its size")
	ErrSize       = errors.New("size is not what was announced")
	ErrHeader     = errors.New("not a slab of this version")
	ErrNonce      = errors.New("slab belongs to another session")
	ErrNotRegular = errors.New("not a regular file")
	ErrNotOwn     = errors.New("belongs to another user, or lies where others can write")
)

// A FullError says that a block does not fit.
type FullError struct {
	Need     int // bytes, padding included
	Used     int // bytes of all live blocks, padding included
	Capacity int // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("slab: need %d bytes in one piece: %d of %d are in use", e.Need, e.Used, e.Capacity)
}
