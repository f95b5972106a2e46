package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"ipcbench/phase"
)

// dial connects to a socket. If several hundred workers do so at once, the queue of
// a Unix socket may be full (net.core.somaxconn): connect(2) does not wait for room
// as it does with TCP, it fails with EAGAIN. So dial tries again, ever more rarely,
// until ctx ends.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	var full error
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		c, err := d.DialContext(ctx, network, address)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.EAGAIN):
			full = err
		case full != nil:
			return nil, fmt.Errorf("%w: the queue of the socket was full: %w", err, full)
		default:
			return nil, err
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-ctx.Done(): // the next attempt says so
			again.Stop()
		}
	}
}

// SocketBuffer is how many bytes may be on their way in a Unix socket. With it,
// a writer runs ahead of its reader and both work at the same time, where the
// kernel's default of 208 KiB makes them take turns; much more falls out of the
// processor's cache. The kernel grants at most net.core.wmem_max, which the
// result records.
const SocketBuffer = 1 << 20

// enlarge gives a Unix socket its buffer, the same for every transport that sends
// tensors through one, so that a comparison of transports does not measure tuning. Sockets of
// TCP tune themselves. A smaller buffer costs speed only, so there is no error.
func enlarge(c net.Conn) {
	if u, ok := c.(*net.UnixConn); ok {
		_ = u.SetWriteBuffer(SocketBuffer) // see above
	}
}

// A Counted is a connection that counts the bytes which it moves.
type Counted struct {
	net.Conn
	sent, received *phase.Counter
}

// countBytes returns c, whose bytes are counted in rec from here on.
func countBytes(c net.Conn, rec *phase.Recorder) Counted {
	return Counted{Conn: c, sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived)}
}

// Read implements net.Conn.
func (c Counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(n)
	return n, err
}

// Write counts the bytes before they go: the peer may have them, and move on to the
// next window, before the write returns.
func (c Counted) Write(b []byte) (int, error) {
	c.sent.Add(len(b))
	n, err := c.Conn.Write(b)
	c.sent.Add(n - len(b)) // none, unless it failed
	return n, err
}

// WriteBuffers writes all of b with as few system calls as there can be, and consumes
// it. Where there is TLS, a connection is no Counted.
func (c Counted) WriteBuffers(b *net.Buffers) (int64, error) {
	length := 0
	for _, part := range *b {
		length += len(part)
	}
	c.sent.Add(length)
	n, err := b.WriteTo(c.Conn)
	c.sent.Add(int(n) - length) // none, unless it failed
	return n, err
}
