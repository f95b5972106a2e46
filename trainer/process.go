package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ipcbench/transports/driver"
)

// sessionProcess is the session's side of a worker process.
type sessionProcess struct {
	Process
	n       int
	lanes   []*sessionLane // the lanes that it hosts
	control *control
	answers chan message  // requested messages, except news; has room for one of each type
	gone    chan struct{} // closed when no more messages can come from its control socket

	ready ready // its message of that type

	mu         sync.Mutex
	expected   map[string]bool // guarded by mu: types of the messages that w must still send
	received   int64           // guarded by mu: number of messages
	progressed int64           // guarded by mu: number of messages that showed progress
	news       *news           // guarded by mu: the last message of that type
}

// ask records that w must send a message of that type. It must be called before the request
// is sent. It returns false if such a message is expected already.
func (w *sessionProcess) ask(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expected[kind] {
		return false
	}
	w.expected[kind] = true
	return true
}

// settle records a received message, and reports whether it was expected. All messages show
// progress, except news that nothing has moved.
func (w *sessionProcess) settle(m message, foreign bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received++
	if m.News == nil || m.News.progress(w.news, foreign) {
		w.progressed++
	}
	if m.News != nil {
		w.news = m.News
	}
	expected := w.expected[m.kind]
	delete(w.expected, m.kind)
	return expected
}

// hosts reports whether the process hosts a lane.
func (w *sessionProcess) hosts(lane int) bool {
	return lane >= w.lanes[0].n && lane <= w.lanes[len(w.lanes)-1].n
}

// processError is the failure of a worker process, most often its unexpected end.
type processError struct {
	n    int
	host string // its name, if it is not this machine
	lane int    // or -1
	err  error
}

func (e *processError) Error() string {
	if e.host != "" {
		return fmt.Sprintf("process %d on %s %v", e.n, e.host, e.err)
	}
	return fmt.Sprintf("process %d %v", e.n, e.err)
}
func (e *processError) Unwrap() error { return e.err }

// failure makes err a failure of w, on a lane or on none (-1).
func (w *sessionProcess) failure(lane int, err error) *processError {
	e := &processError{n: w.n, lane: lane, err: err}
	if at := w.Place(); !at.Here {
		e.host = at.Host
	}
	return e
}

// Parts of the size limit of a report, in bytes.
const (
	spareReport  = 2 * shortMessage // for everything except samples and profiles
	sampleSize   = 128              // most bytes of a sample, as JSON
	profilesSize = 1 << 30
)

func (c *Config) reportSize() int64 {
	size := int64(spareReport + sampleSize*c.Samples)
	if c.Profiling != nil {
		size += profilesSize
	}
	return size
}

// launch starts process n with its share of the lanes.
func (s *Session) launch(n int, o driver.Options) error {
	proc, err := s.cfg.Launcher.Launch(n)
	if err != nil {
		return err
	}
	w := &sessionProcess{
		Process: proc, n: n,
		control: &control{conn: proc.Conn(), timeout: min(sendTimeout, s.limit), limit: shortMessage},
		answers: make(chan message, 4), gone: make(chan struct{}), expected: map[string]bool{},
	}
	s.procs = append(s.procs, w)
	a := assignment{
		Process: n, Transport: s.cfg.Variant.Subject.Name(), Settings: o.Settings,
		Down: o.Down.Specs(), Up: o.Up.Specs(),
		TotalLanes: o.Lanes, Clients: o.Clients, Depth: o.Depth, Pages: o.Pages,
		Addr: s.at.Addr(), Secret: s.at.Secret(), Trust: s.at.Trust(),
		Func: s.cfg.Func, FuncConfig: s.cfg.FuncConfig, Samples: s.cfg.Samples,
		Window: s.cfg.Window, Pings: s.cfg.Pings,
	}
	for lane := n * s.cfg.PerProcess; lane < min((n+1)*s.cfg.PerProcess, s.cfg.Workers); lane++ {
		a.Lanes = append(a.Lanes, lane)
		l := &sessionLane{n: lane, process: w}
		l.client.Store(-1)
		w.lanes, s.lanes = append(w.lanes, l), append(s.lanes, l)
	}
	a.Profiling = s.cfg.Profiling.worker(proc)
	w.ask("ready")
	if a.Trust.Signs() {
		w.ask("sign")
	}
	s.readers.Go(func() { s.listen(w) })
	if err := s.send(w, message{Hello: newHello()}); err != nil {
		return err
	}
	return s.send(w, message{Assign: &a})
}

