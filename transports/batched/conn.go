package batched

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"ipcbench/transports/endpoint"
)

// A conn is the server's end of a connection, with the lane that uses it.
type conn struct {
	*endpoint.Conn

	mu   sync.Mutex
	lane *lane // guarded by mu: set by the first request that names its sender
	shut bool  // guarded by mu
}

// belongsTo makes c a connection of lane l, unless it has a lane already or is closed.
func (c *conn) belongsTo(l *lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lane == nil && !c.shut {
		c.lane = l
		c.Keep()
		l.connected(1)
	}
}

// Close closes the connection and removes it from its lane's count.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.lane != nil && !c.shut {
		c.lane.connected(-1)
	}
	c.shut = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// RemoteAddr returns an address that contains c. gRPC passes it to handlers as the peer's
// address: see connOf.
func (c *conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

type connAddr struct {
	net.Addr
	conn *conn
}

// connOf returns the connection of the request with context ctx, or nil.
func connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, ok := p.Addr.(connAddr)
	if !ok {
		return nil
	}
	return a.conn
}

// secured performs the TLS handshake, if TLS is on, before gRPC allocates its buffers.
// Otherwise an unfinished handshake would hold half a megabyte.
type secured struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (s secured) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := c.(*conn).Secure(); err != nil {
		return nil, nil, err
	}
	return s.TransportCredentials.ServerHandshake(c)
}

// Clone implements credentials.TransportCredentials.
func (s secured) Clone() credentials.TransportCredentials { return s }
