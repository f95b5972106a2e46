package http

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/lend"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

// A lane is the server's end of one worker: a mailbox, the memory that its
// updates arrive in, and what is known about who is at the other end.
type lane struct {
	n      int
	o      driver.Options
	mail   *mailbox.Lane
	ledger *tensor.Ledger // updates lent to the server's user, and those that are arriving on the heap
	slab   *laneSlab      // nil without shared memory

	mu        sync.Mutex
	joined    bool                // guarded by mu: a worker has the lane
	conn      *conn               // guarded by mu: its connection, if it keeps one
	challenge [challengeSize]byte // guarded by mu: what it writes to the lane's slab to prove that it can
	local     bool                // guarded by mu: it has proved that
	left      chan struct{}       // guarded by mu: closed when it is gone or was told that the session is over

	err     error            // guarded by mu: why nothing goes through the lane any more
	bank    *lend.Bank       // guarded by mu: heap memory for updates; nil until an update has no other place
	awaited bool             // guarded by mu: the update of the job that is out has not begun to arrive
	place   *tensor.Package  // guarded by mu: heap memory for it; nil if it is to come through the slab
	issued  slab.Handle      // guarded by mu: block for it, or for a later one if it came another way; zero if there is none
	reason  string           // guarded by mu: why there is no block
	answer  []byte           // guarded by mu: the job that is out, encoded
	drain   bool             // guarded by mu: the next job tells the worker to empty its cache
	cached  store.CacheStats // guarded by mu: as its last result said
}

const challengeSize = 16

var (
	errTaken    = errors.New("the lane has a worker")
	errGone     = errors.New("the worker's connection was lost")
	errLeft     = errors.New("the worker left")
	errNoJob    = errors.New("no such job is out")
	errStranger = errors.New("the lane's worker has another connection")
	errNoProof  = errors.New("the lane's slab does not hold the challenge")
)

func newLane(n int, o driver.Options, ledger *tensor.Ledger, slab *laneSlab) *lane {
	l := &lane{n: n, o: o, mail: mailbox.NewLane(), ledger: ledger, slab: slab}
	if slab == nil {
		l.bank = l.newBank() // before the first job
	}
	return l
}

func (l *lane) newBank() *lend.Bank {
	return lend.NewBank(fmt.Sprintf("updates of lane %d", l.n), l.o.Up, l.o.Depth, l.ledger)
}

// join gives the lane to the worker at c. c is nil if it keeps no connection.
func (l *lane) join(c *conn) (a joinAnswer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return a, l.err
	case l.joined:
		return a, errTaken
	case c != nil && !c.bind(l):
		return a, errGone
	}
	l.joined, l.conn, l.left = true, c, make(chan struct{})
	if l.slab != nil {
		rand.Read(l.challenge[:]) // never fails
	}
	// The challenge is written to where the first update lies. One that the worker
	// before has sent may still be read: then the new one gets no part in the slab.
	if l.slab != nil && l.ledger.Out() == 0 {
		if err := l.slab.permit(modeWriter); err != nil {
			l.gone()
			return a, err
		}
		a.Updates, a.Challenge = l.slab.ref, hex.EncodeToString(l.challenge[:])
	}
	return a, nil
}

// prove makes the worker at c a local one, if it could write the challenge to
// where the server finds it. It has mapped the slab then, and nobody else may.
func (l *lane) prove(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.joined || l.conn == nil || l.conn != c:
		return errStranger
	case l.slab == nil || l.local:
		return errNoProof
	}
	if mem := l.slab.updates.Memory().Bytes(); len(mem) < challengeSize ||
		subtle.ConstantTimeCompare(mem[:challengeSize], l.challenge[:]) == 0 {
		return errNoProof
	}
	if err := l.slab.permit(modeReaders); err != nil {
		return err
	}
	l.local = true
	return nil
}

// leave takes the lane from the worker at c, which has closed it or was told
// that the session is over. A job that is out cannot be answered any more.
func (l *lane) leave(c *conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.conn != c {
		return errStranger
	}
	if _, out := l.mail.Job(); out && l.joined {
		l.fail(errLeft)
	}
	l.gone()
	return nil
}

// lost is called when c has closed, or c's request for a job was given up.
func (l *lane) lost(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isWorker(c) {
		l.fail(errGone)
		l.gone()
	}
}

