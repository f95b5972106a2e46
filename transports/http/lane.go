package http

import (
	"encoding/json"
	"errors"
	"sync"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

// A lane is the server's end of one worker: a mailbox, the memory that its
// updates arrive in, and who is at the other end.
type lane struct {
	n    int
	o    driver.Options
	mail *mailbox.Lane[*order]
	slab *laneSlab // nil without shared memory

	mu     sync.Mutex
	seat   seat             // guarded by mu
	err    error            // guarded by mu: why nothing goes through the lane any more
	out    *order           // guarded by mu: the job that is out, until its update begins to arrive
	bank   *driver.Bank     // guarded by mu: heap memory for updates; nil until one has no other place
	issued slab.Handle      // guarded by mu: block for an update, or for a later one if it came another way; zero if there is none
	drain  bool             // guarded by mu: the next job tells the worker to empty its cache
	cached store.CacheStats // guarded by mu: as the last result said
}

// An order is a job as it goes out.
type order struct {
	id     phase.ID
	answer []byte          // to the worker's request for a job
	place  *tensor.Package // heap memory for the update; nil if it is to come through the slab
	reason string          // why it comes as a body, if it does
}

var errNoJob = errors.New("no such job is out")

func newLane(n int, o driver.Options, slab *laneSlab) *lane {
	l := &lane{n: n, o: o, mail: mailbox.NewLane[*order](), slab: slab}
	if slab == nil {
		l.bank = driver.NewBank(o.Up, o.Depth, o.Out) // before the first job
	}
	return l
}

// fail makes the lane useless, and Collect return err if a job is out. l.mu is
// held.
func (l *lane) fail(err error) {
	if l.err == nil {
		l.err = err
		l.forget()
		_ = l.mail.Deliver(mailbox.Delivery{Err: err}) // an error means that nobody waits
	}
}

// forget gives up the memory of an update that does not come. l.mu is held.
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
	o.answer, err = json.Marshal(a) // while nobody waits for the lane
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

// prepare finds a place for the update of j.
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
	case !l.seat.local:
		o.reason = store.Remote
	default:
		err := l.issue()
		if err != nil && !isFull(err) {
			return nil, err
		}
		if err == nil {
			a.Update, o.reason = store.EncodeHandle(l.issued), store.Remote // what it is if it comes another way
			return o, nil
		}
		o.reason = store.Full
	}
	var err error
	o.place, err = l.lend()
	return o, err
}

// issue reserves a block for an update, if none is. l.mu is held.
func (l *lane) issue() (err error) {
	if l.issued == (slab.Handle{}) {
		l.issued, err = l.slab.updates.Reserve()
	}
	return err
}

// lend returns heap memory for an update. l.mu is held.
func (l *lane) lend() (*tensor.Package, error) {
	if l.bank == nil {
		l.bank = driver.NewBank(l.o.Up, l.o.Depth, l.o.Out)
	}
	return l.bank.Lend()
}

// begin returns the memory of the update for the job that is out. The update must not
// have begun to arrive, and c must be the worker's. If the update does not come
// through the slab, reason says why. The caller ends with deliver or abandon.
func (l *lane) begin(c *driver.Conn, u upload) (p *tensor.Package, reason string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch o := l.out; {
	case !l.seat.has(c):
		return nil, "", errStranger
	case o == nil || o.id != u.ID:
		return nil, "", errNoJob
	case !u.shared && o.place != nil:
		p = o.place
	case !u.shared:
		p, err = l.lend()
	case !l.seat.local || l.issued == (slab.Handle{}):
		err = errNoProof
	default:
		if p, err = l.slab.updates.Lend(u.handle); err == nil {
			l.issued = slab.Handle{}
		}
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
