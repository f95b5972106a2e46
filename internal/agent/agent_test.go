package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ipcbench/bench/floors"
	"ipcbench/identity"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/trainer"
)

func TestMain(m *testing.M) {
	trainer.Host{}.MaybeWorker()
	goleak.VerifyTestMain(m)
}

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// joining is an agent that a test runs in a goroutine of this process. Its worker processes
// are real.
type joining struct {
	code int
	err  error
	done chan struct{}
	quit context.CancelCauseFunc
}

func join(l Line, o Options) *joining {
	if o.Wait == 0 {
		o.Wait = waiting.Limit
	}
	ctx, quit := context.WithCancelCause(context.Background())
	j := &joining{done: make(chan struct{}), quit: quit}
	go func() {
		defer close(j.done)
		j.code, j.err = Join(ctx, l, o)
	}()
	return j
}

type agents map[string]*joining

// gather starts agents with these names and gathers them. meet, if not nil, is called with
// the join line.
func gather(t *testing.T, c Config, meet func(Line), names ...string) (*Fleet, agents) {
	t.Helper()
	all := agents{}
	c.Listen = loopback
	if c.Agents == 0 {
		c.Agents = len(names)
	}
	if c.Wait == 0 {
		c.Wait = waiting.Limit
	}
	c.Announce = func(l Line) error {
		for _, name := range names {
			all[name] = join(l, Options{Name: name})
		}
		if meet != nil {
			go meet(l)
		}
		return nil
	}
	f, err := Gather(t.Context(), c)
	if err != nil {
		_ = f.Close(7)
	}
	check.Must(t, err)
	return f, all
}

func (j *joining) ends(t *testing.T) (int, error) {
	t.Helper()
	waiting.Receive(t, "the end of an agent", j.done)
	return j.code, j.err
}

// end checks that all agents end with a run's exit code.
func (all agents) end(t *testing.T, want int) {
	t.Helper()
	for name, j := range all {
		code, err := j.ends(t)
		check.OK(t, err, name)
		check.Equal(t, code, want, name)
	}
}

// TestFleet: agents join in any order, are listed by name, describe themselves, dial the
// given addresses, and end with the run's exit code.
func TestFleet(t *testing.T) {
	var seen [][]string
	note := func(names []string, _ time.Duration) { seen = append(seen, names) }
	f, all := gather(t, Config{Joined: note}, nil, "h2", "h1")
	var names []string
	for _, a := range f.Agents() {
		names = append(names, a.Name())
		if self := a.Self(); self.Clock != machine.OwnClock() || self.Environment.CPUs < 1 || self.Host == "" {
			t.Errorf("agent %s says of itself: %+v", a.Name(), self)
		}
	}
	check.Equal(t, names, []string{"h1", "h2"})
	check.Equal(t, len(seen[len(seen)-1]), 2, "the last news was of  agents")
	a := f.Agents()[0]
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	check.OK(t, a.Dials(t.Context(), addr))
	l.Close()
	check.Fails(t, a.Dials(t.Context(), addr), "agent h1: dial: dialled "+addr+": ", "nobody listens")
	alone := "127.0.0.2:6379" // another address than the one at which the agents reach the server
	for _, err := range []error{a.Dials(t.Context(), alone), a.Plays(t.Context(), floors.Order{Floor: "tcp-stream", Addr: alone})} {
		check.Fails(t, err, alone+" must be on the server's host, which was reached at 127.0.0.1",
			"a service of the agent's host")
	}
	check.Fails(t, a.ask(t.Context(), "shell", "rm", nil),
		`"shell" is not a request that agents accept`, "an agent that is asked for a shell")
	check.OK(t, f.Close(7))
	all.end(t, 7)
}

// TestProcess: a process that an agent started answers, and can be stopped. If it dies, its
// error and stderr have the reason.
func TestProcess(t *testing.T) {
	f, _ := gather(t, Config{}, nil, "h1")
	defer f.Close(0)
	l := Launcher{f.Agents()[0], f.Agents()[0]}
	hello := func(p trainer.Process) {
		t.Helper()
		var m map[string]any
		err := readFrame(p.Conn(), &m)
		check.That(t, err == nil && m["hello"] != nil, "a worker says %v, %v", m, err)
	}
	start := func(n int) trainer.Process {
		t.Helper()
		return check.Value(l.Launch(n))(t)
	}

	stopped := start(0)
	hello(stopped)
	at := stopped.Place()
	check.That(t, at.Host == "h1" && !at.Here && at.PID != 0, "it is at %+v", at)
	check.OK(t, stopped.Stop())

	killed := start(1)
	hello(killed)
	check.Must(t, unix.Kill(killed.Place().PID, unix.SIGKILL))
	<-killed.Exited()
	check.Fails(t, killed.Err(), "signal: killed")

	lost := start(0)
	check.Must(t, check.Err(lost.Conn().Write([]byte{0, 0, 0, 1, '?'})))
	<-lost.Exited()
	if text := lost.Stderr(); lost.Err() == nil || !strings.Contains(text, "not a message of this protocol") {
		t.Errorf("it was sent garbage, and ended with %v, and said %q", lost.Err(), text)
	}
	check.Fails(t, check.Err(l.Launch(2)), "process 2 has no host")
}

