package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"ipcbench/internal/futex"
)

// What can be wrong with what a peer left in its control area.
var (
	errSequence = errors.New("message out of sequence")
	errLength   = errors.New("message length is out of bounds")
	errMessage  = errors.New("message is malformed")
	errGone     = errors.New("the peer is gone")
	errOver     = errors.New("the session is over")
)

// withCause adds to err why the peer is gone, if that is what it says.
func withCause(err, why error) error {
	if why == nil || !errors.Is(err, errGone) {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// A control area is the mailbox of one direction of one lane: shared memory that
// one side writes and the other maps read-only. It holds at most one message,
// since at most one job is outstanding.
//
//	offset  size
//	     0     4  sequence: how many messages were posted; the bell (futex)
//	    64     4  length of the message
//	   128        the message
//
// The reader knows how many messages it has read; there is nothing that it has
// to write. That a message may be overwritten follows from the protocol: a job
// is posted when the update before it has been collected, an update when its job
// was received.
const (
	sequenceAt = 0
	lengthAt   = 64
	messageAt  = 128
)

// over in place of a sequence number means that the session has ended.
const over = math.MaxUint32

// after returns the sequence number that follows n.
func after(n uint32) uint32 {
	if n+1 == over {
		return 0
	}
	return n + 1
}

// An outbox is the writer's end of a control area.
type outbox struct {
	sequence futex.Word
	length   futex.Word
	message  []byte // room for one
	sent     uint32
	ring     bool // the peer sleeps while it waits
}

func newOutbox(mem []byte, ring bool) (*outbox, error) {
	sequence, length, message, err := fields(mem)
	return &outbox{sequence: sequence, length: length, message: message, ring: ring}, err
}

func fields(mem []byte) (sequence, length futex.Word, message []byte, err error) {
	if len(mem) < messageAt {
		return sequence, length, nil, fmt.Errorf("control area of %d bytes", len(mem))
	}
	if sequence, err = futex.At(mem, sequenceAt); err == nil {
		length, err = futex.At(mem, lengthAt)
	}
	return sequence, length, mem[messageAt:], err
}

// post makes the first n bytes of o.message, which the caller has written, the
// next message, and wakes the peer.
func (o *outbox) post(n int) error {
	o.length.Store(uint32(n))
	o.sent = after(o.sent)
	o.sequence.Store(o.sent) // which makes everything before it visible
	return o.wake()
}

func (o *outbox) wake() error {
	if !o.ring {
		return nil
	}
	return o.sequence.Wake(1)
}

// end lets the peer know that no message will follow. A message that it has not yet
// seen is lost.
func (o *outbox) end() error {
	o.sequence.Store(over)
	return o.wake()
}

// An inbox is the reader's end of a control area.
type inbox struct {
	sequence futex.Word
	length   futex.Word
	message  []byte // the peer's, which may change at any time
	spin     bool
	read     uint32
	copy     []byte // what fetch returned last
	patience patience
}

func newInbox(mem []byte, spin bool) (*inbox, error) {
	sequence, length, message, err := fields(mem)
	return &inbox{sequence: sequence, length: length, message: message, spin: spin}, err
}

// patience is a context that also ends when the peer is gone. An inbox keeps
// one, so that waiting allocates nothing.
type patience struct {
	context.Context
	gone atomic.Bool
}

// Err implements [context.Context].
func (p *patience) Err() error {
	if err := p.Context.Err(); err != nil {
		return err
	}
	if p.gone.Load() {
		return errGone
	}
	return nil
}

// abandon makes the wait that is going on, and every later one, end.
func (i *inbox) abandon() {
	i.patience.gone.Store(true)
	_ = i.sequence.Wake(futex.All) // the waiter would look within 100 ms anyway
}

// fetch waits for the next message and returns a copy of it, which is good until
// the next call. What arrived before the peer went is still returned.
func (i *inbox) fetch(ctx context.Context) ([]byte, error) {
	i.patience.Context = ctx
	var err error
	if i.spin {
		err = i.sequence.Spin(&i.patience, i.read)
	} else if !i.sequence.Linger(i.read) {
		err = i.sequence.Wait(&i.patience, i.read)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	switch n := i.sequence.Load(); n {
	case over:
		return nil, errOver
	case after(i.read):
	default:
		return nil, fmt.Errorf("%w: number %d after %d", errSequence, n, i.read)
	}
	// The length is read once and the message is copied before anybody looks at
	// it: the peer could change either between a check and a use.
	n := i.length.Load()
	if uint64(n) > uint64(len(i.message)) {
		return nil, fmt.Errorf("%w: %d bytes in %d", errLength, n, len(i.message))
	}
	i.copy = append(i.copy[:0], i.message[:n]...)
	i.read = after(i.read)
	return i.copy, nil
}
