package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// A request opens a stream, and a reply answers it. Their bodies are read into what is
// pointed to.
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

// A handler does what a request asks for, and answers it on the stream, which is closed
// when it returns.
type handler func(s *service, conn net.Conn, body json.RawMessage) error

// handlers returns all that a server may ask an agent for.
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

// of returns the handler of requests whose body is a T.
func of[T any](h func(*service, net.Conn, T) error) handler {
	return func(s *service, conn net.Conn, body json.RawMessage) error {
		var v T
		if err := json.Unmarshal(body, &v); err != nil {
			return err
		}
		return h(s, conn, v)
	}
}

// service is an agent that has joined.
type service struct {
	session  *yamux.Session
	launcher trainer.Launcher
	may      trainer.Confinement // what the server may name
	asked    context.Context     // ends when this process is asked to end
	ended    atomic.Pointer[int] // the exit code, once the server has said it

	playing sync.Mutex // held while a floor plays

	mu        sync.Mutex
	processes map[int]trainer.Process // guarded by mu: those that run, by the server's number
}

// confinement is what a server that was reached at an address may name of this host.
func confinement(server net.Addr, dirs []string) trainer.Confinement {
	at, _ := netip.ParseAddrPort(server.String()) // a TCP connection's is one
	return trainer.Confinement{Dirs: append(driver.Folders{}, dirs...), Server: at.Addr()}
}

func newService(asked context.Context, session *yamux.Session, may trainer.Confinement) *service {
	return &service{session: session, launcher: trainer.NewConfined(may), may: may, asked: asked, processes: map[int]trainer.Process{}}
}

// serve does what the server asks for, until the connection ends. No process that it has
// started is there any more when it returns.
func (s *service) serve() error {
	var all sync.WaitGroup
	for {
		conn, err := s.session.AcceptStream()
		if err != nil {
			all.Wait()
			return err
		}
		all.Go(func() {
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
			err = fmt.Errorf("%.40q is nothing that an agent does", r.Kind)
		} else {
			err = h(s, conn, body)
		}
	}
	if err != nil {
		_ = writeFrame(conn, reply{Error: err.Error()}) // to a server that is still there
	}
}

// say answers a request.
func say(conn net.Conn, body any) error { return writeFrame(conn, reply{Body: body}) }

// atEnd calls f when the stream ends, on which the server sends nothing any more.
func atEnd(conn net.Conn, f func()) {
	go func() {
		_, _ = io.Copy(io.Discard, conn) // the end is all that comes
		f()
	}()
}

// start starts a worker process and stays until it has ended.
func (s *service) start(conn net.Conn, o startOrder) error {
	if o.Process < 0 || o.Process >= trainer.MaxWorkers {
		return fmt.Errorf("process %d: there is none such", o.Process)
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
	atEnd(conn, func() { _ = p.Stop() }) // a process that does not end is reported as running, by silence
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
		return nil, fmt.Errorf("process %d runs already, or %d others do", o.ID, trainer.MaxWorkers)
	}
	p, err := s.launcher.Launch(o.Process)
	if err == nil {
		s.processes[o.ID] = p
	}
	return p, err
}

// control joins the stream to the control socket of a process.
func (s *service) control(conn net.Conn, id int) error {
	s.mu.Lock()
	p := s.processes[id]
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("process %d does not run", id)
	}
	if err := say(conn, nil); err != nil {
		return err
	}
	var down sync.WaitGroup
	down.Go(func() {
		_, _ = io.Copy(p.Conn(), conn)
		_ = p.Conn().Close() // the server has closed it, or has gone
	})
	_, _ = io.Copy(conn, p.Conn())
	_ = conn.Close() // the process has closed it, or has gone
	down.Wait()
	return nil
}

// dialTime is how long it takes to find out that a server cannot be reached.
const dialTime = 5 * time.Second

// dial tries whether worker processes of this host can reach an address.
func (s *service) dial(conn net.Conn, addr string) error {
	if err := s.may.CheckAddr(addr); err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", addr, dialTime)
	if err != nil {
		return fmt.Errorf("dialled %s: %w", addr, err)
	}
	return errors.Join(c.Close(), say(conn, nil))
}

// watch answers when this process is asked to end.
func (s *service) watch(conn net.Conn, _ json.RawMessage) error {
	select {
	case <-s.asked.Done():
		return say(conn, context.Cause(s.asked).Error())
	case <-s.session.CloseChan():
		return nil
	}
}

// end says that the run is over, and with which exit code.
func (s *service) end(conn net.Conn, code int) error {
	s.ended.Store(new(code & 0xff))
	return say(conn, nil)
}