// send sends a message to w. If w has died, the error has its exit status.
func (s *Session) send(w *sessionProcess, m message) error {
	err := w.control.send(m)
	if err == nil {
		return nil
	}
	if dead := s.death(w); dead != nil {
		return dead
	}
	return w.failure(-1, fmt.Errorf("accepts no messages, and %s: %w", w.Place().state(), err))
}

// death returns the processError that has failed the session, or nil. The sockets of a dead
// process fail before its exit status is known, so death waits: until that is known if w's
// control socket has closed, else for exitGrace.
func (s *Session) death(w *sessionProcess) *processError {
	select {
	case <-w.gone:
		<-s.failed.Done() // listen fails the session next
	case <-s.failed.Done():
	case <-time.After(exitGrace):
	}
	var dead *processError
	errors.As(context.Cause(s.failed), &dead)
	return dead
}

// listen reads a process's messages until its control socket closes. Then it fails the
// session, which has no effect if Close has stopped the process.
func (s *Session) listen(w *sessionProcess) {
	m, err := w.control.receive()
	for err == nil {
		if err = s.handle(w, m); err == nil {
			m, err = w.control.receive()
		}
	}
	close(w.gone)
	s.fail(w.failure(-1, w.end(err)))
}

// handle handles a message of w. It never waits, so no process can keep the session from
// reading the messages of another one.
func (s *Session) handle(w *sessionProcess, m message) error {
	if m.Failure != nil {
		if m.Failure.Lane != -1 && !w.hosts(m.Failure.Lane) {
			return fmt.Errorf("%w: the failure of lane %d, which it does not host", errProtocol, m.Failure.Lane)
		}
		s.fail(w.failure(m.Failure.Lane, errors.New("failed: "+m.Failure.Text)))
		return nil
	}
	if m.Proof != nil {
		return s.keepProof(w, m.Proof)
	}
	if !w.settle(m, s.cfg.UserCode) {
		return fmt.Errorf("%w: unrequested %s", errProtocol, m.kind)
	}
	var err error
	switch {
	case m.Sign != nil:
		return s.sign(w, m.Sign.Request)
	case m.Ready != nil:
		err = m.Ready.check()
	case m.Pinged != nil:
		err = m.Pinged.check(s.cfg.Pings)
	case m.Report != nil:
		err = m.Report.complete(&s.cfg, w.hosts)
	case m.News != nil:
		if !slices.EqualFunc(m.News.Lanes, w.lanes, func(n laneNews, l *sessionLane) bool { return n.Lane == l.n }) {
			err = fmt.Errorf("%w: news of lanes that it does not host", errProtocol)
		}
		return err
	}
	if err == nil {
		w.answers <- m
	}
	return err
}

// end returns how w ended, given the error of its control socket. A socket most often closes
// because its process ends, so end waits for the exit status.
func (w *sessionProcess) end(err error) error {
	switch {
	case errors.Is(err, errProtocol):
		return fmt.Errorf("sent an invalid message: %w", err)
	case !awaitClosed(w.Exited(), deathGrace):
		return fmt.Errorf("closed its control socket, and %s: %w", w.Place().state(), err)
	case w.Err() == nil:
		return errors.New("exited: exit status 0, before it was asked to")
	}
	return fmt.Errorf("exited: %w", w.Err())
}

// await waits for the next answer of w, the end of ctx or the failure of the session.
func (s *Session) await(ctx context.Context, w *sessionProcess) (message, error) {
	select {
	case m := <-w.answers:
		return m, nil
	case <-s.failed.Done():
		return message{}, context.Cause(s.failed)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return message{}, w.failure(-1, fmt.Errorf("%w; %s", context.Cause(ctx), w.Place().state()))
		}
		return message{}, fmt.Errorf("process %d: %w", w.n, context.Cause(ctx))
	}
}

// withStderr adds the last part of a process's stderr, if err is about a process.
func (s *Session) withStderr(err error) error {
	var about *processError
	if errors.As(err, &about) {
		if text := s.procs[about.n].Stderr(); text != "" {
			return fmt.Errorf("%w\nstderr of process %d:\n%s", err, about.n, indent(text))
		}
	}
	return err
}
