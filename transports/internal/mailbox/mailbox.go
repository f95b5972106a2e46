// Package mailbox is the mailbox of transports whose workers ask for their jobs:
// a request parks until the server dispatches one, and an upload's handler
// hands the update to the server's Collect. Nothing polls.
//
// It knows no wire format: the gRPC and HTTP transports call it from their
// handlers.
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

// A Lane is the mailbox of one lane. At most one job and one update are in it.
type Lane struct {
	jobs    chan driver.Job
	updates chan Update
	closed  chan struct{}
	once    sync.Once

	mu         sync.Mutex
	changed    sync.Cond  // of mu: parked or shut became true
	parked     bool       // guarded by mu: a request is waiting in Take
	dispatched bool       // guarded by mu: a job is out whose update was not collected
	taken      bool       // guarded by mu: a request took that job
	arrived    bool       // guarded by mu: its update is in, or was
	shut       bool       // guarded by mu: closed is closed
	job        driver.Job // guarded by mu: that job
}

// An Update is what Collect waits for.
type Update struct {
	Package *tensor.Package
	Err     error // the worker's upload failed for good; Package is nil
}

// NewLane returns an empty mailbox.
func NewLane() *Lane {
	l := &Lane{
		jobs:    make(chan driver.Job, 1),
		updates: make(chan Update, 1),
		closed:  make(chan struct{}),
	}
	l.changed.L = &l.mu
	return l
}

// Dispatch puts a job in; the server calls it.
func (l *Lane) Dispatch(ctx context.Context, j driver.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dispatched {
		return fmt.Errorf("client %d before the update of client %d was collected", j.Client, l.job.Client)
	}
	if l.shut {
		return errors.New("the session is over")
	}
	select {
	case l.jobs <- j:
		l.dispatched, l.job = true, j
		l.taken, l.arrived = false, false
		return nil
	default:
		return fmt.Errorf("client %d: the lane holds a job", j.Client)
	}
}

// Take waits for a job; the handler of a worker's request calls it. It returns
// io.EOF once the lane is closed.
func (l *Lane) Take(ctx context.Context) (driver.Job, error) {
	l.mu.Lock()
	if l.parked {
		l.mu.Unlock()
		return driver.Job{}, ErrBusy
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
	case j := <-l.jobs:
		l.mu.Lock()
		l.taken = true
		l.mu.Unlock()
		return j, nil
	case <-l.closed:
		return driver.Job{}, io.EOF
	case <-ctx.Done():
		return driver.Job{}, context.Cause(ctx)
	}
}

// Settle waits until a request waits in Take, or the lane is closed.
func (l *Lane) Settle(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { // not between the look at ctx and the wait
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.parked && !l.shut {
		if ctx.Err() != nil {
			return fmt.Errorf("its worker has not asked for a job: %w", context.Cause(ctx))
		}
		l.changed.Wait()
	}
	return nil
}

// Again returns the job that a request took and whose update has not arrived.
// The answer to that request may have been lost: a worker that asks once more
// gets the same job.
func (l *Lane) Again() (j driver.Job, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.job, l.dispatched && l.taken && !l.arrived && !l.shut
}

// Job returns the job that is out. A handler asks it to check an upload against.
func (l *Lane) Job() (j driver.Job, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.job, l.dispatched
}

// Deliver hands the update to Collect; the handler of an upload calls it. If
// nobody waits for an update the package is released and the error says so.
func (l *Lane) Deliver(u Update) error {
	if l.put(u) {
		return nil
	}
	if u.Package != nil {
		u.Package.Release()
	}
	return errors.New("update for a job that is not out")
}

// put puts the update in if the job is out and has none.
func (l *Lane) put(u Update) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dispatched || l.arrived || l.shut {
		return false
	}
	l.arrived = true
	l.updates <- u // there is room: one job, one update
	return true
}

// Collect waits for the update of the job that is out; the server calls it.
func (l *Lane) Collect(ctx context.Context) (*tensor.Package, error) {
	if _, ok := l.Job(); !ok {
		return nil, errors.New("no job was dispatched")
	}
	select {
	case u := <-l.updates:
		l.mu.Lock()
		l.dispatched = false
		l.mu.Unlock()
		return u.Package, u.Err
	case <-l.closed:
		return nil, errors.New("the session is over")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close makes every Take return io.EOF and every Collect fail. An update that
// nobody collected is released.
func (l *Lane) Close() {
	l.once.Do(func() {
		l.mu.Lock()
		l.shut = true
		l.changed.Broadcast()
		l.mu.Unlock()
		close(l.closed)
		select {
		case u := <-l.updates:
			if u.Package != nil {
				u.Package.Release()
			}
		default:
		}
	})
}
