package floors

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// near returns a Far whose other host is this one.
func near(play func(context.Context, Order) error) *Far {
	return &Far{
		Listen: func(ctx context.Context) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		},
		Play: play,
	}
}

// dial connects to the measuring host and sends the token.
func dial(o Order, token string) (net.Conn, error) {
	conn, err := net.Dial("tcp", o.Addr)
	if err == nil {
		_, err = conn.Write([]byte(token))
	}
	return conn, err
}

// TestFar: the TCP floors can be measured with their second part on another host, even while strangers connect, some of
// which send nothing.
func TestFar(t *testing.T) {
	for _, f := range All() {
		if !f.TCP {
			continue
		}
		far := near(func(ctx context.Context, o Order) error {
			strangers := 16
			if f.TLS {
				strangers = 2
			}
			for i := range strangers {
				token := ""
				if i == 0 { // the others send nothing
					token = strings.Repeat("?", tokenSize)
				}
				stranger, err := dial(o, token)
				if err != nil {
					return err
				}
				defer stranger.Close()
			}
			return Play(ctx, o)
		})
		plausible(t, f, Params{Bytes: 1 << 20, Far: far})
	}
}

// TestFarFails: an error on the other host ends the measurement at once and is returned.
func TestFarFails(t *testing.T) {
	for name, c := range map[string]struct {
		floor string
		play  func(context.Context, Order) error
		want  string
	}{
		"refused": {"tcp-stream", func(context.Context, Order) error { return errors.New("no such luck") }, "the other host: no such luck"},
		"goes": {"tcp-stream", func(ctx context.Context, o Order) error {
			conn, err := dial(o, o.Token)
			if err != nil {
				return err
			}
			defer conn.Close()
			return errors.New("out of memory")
		}, "the other host: out of memory"},
	} {
		check.Fails(t, check.Err(Measure(waiting.Context(t), c.floor, Params{Far: near(c.play)})), c.want, name)
	}
}

// TestPlayOrders: a host plays only floors between hosts; Play rejects any other order.
func TestPlayOrders(t *testing.T) {
	token := strings.Repeat("A", tokenSize)
	for _, o := range []Order{
		{},
		{"copy", "127.0.0.1:1", token},
		{"unix-stream", "127.0.0.1:1", token},
		{"futex", "127.0.0.1:1", token},
		{"rm", "127.0.0.1:1", token},
		{"tcp-stream", "unix:/run/docker.sock", token},
		{"tcp-stream", "localhost:1", token},
		{"tcp-stream", "127.0.0.1:1", "short"},
		{"tcp-stream", "127.0.0.1:1", "FLUSHALL\r\nABCDEFGHIJKLMNOP"},
		{"tcp-stream", "127.0.0.1:1", token + "long"},
	} {
		err := Play(t.Context(), o)
		check.That(t, err != nil && !strings.Contains(err.Error(), "refused"), "%+v: got error %v", o, err)
	}
	check.Fails(t, Play(t.Context(), Order{"tcp-stream", "127.0.0.1:1", token}), "connection refused", "nobody listens")
}

// exhausted is a listener without descriptors for a while.
type exhausted struct {
	net.Listener
	left int
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left--; e.left >= 0 {
		return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
	}
	return e.Listener.Accept()
}

// TestAcceptFails: errors of Accept that may pass do not end a floor.
func TestAcceptFails(t *testing.T) {
	l := &exhausted{check.Value(net.Listen("tcp", "127.0.0.1:0"))(t), 3}
	token := rand.Text()
	conn := check.Value(dial(Order{Addr: l.Addr().String()}, token))(t)
	defer conn.Close()
	link := check.Value(first(l, token))(t)
	check.OK(t, link.Close())
}
