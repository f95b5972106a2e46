package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/endpoint"
)

var networks = []string{"unix", "unixpacket", "tcp"}

// lanesOf returns lanes that workers can join, their endpoint and their options.
func lanesOf(t testing.TB, network string, patience time.Duration, n int) (*endpoint.Lanes, *endpoint.Endpoint,
	endpoint.Session) {
	t.Helper()
	e := endpoint.New(t.TempDir())
	e.Variant, e.Patience = "mine", patience
	o := endpoint.Session{Down: layout(t, 1), Up: layout(t, 2), Lanes: n}
	lanes := check.Value(e.ListenLanes(t.Context(), network, o))(t)
	t.Cleanup(func() { check.OK(t, lanes.Dismiss()) })
	return lanes, e, o
}

// stranger connects to e without a hello.
func stranger(t testing.TB, e *endpoint.Endpoint) net.Conn {
	t.Helper()
	network, where, _ := strings.Cut(e.Addr(), ":")
	c := check.Value(endpoint.At(network+":"+where, "").Dial(waiting.Context(t), nil))(t)
	t.Cleanup(func() { c.Close() })
	waiting.Conn(t, c)
	return c
}

// joins fails the test unless a worker can join lane.
func joins(t testing.TB, lanes *endpoint.Lanes, e *endpoint.Endpoint, lane int, o endpoint.Session) {
	t.Helper()
	ctx := waiting.Context(t)
	c := check.Value(e.DialLane(ctx, lane, o))(t)
	defer c.Close()
	there := check.Value(lanes.Conn(ctx, lane))(t)
	defer there.Close()
	speaks(t, there, c)
}

// speaks fails the test unless a byte written to one end arrives at the other.
func speaks(t testing.TB, from, to net.Conn) {
	t.Helper()
	check.OK(t, check.Err(from.Write([]byte("x"))))
	n, err := to.Read(make([]byte, 9))
	check.That(t, n == 1 && err == nil, "%d bytes have come: %v", n, err)
}

// TestNoHello: a peer that does not send a hello gets no answer. It is disconnected at
// once, or at its time limit if a hello could still follow. A wrong hello with the secret
// is answered with the reason.
func TestNoHello(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			_, e, _ := lanesOf(t, network, 200*time.Millisecond, 1)
			good, wrong := e.Secret(), strings.Repeat("A", len(e.Secret()))
			for name, said := range map[string]string{
				"nothing":              "",
				"half a secret":        good[:10],
				"garbage":              strings.Repeat("\xff", 4000),
				"a wrong secret":       wrong + "\x00\x02{}",
				"another protocol":     "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + strings.Repeat("x", 100),
				"a secret and silence": good,
				"no length":            good + "\x00",
				"half a hello":         good + "\x00\x10{\"pro",
				"too long a hello":     good + "\xff\xff{}",
				"data after the hello": good + "\x00\x02{}more",
				"no JSON":              good + "\x00\x02xx",
				"JSON of another kind": good + "\x00\x07[1,2,3]",
				"a huge lane":          good + "\x00\x1f{\"lane\":99999999999999999999999}",
			} {
				c := stranger(t, e)
				check.Must(t, check.Err(c.Write([]byte(said))))
				ended(t, name, c)
			}
			lanes, e, o := lanesOf(t, network, time.Hour, 1) // on a busy machine 200 ms may be too little
			c := stranger(t, e)                              // knows the secret, and so gets the reason
			check.Must(t, check.Err(c.Write([]byte(e.Secret()+"\x00\x02{}"))))
			b, err := io.ReadAll(c)
			check.That(t, err == nil && len(b) >= 2 && strings.Contains(string(b[2:]), "protocol version 0"),
				"a hello of another version: heard %q, %v", b, err)
			joins(t, lanes, e, 0, o)
		})
	}
}

// TestConn: Conn returns a lane's worker even if the context has ended. If there is none,
// it returns the reason.
func TestConn(t *testing.T) {
	lanes, e, o := lanesOf(t, "unix", time.Hour, 2)
	c := check.Value(e.DialLane(t.Context(), 0, o))(t)
	defer c.Close()
	there := check.Value(lanes.Conn(t.Context(), 0))(t)
	defer there.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		got, err := lanes.Conn(over, 0)
		check.Need(t, got == there && err == nil, "got %v, %v, want the connection", got, err)
	}
	if _, err := lanes.Conn(over, 1); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "no worker has connected") {
		t.Errorf("got %v, want that there is no worker", err)
	}
}

