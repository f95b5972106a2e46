package endpoint

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Gate accepts connections and limits strangers: peers that have not shown the secret.
// It accepts a connection only while there are fewer strangers than its limit, so the next
// ones wait in the kernel's queue. A stranger has one deadline for all that it does.
type Gate struct {
	net.Listener
	deadline time.Duration
	slots    chan struct{} // holds a value for each stranger
	closed   chan struct{}
	closing  sync.Once
	failed   atomic.Pointer[error] // error of the last Accept, or nil
}

// NewGate returns a gate for a server of n lanes or agents. It lets 256 strangers in, and 4
// more for each of n, whose peers may all come at the same time.
func NewGate(l net.Listener, n int, deadline time.Duration) *Gate {
	return &Gate{Listener: l, deadline: deadline, slots: make(chan struct{}, 256+4*n), closed: make(chan struct{})}
}

// A Stranger is an accepted connection. It ends at its deadline, unless Admit was called.
type Stranger struct {
	net.Conn
	gate  *Gate
	timer *time.Timer // closes the connection
	state atomic.Int32
}

// The states of a Stranger. The first is unknown.
const (
	unknown = iota
	known   // it was admitted, or its server has closed it
	late    // its deadline has passed
)

// Accept implements net.Listener. It returns a *Stranger. It retries until the listener is
// closed, because the machine may lack descriptors for a while.
func (g *Gate) Accept() (net.Conn, error) {
	select {
	case g.slots <- struct{}{}:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	for {
		c, err := g.Listener.Accept()
		if err == nil {
			g.failed.Store(nil)
			s := &Stranger{Conn: c, gate: g}
			s.timer = time.AfterFunc(g.deadline, func() {
				if s.become(late) {
					_ = c.Close() // given up: an error does not matter
				}
			})
			return s, nil
		}
		if errors.Is(err, net.ErrClosed) {
			<-g.slots
			return nil, err
		}
		g.failed.Store(&err)
		time.Sleep(50 * time.Millisecond) // an error such as too many open files may pass
	}
}

// Close stops listening. Connections stay open.
func (g *Gate) Close() error {
	g.closing.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// become ends the time as a stranger, and reports whether it had not ended before.
func (s *Stranger) become(state int32) bool {
	first := s.state.CompareAndSwap(unknown, state)
	if first {
		<-s.gate.slots
	}
	return first
}

// Admit records that the peer has shown the secret, and reports whether it was a stranger
// before. It may be called for every request.
func (s *Stranger) Admit() bool {
	first := s.become(known)
	if first {
		s.timer.Stop()
	}
	return first
}

// Close implements net.Conn.
func (s *Stranger) Close() error {
	s.Admit()
	return s.Conn.Close()
}

// Late returns an error if the stranger's deadline has passed.
func (s *Stranger) Late() error {
	if s.state.Load() != late {
		return nil
	}
	return fmt.Errorf("it has not shown the secret within %v", s.gate.deadline)
}
