package http

import (
	"net/http"
	"sync"

	"ipcbench/phase"
	"ipcbench/transports/driver"
)

// A conn is the server's end of a connection.
type conn struct {
	*driver.Conn

	mu     sync.Mutex
	lane   *lane // guarded by mu: whose worker lives at the other end; nil if nobody said so
	closed bool  // guarded by mu
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// connOf returns the connection that a request came on.
func connOf(q *http.Request) *conn { return q.Context().Value(connKey{}).(*conn) }

// Close tells the lane that its worker is gone. net/http closes a connection as
// soon as it reads its end, also while a request is being answered.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	l := c.lane
	if c.closed {
		l = nil // it was told
	}
	c.closed = true
	c.mu.Unlock()
	if l != nil {
		l.lost(c)
	}
	return err
}

// id returns whose work a request on c belongs to, as far as it is known.
func (c *conn) id() phase.ID {
	c.mu.Lock()
	l := c.lane
	c.mu.Unlock()
	if l != nil {
		if o, _ := l.mail.Task(); o != nil {
			return o.id
		}
	}
	return phase.ID{Lane: -1, Round: -1, Client: -1}
}

// bind makes c the connection of l's worker. It fails if c has closed already.
func (c *conn) bind(l *lane) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.lane = l
	return true
}