// TestShutdown: a worker that does not leave does not keep others from learning of the end,
// and is the only one named in the error.
func TestShutdown(t *testing.T) {
	var left sync.WaitGroup
	lanes, e, o := lanesOf(t, "unix", time.Hour, 3)
	for lane := range 3 {
		c := check.Value(e.DialLane(t.Context(), lane, o))(t)
		t.Cleanup(func() { c.Close() })
		if lane == 0 {
			continue // never reads
		}
		left.Go(func() {
			_, _ = c.Read(make([]byte, 1))
			c.Close()
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		left.Wait()
		waiting.Later(t, time.Second, cancel)
	}()
	err := lanes.Shutdown(ctx, func(lane int, c *endpoint.Conn) error {
		if lane == 0 { // more than a socket holds
			return endpoint.During(ctx, c, func() error { _, err := c.Write(make([]byte, 64<<20)); return err })
		}
		check.That(t, ctx.Err() == nil, "say was called too late for lane %d", lane)
		_, err := c.Write([]byte("x"))
		return err
	})
	check.That(t, err == nil, "got %v, want no error: nobody who got the message stayed", err)

	lanes, e, o = lanesOf(t, "unix", time.Hour, 3)
	for lane := range 3 {
		c := check.Value(e.DialLane(t.Context(), lane, o))(t)
		t.Cleanup(func() { c.Close() })
		if lane != 1 {
			c.Close()
		}
	}
	err = lanes.Shutdown(waiting.Ending(t, time.Second), func(int, *endpoint.Conn) error { return nil })
	want := "lane 1: its worker has not disconnected: context deadline exceeded"
	check.That(t, err != nil && err.Error() == want, "got %v, want %q", err, want)
}

// TestDuring: if the context ends, During returns its cause even if the call succeeds. If
// the peer has gone, the error is always the same.
func TestDuring(t *testing.T) {
	lanes, e, o := lanesOf(t, "unix", time.Hour, 1)
	c := check.Value(e.DialLane(t.Context(), 0, o))(t)
	a := check.Value(lanes.Conn(t.Context(), 0))(t)
	defer a.Close()
	if _, err := a.Write([]byte("x")); err != nil { // unread data turns a close into a reset
		t.Fatal(err)
	}
	c.Close()
	for name, f := range map[string]func([]byte) (int, error){"read": a.Read, "write": a.Write} {
		err := endpoint.During(t.Context(), a, func() error { _, err := f(make([]byte, 1)); return err })
		check.That(t, err != nil && strings.HasPrefix(err.Error(), "the peer has closed the connection: "),
			"%s: got %v, want that the peer has closed the connection", name, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	err := endpoint.During(ctx, a, func() error { cancel(why); return nil })
	check.Is(t, err, why)
}

// TestOutOfDescriptors: a server without descriptors says so in Conn's error, and accepts
// connections once it has some.
func TestOutOfDescriptors(t *testing.T) {
	lanes, e, o := lanesOf(t, "unix", time.Hour, 1)
	ctx := waiting.Context(t)
	waiting := check.Value(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(waiting)
	before := descriptors(t, 0) // no further descriptor for this process
	restore := func() { descriptors(t, before) }
	defer restore()
	_, path, _ := strings.Cut(e.Addr(), ":")
	check.Must(t, unix.Connect(waiting, &unix.SockaddrUnix{Name: path}))
	says(t, lanes, unix.EMFILE)
	restore()
	worker, err := e.DialLane(ctx, 0, o) // queued after the first connection
	check.Must(t, err)
	defer worker.Close()
	c := check.Value(lanes.Conn(ctx, 0))(t)
	c.Close()
}

// TestBrokenSocket: if a server can no longer accept connections, Conn's error says why.
func TestBrokenSocket(t *testing.T) {
	lanes, e, _ := lanesOf(t, "tcp", time.Hour, 1) // breaking a Unix socket would not wake the server
	broken := false
	for fd := range 1024 {
		at, _ := unix.Getsockname(fd) // most are not sockets
		if at, ok := at.(*unix.SockaddrInet4); ok && strings.HasSuffix(e.Addr(), fmt.Sprintf(":%d", at.Port)) {
			broken = unix.Shutdown(fd, unix.SHUT_RDWR) == nil
		}
	}
	check.Need(t, broken, "no descriptor is that of the listener")
	says(t, lanes, unix.EINVAL)
}

// says waits until Conn's error for lane 0 contains the reason why no worker connects.
func says(t *testing.T, lanes *endpoint.Lanes, why error) {
	t.Helper()
	waiting.Until(t, "why nobody connects", func() bool {
		_, err := lanes.Conn(waiting.Ending(t, time.Millisecond), 0)
		check.Need(t, errors.Is(err, context.DeadlineExceeded), "got error %v, want a wait for the worker", err)
		return errors.Is(err, why)
	})
}

// descriptors sets the limit of open files and returns the previous one.
func descriptors(t *testing.T, n uint64) uint64 {
	t.Helper()
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	before := limit.Cur
	limit.Cur = n
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	check.Must(t, err)
	return before
}

// FuzzHello: whatever follows the secret, the server answers with a framed message or just
// closes the connection. It never sends the secret.
func FuzzHello(f *testing.F) {
	_, e, _ := lanesOf(f, "unix", time.Hour, 1)
	f.Add([]byte("\x00\x02{}"))
	f.Add([]byte("\x00\x00"))
	f.Add([]byte("\xff\xff"))
	f.Add([]byte("\x00\x0e{\"protocol\":1}"))
	f.Fuzz(func(t *testing.T, hello []byte) {
		c := stranger(t, e).(endpoint.Counted).Conn.(*net.UnixConn)
		_, err := c.Write(append([]byte(e.Secret()), hello...))
		if err == nil {
			err = c.CloseWrite()
		}
		if err != nil {
			return // closed during the write
		}
		heard, err := io.ReadAll(c)
		check.That(t, !errors.Is(err, os.ErrDeadlineExceeded), "the connection stays")
		n := len(heard)
		check.That(t, n <= 0 || n >= 2 && n-2 == int(heard[0])<<8|int(heard[1]) && n != 2, "heard %q", heard)
		check.That(t, !strings.Contains(string(heard), e.Secret()), "heard the secret: %q", heard)
	})
}
