package batched

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/door"
)

// maxSocketPath is the longest path of a Unix socket: sun_path less its NUL.
const maxSocketPath = 107

// checkAddress refuses what is neither a Unix socket nor a loopback address:
// nothing here is encrypted.
func checkAddress(a address) error {
	switch a.network {
	case "unix":
		if len(a.at) > maxSocketPath {
			return fmt.Errorf("socket %s: path of %d bytes, at most %d fit", a.at, len(a.at), maxSocketPath)
		}
		return nil
	case "tcp":
		host, _, err := net.SplitHostPort(a.at)
		if err != nil {
			return err
		}
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("address %s: not a loopback address", a.at)
		}
		return nil
	}
	return fmt.Errorf("network %q: want unix or tcp", a.network)
}

// strangerTime is how long somebody may be connected who has not shown that they
// know the federation, which a worker does with its first request, as soon as it
// has connected.
const strangerTime = 10 * time.Second

// listenAt opens the listener of a server with so many lanes.
func listenAt(a address, lanes int, rec *phase.Recorder) (*door.Listener, error) {
	if err := checkAddress(a); err != nil {
		return nil, err
	}
	l, err := net.Listen(a.network, a.at)
	if err != nil {
		return nil, err
	}
	if a.network == "unix" {
		if err := os.Chmod(a.at, 0o600); err != nil {
			l.Close()
			return nil, err
		}
	}
	accepted := rec.Counter(phase.Accepted)
	return door.New(l, lanes, strangerTime, rec, func(c *door.Conn) net.Conn {
		accepted.Add(1)
		return &conn{Conn: c}
	}), nil
}

// dial opens a connection of w's.
func (w *worker) dial(ctx context.Context, _ string) (net.Conn, error) {
	if err := checkAddress(w.addr); err != nil {
		return nil, err
	}
	c, err := driver.Dial(ctx, w.addr.network, w.addr.at)
	if err != nil {
		return nil, err
	}
	driver.Enlarge(c)
	w.dialled.Add(1)
	return driver.Counted{Conn: c, Sent: w.sent, Received: w.received}, nil
}

// A conn is the server's end of a connection, and knows whose it is.
type conn struct {
	*door.Conn

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
