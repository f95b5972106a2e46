package batched

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc/peer"

	"ipcbench/phase"
	"ipcbench/transports"
)

// maxSocketPath is the longest path of a Unix socket: sun_path less its NUL.
const maxSocketPath = 107

// checkAddress refuses what is neither a Unix socket nor a loopback address:
// nothing here is encrypted or authenticated.
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

// wire counts what its connections move.
type wire struct{ sent, received, opened *phase.Counter }

// newWire returns the counters of one process; opened names that of connections.
func newWire(rec *phase.Recorder, opened string) *wire {
	return &wire{rec.Counter(phase.WireSent), rec.Counter(phase.WireReceived), rec.Counter(opened)}
}

// listen opens a listener that counts.
func (w *wire) listen(a address) (*listener, error) {
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
	return &listener{Listener: l, wire: w, open: map[*conn]bool{}}, nil
}

// dial opens a connection that counts.
func (w *wire) dial(ctx context.Context, a address) (net.Conn, error) {
	if err := checkAddress(a); err != nil {
		return nil, err
	}
	c, err := transports.Dial(ctx, a.network, a.at)
	if err != nil {
		return nil, err
	}
	transports.Enlarge(c)
	w.opened.Add(1)
	return &conn{Conn: c, wire: w}, nil
}

type listener struct {
	net.Listener
	wire *wire

	mu   sync.Mutex
	open map[*conn]bool // guarded by mu: connections that were accepted and not closed
	over bool           // guarded by mu: nobody else is wanted
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	transports.Enlarge(raw)
	l.wire.opened.Add(1)
	c := &conn{Conn: raw, wire: l.wire, from: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = true
	if l.over {
		_ = raw.Close() // gRPC finds that out by itself
	}
	return c, nil
}

// dismiss closes the connections that belong to no lane, those that come later
// included. gRPC's own stop waits for whoever has not said a word yet.
func (l *listener) dismiss() {
	l.mu.Lock()
	l.over = true
	var strangers []*conn
	for c := range l.open {
		if !c.belongs() {
			strangers = append(strangers, c)
		}
	}
	l.mu.Unlock()
	for _, c := range strangers {
		_ = c.Close() // it is being given up
	}
}

// A conn counts its bytes and knows whose it is.
type conn struct {
	net.Conn
	wire *wire
	from *listener // nil at the worker's end

	mu   sync.Mutex
	lane *lane // guarded by mu: set by the first request that names its sender
	shut bool  // guarded by mu
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.received.Add(n)
	return n, err
}

// Write counts the bytes before they go: the peer may have them, and move on to the
// next window, before the write returns.
func (c *conn) Write(b []byte) (int, error) {
	c.wire.sent.Add(len(b))
	n, err := c.Conn.Write(b)
	c.wire.sent.Add(n - len(b)) // none, unless it failed
	return n, err
}

// belongsTo says that c is a connection of lane l.
func (c *conn) belongsTo(l *lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lane == nil && !c.shut {
		c.lane = l
		l.connected(1)
	}
}

// belongs reports whether c is a connection of any lane.
func (c *conn) belongs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane != nil
}

func (c *conn) Close() error {
	if c.from != nil {
		c.from.mu.Lock()
		delete(c.from.open, c)
		c.from.mu.Unlock()
	}
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
