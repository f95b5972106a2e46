package http

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ipcbench/phase"
	"ipcbench/transports"
)

// listen opens the session's socket and returns where it is: unix:/path or
// tcp:127.0.0.1:port. With the session's secret behind it, that is its address.
func listen(ctx context.Context, network, dir string) (net.Listener, string, error) {
	var lc net.ListenConfig
	if network == "tcp" {
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		return l, "tcp:" + l.Addr().String(), nil
	}
	f, err := os.CreateTemp(dir, "http-*.sock") // a name that no other session in dir has
	if err != nil {
		return nil, "", err
	}
	path := f.Name()
	f.Close()
	if err := os.Remove(path); err != nil {
		return nil, "", err
	}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, "", err
	}
	return l, "unix:" + path, nil
}

// addressFile is the name of the file, in the session's private directory, that
// holds the session's address: for whoever wants to talk to the store with a
// client of his own.
const addressFile = "http-address"

// writeAddress writes that file. Its error leaves nothing behind.
func writeAddress(dir, addr string) (path string, err error) {
	path = filepath.Join(dir, addressFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(addr + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// splitAddr splits an address: unix:PATH#SECRET or tcp:HOST:PORT#SECRET. Its
// error does not quote the address, which may hold a secret.
func splitAddr(addr string) (network, where, secret string, err error) {
	network, where, _ = strings.Cut(addr, ":")
	i := strings.LastIndexByte(where, '#') // a path may have one, a secret has none
	if network != "unix" && network != "tcp" || i < 0 {
		return "", "", "", errors.New("malformed address: want unix:PATH#SECRET or tcp:HOST:PORT#SECRET")
	}
	return network, where[:i], where[i+1:], nil
}

// bearer is the value of the header field that shows a secret.
func bearer(secret string) string { return "Bearer " + secret }

func dialAddr(ctx context.Context, addr string) (net.Conn, error) {
	network, where, _, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	conn, err := transports.Dial(ctx, network, where)
	if err == nil {
		transports.Enlarge(conn)
	}
	return conn, err
}

// A listener counts the bytes on the connections that it accepts, and bounds how
// many there are on which nobody has shown the session's secret. Above the limit
// the oldest of those is closed, but not before it had time to show it: until
// then the next ones wait in the kernel. So a worker gets a connection however
// many others are made, and has the time to use it.
type listener struct {
	net.Listener
	limit          int
	sent, received *phase.Counter
	freed          chan struct{} // has room for one: there is a stranger less

	mu        sync.Mutex
	open      int       // guarded by mu: connections
	strangers list.List // guarded by mu: of *conn, those without the secret, oldest first
}

// grace is how long a connection has for its first request before others may
// take its place: a worker writes it right after it has connected.
const grace = 250 * time.Millisecond

func newListener(l net.Listener, lanes int, rec *phase.Recorder) *listener {
	return &listener{
		Listener: l, limit: 256 + 4*lanes, freed: make(chan struct{}, 1),
		sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
	}
}

func (l *listener) Accept() (net.Conn, error) {
	l.makeRoom()
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	transports.Enlarge(nc)
	c := &conn{Conn: nc, l: l, since: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	c.stranger = l.strangers.PushBack(c)
	return c, nil
}

// makeRoom waits until there is room for a stranger. It takes grace at most.
func (l *listener) makeRoom() {
	for {
		l.mu.Lock()
		if l.strangers.Len() < l.limit {
			l.mu.Unlock()
			return
		}
		oldest := l.strangers.Front().Value.(*conn)
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

// count returns how many connections there are.
func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// A conn is the server's end of a connection.
type conn struct {
	net.Conn
	l     *listener
	since time.Time
	once  sync.Once

	stranger *list.Element // guarded by l.mu: its place in l.strangers; nil once somebody has shown the secret on it

	mu     sync.Mutex
	lane   *lane // guarded by mu: whose worker lives at the other end; nil if nobody said so
	closed bool  // guarded by mu
}

// evict closes c if nobody has shown the secret on it.
func (c *conn) evict() {
	if c.known() {
		c.Close()
	}
}

// known takes c from those who have not shown the secret, and reports whether it
// was one of them.
func (c *conn) known() bool {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.stranger == nil {
		return false
	}
	c.l.strangers.Remove(c.stranger)
	c.stranger = nil
	select {
	case c.l.freed <- struct{}{}:
	default: // it is told already
	}
	return true
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.l.received.Add(n)
	return n, err
}

// Write counts the bytes before they go: the peer may have them, and move on to the
// next window, before the write returns.
func (c *conn) Write(b []byte) (int, error) {
	c.l.sent.Add(len(b))
	n, err := c.Conn.Write(b)
	c.l.sent.Add(n - len(b)) // none, unless it failed
	return n, err
}

// Close tells the lane that its worker is gone. net/http closes a connection as
// soon as it reads its end, also while a request is being answered.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.known()
		c.l.mu.Lock()
		c.l.open--
		c.l.mu.Unlock()
		c.mu.Lock()
		c.closed = true
		ln := c.lane
		c.mu.Unlock()
		if ln != nil {
			ln.lost(c)
		}
	})
	return err
}

// id returns whose work a request on c belongs to, as far as it is known.
func (c *conn) id() phase.ID {
	c.mu.Lock()
	l := c.lane
	c.mu.Unlock()
	if l == nil {
		return phase.ID{Lane: -1, Round: -1, Client: -1}
	}
	j, _ := l.mail.Job()
	return phase.ID{Lane: l.n, Round: j.Round, Client: j.Client}
}

// bind makes c the connection of ln's worker. It fails if c has closed already.
func (c *conn) bind(ln *lane) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.lane = ln
	return true
}
