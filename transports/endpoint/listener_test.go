package endpoint_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/endpoint"
)

// A session is a listener of one lane. It admits a connection after its first byte, and
// echoes bytes.
type session struct {
	*endpoint.Listener
	at  *endpoint.Endpoint
	rec *phase.Recorder
	in  chan *endpoint.Conn // admitted connections
}

func open(t *testing.T, patience time.Duration) *session {
	t.Helper()
	s := &session{rec: phase.NewRecorder(1), in: make(chan *endpoint.Conn, 10)}
	e := endpoint.New(t.TempDir())
	e.Patience, s.at = patience, e
	s.Listener = check.Value(e.Listen(t.Context(), "unix", endpoint.Session{Lanes: 1, Rec: s.rec}, endpoint.Protocol{}))(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go s.serve(c.(*endpoint.Conn))
		}
	}()
	t.Cleanup(func() {
		s.Dismiss()
		_ = s.Close()
		<-over
	})
	return s
}

func (s *session) serve(c *endpoint.Conn) {
	defer c.Close()
	b := make([]byte, 1)
	for first := true; ; first = false {
		if _, err := c.Read(b); err != nil {
			return
		}
		if c.Admit() != first {
			b[0] = '!'
		}
		if first {
			s.in <- c
		}
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// dial returns a connection to the session that has sent nothing.
func (s *session) dial(t *testing.T) net.Conn { return stranger(t, s.at) }

// talk sends a byte on c, as a secret, and fails the test unless it comes back.
func talk(t *testing.T, c net.Conn) {
	t.Helper()
	b := []byte("s")
	check.Must(t, check.Err(c.Write(b)))
	_, err := io.ReadFull(c, b)
	check.Need(t, err == nil && string(b) == "s", "got %q, %v, want the byte back", b, err)
}

// ended fails the test unless the session has closed c.
func ended(t *testing.T, what string, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: got %d bytes, %v, want the end", what, n, err)
	}
}

// TestStrangersAreFew: only a bounded number of strangers is connected at any time. The next
// one gets its turn when one of them has left.
func TestStrangersAreFew(t *testing.T) {
	const most = 256 + 4
	s := open(t, time.Hour) // no limit here
	known := s.dial(t)
	talk(t, known)
	var all []net.Conn
	for range most {
		all = append(all, s.dial(t))
	}
	waiting.Until(t, "all strangers", func() bool { return s.Count() == 1+most })
	<-s.in
	next := s.dial(t)
	check.Must(t, check.Err(next.Write([]byte("s"))))
	waiting.Quiet(t, "the next stranger", s.in)
	talk(t, known)
	all[most/2].Close()
	waiting.Receive(t, "the next stranger", s.in)
	check.That(t, s.Count() == 1+most, "%d connections are open, want %d", s.Count(), 1+most)
}

// TestStrangersAreBrief: a stranger's connection ends when its time is up. A connection
// that has shown the secret stays.
func TestStrangersAreBrief(t *testing.T) {
	s := open(t, 100*time.Millisecond)
	var known net.Conn
	for admitted := false; !admitted; { // on a slow machine its time may be up
		known = s.dial(t)
		b := []byte("s")
		_, err := known.Write(b)
		if err == nil {
			_, err = io.ReadFull(known, b)
		}
		admitted = err == nil
	}
	for range 3 { // each takes a stranger's whole time
		ended(t, "a stranger", s.dial(t))
	}
	talk(t, known)
}

// TestDismiss: Dismiss closes all connections except kept ones, and refuses later ones.
func TestDismiss(t *testing.T) {
	s := open(t, time.Hour)
	silent, known, kept := s.dial(t), s.dial(t), s.dial(t)
	talk(t, known)
	<-s.in
	talk(t, kept)
	(<-s.in).Keep()
	s.Dismiss()
	ended(t, "a stranger", silent)
	ended(t, "one who is not kept", known)
	ended(t, "one who comes later", s.dial(t))
	talk(t, kept)
	got := s.rec.Counts()
	check.That(t, got[phase.WireSent] == 3 && got[phase.WireReceived] == 3, "counted %v, want 3 bytes each way", got)
}

// TestAddress: a session's address file and socket have mode 0600, never replace an
// existing address, and are removed with the listener. Printing an endpoint does not reveal
// the secret.
func TestAddress(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, endpoint.AddressFile)
	e := endpoint.New(dir)
	l := check.Value(e.Listen(t.Context(), "unix", endpoint.Session{Lanes: 1}, endpoint.Protocol{}))(t)
	want := e.Addr() + "#" + e.Secret() + "\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("found %q, %v, want %q", text, err, want)
	}
	for _, name := range []string{endpoint.AddressFile, "socket"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got mode %v, %v, want 0600", name, info.Mode(), err)
		}
	}
	if _, err := endpoint.New(dir).Listen(t.Context(), "tcp", endpoint.Session{Lanes: 1},
		endpoint.Protocol{}); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path+": file exists") {
		t.Errorf("a second session's: got %v, want that it exists", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("the second session has touched it: %q, %v", text, err)
	}
	where := e.Addr()
	for _, network := range []string{"unix", "tcp"} {
		if again, err := e.Listen(t.Context(), network, endpoint.Session{Lanes: 1}, endpoint.Protocol{}); err == nil ||
			e.Addr() != where {
			t.Errorf("a second server of the session: got %v, %v, and workers would dial %s, want %s", again, err, e.Addr(),
				where)
		}
	}
	check.OK(t, l.Close())
	left, err := os.ReadDir(dir)
	check.That(t, err == nil && len(left) <= 0, "left: %v, %v", left, err)
	_, err = endpoint.New(filepath.Join(dir, "none")).Listen(t.Context(), "tcp", endpoint.Session{Lanes: 1},
		endpoint.Protocol{})
	check.Is(t, err, fs.ErrNotExist, "in no directory")
	text := fmt.Sprintf("%v %+v %s %#v %+v %#v", e, e, e, e, *e, *e)
	check.That(t, !strings.Contains(text, e.Secret()), "an endpoint prints its secret: %s", text)
}

