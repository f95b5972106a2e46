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
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/slab"
)

// A server is the common part of both transports' servers: mailboxes and links. The
// types that embed it manage the tensors' memory and handles.
type server struct {
	owner
	o         driver.Options
	workers   *endpoint.Lanes
	dismiss   context.CancelFunc // ends the wait for workers that have not connected
	attending sync.WaitGroup
	lanes     []*lane

	sent, received *phase.Counter
}

// A lane is the server's end of one lane.
type lane struct {
	out *outbox
	in  *inbox

	id     phase.ID    // ID of the current job
	update slab.Handle // memory for its update

	given   []*slab.Memory // memory whose descriptors the worker gets during Dial
	stream  *os.File       // the worker's end of a socket that it also gets then; nil without one
	written []*slab.Memory // the part of given that the worker writes
	take    func(packet []byte, files []*os.File) error

	gone chan struct{} // closed when the worker is gone, after it had connected
	why  error         // set before gone is closed; nil after a normal end
}

// newServer returns a server with mailboxes. It must be released even after an error.
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
		l := &lane{given: []*slab.Memory{down, up}, written: []*slab.Memory{up}, take: refusePackets, gone: make(chan struct{})}
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

// memfd makes memory with access a, which s owns.
func (s *server) memfd(name string, size int, a slab.Access) (*slab.Memory, error) {
	m, err := slab.Memfd(name, size, a, slab.Touched)
	if err == nil {
		s.own(m.Close)
	}
	return m, err
}

// open starts to listen and to serve workers. Each worker's welcome contains text.
func (s *server) open(ctx context.Context, e *endpoint.Endpoint, text string) (err error) {
	if s.workers, err = e.ListenLanes(ctx, network, s.o.Session()); err != nil {
		return err
	}
	var waiting context.Context
	waiting, s.dismiss = context.WithCancel(context.Background())
	for n, l := range s.lanes {
		s.attending.Go(func() {
			c, err := s.workers.Conn(waiting, n)
			if err != nil {
				return // the worker never connected
			}
			defer c.Close()
			k := newLink(c.Conn, s.o.Rec)
			if err = l.attend(k, text); !closedNormally(err) {
				l.why = err
			}
			close(l.gone)
			l.in.abandon()
			k.refuse(err)
		})
	}
	return nil
}

// attend performs the handshake with a worker, then passes each packet to l.take until
// the worker is gone or breaks the protocol. Only the context of Dial limits its time,
// because with many workers mapping memory takes long.
func (l *lane) attend(k *link, text string) error {
	files := filesIn(l.given)
	if l.stream != nil {
		files = append(files, l.stream)
		defer l.stream.Close()
	}
	if err := k.send(append([]byte{welcomed}, text...), files...); err != nil {
		return err
	}
	_, extra, err := k.receive() // the worker's agreed
	if closeAll(extra); err == nil && len(extra) > 0 {
		err = fmt.Errorf("packet \"agreed\" must have no descriptors: %w", errMessage)
	}
	// The worker has its writable mappings. Allow no further ones.
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

// refusePackets is lane.take if workers send no packets after the handshake.
func refusePackets(_ []byte, files []*os.File) error {
	closeAll(files)
	return errMessage
}

// explain adds to err why the worker is gone, if it is.
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
	l.id, l.update = t.job.ID(n), t.update
	s.sent.Add(size)
	return l.out.post(size)
}

// fetch waits for the result of lane n's current job. Its update must be the one that was
// issued for the job.
func (s *server) fetch(ctx context.Context, n int) (r result, err error) {
	l := s.lanes[n]
	wait := s.o.Rec.Begin(phase.Wait, l.id)
	b, err := l.in.fetch(ctx)
	wait.End()
	if err == nil {
		s.received.Add(len(b))
		err = r.parse(b)
	}
	if err == nil && r.update != l.update {
		err = fmt.Errorf("update %+v, but the job has %+v: %w", r.update, l.update, slab.ErrOther)
	}
	return r, l.explain(err)
}

// collected returns Collect's results: p with r's rows and receipt, or err. It releases p
// if the rows are invalid.
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

// Settle does nothing, because workers do not request jobs.
func (s *server) Settle(context.Context) error { return nil }

// Shutdown tells the workers that the session is over and releases all memory. Workers
// that do not leave in time are not harmed, because they have mappings of their own.
func (s *server) Shutdown(ctx context.Context) error {
	var err error
	for _, l := range s.lanes {
		err = errors.Join(err, l.out.end())
	}
	err = errors.Join(err, s.workers.Shutdown(ctx, func(n int, _ *endpoint.Conn) error {
		select {
		case <-s.lanes[n].gone: // attend has seen the end of the connection
		case <-ctx.Done():
		}
		return nil
	}))
	s.dismiss()
	s.attending.Wait()
	return errors.Join(err, s.release())
}

// An owner collects functions that must be called at the end, such as Close.
type owner struct{ closers []func() error }

func (o *owner) own(close func() error) { o.closers = append(o.closers, close) }

// release calls the functions in reverse order.
func (o *owner) release() (err error) {
	for i := len(o.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, o.closers[i]())
	}
	o.closers = nil
	return err
}
