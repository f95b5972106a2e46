package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// A server is what the servers of all ways have in common: mailboxes and links. How
// tensors lie in memory, and which handle names them, is the business of those.
type server struct {
	owner
	o         driver.Options
	workers   *driver.Lanes
	dismiss   context.CancelFunc // ends the wait for workers that have not come
	attending sync.WaitGroup
	lanes     []*lane

	sent, received *phase.Counter
}

// A lane is the server's end of one lane.
type lane struct {
	out *outbox
	in  *inbox
	id  phase.ID // of the job that is out

	given   []*slab.Memory // what the worker gets at Dial
	written []*slab.Memory // what of that it writes to
	take    func(packet []byte, files []*os.File) error

	gone chan struct{} // closed when the worker was here and is gone
	why  error         // and this is the reason, if somebody said so; set before that
}

// newServer returns a server with its mailboxes, which nobody can dial yet. It has to
// be released even after an error.
func newServer(o driver.Options) (*server, error) {
	s := &server{o: o, sent: o.Rec.Counter(phase.WireSent), received: o.Rec.Counter(phase.WireReceived)}
	for n := range o.Lanes {
		down, err := s.memfd(fmt.Sprintf("ipcbench-down-%d", n), controlSize(o.Down.Len()), slab.ReadWrite)
		if err != nil {
			return s, err
		}
		up, err := s.memfd(fmt.Sprintf("ipcbench-up-%d", n), controlSize(o.Up.Len()), slab.ReadOnly)
		if err != nil {
			return s, err
		}
		l := &lane{given: []*slab.Memory{down, up}, written: []*slab.Memory{up}, take: takeNothing, gone: make(chan struct{})}
		if err = down.Freeze(); err == nil {
			l.out, err = newOutbox(down.Bytes(), !spins(o.Settings))
		}
		if err == nil {
			l.in, err = newInbox(up.Bytes(), spins(o.Settings))
		}
		if err != nil {
			return s, err
		}
		s.lanes = append(s.lanes, l)
	}
	return s, nil
}

// memfd makes memory that s owns, and has this access to.
func (s *server) memfd(name string, size int, a slab.Access) (*slab.Memory, error) {
	m, err := slab.Memfd(name, size, a, slab.Touched)
	if err == nil {
		s.own(m.Close)
	}
	return m, err
}

// open lets workers in. The welcome to each contains text.
func (s *server) open(ctx context.Context, e *driver.Endpoint, text string) (err error) {
	if s.workers, err = e.ListenLanes(ctx, network, s.o); err != nil {
		return err
	}
	var waiting context.Context
	waiting, s.dismiss = context.WithCancel(context.Background())
	for n, l := range s.lanes {
		s.attending.Go(func() {
			c, err := s.workers.Conn(waiting, n)
			if err != nil {
				return // it never came
			}
			defer c.Close()
			k := newLink(c.Conn, s.o.Rec)
			if err = l.attend(k, text); !parted(err) {
				l.why = err
			}
			close(l.gone)
			l.in.abandon()
			k.refuse(err)
		})
	}
	return nil
}

// attend has a worker join its lane, and takes what it sends until it goes, or
// does what it should not. How long it may take to map its memory is up to whoever
// called Dial, and with many workers it takes long.
func (l *lane) attend(k *link, text string) error {
	if err := k.send(append([]byte{welcomed}, text...), l.given...); err != nil {
		return err
	}
	_, extra, err := k.receive() // the worker's ready
	if closeAll(extra); err == nil && len(extra) > 0 {
		err = fmt.Errorf("ready with descriptors: %w", errMessage)
	}
	// The worker has its writable mappings. From now on nobody gets another one.
	for _, m := range l.written {
		if err == nil {
			err = m.Freeze()
		}
	}
	if err == nil {
		err = k.send([]byte(agreed))
	}
	for err == nil {
		var packet []byte
		var files []*os.File
		if packet, files, err = k.receive(); err == nil {
			err = l.take(packet, files)
		}
	}
	return err
}

// takeNothing is for lanes whose workers send nothing through the link.
func takeNothing(_ []byte, files []*os.File) error {
	closeAll(files)
	return errMessage
}

// explain adds to err why the lane's worker is gone.
func (l *lane) explain(err error) error {
	select {
	case <-l.gone:
		return withCause(err, l.why)
	default:
		return err
	}
}

// post sends a job to the worker of lane n.
func (s *server) post(n int, t order) error {
	l := s.lanes[n]
	select {
	case <-l.gone:
		return l.explain(errGone)
	default:
	}
	size, err := t.put(l.out.message)
	if err != nil {
		return err
	}
	l.id = t.job.ID(n)
	s.sent.Add(size)
	return l.out.post(size)
}

// fetch waits for what the worker of lane n answers.
func (s *server) fetch(ctx context.Context, n int) (r result, err error) {
	l := s.lanes[n]
	wait := s.o.Rec.Begin(phase.Wait, l.id)
	b, err := l.in.fetch(ctx)
	wait.End()
	if err == nil {
		s.received.Add(len(b))
		err = r.parse(b)
	}
	return r, l.explain(err)
}

// collected completes p, which was lent as r says, or failed to be.
func collected(r result, p *tensor.Package, err error) (*tensor.Package, driver.Delivered, error) {
	if err == nil {
		if err = p.TakeRows(r.rows); err != nil {
			p.Release()
		}
	}
	if err != nil {
		return nil, driver.Delivered{}, err
	}
	p.Receipt = append(p.Receipt[:0], r.receipt...)
	return p, driver.Delivered{Handle: driver.All(p)}, nil
}

// Settle does nothing: workers do not ask.
func (s *server) Settle(context.Context) error { return nil }

// Shutdown lets the workers know that the session is over. Those that do not leave in
// time are left alone: they have mappings of their own.
func (s *server) Shutdown(ctx context.Context) error {
	var err error
	for _, l := range s.lanes {
		err = errors.Join(err, l.out.end())
	}
	err = errors.Join(err, s.workers.Shutdown(ctx, func(n int, _ *driver.Conn) error {
		select {
		case <-s.lanes[n].gone: // whoever attends the connection has seen its end
		case <-ctx.Done():
		}
		return nil
	}))
	s.dismiss()
	s.attending.Wait()
	return errors.Join(err, s.release())
}

// An owner keeps what has to be closed at the end.
type owner struct{ closers []func() error }

func (o *owner) own(close func() error) { o.closers = append(o.closers, close) }

// release closes what is owned, the last one first.
func (o *owner) release() (err error) {
	for i := len(o.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, o.closers[i]())
	}
	o.closers = nil
	return err
}
