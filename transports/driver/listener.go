package driver

import (
	"errors"
	"net"
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
	limit          int
	patience       time.Duration // for a stranger
	wrap           func(*Conn) net.Conn
	withdraw       func() error // removes the file that holds the address
	sent, received *phase.Counter
	freed          chan struct{}         // has room for one: there is a stranger less
	failed         atomic.Pointer[error] // of the last Accept; nil once one has succeeded

	mu        sync.Mutex
	open      map[*Conn]bool // guarded by mu: connections; true for those that Dismiss spares
	strangers []*Conn        // guarded by mu: those of strangers, oldest first
	over      bool           // guarded by mu: nobody else is wanted
}

func newListener(l net.Listener, lanes int, patience time.Duration, rec *phase.Recorder, wrap func(*Conn) net.Conn) *Listener {
	return &Listener{
		Listener: l, limit: 256 + 4*lanes, patience: patience, wrap: wrap, withdraw: func() error { return nil },
		sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
		freed: make(chan struct{}, 1), open: map[*Conn]bool{},
	}
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
	l.mu.Lock()
	defer l.mu.Unlock()
	c.timer = time.AfterFunc(l.patience, c.evict)
	l.open[c] = false
	l.strangers = append(l.strangers, c)
	if l.over {
		_ = nc.Close() // its reader finds that out
	}
	return l.wrap(c), nil
}

// scarce reports whether a connection was not accepted for want of something that
// may be there again, such as descriptors.
func scarce(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}, func(e error) bool { return errors.Is(err, e) })
}

// Close implements net.Listener. Connections stay open.
func (l *Listener) Close() error { return errors.Join(l.Listener.Close(), l.withdraw()) }

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
		_ = c.Close() // it is being given up
	}
}

// A Conn is the server's end of a connection: a stranger's until Admit.
type Conn struct {
	Counted
	l     *Listener
	since time.Time
	timer *time.Timer // ends a stranger's connection
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

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.admit() // it is nobody's any more
	delete(c.l.open, c)
	return err
}
