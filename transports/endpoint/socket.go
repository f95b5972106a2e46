package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"ipcbench/phase"
)

// dial connects to a socket. If several hundred workers dial at the same time, the
// queue of a Unix socket may be full (net.core.somaxconn). Then connect(2) fails with
// EAGAIN, because only with TCP does it wait for room. So dial retries until ctx ends,
// after waits that grow from 1 to 50 ms.
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
		case <-ctx.Done(): // the next attempt returns its error
			again.Stop()
		}
	}
}

// SocketBuffer is the size of a Unix socket's send buffer, in bytes. It is large enough
// for writer and reader to work at the same time; with the kernel's default of 208 KiB
// they take turns. Much larger buffers do not fit into the processor's cache. The kernel
// grants at most net.core.wmem_max, which the result records.
const SocketBuffer = 1 << 20

// enlarge sets the send buffer of a Unix socket to SocketBuffer. All transports that
// send tensors through one use this size, so that comparisons do not measure tuning.
// The kernel tunes TCP sockets itself. A smaller buffer only costs speed, so errors are
// ignored.
func enlarge(c net.Conn) {
	if u, ok := c.(*net.UnixConn); ok {
		_ = u.SetWriteBuffer(SocketBuffer)
	}
}

// A Counted is a connection that counts the bytes read from and written to it.
type Counted struct {
	net.Conn
	sent, received *phase.Counter
}

// countBytes wraps c to count its bytes in rec.
func countBytes(c net.Conn, rec *phase.Recorder) Counted {
	return Counted{Conn: c, sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived)}
}

// FileConn returns the connection whose Unix socket is f, like those of an [Endpoint]. It takes
// ownership of f.
func FileConn(f *os.File, rec *phase.Recorder) (Counted, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return Counted{}, err
	}
	enlarge(c)
	return countBytes(c, rec), nil
}

// Read implements net.Conn.
func (c Counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(n)
	return n, err
}

// Write counts bytes before it sends them, because the peer may get them, and begin the
// next window of samples, before Write returns.
func (c Counted) Write(b []byte) (int, error) {
	c.sent.Add(len(b))
	n, err := c.Conn.Write(b)
	c.sent.Add(n - len(b)) // 0, unless Write failed
	return n, err
}

// WriteBuffers writes all of b with as few system calls as possible, and consumes it. It
// must not be used with TLS, because it writes below the encryption; connections that
// Endpoint.Dial returns with TLS are not Counted.
func (c Counted) WriteBuffers(b *net.Buffers) (int64, error) {
	length := 0
	for _, part := range *b {
		length += len(part)
	}
	c.sent.Add(length)
	n, err := b.WriteTo(c.Conn)
	c.sent.Add(int(n) - length) // 0, unless WriteTo failed
	return n, err
}
