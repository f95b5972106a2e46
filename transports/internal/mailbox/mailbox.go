// Package mailbox connects a server's Dispatch and Collect with the requests of workers
// that ask for their jobs. A request for a job waits until the server dispatches one. The
// handler of an upload passes the update to Collect. Nothing polls.
//
// It knows no wire format: gRPC and HTTP handlers call it.
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

// ErrBusy is the error of Take if another request for the lane's job is waiting.
var ErrBusy = errors.New("another request waits for the lane's job")

var errOver = errors.New("the session is over")

// A Lane is the mailbox of one lane. It holds at most one order and one update. An order,
// of the transport's type T, is a job and the other data that its worker needs. A Lane is
// safe for concurrent use.
type Lane[T any] struct {
	orders  chan T
	updates chan Delivery
	closed  chan struct{}

	mu      sync.Mutex
	changed sync.Cond // of mu: parked became true, or the lane was closed
	parked  bool      // guarded by mu: a request is waiting in Take
	order   T         // guarded by mu: the last one dispatched
	state   state     // guarded by mu: of the order's job
	refused error     // guarded by mu: why the job's last upload was refused; it may be retried
}

// A state is the progress of a lane's job.
type state uint8

const (
	collected  state = iota // no job yet, or its update was collected
	dispatched              // no request has taken the order
	taken
	arrived // the update was delivered and not collected
	over    // the lane was closed
)

// A Delivery is the outcome of a job, which Collect returns.
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

// Dispatch makes t available to Take. The server calls it. It returns an error if the
// last job's update was not collected, or if the lane is closed. It never waits.
func (l *Lane[T]) Dispatch(t T) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case collected:
		l.order, l.state, l.refused = t, dispatched, nil
		l.orders <- t // never blocks: put removed the previous order if no request took it
		return nil
	case over:
		return errOver
	}
	return errors.New("the lane holds a job")
}

// Take waits for an order. The handler of a worker's request for a job calls it. It
// returns ErrBusy if another Take is waiting, io.EOF once the lane is closed, or the
// cause of ctx.
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

// become changes the state to next if it is still from.
func (l *Lane[T]) become(next, from state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == from {
		l.state = next
	}
}

// Settle waits until a request waits in Take, the lane is closed, or ctx is done, which is
// an error.
func (l *Lane[T]) Settle(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { // with mu held, so that it cannot come between checking ctx and waiting
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

// Unanswered returns the order that a request took, if its update has not arrived. The answer
// to that request may have been lost, so a worker that asks again gets the same order.
func (l *Lane[T]) Unanswered() (t T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order, l.state == taken
}

// Order returns the order whose update was not collected, if there is one, for handlers to
// check uploads against.
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

// Refused records why the handler of an upload refused the current job's update. The
// worker may send it again. If it does not, [Lane.Explain] reports the reason.
func (l *Lane[T]) Refused(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == dispatched || l.state == taken {
		l.refused = err
	}
}

// Explain adds the reason recorded by Refused, if any, to err, the error of waiting for an
// update.
func (l *Lane[T]) Explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused == nil {
		return err
	}
	return fmt.Errorf("%w (the last update was refused: %.300s)", err, l.refused) // cut, because it may quote a worker's bytes
}

// Deliver passes u to Collect. The handler of an upload calls it. It takes ownership of
// u.Package: if no update is due or the lane is closed, it releases the package and
// returns an error.
func (l *Lane[T]) Deliver(u Delivery) error {
	err := l.put(u)
	if err != nil && u.Package != nil {
		u.Package.Release()
	}
	return err
}

// put stores u if the lane's job has no update yet.
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
	case <-l.orders: // no request has taken the order, and none may take it any more
	default:
	}
	l.state = arrived
	l.updates <- u // never blocks: each job has one update
	return nil
}

// Collect waits for the update of the current job. The server calls it. The caller must
// release the package.
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

// Close makes every Take return io.EOF and every Collect fail, and releases an update
// that was not collected. A second call does nothing.
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
