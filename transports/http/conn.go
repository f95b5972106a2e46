package http

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"ipcbench/phase"
	"ipcbench/transports"
)

// listen opens the session's socket. The address that it returns is what
// dialAddr understands: unix:/path or tcp:127.0.0.1:port.
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

func dialAddr(ctx context.Context, addr string) (net.Conn, error) {
	network, address, ok := strings.Cut(addr, ":")
	if !ok || network != "unix" && network != "tcp" {
		return nil, fmt.Errorf("address %q: want unix:PATH or tcp:HOST:PORT", addr)
	}
	conn, err := transports.Dial(ctx, network, address)
	if err == nil {
		transports.Enlarge(conn)
	}
	return conn, err
}

// A listener counts the connections that it accepts and the bytes on them, and
// turns away those above its limit.
type listener struct {
	net.Listener
	limit          int64
	open           atomic.Int64
	sent, received *phase.Counter
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) > l.limit {
			l.open.Add(-1)
			c.Close()
			continue
		}
		transports.Enlarge(c)
		return &conn{Conn: c, l: l}, nil
	}
}

// A conn is the server's end of a connection.
type conn struct {
	net.Conn
	l    *listener
	once sync.Once

	mu     sync.Mutex
	lane   *lane // guarded by mu: whose worker lives at the other end; nil if nobody said so
	closed bool  // guarded by mu
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
		c.l.open.Add(-1)
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
