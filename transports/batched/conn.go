package batched

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"ipcbench/phase"
	"ipcbench/transports"
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

// wire counts what its connections move.
type wire struct{ sent, received, opened *phase.Counter }

// newWire returns the counters of one process; opened names that of connections.
func newWire(rec *phase.Recorder, opened string) *wire {
	return &wire{rec.Counter(phase.WireSent), rec.Counter(phase.WireReceived), rec.Counter(opened)}
}

// Strangers are those who have not yet shown that they know the federation, which
// a worker does with its first request, as soon as it has connected. A listener
// keeps so many of them beside one for each lane, and none for longer than that.
const (
	strangers    = 64
	strangerTime = 10 * time.Second
)

// listen opens a listener that counts.
func (w *wire) listen(a address, lanes int) (*listener, error) {
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
	return &listener{
		Listener: l, wire: w, most: lanes + strangers, patience: strangerTime,
		open: map[*conn]bool{},
	}, nil
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
	wire     *wire
	most     int           // strangers at a time
	patience time.Duration // with a stranger

	mu        sync.Mutex
	open      map[*conn]bool // guarded by mu: connections that were accepted and not closed
	strangers []*conn        // guarded by mu: those of them that nobody has answered for, oldest first
	over      bool           // guarded by mu: nobody else is wanted
}

// Accept makes room for a new stranger at the cost of the oldest one: whoever
// knows the federation has said so by then, and whoever floods the listener
// meets only themselves.

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	transports.Enlarge(raw)
	l.wire.opened.Add(1)
	c := &conn{Conn: raw, wire: l.wire, from: l}
	var oldest *conn
	l.mu.Lock()
	l.open[c] = true
	c.timer = time.AfterFunc(l.patience, func() { _ = c.Close() }) // it is being given up
	if l.strangers = append(l.strangers, c); len(l.strangers) > l.most {
		oldest = l.strangers[0]
	}
	if l.over {
		_ = raw.Close() // gRPC finds that out by itself
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // likewise
	}
	return c, nil
}

// know says that the one at the other end of c knows the federation.
func (l *listener) know(c *conn) {
	if c.known.Load() {
		return
	}
	c.known.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noStranger(c)
}

// noStranger takes c off the list of strangers. The caller holds mu.
func (l *listener) noStranger(c *conn) {
	c.timer.Stop()
	if i := slices.Index(l.strangers, c); i >= 0 {
		l.strangers = slices.Delete(l.strangers, i, i+1)
	}
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

	known atomic.Bool // no stranger's
	timer *time.Timer // guarded by from.mu: ends a stranger's connection

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
		c.from.noStranger(c)
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
