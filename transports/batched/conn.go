package batched

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"ipcbench/transports/driver"
)

// A conn is the server's end of a connection, and knows whose it is.
type conn struct {
	*driver.Conn

	mu   sync.Mutex
	lane *lane // guarded by mu: set by the first request that names its sender
	shut bool  // guarded by mu
}

// belongsTo says that c is a connection of lane l.
func (c *conn) belongsTo(l *lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lane == nil && !c.shut {
		c.lane = l
		c.Keep()
		l.connected(1)
	}
}

// Close tells the lane.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.lane != nil && !c.shut {
		c.lane.connected(-1)
	}
	c.shut = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// RemoteAddr is how handlers find the connection of their request: gRPC hands it
// to them as the peer's address.
func (c *conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

type connAddr struct {
	net.Addr
	conn *conn
}

// connOf returns the connection of a handler's request.
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

// secured makes the handshake of TLS, if there is TLS, before gRPC makes its buffers:
// half a handshake does not hold half a megabyte.
type secured struct {
	credentials.TransportCredentials
}

func newSecured() credentials.TransportCredentials { return secured{insecure.NewCredentials()} }

// ServerHandshake implements credentials.TransportCredentials.
func (s secured) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if err := c.(*conn).Secure(); err != nil {
		return nil, nil, err
	}
	return s.TransportCredentials.ServerHandshake(c)
}

// Clone implements credentials.TransportCredentials.
func (s secured) Clone() credentials.TransportCredentials { return s }