// TestAgentGoes: if an agent leaves, its processes end, and the fleet's context ends at
// once with a cause that names the agent.
func TestAgentGoes(t *testing.T) {
	f, all := gather(t, Config{}, nil, "h1", "h2")
	defer f.Close(1)
	p := check.Value(Launcher{f.Agents()[1]}.Launch(0))(t)
	ctx, cancel := f.Context(t.Context())
	defer cancel()
	all["h2"].quit(errors.New("interrupted by SIGTERM"))
	waiting.Receive(t, "the end of the fleet", ctx.Done())
	check.Equal(t, context.Cause(ctx).Error(), `agent h2 has left: "interrupted by SIGTERM"`, "the fleet says")
	check.OK(t, p.Stop())
	check.OK(t, f.Close(3))
	all.end(t, 3)
	check.Equal[error](t, unix.Kill(p.Place().PID, 0), unix.ESRCH, "its process is still there")
}

// TestServerGoes: agents and their processes end if the server closes the connection
// without a message.
func TestServerGoes(t *testing.T) {
	f, all := gather(t, Config{}, nil, "h1")
	p := check.Value(Launcher(f.Agents()).Launch(0))(t)
	f.Agents()[0].session.Close()
	check.Fails(t, check.Err(all["h1"].ends(t)), "the server of the run is gone")
	<-p.Exited()
	check.Fails(t, p.Err(), "agent h1 is gone", "its process ended with")
	check.Equal[error](t, unix.Kill(p.Place().PID, 0), unix.ESRCH, "its process is still there")
}

// TestRefused: a peer that may not join gets the reason, and does not disturb agents that
// may join.
func TestRefused(t *testing.T) {
	var mu sync.Mutex
	got := map[string]string{}
	var turned []string
	has := map[string]chan struct{}{"h1": make(chan struct{}), "h4": make(chan struct{})} // closed when that agent has joined
	note := func(names []string, _ time.Duration) {
		for _, name := range names {
			if c, ok := has[name]; ok {
				close(c)
				delete(has, name)
			}
		}
	}
	h1, h4 := has["h1"], has["h4"]
	refused := func(err error) { turned = append(turned, err.Error()) }
	f, _ := gather(t, Config{Agents: 3, Joined: note, Refused: refused}, func(l Line) {
		try := func(what string, l Line, o Options) {
			_, err := join(l, o).ends(t)
			mu.Lock()
			defer mu.Unlock()
			got[what] = fmt.Sprint(err)
		}
		<-h1
		other := l
		other.Token = strings.Repeat("ABCDEFGH", 4)
		try("wrong token", other, Options{Name: "h3"})
		other = l
		other.CA = bytes.Repeat([]byte{1}, 32)
		try("wrong authority", other, Options{Name: "h3"})
		try("same name", l, Options{Name: "h1"})
		try("bad name", l, Options{Name: "h 1"})
		got["another build"] = fmt.Sprint(stranger(l, func(c *tls.Conn, own []byte) error {
			return writeFrame(c, greeting{version: version{2, "x"}, Proof: own, Name: "h3"})
		}))
		got["replayed proof"] = fmt.Sprint(replay(l))
		got["garbage"] = fmt.Sprint(stranger(l, func(c *tls.Conn, _ []byte) error {
			_, err := c.Write(bytes.Repeat([]byte{255}, 1000))
			return err
		}))
		if c, err := net.Dial("tcp", l.Addr); err == nil { // this is not even TLS
			c.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			c.Close()
		}
		join(l, Options{Name: "h4", Rank: 1})
		<-h4
		try("same rank", l, Options{Name: "h3", Rank: 1})
		join(l, Options{Name: "h2"})
	}, "h1")
	defer f.Close(0)
	if told := strings.Join(turned, "\n"); !strings.Contains(told, "an agent named h1 has already joined") || !strings.Contains(told, `is version 2 of build "x"`) || strings.Contains(told, "token") {
		t.Errorf("the run was told: %s", told)
	}
	mu.Lock()
	defer mu.Unlock()
	for what, want := range map[string]string{
		"wrong token":     "the server has another token: this one belongs to another run",
		"wrong authority": "was signed by another authority: the join line belongs to another run",
		"same rank":       "the server refuses this agent: h4 has already joined as rank 1: does this agent belong to another job?",
		"same name":       "the server refuses this agent: an agent named h1 has already joined: give this agent another --name",
		"bad name":        `the server refuses this agent: the agent's name "h 1": must have 1 to 64 characters`,
		"another build":   `agent "h3" is version 2 of build "x", the server is version 1 of build "ipcbench`,
		"replayed proof":  "it does not have the run's token",
		"garbage":         "EOF",
	} {
		check.Fails(t, errors.New(got[what]), want, what)
	}
}

