package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"ipcbench/internal/reexec"
	"ipcbench/trainer"
)

// A Launcher starts process n of a session on the host of its element n. A nil element
// means the server's own host.
type Launcher []*Agent

// Name implements [trainer.Launcher].
func (Launcher) Name() string { return "agents" }

// Launch implements [trainer.Launcher].
func (l Launcher) Launch(n int) (trainer.Process, error) {
	if n >= len(l) {
		return nil, fmt.Errorf("process %d has no host", n)
	}
	if l[n] == nil {
		return trainer.NewProcesses().Launch(n)
	}
	return l[n].start(n)
}

// startOrder is the body of the request "start". Its stream stays open while the process
// lives. If the server closes it, the agent stops the process. When the process has ended,
// the agent sends an exit.
type (
	startOrder struct {
		ID      int `json:"id"`      // the server's number for the process in later requests
		Process int `json:"process"` // index of the process in its session
	}
	exit struct {
		Error  string `json:"error,omitempty"`
		Stderr string `json:"stderr,omitempty"` // the last part of its standard error
	}
)

// start starts process n of a session.
func (a *Agent) start(n int) (trainer.Process, error) {
	id := int(a.started.Add(1))
	ctx, cancel := within(context.Background(), answerTime)
	defer cancel()
	p := &remote{agent: a, exited: make(chan struct{})}
	var err error
	if p.life, err = a.open(ctx, "start", startOrder{id, n}, &p.pid); err != nil {
		return nil, fmt.Errorf("process %d: %w", n, err)
	}
	go p.follow()
	conn, err := a.open(ctx, "control", id, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process %d: %w", n, err), p.Stop())
	}
	p.control = &controlStream{conn}
	return p, nil
}

// remote is a worker process on an agent's host.
type remote struct {
	agent   *Agent
	pid     int
	control net.Conn
	life    net.Conn
	exited  chan struct{}

	err    error // err and stderr are set before exited is closed
	stderr string
}

func (p *remote) Conn() net.Conn          { return p.control }
func (p *remote) Place() trainer.Place    { return trainer.Place{Host: p.agent.name, PID: p.pid} }
func (p *remote) Exited() <-chan struct{} { return p.exited }
func (p *remote) Err() error              { return p.err }

func (p *remote) Stderr() string {
	select {
	case <-p.exited:
		return p.stderr
	default: // the agent sends it when the process has ended
		return ""
	}
}

// follow waits until the process has ended, or the agent, whose processes end with it.
func (p *remote) follow() {
	defer close(p.exited)
	var e exit
	if err := readFrame(p.life, &e); err != nil {
		p.err = p.agent.gone()
		return
	}
	if p.stderr = e.Stderr; e.Error != "" {
		p.err = errors.New(e.Error)
	}
}

// stopTime is the time limit for stopping a process, including the messages.
const stopTime = reexec.Grace + 2*time.Second

func (p *remote) Stop() error {
	if p.control != nil {
		_ = p.control.Close()
	}
	_ = p.life.Close() // makes the agent stop the process
	select {
	case <-p.exited:
		return nil
	case <-p.agent.session.CloseChan():
		return nil // the process ended with its agent
	case <-time.After(stopTime):
		return fmt.Errorf("agent %s: pid %d has not ended within %v", p.agent.name, p.pid, stopTime)
	}
}

// controlStream is a control connection. Its Close also ends reads, which a yamux stream
// does only when the other end closes.
type controlStream struct{ net.Conn }

func (c *controlStream) Close() error {
	return errors.Join(c.Conn.Close(), c.SetReadDeadline(time.Now()))
}