// gone wakes who waits for the worker to leave. l.mu is held.
func (l *lane) gone() {
	if l.joined {
		l.joined, l.conn, l.local = false, nil, false
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
	l.forget()
	_ = l.mail.Deliver(mailbox.Update{Err: err}) // an error means that nobody waits
}

// forget gives up the heap memory of an update that does not come. l.mu is held.
func (l *lane) forget() {
	l.awaited = false
	if l.place != nil {
		l.place.Release()
		l.place = nil
	}
}

// dispatch puts j and its model, as the worker will see them, in the mailbox.
func (l *lane) dispatch(ctx context.Context, j driver.Job, a jobAnswer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if _, out := l.mail.Job(); out {
		return l.mail.Dispatch(ctx, j) // which says what is wrong
	}
	if out := l.ledger.Out(); out >= l.o.Depth {
		return fmt.Errorf("%d updates are out, which is the session's depth", out)
	}
	err := l.makeRoom(&a)
	if err == nil {
		a.Drain = l.drain
		l.answer, err = json.Marshal(a) // before the request that is parked wakes
	}
	if err == nil {
		l.awaited = true
		err = l.mail.Dispatch(ctx, j)
	}
	if err != nil {
		l.forget()
		return err
	}
	l.drain = false
	return nil
}

// makeRoom finds a place for the update of the job a. l.mu is held.
func (l *lane) makeRoom(a *jobAnswer) error {
	switch {
	case l.slab == nil:
		l.reason = store.Off
	case !l.local:
		l.reason = store.Remote
	case l.issued == slab.Handle{}:
		h, _, err := l.slab.updates.Reserve()
		if isFull(err) {
			l.reason = store.Full
		} else if err != nil {
			return err
		}
		l.issued = h
	}
	if l.local && l.issued != (slab.Handle{}) {
		a.Update, l.reason = store.EncodeHandle(l.issued), store.Remote // what it would be if it came another way
		return nil
	}
	return l.lendHeap()
}

// lendHeap makes heap memory the place of the next update. l.mu is held.
func (l *lane) lendHeap() (err error) {
	if l.bank == nil {
		l.bank = l.newBank()
	}
	l.place, err = l.bank.Lend()
	return err
}

// isWorker reports whether c may be the connection of the lane's worker. l.mu is
// held.
func (l *lane) isWorker(c *conn) bool { return l.joined && (l.conn == nil || l.conn == c) }

// take waits for a job, with the request of the worker at c parked, and returns
// it encoded.
func (l *lane) take(ctx context.Context, c *conn) ([]byte, error) {
	l.mu.Lock()
	mine := l.isWorker(c)
	l.mu.Unlock()
	if !mine {
		return nil, errStranger
	}
	_, err := l.mail.Take(ctx)
	if err != nil && ctx.Err() != nil {
		l.lost(c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answer, err
}

// begin returns the memory of an update, which must be that of the job that is out
// and must not have begun to arrive, and the reason why it does not come through
// the slab, if it does not. c must be the worker's. The caller ends with deliver or
// abandon.
func (l *lane) begin(c *conn, u upload) (p *tensor.Package, reason string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, out := l.mail.Job()
	switch {
	case !l.isWorker(c):
		return nil, "", errStranger
	case !out || !l.awaited || j.Round != u.Round || j.Client != u.Client:
		return nil, "", errNoJob
	}
	if u.shared {
		p, err = l.fromSlab(u.handle)
	} else {
		if l.place == nil {
			err = l.lendHeap()
		}
		p, l.place, reason = l.place, nil, l.reason
	}
	if err == nil {
		l.awaited = false
	}
	return p, reason, err
}

// fromSlab returns the update in the block that was issued for it. l.mu is held.
func (l *lane) fromSlab(h slab.Handle) (*tensor.Package, error) {
	if !l.local || l.issued == (slab.Handle{}) {
		return nil, errNoProof
	}
	p, err := l.slab.updates.Lend(h)
	if err == nil {
		l.issued = slab.Handle{}
	}
	return p, err
}

func (l *lane) deliver(p *tensor.Package, c store.CacheStats) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cached = c
	return l.mail.Deliver(mailbox.Update{Package: p})
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
	l.forget()
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
