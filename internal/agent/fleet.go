package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"ipcbench/identity"
)

const (
	mostAgents    = 4096 // as many as lanes
	mostStrangers = 128  // who are greeted at a time
)

// Config says who may join a run.
type Config struct {
	Listen netip.AddrPort // where agents join; any port if it is 0
	Agents int            // how many are waited for
	Wait   time.Duration  // for how long
	Token  string         // that they have to know, as CheckToken wants it; empty makes one

	// Announce tells the world how to join, once agents may.
	Announce func(Line) error

	// Joined is called with the names of those that have joined, and how long the others
	// are waited for: whenever one joins, and every second. It may be nil.
	Joined func(names []string, left time.Duration)

	// Refused is called with why one that knows the token may not join. It may be nil.
	Refused func(error)
}

// A Fleet is the agents of a run.
type Fleet struct {
	agents []*Agent
	failed context.Context
	fail   context.CancelCauseFunc
}

// Late is the error of a gathering to which some have not come, and nobody was refused.
type Late struct{ error }

// Gather listens until all agents have joined, and no longer. With an error it returns
// those that have, to be closed with the exit code that the error has.
func Gather(ctx context.Context, c Config) (*Fleet, error) {
	f := new(Fleet)
	f.failed, f.fail = context.WithCancelCause(context.Background())
	if c.Agents < 1 || c.Agents > mostAgents {
		return f, fmt.Errorf("%d agents: want 1 to %d", c.Agents, mostAgents)
	}
	if c.Token == "" {
		c.Token = rand.Text() // at least 128 bits
	}
	authority, err := identity.NewAuthority("agents")
	if err != nil {
		return f, err
	}
	shown, err := authority.Shown()
	if err != nil {
		return f, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen.String())
	if err != nil {
		return f, err
	}
	g := &gathering{Config: c, fleet: f, listener: l, tls: shown, changed: make(chan struct{}, 1), names: map[string]int{}}
	var accepting sync.WaitGroup
	open, end := context.WithCancel(context.Background())
	if err = c.Announce(Line{Addr: l.Addr().String(), Token: c.Token, CA: authority.Hash()}); err == nil {
		accepting.Go(func() { g.accept(open) })
		err = g.await(ctx)
	}
	err = errors.Join(err, l.Close())
	end()
	accepting.Wait()
	slices.SortFunc(f.agents, func(a, b *Agent) int {
		return cmp.Or(cmp.Compare(a.self.Rank, b.self.Rank), strings.Compare(a.name, b.name))
	})
	return f, err
}

// gathering is what goes on until all have joined.
type gathering struct {
	Config
	fleet    *Fleet
	listener net.Listener
	tls      *tls.Config
	changed  chan struct{} // somebody has joined; has room for one note

	mu      sync.Mutex     // held while functions of Config are called
	names   map[string]int // guarded by mu: ranks of those that have joined or are being welcomed
	refused error          // guarded by mu: the last one, and why
}

// accept greets whoever connects, until the listener closes. When open ends, it sends all
// strangers away.
func (g *gathering) accept(open context.Context) {
	var strangers sync.WaitGroup
	defer strangers.Wait()
	room := make(chan struct{}, mostStrangers)
	for {
		conn, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(50 * time.Millisecond) // descriptors may run out for a while
			continue
		}
		room <- struct{}{}
		patience := greetTime
		if len(room) > mostStrangers/2 {
			patience = time.Second // a silent stranger makes room for others
		}
		strangers.Go(func() {
			defer func() { <-room }()
			g.greet(open, conn, patience)
		})
	}
}

func (g *gathering) greet(open context.Context, conn net.Conn, patience time.Duration) {
	stop := context.AfterFunc(open, func() { conn.Close() })
	c := tls.Server(conn, g.tls)
	var who greeting
	err := bounded(c, patience, func() error {
		return welcome(c, g.Token, func(said greeting) error {
			who = said
			return g.admit(said)
		})
	})
	var session *yamux.Session
	if err == nil {
		session, err = yamux.Client(c, streams())
	}
	if !stop() && err == nil {
		err = net.ErrClosed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		conn.Close()
		g.refused = fmt.Errorf("%v: %w", conn.RemoteAddr(), err)
		switch {
		case who.Name == "": // it has proved nothing
		case errors.As(err, new(refusal)):
			if g.Refused != nil {
				g.Refused(err)
			}
		default: // it was admitted
			delete(g.names, who.Name)
		}
		return
	}
	g.fleet.agents = append(g.fleet.agents, newAgent(who, session, g.fleet))
	select {
	case g.changed <- struct{}{}:
	default: // await knows already
	}
}

// admit takes the name of an agent that knows the token.
func (g *gathering) admit(said greeting) error {
	if err := said.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.names[said.Name]; known {
		return refusal(fmt.Sprintf("an agent named %s has joined already: give this one another --name", said.Name))
	}
	for other, rank := range g.names {
		if rank > 0 && rank == said.Rank { // an engine has numbered them
			return refusal(fmt.Sprintf("%s has joined as rank %d already: is this one of another job?", other, rank))
		}
	}
	if len(g.names) == g.Agents {
		return refusal(fmt.Sprintf("all %d agents have joined already", g.Agents))
	}
	g.names[said.Name] = said.Rank
	return nil
}

