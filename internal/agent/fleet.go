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
	"ipcbench/transports/endpoint"
)

// mostAgents is as many as there may be lanes.
const mostAgents = 4096

// Config is the configuration of [Gather].
type Config struct {
	Listen netip.AddrPort // address to listen on; port 0 selects any free port
	Agents int            // number of agents to wait for
	Wait   time.Duration  // time limit for all of them to join
	Token  string         // secret that CheckToken accepts; if empty, a random one

	// Deadline is the time in which a connection must prove that it knows the token; 0 is
	// greetTime.
	Deadline time.Duration

	// Announce publishes the join line. It is called once agents can connect.
	Announce func(Line) error

	// Joined, if not nil, is called when an agent joins, and every second, with the names
	// of all that have joined and the time left for the others.
	Joined func(names []string, left time.Duration)

	// Refused, if not nil, is called when an agent that knows the token is refused.
	Refused func(error)
}

// A Fleet is the agents of a run.
type Fleet struct {
	agents []*Agent
	failed context.Context
	fail   context.CancelCauseFunc
}

// Late is the error of [Gather] if agents are late and none was refused.
type Late struct{ error }

// Gather listens until all agents have joined. With an error, it returns the agents that
// did join, and the caller must close this fleet with the error's exit code.
func Gather(ctx context.Context, c Config) (*Fleet, error) {
	f := new(Fleet)
	f.failed, f.fail = context.WithCancelCause(context.Background())
	if c.Agents < 1 || c.Agents > mostAgents {
		return f, fmt.Errorf("%d agents: must be 1 to %d", c.Agents, mostAgents)
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
	gate := endpoint.NewGate(l, c.Agents, cmp.Or(c.Deadline, greetTime))
	g := &gathering{Config: c, fleet: f, listener: gate, tls: shown, changed: make(chan struct{}, 1), names: map[string]int{}}
	var accepting sync.WaitGroup
	open, end := context.WithCancel(context.Background())
	if err = c.Announce(Line{Addr: l.Addr().String(), Token: c.Token, CA: authority.Hash()}); err == nil {
		accepting.Go(func() { g.accept(open) })
		err = g.await(ctx)
	}
	err = errors.Join(err, gate.Close())
	end()
	accepting.Wait()
	slices.SortFunc(f.agents, func(a, b *Agent) int {
		return cmp.Or(cmp.Compare(a.self.Rank, b.self.Rank), strings.Compare(a.name, b.name))
	})
	return f, err
}

// gathering is the state of [Gather] until all agents have joined.
type gathering struct {
	Config
	fleet    *Fleet
	listener net.Listener
	tls      *tls.Config
	changed  chan struct{} // an agent has joined; buffer of one

	mu      sync.Mutex     // held while functions of Config are called
	names   map[string]int // guarded by mu: ranks of joined and admitted agents
	refused error          // guarded by mu: the last refusal
}

// accept greets connections until the listener closes. When open is done, it closes the
// connections of all strangers.
func (g *gathering) accept(open context.Context) {
	var strangers sync.WaitGroup
	defer strangers.Wait()
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		strangers.Go(func() { g.greet(open, conn.(*endpoint.Stranger)) })
	}
}

func (g *gathering) greet(open context.Context, conn *endpoint.Stranger) {
	stop := context.AfterFunc(open, func() { conn.Close() })
	c := tls.Server(conn, g.tls)
	var who greeting
	err := welcome(c, g.Token, func(said greeting) error {
		who = said
		return g.admit(said)
	})
	if err == nil {
		conn.Admit()
	}
	if late := conn.Late(); late != nil && (err == nil || who.Name == "") { // otherwise err says why it may not join
		err = late
	}
	var session *yamux.Session
	if err == nil {
		session, err = yamux.Client(c, streams())
	}
	if err == nil {
		if _, err = session.Ping(); err != nil { // the verdict has not reached the agent, which tries again
			_ = session.Close()
		}
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
		case who.Name == "", errors.Is(err, errAgain): // it has proved nothing, or was not admitted
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
	default: // a signal is pending already
	}
}

// admit checks the greeting of an agent that knows the token, and reserves its name. While
// another connection may still fail to join, no refusal is final.
func (g *gathering) admit(said greeting) error {
	if err := said.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.reserve(said)
	if err != nil && len(g.names) > len(g.fleet.agents) {
		err = fmt.Errorf("%w: %v", errAgain, err)
	}
	return err
}

