package endpoint_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/transports/endpoint"
)

// encrypted returns the endpoint and lanes of a session of two lanes, and its options.
func encrypted(t *testing.T, network, mode string) (*endpoint.Endpoint, *endpoint.Lanes, endpoint.Session) {
	t.Helper()
	l := layout(t, 3)
	e := endpoint.New(t.TempDir())
	o := endpoint.Session{Down: l, Up: l, Lanes: 2, TLS: mode, Rec: phase.NewRecorder(1)}
	lanes := check.Value(e.ListenLanes(t.Context(), network, o))(t)
	t.Cleanup(func() {
		check.OK(t, lanes.Shutdown(waiting.Context(t), func(int, *endpoint.Conn) error { return io.EOF }))
	})
	return e, lanes, o
}

// TestTLS: workers can join a session with TLS, bytes arrive, and wire bytes include the
// TLS records' overhead.
func TestTLS(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		for _, mode := range []string{"off", "on", "mutual"} {
			t.Run(network+"/"+mode, func(t *testing.T) {
				e, lanes, o := encrypted(t, network, mode)
				w := check.Value(e.Worker(1))(t)
				o.Rec = phase.NewRecorder(1)
				c := check.Value(w.DialLane(t.Context(), 1, o))(t)
				defer c.Close()
				s := check.Value(lanes.Conn(t.Context(), 1))(t)
				before := o.Rec.Counts()[phase.WireReceived]
				const size = 100_000
				go s.Write(make([]byte, size))
				check.Must(t, check.Err(io.ReadFull(c, make([]byte, size))))
				// RFC 8446: a record of up to 16 KiB has a header of 5 bytes, its type and
				// a tag of 16.
				want := int64(size)
				counts := o.Rec.Counts()
				n, took := counts[phase.Handshakes], counts[phase.HandshakeTime]
				if mode != "off" {
					want += (size + 16<<10 - 1) / (16 << 10) * 22
				}
				got := o.Rec.Counts()[phase.WireReceived] - before
				check.That(t, got == want, "got %d bytes for %d, want %d", got, size, want)
				if with := mode != "off"; with != (n == 1) || with != (took > 0) || with != strings.HasPrefix(w.Cipher(), "TLS_") {
					t.Errorf("got %d handshakes in %v ns with cipher %q", n, took, w.Cipher())
				}
			})
		}
	}
}

// TestShutdownWithTLS: a worker that has stopped reading does not delay the end longer with
// TLS than without.
func TestShutdownWithTLS(t *testing.T) {
	e, lanes, o := encrypted(t, "unix", "on")
	w := check.Value(e.Worker(0))(t)
	c, err := w.DialLane(t.Context(), 0, o)
	check.Must(t, err)
	defer c.Close()
	ctx := waiting.Ending(t, 100*time.Millisecond)
	waiting.Promise(t, "O21", 4*time.Second, func() { // crypto/tls alone waits for 5 s
		err = lanes.Shutdown(ctx, func(_ int, c *endpoint.Conn) error { // more than a socket holds
			return endpoint.During(ctx, c, func() error { _, err := c.Write(make([]byte, 64<<20)); return err })
		})
	})
	check.OK(t, err)
}

// TestLongRefusal: a stranger's TLS hello may name 64 KiB of protocols, but the error that
// quotes it stays short.
func TestLongRefusal(t *testing.T) {
	_, _, o := encrypted(t, "unix", "on")
	e := endpoint.New(t.TempDir())
	l := check.Value(e.Listen(t.Context(), "unix", o, endpoint.Protocol{Name: "h2"}))(t)
	defer l.Close()
	go func() {
		c, err := net.Dial("unix", strings.TrimPrefix(e.Addr(), "unix:"))
		if err != nil {
			return
		}
		defer c.Close()
		config := &tls.Config{InsecureSkipVerify: true}
		for range 200 {
			config.NextProtos = append(config.NextProtos, strings.Repeat("\x1b", 255))
		}
		_ = tls.Client(c, config).Handshake() // the server refuses it
	}()
	c := check.Value(l.Accept())(t)
	defer c.Close()
	err := check.Err(c.Read(make([]byte, 1)))
	check.That(t, err != nil, "a client of another protocol is let in")
	said := l.Explain(io.EOF).Error()
	check.That(t, strings.Contains(said, "unsupported application protocols") && len(said) <= 1000,
		"got %d bytes: %.200s", len(said), said)
}