// await waits until all have joined.
func (g *gathering) await(ctx context.Context) error {
	deadline, late, tick := time.Now().Add(g.Wait), time.After(g.Wait), time.Tick(time.Second)
	for {
		g.mu.Lock()
		var names []string
		for _, a := range g.fleet.agents {
			names = append(names, a.name)
		}
		refused := g.refused
		if g.Joined != nil {
			g.Joined(names, time.Until(deadline))
		}
		g.mu.Unlock()
		if len(names) == g.Agents {
			return nil
		}
		select {
		case <-g.changed:
		case <-tick:
		case <-g.fleet.failed.Done():
			return fmt.Errorf("while others were waited for, %w", context.Cause(g.fleet.failed))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			who := "none has"
			if len(names) > 0 {
				who = strings.Join(names, ", ")
			}
			err := fmt.Errorf("%d of %d agents have joined at %v within %v: %s", len(names), g.Agents, g.listener.Addr(), g.Wait, who)
			if refused != nil {
				return fmt.Errorf("%w (the last one that was refused: %.300s)", err, refused)
			}
			return Late{err}
		}
	}
}

// streams says how a connection carries several, and when it is dead: an agent that
// answers nothing for so long ends the run.
func streams() *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval, c.ConnectionWriteTimeout = heartbeat, silence
	c.StreamOpenTimeout = silence
	c.LogOutput = io.Discard // what goes wrong is in the errors
	return c
}

const (
	heartbeat = 2 * time.Second
	silence   = 6 * time.Second
)

// Agents returns the agents in order of their ranks, and then of their names.
func (f *Fleet) Agents() []*Agent { return f.agents }

// Context returns a context that also ends when an agent has gone. Its cause says which
// one.
func (f *Fleet) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.failed, func() { end(context.Cause(f.failed)) })
	return ctx, func() { stop(); end(nil) }
}

// Close ends all agents, with the exit code of their processes.
func (f *Fleet) Close(code int) error {
	f.fail(errors.New("the run has ended"))
	errs := make([]error, len(f.agents))
	var all sync.WaitGroup
	for i, a := range f.agents {
		all.Go(func() {
			ctx, cancel := within(context.Background(), silence)
			defer cancel()
			if !a.session.IsClosed() { // what has gone has no exit code to learn, and the run has failed of it
				errs[i] = a.ask(ctx, "end", code, nil)
			}
			_ = a.session.Close()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// An Agent is one of a fleet.
type Agent struct {
	name    string
	self    Self
	session *yamux.Session
	fleet   *Fleet

	started atomic.Int64 // processes

	mu    sync.Mutex
	leave string // guarded by mu: what asked the agent to end
}

func newAgent(who greeting, session *yamux.Session, f *Fleet) *Agent {
	a := &Agent{name: who.Name, self: who.Self, session: session, fleet: f}
	go func() {
		<-session.CloseChan()
		f.fail(a.gone())
	}()
	go a.watch()
	return a
}

// Name returns what the agent is called in the run.
func (a *Agent) Name() string { return a.name }

// Self returns what the agent says of its host.
func (a *Agent) Self() Self { return a.self }

// leaveGrace is how long the server waits for its own end after an agent was asked to
// end: an engine asks all ranks at about the same time.
const leaveGrace = time.Second

// watch waits for the agent to say that it was asked to end.
func (a *Agent) watch() {
	var why string
	if err := a.ask(context.Background(), "watch", nil, &why); err != nil {
		return // it has gone, or the run has ended
	}
	a.mu.Lock()
	a.leave = why
	a.mu.Unlock()
	select {
	case <-a.fleet.failed.Done():
	case <-time.After(leaveGrace):
		a.fleet.fail(a.gone())
	}
}

// gone says that the agent is not there any more.
func (a *Agent) gone() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leave != "" {
		return fmt.Errorf("agent %s has left: %.80q", a.name, a.leave)
	}
	return fmt.Errorf("agent %s is gone: its connection has ended, or nothing has come from it for %v", a.name, silence)
}

// open asks for kind on a stream of its own and returns it once the answer has come.
func (a *Agent) open(ctx context.Context, kind string, body, answer any) (net.Conn, error) {
	conn, err := a.session.OpenStream()
	if err != nil {
		return nil, a.gone()
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	err = exchange(conn, kind, body, answer)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return conn, nil
	}
	conn.Close()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("agent %s: %s: %w", a.name, kind, context.Cause(ctx))
	case a.session.IsClosed():
		return nil, a.gone()
	}
	return nil, fmt.Errorf("agent %s: %s: %w", a.name, kind, err)
}

// exchange makes a request on conn and reads the answer into answer, unless that is nil.
func exchange(conn net.Conn, kind string, body, answer any) error {
	r := reply{Body: answer}
	err := writeFrame(conn, request{kind, body})
	if err == nil {
		err = readFrame(conn, &r)
	}
	if err == nil && r.Error != "" {
		err = fmt.Errorf("%.1000s", r.Error)
	}
	return err
}

// ask makes one request and waits for its answer.
func (a *Agent) ask(ctx context.Context, kind string, body, answer any) error {
	conn, err := a.open(ctx, kind, body, answer)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// answerTime is how long an agent may take for what is no work of minutes.
var answerTime = 20 * time.Second // tests have less

// within bounds how long an agent is waited for, and says so.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %v", d))
}

// Dials has the agent connect to addr. Its error says what it has dialled.
func (a *Agent) Dials(ctx context.Context, addr string) error {
	ctx, cancel := within(ctx, answerTime)
	defer cancel()
	return a.ask(ctx, "dial", addr, nil)
}