// reserve reserves the name of an agent, with g.mu held.
func (g *gathering) reserve(said greeting) error {
	if _, known := g.names[said.Name]; known {
		return refusal(fmt.Sprintf("an agent named %s has already joined: give this agent another --name", said.Name))
	}
	for other, rank := range g.names {
		if rank > 0 && rank == said.Rank { // ranks of one job are unique
			return refusal(fmt.Sprintf("%s has already joined as rank %d: does this agent belong to another job?", other, rank))
		}
	}
	if len(g.names) == g.Agents {
		return refusal(fmt.Sprintf("all %d agents have already joined", g.Agents))
	}
	g.names[said.Name] = said.Rank
	return nil
}

// await waits until all agents have joined, one is lost, ctx is done or Config.Wait is over.
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
			return fmt.Errorf("while waiting for other agents: %w", context.Cause(g.fleet.failed))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			who := "none has"
			if len(names) > 0 {
				who = strings.Join(names, ", ")
			}
			err := fmt.Errorf("%d of %d agents have joined at %v within %v: %s", len(names), g.Agents, g.listener.Addr(), g.Wait, who)
			if refused != nil {
				return fmt.Errorf("%w (the last refusal: %.300s)", err, refused)
			}
			return Late{err}
		}
	}
}

// streams returns the multiplexer's configuration. A connection without an answer for the
// time silence is dead, which ends the run.
func streams() *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval, c.ConnectionWriteTimeout = heartbeat, silence
	c.StreamOpenTimeout = silence
	c.LogOutput = io.Discard
	return c
}

const (
	heartbeat = 2 * time.Second
	silence   = 6 * time.Second
)

// Agents returns the agents, sorted by rank and then by name.
func (f *Fleet) Agents() []*Agent { return f.agents }

// Context returns a context that is also done when an agent is lost; its cause names it.
func (f *Fleet) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.failed, func() { end(context.Cause(f.failed)) })
	return ctx, func() { stop(); end(nil) }
}

// Close ends all agents. Their processes exit with code.
func (f *Fleet) Close(code int) error {
	f.fail(errors.New("the run has ended"))
	errs := make([]error, len(f.agents))
	var all sync.WaitGroup
	for i, a := range f.agents {
		all.Go(func() {
			ctx, cancel := within(context.Background(), silence)
			defer cancel()
			if !a.session.IsClosed() { // the loss of an agent has already failed the run
				errs[i] = a.ask(ctx, "end", code, nil)
			}
			_ = a.session.Close()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// An Agent is the server's view of one agent of a [Fleet].
type Agent struct {
	name    string
	self    Self
	session *yamux.Session
	fleet   *Fleet

	started atomic.Int64 // number of processes started

	mu    sync.Mutex
	leave string // guarded by mu: why the agent was asked to end, if it was
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

// Name returns the agent's name in the run.
func (a *Agent) Name() string { return a.name }

// Self returns the agent's description of its process and host.
func (a *Agent) Self() Self { return a.self }

// leaveGrace delays the failure of a run after an agent was asked to end. The engine asks
// all ranks at about the same time, so the server's own signal may follow.
const leaveGrace = time.Second

// watch fails the fleet, after leaveGrace, if the agent reports that it was asked to end.
func (a *Agent) watch() {
	var why string
	if err := a.ask(context.Background(), "watch", nil, &why); err != nil {
		return // the connection has ended
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

// gone returns the error for the loss of the agent.
func (a *Agent) gone() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leave != "" {
		return fmt.Errorf("agent %s has left: %.80q", a.name, a.leave)
	}
	return fmt.Errorf("agent %s is gone: its connection has ended, or it has sent nothing for %v", a.name, silence)
}

// open sends a request on a new stream and reads the answer. The caller must close the
// stream.
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
	case a.session.IsClosed(), errors.Is(err, io.EOF): // agents answer every request before they close its stream
		return nil, a.gone()
	}
	return nil, fmt.Errorf("agent %s: %s: %w", a.name, kind, err)
}

// exchange sends a request on conn and reads the answer into answer, which may be nil.
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

// ask sends one request, reads its answer and closes the stream.
func (a *Agent) ask(ctx context.Context, kind string, body, answer any) error {
	conn, err := a.open(ctx, kind, body, answer)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// answerTime is the time limit of requests that involve no long work.
var answerTime = 20 * time.Second // tests set a shorter one

// within adds a time limit for an agent's answer to ctx.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %v", d))
}

// Dials fails if the agent cannot connect to addr. The error names the address.
func (a *Agent) Dials(ctx context.Context, addr string) error {
	ctx, cancel := within(ctx, answerTime)
	defer cancel()
	return a.ask(ctx, "dial", addr, nil)
}
