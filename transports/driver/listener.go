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

// grace is how long a connection has to show the secret before others may take
// its place: a worker does it with its first request, as soon as it has connected.
const grace = 250 * time.Millisecond

// A Listener accepts connections, counts their bytes, and keeps strangers few:
// those who have not yet shown the session's secret. There are 256 of them at most,
// and 4 more a lane. For the next one the oldest is closed, but not within its
// grace: until then the next ones wait in the kernel. So a worker gets a connection
// however many others are made, and has the time to use it.
type Listener struct {
	net.Listener
	e              *Endpoint
	protocol       Protocol
	tls            *tls.Config // nil without TLS
	limit          int
	withdraw       []func() error // remove the files that were made
	sent, received *phase.Counter
	refusals       *phase.Counter
	freed          chan struct{}         // has room for one: there is a stranger less
	failed         atomic.Pointer[error] // of the last Accept; nil once one has succeeded
	refused        atomic.Pointer[error] // why the last connection that was refused was

	mu        sync.Mutex
	open      map[*Conn]bool // guarded by mu: connections; true for those that Dismiss spares
	strangers []*Conn        // guarded by mu: those of strangers, oldest first
	over      bool           // guarded by mu: nobody else is wanted
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

// announce writes a file, which Close removes.
func (l *Listener) announce(path, text string) error {
	withdraw, err := announce(path, text)
	if err == nil {
		l.withdraw = append(l.withdraw, withdraw)
	}
	return err
}

// Accept implements net.Listener. It waits while the machine has no room for
// another connection.
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
		_ = nc.Close() // its reader finds that out
	}
	if l.protocol.Wrap != nil {
		return l.protocol.Wrap(c), nil
	}
	return c, nil
}

// scarce reports whether a connection was not accepted for want of something that
// may be there again, such as descriptors.
func scarce(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}, func(e error) bool { return errors.Is(err, e) })
}

// Close implements net.Listener. Connections stay open.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	for _, withdraw := range l.withdraw {
		err = errors.Join(err, withdraw())
	}
	return err
}

// Explain adds to err, of who waits for a worker, why there may be none: what keeps
// connections from being accepted, and why the last of those that were refused was.
func (l *Listener) Explain(err error) error {
	if last := l.failed.Load(); last != nil {
		err = fmt.Errorf("%w (%w)", err, *last)
	}
	if last := l.refused.Load(); last != nil {
		err = fmt.Errorf("%w (the last connection that was refused: %.300s)", err, *last) // which may quote a stranger at length
	}
	return err
}

// makeRoom waits until there is room for a stranger. It takes grace at most.
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

// Count returns how many connections there are.
func (l *Listener) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Dismiss closes all connections but those that are kept, and those that come
// later.
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
		_ = c.Conn.Close() // it is being given up, without the goodbye of TLS; its reader finds that out
	}
}

// A Conn is the server's end of a connection: a stranger's until Admit. Where there is
// TLS, the handshake is made by the first Read or Write.
type Conn struct {
	Counted           // the socket
	tls     *tls.Conn // over it; nil without TLS
	opening opening   // between them
	shaken  sync.Once
	state   tls.ConnectionState // as the handshake has left it
	heard   bool                // without TLS: the peer has said something
	refusal sync.Once
	l       *Listener
	since   time.Time
	timer   *time.Timer // ends a stranger's connection
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if c.tls == nil {
		n, err := c.Counted.Read(b)
		if !c.heard {
			c.heard = true
			if n > 0 && b[0] == handshakeRecord { // which begins no protocol of ours
				c.Refused(errors.New("it speaks TLS, and this session does not: tls=off"))
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

// broke notes that a stranger is refused because of what it said in place of the secret,
// if it did not just leave.
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

// Refused notes that c is refused, and why. What comes of that is no other reason.
func (c *Conn) Refused(err error) {
	c.refusal.Do(func() {
		c.l.refused.Store(&err)
		c.l.refusals.Add(1)
	})
}

// Admit says that the peer has shown the secret, and reports whether it was a
// stranger before. Every request that shows it may call Admit.
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
	default: // it knows already
	}
	return true
}

// evict closes c if it is a stranger's.
func (c *Conn) evict() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.admit() {
		c.Refused(fmt.Errorf("it has not shown the session's secret within %v", time.Since(c.since).Round(time.Millisecond)))
		_ = c.Conn.Close() // it is being given up
		delete(c.l.open, c)
	}
}

// Keep makes Dismiss spare c.
func (c *Conn) Keep() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if _, open := c.l.open[c]; open {
		c.l.open[c] = true
	}
}

// Close implements net.Conn. With TLS it tells the peer that this is the end, and not
// that somebody cut the connection.
func (c *Conn) Close() error {
	end := c.Conn.Close
	if c.tls != nil {
		end = c.tls.Close                                           // which says nothing before there was a handshake
		cut := time.AfterFunc(grace, func() { _ = c.Conn.Close() }) // crypto/tls would wait 5 s for a peer that reads nothing
		defer cut.Stop()
	}
	err := end()
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.admit() // it is nobody's any more
	delete(c.l.open, c)
	return err
}
