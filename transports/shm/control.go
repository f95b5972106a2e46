package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"ipcbench/internal/futex"
)

// Errors of the messages in a control area, and of waiting for them.
var (
	errSequence = errors.New("message out of sequence")
	errLength   = errors.New("message length is out of bounds")
	errMessage  = errors.New("message is malformed")
	errGone     = errors.New("the peer is gone")
	errOver     = errors.New("the session is over")
)

// withCause adds why to err, if err is errGone and why is not nil.
func withCause(err, why error) error {
	if why == nil || !errors.Is(err, errGone) {
		return err
	}
	return fmt.Errorf("%w: %w", err, why)
}

// A control area is the mailbox of one direction of one lane: shared memory that
// one side writes and the other maps read-only. It holds at most one message.
//
//	offset  size
//	     0     4  sequence: number of posted messages; also the futex to wait on
//	    64     4  length of the message
//	   128        the message
//
// The reader counts the messages that it has read, so it need not write. The writer may
// overwrite a message, because a job is posted only after the previous update was
// collected, and an update only after its job was received.
const (
	sequenceAt = 0
	lengthAt   = 64
	messageAt  = 128
)

// over replaces the sequence number when the session has ended.
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
	message  []byte // memory for one message
	sent     uint32 // sequence number of the last message
	ring     bool   // the peer sleeps while it waits, so it must be woken
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

// post publishes the n bytes that the caller has written to o.message and wakes the peer.
func (o *outbox) post(n int) error {
	o.length.Store(uint32(n))
	o.sent = after(o.sent)
	o.sequence.Store(o.sent) // makes all earlier writes visible to the reader
	return o.wake()
}

func (o *outbox) wake() error {
	if !o.ring {
		return nil
	}
	return o.sequence.Wake(1)
}

// end tells the peer that no message will follow. A message that the peer has not read
// yet is lost.
func (o *outbox) end() error {
	o.sequence.Store(over)
	return o.wake()
}

// An inbox is the reader's end of a control area.
type inbox struct {
	sequence futex.Word
	length   futex.Word
	message  []byte // memory of the peer, which may change it at any time
	spin     bool
	read     uint32 // sequence number of the last message
	copy     []byte // last result of fetch
	patience patience
}

func newInbox(mem []byte, spin bool) (*inbox, error) {
	sequence, length, message, err := fields(mem)
	return &inbox{sequence: sequence, length: length, message: message, spin: spin}, err
}

// patience is a context that also ends when the peer is gone. It is part of an inbox, so
// that waiting allocates nothing.
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

// abandon ends the current wait and every later one with errGone, unless a message
// has arrived.
func (i *inbox) abandon() {
	i.patience.gone.Store(true)
	_ = i.sequence.Wake(futex.All) // a missed wakeup only costs up to 100 ms: waiters poll
}

// fetch waits for the next message and returns a copy of it, which is valid until the
// next call. A message that arrived before the peer was gone is still returned.
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
	// Read the length once and copy the message before parsing it, because the peer
	// could change either between check and use.
	n := i.length.Load()
	if uint64(n) > uint64(len(i.message)) {
		return nil, fmt.Errorf("%w: %d bytes in %d", errLength, n, len(i.message))
	}
	i.copy = append(i.copy[:0], i.message[:n]...)
	i.read = after(i.read)
	return i.copy, nil
}