// TestHost: with TCP, a server listens where the endpoint says. Outside the loopback
// interface it needs tls=mutual or Insecure.
func TestHost(t *testing.T) {
	const off = "is not on the loopback interface: set tls=mutual"
	six, no := "tcp:[::1]:", ""
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		l.Close()
	} else {
		six, no = "", "cannot assign requested address" // a machine without IPv6
	}
	for _, c := range []struct {
		host, tls string
		insecure  bool
		at, want  string // an address, or an error
	}{
		{host: "[::1]", at: six, want: no},
		{at: "tcp:127.0.0.1:"},
		{host: "127.0.0.2", at: "tcp:127.0.0.2:"},
		{host: "127.0.0.3:7113", at: "tcp:127.0.0.3:7113"}, // outside the range of ports that the kernel assigns
		{host: "0.0.0.0", tls: "mutual", want: "workers cannot dial an unspecified address"},
		{host: "[::]:1", tls: "mutual", want: "workers cannot dial an unspecified address"},
		{host: "localhost", want: "must be an IP address"},
		{host: "192.0.2.1", want: off},
		{host: "192.0.2.1", tls: "on", want: off},
		{host: "192.0.2.1:1", tls: "on", want: off},
		// a documentation address (RFC 5737), which no machine has
		{host: "192.0.2.1", tls: "mutual", want: "cannot assign requested address"},
		{host: "192.0.2.1", insecure: true, want: "cannot assign requested address"},
	} {
		e := endpoint.New(t.TempDir())
		e.Host, e.Insecure = c.host, c.insecure
		l, err := e.Listen(t.Context(), "tcp", endpoint.Session{Lanes: 1, TLS: c.tls}, endpoint.Protocol{})
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || c.want == "" &&
			(err != nil || !strings.HasPrefix(e.Addr(), c.at)) {
			t.Errorf("host %q, tls=%s: listens at %q, %v, want %q%q", c.host, c.tls, e.Addr(), err, c.at, c.want)
		}
		if l != nil {
			l.Close()
		}
	}
}

// layout returns a layout of one U8 tensor with n elements.
func layout(t testing.TB, n int) *tensor.Layout {
	t.Helper()
	return check.Value(tensor.NewLayout([]tensor.Spec{{Name: "a", DType: tensor.U8, Shape: []int{n}}}))(t)
}

// TestHello: a worker with the secret and matching options gets its lane once. Others are
// refused, without an answer if they lack the secret.
func TestHello(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			lanes, e, o := lanesOf(t, network, time.Hour, 2)
			worker := func(secret string) *endpoint.Endpoint {
				w := endpoint.At(e.Addr(), secret)
				w.Variant = e.Variant
				return w
			}
			other := o
			other.Up = layout(t, 3)
			stranger := endpoint.At(e.Addr(), e.Secret())
			stranger.Variant = "yours"
			for _, c := range []struct {
				e    *endpoint.Endpoint
				lane int
				o    endpoint.Session
				want string
			}{
				{worker("A" + e.Secret()[1:] + "B"), 0, o, "the peer has closed the connection"},
				{worker(strings.Repeat("A", len(e.Secret()))), 0, o, "the peer has closed the connection"},
				{worker(""), 0, o, "the peer has closed the connection"},
				{worker(e.Secret()), 2, o, "no lane 2: the session has 2"},
				{worker(e.Secret()), -1, o, "no lane -1"},
				{worker(e.Secret()), 0, other, "the layouts are"},
				{stranger, 0, o, `transport "yours", the session's is "mine"`},
			} {
				if _, err := c.e.DialLane(waiting.Context(t), c.lane, c.o); err == nil ||
					!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), e.Secret()) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			}
			check.That(t, lanes.Connected(1) == nil, "a lane has a worker before one has come")
			c := check.Value(worker(e.Secret()).DialLane(t.Context(), 1, o))(t)
			defer c.Close()
			there, err := lanes.Conn(t.Context(), 1)
			check.Need(t, err == nil && lanes.Connected(1) == there, "%v %v", there, err)
			defer there.Close()
			check.Fails(t, check.Err(worker(e.Secret()).DialLane(t.Context(), 1, o)), "lane 1 has or had a worker",
				"a taken lane")
			check.OK(t, lanes.Dismiss()) // keeps the lane's connection
			speaks(t, there, c)
		})
	}
}
