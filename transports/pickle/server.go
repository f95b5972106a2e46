package pickle

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/lend"
)

// helloTimeout bounds how long a new connection may keep silent.
const helloTimeout = 10 * time.Second

type server struct {
	name     string // of the transport
	o        driver.Options
	models   *lend.Model
	out      tensor.Ledger // updates lent to the caller
	lanes    []*lane
	files    *files // nil where tensors travel through the socket
	listener net.Listener
	accepted atomic.Pointer[error] // how the last Accept ended
	handlers sync.WaitGroup        // accept loop and hellos
	greeting context.Context       // ends when no more workers are wanted
	dismiss  context.CancelFunc    // ends it
	shutdown sync.Once

	receipt []byte // of the published model; written by Publish, when no job is out
}

// A lane is the server's end of one worker's connection. connected is closed
// when stream is set.
type lane struct {
	connected chan struct{}
	once      sync.Once
	stream    *stream
	packer    *packer
	updates   *lend.Bank
	job       driver.Job
	busy      bool // a job is out
}

func newServer(name string, o driver.Options) *server {
	s := &server{name: name, o: o, models: lend.NewModel(o.Down)}
	s.greeting, s.dismiss = context.WithCancel(context.Background())
	for range o.Lanes {
		s.lanes = append(s.lanes, &lane{
			connected: make(chan struct{}),
			packer:    newPacker(o),
			updates:   lend.NewBank("updates of the lane", o.Up, o.Depth, &s.out),
		})
	}
	return s
}

func (s *server) Addr() string { return s.listener.Addr().String() }

// accept gives connections to the lanes that they ask for.
func (s *server) accept(l net.Listener) {
	s.listener = l
	s.handlers.Go(func() {
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.accepted.Store(&err)
			if err != nil { // out of descriptors, say: the worker waits until there is one
				timer := time.NewTimer(10 * time.Millisecond)
				<-timer.C
				continue
			}
			driver.Enlarge(conn)
			s.handlers.Go(func() {
				if err := s.greet(conn); err != nil {
					conn.Close()
				}
			})
		}
	})
}

// greet reads a worker's hello, connects its lane and says so, or says why not.
func (s *server) greet(conn net.Conn) error {
	ctx, cancel := context.WithTimeout(s.greeting, helloTimeout)
	defer cancel()
	st := newStream(conn, s.o.Rec)
	var h header
	if err := st.receive(ctx, phase.Whole(-1), func() error { return st.next(&h) }); err != nil {
		return err
	}
	err := s.admit(h.Hello)
	if err != nil {
		return errors.Join(err, st.sendHeader(ctx, phase.Whole(-1), header{Refused: err.Error()}))
	}
	ln := s.lanes[h.Hello.Lane]
	err = fmt.Errorf("lane %d has a worker", h.Hello.Lane)
	ln.once.Do(func() {
		if err = st.sendHeader(ctx, phase.Whole(-1), header{Hello: h.Hello}); err == nil {
			ln.stream = st
			close(ln.connected)
		}
	})
	if err != nil {
		_ = st.sendHeader(ctx, phase.Whole(-1), header{Refused: err.Error()}) // it may be gone
	}
	return err
}

// admit checks a worker's hello.
func (s *server) admit(h *hello) error {
	switch {
	case h == nil, h.Lane < 0, h.Lane >= len(s.lanes):
		return fmt.Errorf("no such lane: the session has %d", len(s.lanes))
	case h.Down != s.o.Down.Digest(), h.Up != s.o.Up.Digest():
		return fmt.Errorf("lane %d: the session has other layouts", h.Lane)
	}
	return nil
}

// wrap says whose error it is.
func (s *server) wrap(act string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, act, err)
	}
	return nil
}

// wrapLane is wrap for a call about a lane.
func (s *server) wrapLane(n int, act string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: lane %d: %s: %w", s.name, n, act, err)
	}
	return nil
}

func (s *server) Reserve() (*tensor.Package, error) {
	p, err := s.models.Reserve()
	return p, s.wrap("reserve", err)
}

func (s *server) Publish(ctx context.Context, p *tensor.Package) error {
	err := s.models.Publish(p)
	if err == nil {
		s.receipt = append(s.receipt[:0], p.Receipt...)
	}
	if err == nil && s.files != nil {
		err = s.files.writeModel(ctx, newPacker(s.o), p)
	}
	return s.wrap("publish", err)
}

