package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"ipcbench/trainer"
)

// A request is the first frame on a stream, and a reply its answer. Readers set Body to
// a pointer.
type (
	request struct {
		Kind string `json:"kind"`
		Body any    `json:"body"`
	}
	reply struct {
		Error string `json:"error,omitempty"`
		Body  any    `json:"body,omitempty"`
	}
)

// A handler executes a request and answers it on conn, which is closed afterwards. If it
// returns an error, this is the answer.
type handler func(s *service, conn net.Conn, body json.RawMessage) error

// handlers returns the handlers of all requests that an agent accepts.
func handlers() map[string]handler {
	return map[string]handler{
		"start":   of((*service).start),
		"control": of((*service).control),
		"dial":    of((*service).dial),
		"folder":  of((*service).folder),
		"floor":   of((*service).floor),
		"watch":   (*service).watch,
		"end":     of((*service).end),
	}
}

// of returns a handler that decodes the request's body as a T and calls h.
func of[T any](h func(*service, net.Conn, T) error) handler {
	return func(s *service, conn net.Conn, body json.RawMessage) error {
		var v T
		if err := json.Unmarshal(body, &v); err != nil {
			return err
		}
		return h(s, conn, v)
	}
}

// mostRequests bounds the requests that an agent serves at a time. A process takes two.
const mostRequests = 2*trainer.MaxWorkers + 64

// service is an agent that has joined.
type service struct {
	room     chan struct{} // requests being served
	session  *yamux.Session
	launcher trainer.Launcher
	allowed  trainer.Confinement // folders and addresses that the server may name
	asked    context.Context     // done when this process is asked to end
	ended    atomic.Pointer[int] // the exit code that the server sent; nil before that

	playing sync.Mutex // held while a floor is measured

	mu        sync.Mutex
	processes map[int]trainer.Process // guarded by mu: running processes by startOrder.ID
}

func newService(asked context.Context, session *yamux.Session, allowed trainer.Confinement) *service {
	return &service{room: make(chan struct{}, mostRequests), session: session, launcher: trainer.NewConfined(allowed), allowed: allowed, asked: asked, processes: map[int]trainer.Process{}}
}

// serve executes requests until the connection ends and all its processes have ended.
func (s *service) serve() error {
	var all sync.WaitGroup
	for {
		conn, err := s.session.AcceptStream()
		if err != nil {
			all.Wait()
			return err
		}
		s.room <- struct{}{} // further requests wait
		all.Go(func() {
			defer func() { <-s.room }()
			defer conn.Close()
			s.answer(conn)
		})
	}
}

func (s *service) answer(conn net.Conn) {
	var body json.RawMessage
	r := request{Body: &body}
	err := bounded(conn, greetTime, func() error { return readFrame(conn, &r) })
	if err == nil {
		if h := handlers()[r.Kind]; h == nil {
			err = fmt.Errorf("%.40q is not a request that agents accept", r.Kind)
		} else {
			err = h(s, conn, body)
		}
	}
	if err != nil {
		_ = writeFrame(conn, reply{Error: err.Error()}) // to a server that is still there
	}
}

// say sends body as the answer to a request.
func say(conn net.Conn, body any) error { return writeFrame(conn, reply{Body: body}) }

// atEnd calls f on another goroutine when conn ends. It discards all data from conn.
func atEnd(conn net.Conn, f func()) {
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		f()
	}()
}

// start starts a worker process and returns when the process has ended.
func (s *service) start(conn net.Conn, o startOrder) error {
	if o.Process < 0 || o.Process >= trainer.MaxWorkers {
		return fmt.Errorf("there is no process %d", o.Process)
	}
	p, err := s.launch(o)
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.processes, o.ID)
	}()
	if err := say(conn, p.Place().PID); err != nil {
		return errors.Join(err, p.Stop())
	}
	atEnd(conn, func() { _ = p.Stop() }) // if this fails, the server's Stop times out
	<-p.Exited()
	e := exit{Stderr: p.Stderr()}
	if p.Err() != nil {
		e.Error = p.Err().Error()
	}
	_ = writeFrame(conn, e) // to a server that is still there
	return nil
}

func (s *service) launch(o startOrder) (trainer.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.processes[o.ID]; taken || len(s.processes) >= trainer.MaxWorkers {
		return nil, fmt.Errorf("process %d is already running, or %d others are", o.ID, trainer.MaxWorkers)
	}
	p, err := s.launcher.Launch(o.Process)
	if err == nil {
		s.processes[o.ID] = p
	}
	return p, err
}

// control copies between the stream and the control socket of a process, both ways.
func (s *service) control(conn net.Conn, id int) error {
	s.mu.Lock()
	p := s.processes[id]
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("process %d is not running", id)
	}
	if err := say(conn, nil); err != nil {
		return err
	}
	var down sync.WaitGroup
	down.Go(func() {
		_, _ = io.Copy(p.Conn(), conn)
		_ = p.Conn().Close() // the server's end was closed
	})
	_, _ = io.Copy(conn, p.Conn())
	_ = conn.Close() // the process's end was closed
	down.Wait()
	return nil
}

// dialTime is the time limit for connecting to a server's address.
const dialTime = 5 * time.Second

// dial checks that this host can connect to an address.
func (s *service) dial(conn net.Conn, addr string) error {
	if err := s.allowed.CheckAddr(addr); err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", addr, dialTime)
	if err != nil {
		return fmt.Errorf("dialled %s: %w", addr, err)
	}
	return errors.Join(c.Close(), say(conn, nil))
}

// watch answers with the reason when this process is asked to end.
func (s *service) watch(conn net.Conn, _ json.RawMessage) error {
	select {
	case <-s.asked.Done():
		return say(conn, context.Cause(s.asked).Error())
	case <-s.session.CloseChan():
		return nil
	}
}

// end stores the exit code of the run, which is over.
func (s *service) end(conn net.Conn, code int) error {
	s.ended.Store(new(code & 0xff))
	return say(conn, nil)
}
