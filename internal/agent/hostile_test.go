package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"ipcbench/bench/floors"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/trainer"
)

// impostor joins as an agent with the right token, and answers each request with do.
func impostor(t *testing.T, name string, do func(conn net.Conn, r request)) *Agent {
	t.Helper()
	var session *yamux.Session
	var joinErr error
	joined := make(chan struct{})
	f, _ := gather(t, Config{Agents: 1}, func(l Line) {
		defer close(joined)
		session, joinErr = dial(context.Background(), l, name, ownSelf(0))
	})
	<-joined
	check.Must(t, joinErr)
	t.Cleanup(func() { session.Close() })
	go func() {
		for {
			conn, err := session.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				var r request
				if readFrame(conn, &r) == nil {
					do(conn, r)
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = f.Close(1) }) // an impostor need not answer the end request
	return f.Agents()[0]
}

// TestMute: the server waits a limited time for an agent's answer, and the error names the
// agent and the request.
func TestMute(t *testing.T) {
	answerTime = 300 * time.Millisecond
	defer func() { answerTime = 20 * time.Second }()
	a := impostor(t, "h1", func(conn net.Conn, r request) {
		if r.Kind == "end" {
			_ = say(conn, nil)
		}
	})
	for kind, ask := range map[string]func() error{
		"dial":   func() error { return a.Dials(t.Context(), "127.0.0.1:1") },
		"folder": func() error { return check.Err(a.Sees(t.Context(), "/", "x")) },
		"start":  func() error { return check.Err(Launcher{a}.Launch(0)) },
	} {
		check.Fails(t, ask(), "agent h1: "+kind+": no answer within 300ms")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting.Later(t, 300*time.Millisecond, func() { cancel(errors.New("nothing moves")) })
	check.Fails(t, a.Plays(ctx, floors.Order{}), "agent h1: floor: nothing moves")
}

// TestCrowd: silent strangers keep an agent from joining no longer than their deadline.
func TestCrowd(t *testing.T) {
	var crowd []net.Conn
	const deadline = 2 * time.Second
	waiting.Promise(t, "O21", deadline+2*time.Second, func() {
		f, _ := gather(t, Config{Agents: 1, Deadline: deadline}, func(l Line) {
			for range 256 + 4 + 40 {
				crowd = append(crowd, check.Value(net.Dial("tcp", l.Addr))(t))
			}
			join(l, Options{Name: "h1"})
		})
		check.OK(t, f.Close(0))
	})
	for _, c := range crowd {
		c.Close()
	}
}

// TestHalfOpen: an agent whose first connection fails after its greeting joins with a later one. Until then its name is
// taken, but no refusal is final.
func TestHalfOpen(t *testing.T) {
	var again error
	f, _ := gather(t, Config{Agents: 1}, func(l Line) {
		_ = stranger(l, func(c *tls.Conn, own []byte) error {
			hello := func(c *tls.Conn, own []byte) error {
				return writeFrame(c, greeting{ownVersion(), own, "h1", ownSelf(0)})
			}
			check.OK(t, errors.Join(hello(c, own), readFrame(c, new(verdict)))) // and no stream follows
			again = stranger(l, hello)
			join(l, Options{Name: "h1"})
			return errors.New("enough")
		})
	})
	check.Fails(t, again, "another connection has not finished joining: an agent named h1 has already joined")
	// It is the second connection, which has an agent.
	check.Fails(t, check.Err(f.Agents()[0].Sees(t.Context(), "/", "x")), "agent h1: folder: ")
	check.OK(t, f.Close(0))
}

// TestStreamEnds: an agent that closes a stream instead of answering is gone, even if its connection has not ended yet.
func TestStreamEnds(t *testing.T) {
	a := impostor(t, "h1", func(conn net.Conn, _ request) { conn.Close() })
	check.Fails(t, a.Dials(t.Context(), "127.0.0.1:1"), "agent h1 is gone: its connection has ended")
	check.Fails(t, check.Err(Launcher{a}.Launch(0)), "process 0: agent h1 is gone: its connection has ended")
}

// TestRequestsAtATime: an agent serves a limited number of requests at a time, and later ones when there is room.
func TestRequestsAtATime(t *testing.T) {
	ours, theirs := net.Pipe()
	server, agent := check.Value(yamux.Client(ours, streams()))(t), check.Value(yamux.Server(theirs, streams()))(t)
	asked, leave := context.WithCancelCause(t.Context())
	s := newService(asked, agent, trainer.Confinement{})
	s.room = make(chan struct{}, 2)
	ended, answered := make(chan error, 1), make(chan error, 1)
	go func() { ended <- s.serve() }()
	open := func(kind string, body any) net.Conn {
		conn := check.Value(server.OpenStream())(t)
		check.Must(t, writeFrame(conn, request{kind, body}))
		return conn
	}
	for range cap(s.room) {
		open("watch", nil)
	}
	waiting.Until(t, "the watches", func() bool { return len(s.room) == cap(s.room) })
	third := open("end", 3)
	go func() { answered <- readFrame(third, new(reply)) }()
	waiting.Quiet(t, "the answer to a third request", answered)
	leave(errors.New("interrupted"))
	check.Must(t, waiting.Receive(t, "that answer", answered))
	check.Equal(t, *s.ended.Load(), 3)
	check.Must(t, server.Close())
	<-ended
}
