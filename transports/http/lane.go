package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

// A lane is the server's end of one worker: a mailbox, memory for updates, and the
// lane's worker.
type lane struct {
	n    int
	o    driver.Options
	mail *mailbox.Lane[*order]
	slab *laneSlab // nil without shared memory

	mu     sync.Mutex
	holder holder           // guarded by mu
	err    error            // guarded by mu: why the lane can no longer be used, or nil
	out    *order           // guarded by mu: the dispatched job, until its update begins to arrive; else nil
	bank   *driver.HeapBank // guarded by mu: heap memory for updates; nil until it is needed
	issued slab.Handle      // guarded by mu: block of the slab for the next update that uses it; zero if none is reserved
	drain  bool             // guarded by mu: the next job makes the worker empty its cache
	cached store.CacheStats // guarded by mu: as reported with the last update
}

// An order is a dispatched job.
type order struct {
	id     phase.ID
	answer []byte          // JSON for the worker's request for a job
	place  *tensor.Package // heap memory for the update; nil if the slab has a block for it
	reason string          // the reason to count if the update arrives as a body
}

var errNoJob = errors.New("no such job was dispatched")

func newLane(n int, o driver.Options, slab *laneSlab) *lane {
	l := &lane{n: n, o: o, mail: mailbox.NewLane[*order](), slab: slab}
	if slab == nil {
		l.bank = driver.NewBank(o) // before the first job, so that no round pays for it
	}
	return l
}

// fail makes the lane unusable: every later use returns err, and so does Collect if a
// job was dispatched. l.mu must be held.
func (l *lane) fail(err error) {
	if l.err == nil {
		l.err = err
		l.forget()
		_ = l.mail.Deliver(mailbox.Delivery{Err: err}) // fails only if no Collect is expected
	}
}

// forget releases the memory reserved for an update that will not arrive. l.mu must be
// held.
func (l *lane) forget() {
	if l.out != nil && l.out.place != nil {
		l.out.place.Release()
	}
	l.out = nil
}

// dispatch puts j and its model, described by a, into the mailbox.
func (l *lane) dispatch(j driver.Job, a jobAnswer) error {
	o, err := l.prepare(j, &a)
	if err != nil {
		return err
	}
	o.answer, err = json.Marshal(a) // l.mu is not held meanwhile
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = o
	if err == nil {
		err = l.err
	}
	if err == nil {
		err = l.mail.Dispatch(o)
	}
	if err != nil {
		l.forget()
	}
	return err
}

// prepare reserves memory for the update of j, and sets a.Update if it is in the slab.
func (l *lane) prepare(j driver.Job, a *jobAnswer) (*order, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	o := &order{id: j.ID(l.n)}
	a.Drain, l.drain = l.drain, false
	switch {
	case l.slab == nil:
		o.reason = store.Off
	case !l.holder.local:
		o.reason = store.Remote
	default:
		err := l.issue()
		if err == nil {
			a.Update, o.reason = store.EncodeHandle(l.issued), store.Remote // counted if the update arrives as a body anyway
			return o, nil
		}
		o.reason = store.Full
	}
	var err error
	o.place, err = l.lend()
	return o, err
}

// issue reserves a block for an update unless one is reserved. It fails only if all are
// lent. l.mu must be held.
func (l *lane) issue() (err error) {
	if l.issued == (slab.Handle{}) {
		l.issued, err = l.slab.updates.Reserve()
	}
	return err
}

// lend returns heap memory for an update. l.mu must be held.
func (l *lane) lend() (*tensor.Package, error) {
	if l.bank == nil {
		l.bank = driver.NewBank(l.o)
	}
	return l.bank.Lend()
}

// begin returns the memory for update u. It fails if c is not the connection of the
// lane's worker, or if no such job is waiting for its update. reason is the fallback to
// count if the update arrives as a body. The caller must then call deliver or abandon.
func (l *lane) begin(c *endpoint.Conn, u upload) (p *tensor.Package, reason string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o := l.out; {
	case !l.holder.has(c):
		return nil, "", errStranger
	case o == nil || o.id != u.ID:
		return nil, "", errNoJob
	case !u.shared && o.place != nil:
		p = o.place
	case !u.shared:
		p, err = l.lend()
	case !l.holder.local || l.issued == (slab.Handle{}):
		err = errNoProof
	case u.handle != l.issued:
		err = fmt.Errorf("update %+v, but the job has %+v: %w", u.handle, l.issued, slab.ErrOther)
	default:
		p, err = l.slab.updates.Lend()
		l.issued = slab.Handle{}
	}
	if err != nil {
		return nil, "", err
	}
	reason, l.out = l.out.reason, nil
	return p, reason, nil
}

func (l *lane) deliver(p *tensor.Package, d driver.Delivered, c store.CacheStats) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cached = c
	return l.mail.Deliver(mailbox.Delivery{Package: p, Delivered: d})
}

// abandon releases p, which holds part of an update, and fails the lane with err.
func (l *lane) abandon(p *tensor.Package, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.Release()
	l.fail(err)
}

// close ends the lane's session: it answers parked requests and drops an update that was
// not collected.
func (l *lane) close() {
	l.mail.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
}
