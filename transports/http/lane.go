package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/internal/lend"
	"ipcbench/transports/internal/pull"
)

// A lane is the server's end of one worker: a mailbox, the memory that its
// updates arrive in, and what is known about who is at the other end.
type lane struct {
	n    int
	mail *pull.Lane
	bank *lend.Bank

	mu     sync.Mutex
	joined bool            // guarded by mu: a worker has the lane
	conn   *conn           // guarded by mu: its connection, if it keeps one
	err    error           // guarded by mu: why nothing goes through the lane any more
	place  *tensor.Package // guarded by mu: where the update of the job that is out goes; nil while or after it arrives
	answer []byte          // guarded by mu: the encoded job
	left   chan struct{}   // closed when the worker that joined last is gone or was told that the session is over
	drain  bool            // guarded by mu: the next job tells the worker to empty its cache
	cached cacheStats      // guarded by mu: as its last result said
}

// cacheStats say what a worker's cache holds.
type cacheStats struct {
	Tensors int `json:"tensors"`
	Bytes   int `json:"bytes"`
}

var (
	errTaken = errors.New("the lane has a worker")
	errGone  = errors.New("the worker's connection was lost")
	errNoJob = errors.New("no such job is out")

	errStranger = errors.New("the lane's worker has another connection")
)

func newLane(n int, o transports.Options, out *tensor.Ledger) *lane {
	return &lane{
		n: n, mail: pull.NewLane(),
		bank: lend.NewBank(fmt.Sprintf("updates of lane %d", n), o.Up, o.Depth, out),
	}
}

// join gives the lane to the worker at c. c is nil if it keeps no connection.
func (l *lane) join(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return l.err
	case l.joined:
		return errTaken
	case c != nil && !c.bind(l):
		return errGone
	}
	l.joined, l.conn, l.left = true, c, make(chan struct{})
	return nil
}

// leave takes the lane from its worker, which has closed it or was told that
// the session is over. A job that is out cannot be answered any more.
func (l *lane) leave(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.conn != c {
		return errStranger
	}
	if _, out := l.mail.Job(); out && l.joined {
		l.fail(errors.New("the worker left"))
	}
	l.gone()
	return nil
}

// lost is called when c has closed.
func (l *lane) lost(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined && l.conn == c {
		l.fail(errGone)
		l.gone()
	}
}

// hungUp is called when the worker closed the connection on which it waited for
// a job.
func (l *lane) hungUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(errGone)
	l.gone()
}

// gone wakes who waits for the worker to leave. l.mu is held.
func (l *lane) gone() {
	if l.joined {
		l.joined, l.conn = false, nil
		close(l.left)
	}
}

// fail makes the lane useless, and Collect return err if a job is out. l.mu is
// held.
func (l *lane) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	if l.place != nil {
		l.place.Release()
		l.place = nil
	}
	_ = l.mail.Deliver(pull.Update{Err: err}) // an error means that nobody waits
}

// dispatch puts j and its model, as the worker will see them, in the mailbox.
func (l *lane) dispatch(ctx context.Context, j transports.Job, a jobAnswer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	a.Drain = l.drain
	answer, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if _, out := l.mail.Job(); out {
		return l.mail.Dispatch(ctx, j) // which says what is wrong
	}
	place, err := l.bank.Lend()
	if err != nil {
		return err
	}
	l.place, l.answer = place, answer // before the request that is parked wakes
	if err := l.mail.Dispatch(ctx, j); err != nil {
		l.place = nil
		place.Release()
		return err
	}
	l.drain = false
	return nil
}

// take waits for a job, with the request of the worker at c parked, and returns
// it encoded.
func (l *lane) take(ctx context.Context, c *conn) ([]byte, error) {
	l.mu.Lock()
	mine := l.joined && (l.conn == nil || l.conn == c)
	l.mu.Unlock()
	if !mine {
		return nil, errStranger
	}
	_, err := l.mail.Take(ctx)
	if err != nil && ctx.Err() != nil {
		l.hungUp()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answer, err
}

// begin returns the memory for the update of a job, which must be the one that
// is out, and whose update must not be arriving or here already. The caller ends
// with deliver or abandon.
func (l *lane) begin(round, client int) (*tensor.Package, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, out := l.mail.Job()
	if !out || j.Round != round || j.Client != client || l.place == nil {
		return nil, errNoJob
	}
	p := l.place
	l.place = nil
	return p, nil
}

func (l *lane) deliver(p *tensor.Package, c cacheStats) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cached = c
	return l.mail.Deliver(pull.Update{Package: p})
}

// abandon gives p back after half an update has arrived in it.
func (l *lane) abandon(p *tensor.Package, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.Release()
	l.fail(err)
}

// close ends the lane's session: parked requests are answered, and an update
// that was not collected is dropped.
func (l *lane) close() {
	l.mail.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.place != nil {
		l.place.Release()
		l.place = nil
	}
}

// awaitLeave waits until the lane has no worker.
func (l *lane) awaitLeave(ctx context.Context) error {
	l.mu.Lock()
	joined, left := l.joined, l.left
	l.mu.Unlock()
	if !joined {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lane %d: its worker did not leave: %w", l.n, context.Cause(ctx))
	}
}
