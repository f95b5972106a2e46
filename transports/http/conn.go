package http

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/door"
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
// holds the session's address.
const addressFile = "http-address"

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

func dialAddr(ctx context.Context, addr string) (net.Conn, error) {
	network, where, _, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	conn, err := driver.Dial(ctx, network, where)
	if err == nil {
		driver.Enlarge(conn)
	}
	return conn, err
}

// A conn is the server's end of a connection.
type conn struct {
	*door.Conn

	mu     sync.Mutex
	lane   *lane // guarded by mu: whose worker lives at the other end; nil if nobody said so
	closed bool  // guarded by mu
}

func newConn(c *door.Conn) net.Conn { return &conn{Conn: c} }

// connKey is the key of a request's connection in its context.
type connKey struct{}

// connOf returns the connection that a request came on.
func connOf(q *http.Request) *conn { return q.Context().Value(connKey{}).(*conn) }

// Close tells the lane that its worker is gone. net/http closes a connection as
// soon as it reads its end, also while a request is being answered.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	ln := c.lane
	if c.closed {
		ln = nil // it was told
	}
	c.closed = true
	c.mu.Unlock()
	if ln != nil {
		ln.lost(c)
	}
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