func (s *server) Dispatch(ctx context.Context, n int, j driver.Job) error {
	return s.wrapLane(n, "dispatch", s.dispatch(ctx, n, j))
}

func (s *server) dispatch(ctx context.Context, n int, j driver.Job) error {
	ln := s.lanes[n]
	if ln.busy {
		return fmt.Errorf("client %d before the update of client %d was collected", j.Client, ln.job.Client)
	}
	model, err := s.models.Current()
	if err != nil {
		return err
	}
	select {
	case <-ln.connected:
	case <-ctx.Done():
		err := fmt.Errorf("no worker has connected: %w", context.Cause(ctx))
		if last := s.accepted.Load(); last != nil && *last != nil {
			err = fmt.Errorf("%w (%w)", err, *last)
		}
		return err
	}
	ln.job, ln.busy = j, true
	id := phase.ID{Lane: n, Round: j.Round, Client: j.Client}
	if s.files != nil {
		path, err := s.files.writeJob(ctx, id, j)
		if err != nil {
			return err
		}
		return ln.stream.sendHeader(ctx, id, header{Path: path})
	}
	return ln.stream.send(ctx, id, func(enc *gob.Encoder) error {
		return ln.packer.encode(enc, header{Job: j, Receipt: s.receipt}, model)
	})
}

func (s *server) Collect(ctx context.Context, n int) (*tensor.Package, error) {
	p, err := s.collect(ctx, n)
	return p, s.wrapLane(n, "collect", err)
}

func (s *server) collect(ctx context.Context, n int) (*tensor.Package, error) {
	ln := s.lanes[n]
	if !ln.busy {
		return nil, errors.New("no job was dispatched")
	}
	update, err := ln.updates.Lend()
	if err != nil {
		return nil, err
	}
	id := phase.ID{Lane: n, Round: ln.job.Round, Client: ln.job.Client}
	if s.files != nil {
		err = s.files.readUpdate(ctx, ln, id, update)
	} else {
		err = ln.stream.receive(ctx, id, func() error { return ln.decodeUpdate(ln.stream, id, update) })
	}
	if err != nil {
		update.Release()
		return nil, err
	}
	ln.busy = false
	return update, nil
}

// decodeUpdate reads the header and the tensors of an update from st.
func (ln *lane) decodeUpdate(st *stream, id phase.ID, update *tensor.Package) error {
	var h header
	if err := st.next(&h); err != nil {
		return err
	}
	if h.Job.Round != id.Round || h.Job.Client != id.Client {
		return fmt.Errorf("update of round %d, client %d; want round %d, client %d",
			h.Job.Round, h.Job.Client, id.Round, id.Client)
	}
	return ln.packer.decode(st, id, h, update)
}

// Shutdown tells every connected worker that there are no more jobs and waits
// until they have closed their ends. One that is in the middle of something sees
// its connection close.
func (s *server) Shutdown(ctx context.Context) (err error) {
	s.shutdown.Do(func() {
		err = s.listener.Close()
		for _, ln := range s.lanes {
			ln.once.Do(func() {}) // no worker connects from here on; one that is being admitted has its answer, and is told of the end
		}
		s.dismiss()
		for _, ln := range s.lanes {
			if ln.stream != nil && !ln.busy {
				_ = ln.stream.sendHeader(ctx, phase.Whole(-1), header{End: true}) // a worker that is gone needs no end
			}
		}
		for n, ln := range s.lanes {
			if ln.stream == nil {
				continue
			}
			if !ln.busy {
				if e := ln.stream.awaitClose(ctx); e != nil {
					err = errors.Join(err, fmt.Errorf("lane %d: %w", n, e))
				}
			}
			ln.stream.conn.Close()
		}
		s.handlers.Wait()
		if s.files != nil {
			err = errors.Join(err, s.files.close())
		}
		if n := s.out.Out(); n > 0 {
			err = errors.Join(err, fmt.Errorf("%d updates are still out", n))
		}
		err = s.wrap("shutdown", err)
	})
	return err
}

// awaitClose reads until the peer closes.
func (s *stream) awaitClose(ctx context.Context) error {
	stop := s.obey(ctx)
	defer stop()
	if _, err := io.Copy(io.Discard, s.conn); err != nil && ctx.Err() != nil {
		return fmt.Errorf("worker did not leave: %w", context.Cause(ctx))
	}
	return nil
}
