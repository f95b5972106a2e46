package endpoint

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/phase"
)

// A Listener accepts connections, counts their bytes, and limits strangers: see [Gate].
type Listener struct {
	*Gate
	e              *Endpoint
	protocol       Protocol
	tls            *tls.Config    // nil without TLS
	withdraw       []func() error // remove the files that announce wrote
	sent, received *phase.Counter
	refusals       *phase.Counter
	refused        atomic.Pointer[error] // why the last refused connection was refused

	mu   sync.Mutex
	open map[*Conn]bool // guarded by mu: open connections; true if Dismiss must not close it
	over bool           // guarded by mu: new connections are closed at once
}

func newListener(l net.Listener, e *Endpoint, o Session, p Protocol, config *tls.Config) *Listener {
	if config != nil && p.Name != "" {
		config.NextProtos = []string{p.Name}
	}
	return &Listener{
		Gate: NewGate(l, o.Lanes, e.Patience), e: e, protocol: p, tls: config, open: map[*Conn]bool{},
		sent: o.Rec.Counter(phase.WireSent), received: o.Rec.Counter(phase.WireReceived), refusals: o.Rec.Counter(phase.Refused),
	}
}

// announce writes a file that Close removes. It fails if the file exists.
func (l *Listener) announce(path, text string) error {
	withdraw, err := announce(path, text)
	if err == nil {
		l.withdraw = append(l.withdraw, withdraw)
	}
	return err
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	accepted, err := l.Gate.Accept()
	if err != nil {
		return nil, err
	}
	stranger := accepted.(*Stranger)
	enlarge(stranger.Conn)
	c := &Conn{Counted: Counted{Conn: stranger.Conn, sent: l.sent, received: l.received}, l: l, stranger: stranger}
	if l.tls != nil {
		c.tls = tls.Server(c.Counted, l.tls)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = false
	if l.over {
		_ = stranger.Conn.Close() // its reader gets an error
	}
	if l.protocol.Wrap != nil {
		return l.protocol.Wrap(c), nil
	}
	return c, nil
}

// Close stops listening and removes the files that it announced. Connections stay open.
func (l *Listener) Close() error {
	err := l.Gate.Close()
	for _, withdraw := range l.withdraw {
		err = errors.Join(err, withdraw())
	}
	return err
}

// Explain adds to err, an error of waiting for a worker, possible causes: the error of
// the last Accept and the reason for the last refusal.
func (l *Listener) Explain(err error) error {
	if last := l.failed.Load(); last != nil {
		err = fmt.Errorf("%w (%w)", err, *last)
	}
	if last := l.refused.Load(); last != nil {
		// cut, because it may quote a stranger's bytes
		err = fmt.Errorf("%w (the last refused connection: %.300s)", err, *last)
	}
	return err
}

// Count returns the number of open connections.
func (l *Listener) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Dismiss closes all connections except those marked with Keep, and makes Accept close
// new ones.
func (l *Listener) Dismiss() {
	l.mu.Lock()
	l.over = true
	var others []*Conn
	for c, kept := range l.open {
		if !kept {
			others = append(others, c)
		}
	}
	l.mu.Unlock()
	for _, c := range others {
		_ = c.Conn.Close() // without the closing alert of TLS; its reader gets an error
	}
}

// A Conn is the server's end of a connection. Its peer is a stranger until Admit. With
// TLS, the first Read or Write makes the handshake, unless Secure has.
type Conn struct {
	Counted            // the socket
	tls      *tls.Conn // nil without TLS
	shaken   sync.Once
	state    tls.ConnectionState // set by a successful handshake
	refusal  sync.Once
	l        *Listener
	stranger *Stranger
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.tls == nil {
		return c.Counted.Read(b)
	}
	if err := c.Secure(); err != nil {
		return 0, err
	}
	n, err := c.tls.Read(b)
	if err != nil {
		c.broke(err)
	}
	return n, err
}

// broke records a failed TLS read as a refusal, if the peer is a stranger and has not
// just left.
func (c *Conn) broke(err error) {
	left := errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
	if c.stranger.state.Load() == unknown && !left {
		c.Refused(fmt.Errorf("TLS: %w", err))
	}
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.tls == nil {
		return c.Counted.Write(b)
	}
	if err := c.Secure(); err != nil {
		return 0, err
	}
	return c.tls.Write(b)
}

// Refused records that c is refused, and why. Later calls do nothing, because their
// errors follow from the first.
func (c *Conn) Refused(err error) {
	c.refusal.Do(func() {
		err := cmp.Or(c.stranger.Late(), err)
		c.l.refused.Store(&err)
		c.l.refusals.Add(1)
	})
}

// Admit is [Stranger.Admit].
func (c *Conn) Admit() bool { return c.stranger.Admit() }

// Keep exempts c from Dismiss.
func (c *Conn) Keep() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if _, open := c.l.open[c]; open {
		c.l.open[c] = true
	}
}

// alertTime is the time that a peer has to take the closing alert of TLS. crypto/tls would
// wait 5 s for a peer that reads nothing.
const alertTime = 250 * time.Millisecond

// Close implements net.Conn. With TLS it sends a closing alert, so that the peer can
// distinguish it from a lost connection.
func (c *Conn) Close() error {
	if late := c.stranger.Late(); late != nil {
		c.Refused(late)
	}
	end := c.Conn.Close
	if c.tls != nil {
		end = c.tls.Close // sends no alert before the handshake
		cut := time.AfterFunc(alertTime, func() { _ = c.Conn.Close() })
		defer cut.Stop()
	}
	err := end()
	c.Admit() // it is no stranger any more
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	delete(c.l.open, c)
	return err
}
