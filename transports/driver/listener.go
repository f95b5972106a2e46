package driver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ipcbench/phase"
)

// grace is the shortest time that a connection has to show the secret before a new one
// may replace it. Workers need less: their first request, right after connecting, has
// the secret.
const grace = 250 * time.Millisecond

// A Listener accepts connections, counts their bytes, and limits the number of
// strangers: connections that have not shown the session's secret. There are at most
// 256, plus 4 per lane. A new connection above the limit replaces the oldest stranger,
// once that is at least 250 ms old; until then new connections wait in the kernel. So a
// worker always gets a connection and the time to use it, however many others there are.
type Listener struct {
	net.Listener
	e              *Endpoint
	protocol       Protocol
	tls            *tls.Config // nil without TLS
	limit          int
	withdraw       []func() error // remove the files that announce wrote
	sent, received *phase.Counter
	refusals       *phase.Counter
	freed          chan struct{}         // capacity 1; signals that a stranger was admitted or has gone
	failed         atomic.Pointer[error] // error of the last Accept; nil if it succeeded
	refused        atomic.Pointer[error] // why the last refused connection was refused

	mu        sync.Mutex
	open      map[*Conn]bool // guarded by mu: open connections; true if Dismiss must not close it
	strangers []*Conn        // guarded by mu: strangers' connections, oldest first
	over      bool           // guarded by mu: new connections are closed at once
}

func newListener(l net.Listener, e *Endpoint, o Options, p Protocol, config *tls.Config) *Listener {
	if config != nil && p.Name != "" {
		config.NextProtos = []string{p.Name}
	}
	return &Listener{
		Listener: l, e: e, protocol: p, tls: config, limit: 256 + 4*o.Lanes,
		sent: o.Rec.Counter(phase.WireSent), received: o.Rec.Counter(phase.WireReceived), refusals: o.Rec.Counter(phase.Refused),
		freed: make(chan struct{}, 1), open: map[*Conn]bool{},
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

// Accept implements net.Listener. It waits while there are too many strangers, and
// retries while the machine lacks the resources for another connection.
func (l *Listener) Accept() (net.Conn, error) {
	l.makeRoom()
	nc, err := l.Listener.Accept()
	for err != nil {
		if last := err; !errors.Is(err, net.ErrClosed) {
			l.failed.Store(&last)
		}
		if !scarce(err) {
			return nil, err
		}
		timer := time.NewTimer(10 * time.Millisecond)
		<-timer.C
		nc, err = l.Listener.Accept()
	}
	l.failed.Store(nil)
	enlarge(nc)
	c := &Conn{Counted: Counted{Conn: nc, sent: l.sent, received: l.received}, l: l, since: time.Now()}
	if l.tls != nil {
		c.opening.Counted = c.Counted
		c.tls = tls.Server(&c.opening, l.tls)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.timer = time.AfterFunc(l.e.Patience, c.evict)
	l.open[c] = false
	l.strangers = append(l.strangers, c)
	if l.over {
		_ = nc.Close() // its reader gets an error
	}
	if l.protocol.Wrap != nil {
		return l.protocol.Wrap(c), nil
	}
	return c, nil
}

// scarce reports whether Accept failed for lack of a resource that may become free, such
// as descriptors.
func scarce(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}, func(e error) bool { return errors.Is(err, e) })
}

// Close stops listening and removes the files that it announced. Connections stay open.
func (l *Listener) Close() error {
	err := l.Listener.Close()
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
		err = fmt.Errorf("%w (the last refused connection: %.300s)", err, *last) // cut, because it may quote a stranger's bytes
	}
	return err
}

// makeRoom waits until there is room for another stranger, at most for grace.
func (l *Listener) makeRoom() {
	for {
		l.mu.Lock()
		if len(l.strangers) < l.limit {
			l.mu.Unlock()
			return
		}
		oldest := l.strangers[0]
		l.mu.Unlock()
		timer := time.NewTimer(time.Until(oldest.since.Add(grace)))
		select {
		case <-l.freed:
		case <-timer.C:
			oldest.evict()
		}
		timer.Stop()
	}
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
	Counted           // the socket
	tls     *tls.Conn // over opening; nil without TLS
	opening opening   // between the socket and tls
	shaken  sync.Once
	state   tls.ConnectionState // set by a successful handshake
	heard   bool                // the first Read has returned; unused with TLS
	refusal sync.Once
	l       *Listener
	since   time.Time
	timer   *time.Timer // evicts a stranger when its patience is over
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.tls == nil {
		n, err := c.Counted.Read(b)
		if !c.heard {
			c.heard = true
			if n > 0 && b[0] == handshakeRecord { // none of our protocols begins with this byte
				c.Refused(errors.New("it speaks TLS, but this session does not (tls=off)"))
			}
		}
		return n, err
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
	c.l.mu.Lock()
	stranger := slices.Contains(c.l.strangers, c)
	c.l.mu.Unlock()
	if stranger && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
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
		c.l.refused.Store(&err)
		c.l.refusals.Add(1)
	})
}

// Admit records that the peer has shown the secret, and reports whether it was a stranger
// before. It may be called for every request.
func (c *Conn) Admit() bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	return c.admit()
}

// admit is Admit with l.mu held.
func (c *Conn) admit() bool {
	i := slices.Index(c.l.strangers, c)
	if i < 0 {
		return false
	}
	c.l.strangers = slices.Delete(c.l.strangers, i, i+1)
	c.timer.Stop()
	select {
	case c.l.freed <- struct{}{}:
	default: // a signal is waiting already
	}
	return true
}

// evict closes c if its peer is a stranger.
func (c *Conn) evict() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.admit() {
		c.Refused(fmt.Errorf("it has not shown the session's secret within %v", time.Since(c.since).Round(time.Millisecond)))
		_ = c.Conn.Close() // the connection is given up: an error does not matter
		delete(c.l.open, c)
	}
}

// Keep exempts c from Dismiss.
func (c *Conn) Keep() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if _, open := c.l.open[c]; open {
		c.l.open[c] = true
	}
}

// Close implements net.Conn. With TLS it sends a closing alert, so that the peer can
// distinguish it from a lost connection.
func (c *Conn) Close() error {
	end := c.Conn.Close
	if c.tls != nil {
		end = c.tls.Close                                           // sends no alert before the handshake
		cut := time.AfterFunc(grace, func() { _ = c.Conn.Close() }) // crypto/tls would wait 5 s for a peer that reads nothing
		defer cut.Stop()
	}
	err := end()
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.admit() // removes it from the strangers
	delete(c.l.open, c)
	return err
}
