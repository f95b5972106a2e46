// Package mailbox is where the workers of a transport ask for their jobs: a request
// parks until the server dispatches one, and an upload's handler hands the update to
// the server's Collect. Nothing polls.
//
// It knows no wire format: the gRPC and HTTP transports call it from their handlers.
// What is dispatched is the family's own: a job, and what the worker has to know
// besides.
package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// ErrBusy means that a second worker asked for a lane that is taken.
var ErrBusy = errors.New("lane is already asked for")

var errOver = errors.New("the session is over")

// A Lane is the mailbox of one lane. At most one job and one update are in it. An
// order T is what is dispatched: a job as it goes out.
type Lane[T any] struct {
	orders  chan T
	updates chan Delivery
	closed  chan struct{}

	mu      sync.Mutex
	changed sync.Cond // of mu: parked became true, or the lane was closed
	parked  bool      // guarded by mu: a request is waiting in Take
	order   T         // guarded by mu: that was dispatched last
	state   state     // guarded by mu: of its job
	refused error     // guarded by mu: why its last update was not taken, which may come again
}

// A state is how far the job of a lane is.
type state uint8

const (
	collected  state = iota // there is none, or its update was collected
	dispatched              // no request has taken it
	taken
	arrived // its update is in
	over    // the lane is closed
)

// A Delivery is what Collect waits for.
type Delivery struct {
	Package   *tensor.Package
	Delivered driver.Delivered
	Err       error // the worker's upload failed for good; Package is nil
}

// NewLane returns an empty mailbox.
func NewLane[T any]() *Lane[T] {
	l := &Lane[T]{
		orders:  make(chan T, 1),
		updates: make(chan Delivery, 1),
		closed:  make(chan struct{}),
	}
	l.changed.L = &l.mu
	return l
}

// Dispatch puts an order in; the server calls it, when the update of the one before was
// collected.
func (l *Lane[T]) Dispatch(t T) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case collected:
		l.order, l.state, l.refused = t, dispatched, nil
		l.orders <- t // there is room: put has removed the one before if nobody took it
		return nil
	case over:
		return errOver
	}
	return errors.New("the lane holds a job")
}

// Take waits for an order; the handler of a worker's request calls it. It returns
// io.EOF once the lane is closed.
func (l *Lane[T]) Take(ctx context.Context) (t T, err error) {
	l.mu.Lock()
	if l.parked {
		l.mu.Unlock()
		return t, ErrBusy
	}
	l.parked = true
	l.changed.Broadcast()
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.parked = false
		l.mu.Unlock()
	}()
	select {
	case t := <-l.orders:
		l.become(taken, dispatched)
		return t, nil
	case <-l.closed:
		return t, io.EOF
	case <-ctx.Done():
		return t, context.Cause(ctx)
	}
}

// become changes the state from one to the next, unless something else came between.
func (l *Lane[T]) become(next, from state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == from {
		l.state = next
	}
}

// Settle waits until a request waits in Take, or the lane is closed.
func (l *Lane[T]) Settle(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { // not between the look at ctx and the wait
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.parked && l.state != over {
		if ctx.Err() != nil {
			return fmt.Errorf("its worker has not asked for a job: %w", context.Cause(ctx))
		}
		l.changed.Wait()
	}
	return nil
}

// Again returns the order that a request took and whose update has not arrived. The
// answer to that request may have been lost: a worker that asks once more gets the
// same one.
func (l *Lane[T]) Again() (t T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order, l.state == taken
}

// Order returns that of the job that is out. A handler asks it to check an upload against.
func (l *Lane[T]) Order() (t T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order, l.state != collected && l.state != over
}

// Over reports whether the lane was closed.
func (l *Lane[T]) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == over
}

// Refused keeps why the update of the job that is out was not taken; the handler of an
// upload calls it. The worker may send it again. If nothing comes, [Lane.Explain] says it.
func (l *Lane[T]) Refused(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == dispatched || l.state == taken {
		l.refused = err
	}
}

// Explain adds to err, of who waits for an update in vain, why the last one was refused.
func (l *Lane[T]) Explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == nil {
		return err
	}
	return fmt.Errorf("%w (the last update was refused: %.300s)", err, l.refused) // which may quote a worker at length
}

// Deliver hands the update to Collect; the handler of an upload calls it. If
// nobody waits for an update the package is released and the error says so.
func (l *Lane[T]) Deliver(u Delivery) error {
	err := l.put(u)
	if err != nil && u.Package != nil {
		u.Package.Release()
	}
	return err
}

// put puts the update in if the job is out and has none.
func (l *Lane[T]) put(u Delivery) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case dispatched, taken:
	case over:
		return errOver
	default:
		return errors.New("update for a job that is not out")
	}
	select {
	case <-l.orders: // nobody has taken it, and nobody is to
	default:
	}
	l.state = arrived
	l.updates <- u // there is room: one job, one update
	return nil
}

// Collect waits for the update of the job that is out; the server calls it.
func (l *Lane[T]) Collect(ctx context.Context) (*tensor.Package, driver.Delivered, error) {
	select {
	case u := <-l.updates:
		l.become(collected, arrived)
		return u.Package, u.Delivered, u.Err
	case <-l.closed:
		return nil, driver.Delivered{}, errOver
	case <-ctx.Done():
		return nil, driver.Delivered{}, l.Explain(context.Cause(ctx))
	}
}

// Close makes every Take return io.EOF and every Collect fail. An update that
// nobody collected is released.
func (l *Lane[T]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == over {
		return
	}
	l.state = over
	l.changed.Broadcast()
	close(l.closed)
	select {
	case u := <-l.updates:
		if u.Package != nil {
			u.Package.Release()
		}
	default:
	}
}