// stranger connects and calls say in place of sending a greeting; own is the valid proof.
// It returns the server's reason for the refusal.
func stranger(l Line, say func(c *tls.Conn, own []byte) error) error {
	c, err := tls.Dial("tcp", l.Addr, identity.Pinned(l.CA))
	if err != nil {
		return err
	}
	defer c.Close()
	var o opening
	_, own, err := proofs(c, l.Token)
	if err = errors.Join(err, readFrame(c, &o), say(c, own)); err != nil {
		return err
	}
	var v verdict
	if err := readFrame(c, &v); err != nil {
		return err
	}
	return errors.New(v.Refused)
}

// replay sends the proof of a first connection on a second one.
func replay(l Line) (err error) {
	_ = stranger(l, func(_ *tls.Conn, own []byte) error {
		err = stranger(l, func(c *tls.Conn, _ []byte) error {
			return writeFrame(c, greeting{version: ownVersion(), Proof: own, Name: "h4"})
		})
		return errors.New("enough")
	})
	return err
}

// TestAnotherServer: an agent that knows only the token rejects a server with a wrong
// token, and does not send that server its own proof.
func TestAnotherServer(t *testing.T) {
	a := check.Value(identity.NewAuthority("agents"))(t)
	config := check.Value(a.Shown())(t)
	l := check.Value(tls.Listen("tcp", "127.0.0.1:0", config))(t)
	defer l.Close()
	said := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			err = writeFrame(c, opening{ownVersion(), bytes.Repeat([]byte{1}, 32)})
		}
		var g greeting
		said <- errors.Join(err, readFrame(c, &g))
	}()
	agent := join(Line{Addr: l.Addr().String(), Token: "0123456789abcdef0123456789abcdef"}, Options{Name: "h1"})
	check.Fails(t, check.Err(agent.ends(t)), "has another token", "the agent says")
	check.That(t, <-said != nil, "the agent has greeted a stranger")
}

// TestTooFew: if too few agents join, the error counts and names the agents that did; they
// end when the fleet is closed.
func TestTooFew(t *testing.T) {
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	synctest.Test(t, func(t *testing.T) {
		f := &Fleet{agents: []*Agent{{name: "h1"}, {name: "h2"}}, failed: t.Context()}
		g := &gathering{Config: Config{Agents: 3, Wait: time.Hour}, fleet: f, listener: l}
		err := g.await(t.Context())
		check.That(t, errors.As(err, new(Late)), "got %v, want that some are late", err)
		check.Fails(t, err, fmt.Sprintf("2 of 3 agents have joined at %v within 1h0m0s: h1, h2", l.Addr()))
	})
	f, all := gather(t, Config{}, nil, "h2", "h1")
	check.OK(t, f.Close(7))
	all.end(t, 7)
	late := join(Line{Addr: "127.0.0.1:1", Token: strings.Repeat("ABCDEFGH", 4)}, Options{Wait: 500 * time.Millisecond})
	check.Fails(t, check.Err(late.ends(t)), "could not join a run at 127.0.0.1:1 within 500ms: ")
}

// FuzzRequest: an agent answers or closes any stream, and no process is left afterwards.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		`{"kind":"start","body":{"id":1,"process":0}}`, `{"kind":"control","body":1}`, `{"kind":"dial","body":"127.0.0.1:1"}`, `{"kind":"end","body":-1}`, `{"kind":1}`,
		`{"kind":"folder","body":{"dir":"/","session":"ipcbench-0123456789abcdef"}}`, `{"kind":"floor","body":{"floor":"copy","addr":"127.0.0.1:1","token":"x"}}`,
	} {
		var b bytes.Buffer
		_ = writeFrame(&b, jsonText(text))
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		s := newService(context.Background(), nil, trainer.Confinement{Dirs: []string{}})
		s.launcher = trainer.NewGoroutines(trainer.Host{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.answer(theirs)
			theirs.Close()
		}()
		go func() { // reads until the stream is closed
			var rest [512]byte
			for _, err := ours.Read(rest[:]); err == nil; _, err = ours.Read(rest[:]) {
			}
		}()
		if !bytes.Contains(said, []byte("watch")) { // a watch waits for the end of its session
			_, _ = ours.Write(said)
		}
		ours.Close()
		<-done
		check.Equal(t, len(s.processes), 0, "processes left")
	})
}

type jsonText string

func (t jsonText) MarshalJSON() ([]byte, error) { return []byte(t), nil }

// FuzzGreeting: a stranger's greeting is rejected, or its name and host are safe in a list.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte(`{"protocol":1,"build":"x","name":"h1","host":"h","rank":1}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		var b bytes.Buffer
		b.Write([]byte{0, 0, byte(len(said) >> 8), byte(len(said))})
		b.Write(said)
		var g greeting
		if readFrame(&b, &g) != nil {
			return
		}
		if v := ownVersion(); g.Name != "" {
			g.version = v
		}
		check.That(t, g.check() != nil || !strings.ContainsAny(g.Name+g.Host, "\x1b\n ,"), "%q on %q joins", g.Name, g.Host)
	})
}
