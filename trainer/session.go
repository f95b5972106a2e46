package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/identity"
	"ipcbench/internal/scratch"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Config says what a session is made of. All fields are required unless they say
// otherwise.
type Config struct {
	Variant    transports.Variant
	Down, Up   *tensor.Layout // if both have the same tensors, Down is that of updates, too
	Workers    int            // lanes
	PerProcess int            // lanes that one process hosts; 0 is 1
	Clients    int            // the most clients that a round has
	Depth      int            // updates of a lane that may be alive; 0 is DefaultDepth
	Func       string
	FuncConfig []byte
	Launcher   Launcher
	Samples    int // room for samples in each process; 0 records nothing

	// Foreign is that Func is a user's: RoundLimit holds for it too, and workers tell what
	// they get and send in rounds of no window that is measured. See [Session.Sent].
	Foreign bool

	// Window is the one in which the processes begin, so that it holds what their
	// start costs.
	Window Window

	// RoundLimit is for how long nothing may move while workers are waited for: no
	// job, no span, no counted byte; a worker function may take as long as it
	// likes, unless it is Foreign. It ends the session. 0 is a minute, or a hundred times the slowest
	// round so far if that is more.
	RoundLimit time.Duration

	// Host is the address, with or without a port, at which a transport that uses TCP
	// listens; empty is 127.0.0.1. Off the loopback interface it takes mutual TLS,
	// unless Insecure is set.
	Host     string
	Ports    driver.Ports // at which of its ports, if Host has none; zero is any
	Insecure bool

	// Files are the certificates of a transport that uses TLS. Without them, each
	// session makes its own.
	Files *identity.Files

	// Pings is how many empty calls are made before the first round, if the
	// transport makes calls: see Session.Pings.
	Pings int

	Profiling *Profiling // nil is none
}

// DefaultDepth lets a lane train while its last update waits for its turn to be
// folded.
const DefaultDepth = 2

// MaxWorkers bounds the lanes of a session.
const MaxWorkers = 4096

// maxPings is how many empty calls one message tells of at most.
const maxPings = 10_000

// LeastRoundLimit is the shortest Config.RoundLimit: a machine with more processes
// than processors lets one wait for a while.
const LeastRoundLimit = 100 * time.Millisecond

// How long things may take that are not part of a round.
const (
	startTimeout    = 60 * time.Second       // until all workers are connected, besides what touching their memory takes
	startSpeed      = 500_000_000            // bytes a second that are touched at least
	shutdownTimeout = 5 * time.Second        // for workers to leave in order
	reportTimeout   = 10 * time.Second       // for the samples of all workers
	leastClose      = 2 * time.Second        // for either of them, however short the round limit
	exitGrace       = 500 * time.Millisecond // in which a process's death outranks the transport's error
	deathGrace      = 5 * time.Second        // in which an exit status follows the end of the control socket
)

func (c *Config) defaults() error {
	if c.PerProcess == 0 {
		c.PerProcess = 1
	}
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	switch {
	case c.Workers < 1:
		return fmt.Errorf("trainer: %d workers: want at least 1", c.Workers)
	case c.Workers > MaxWorkers:
		return fmt.Errorf("trainer: %d workers: want at most %d", c.Workers, MaxWorkers)
	case c.PerProcess < 1:
		return fmt.Errorf("trainer: %d lanes a process: want at least 1", c.PerProcess)
	case c.Depth < 1:
		return fmt.Errorf("trainer: depth %d: want at least 1", c.Depth)
	case c.Clients < 0:
		return fmt.Errorf("trainer: %d clients: want at least 0", c.Clients)
	case c.Pings < 0 || c.Pings > maxPings:
		return fmt.Errorf("trainer: %d pings: want 0 to %d", c.Pings, maxPings)
	case c.RoundLimit < 0 || c.RoundLimit > 0 && c.RoundLimit < LeastRoundLimit:
		return fmt.Errorf("trainer: round limit %v: want at least %v, or 0", c.RoundLimit, LeastRoundLimit)
	}
	return nil
}

// A Session is a session: a server in this process and workers in others. It has
// one user at a time, but for Stop, which any goroutine may call.
type Session struct {
	cfg    Config
	rec    *phase.Recorder
	meter  *meter
	dir    *scratch.Dir
	at     *driver.Endpoint // where the server listens
	server *transports.Server
	lanes  []*sessionLane
	procs  []*sessionProcess

	outside phase.Span // of the user's goroutine, between the rounds of a window

	spawned time.Duration
	shaken  Handshakes
	pings   []int64

	proofs chan proof // what was told; has room for all clients of two rounds
	told   map[job]Sent
	come   []Update // room for the updates of a round

	// failed ends when a worker process dies or is stuck; its cause is the
	// processError.
	failed context.Context
	fail   context.CancelCauseFunc

	coded   bool          // what travels is encoded
	limit   time.Duration // Config.RoundLimit, or the least one
	waits   atomic.Int32  // what the user waits for
	busy    atomic.Bool   // in a callback of the user's
	slowest atomic.Int64  // round so far, ns
	unwatch chan struct{} // closed to end watch
	watched chan struct{} // closed when it has ended; nil if it never began

	full    bool           // a process's recorder is
	closing bool           // set by the user's goroutine
	readers sync.WaitGroup // of control sockets
}

// Open starts a session: it checks that the transport can carry it, starts
// server and workers, and returns when all lanes are connected.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	cfg.Up = sameOrOwn(cfg.Down, cfg.Up)
	began := time.Now()
	dir, err := scratch.New(scratch.Roots()[0])
	if err != nil {
		return nil, err
	}
	p := &Session{cfg: cfg, dir: dir, at: driver.NewEndpoint(dir.Path()), limit: cfg.RoundLimit, unwatch: make(chan struct{})}
	p.at.Host, p.at.Ports, p.at.Insecure, p.at.Files, p.at.PerProcess = cfg.Host, cfg.Ports, cfg.Insecure, cfg.Files, cfg.PerProcess
	if p.limit == 0 {
		p.limit = leastLimit
	}
	p.failed, p.fail = context.WithCancelCause(context.Background())
	if cfg.Samples > 0 {
		p.rec = phase.NewRecorder(cfg.Samples)
	}
	p.meter = newMeter(p.rec)
	p.coded = cfg.Variant.Codec() != nil
	p.proofs, p.told = make(chan proof, 2*cfg.Clients), map[job]Sent{}
	p.meter.capture, err = cfg.Profiling.server().start(p.rec, phase.ServerProcess)
	if err == nil {
		err = p.meter.mark(cfg.Window, 0)
	}
	if err == nil {
		err = p.start(ctx, began)
	}
	if err != nil {
		p.fail(err) // nobody is waited for
		_, closeErr := p.Close()
		return nil, errors.Join(err, closeErr)
	}
	return p, nil
}

func (s *Session) options() driver.Options {
	return driver.Options{
		Down: s.cfg.Down, Up: s.cfg.Up,
		Lanes: s.cfg.Workers, Clients: s.cfg.Clients, Depth: s.cfg.Depth,
		Settings: s.cfg.Variant.Settings, Rec: s.rec,
	}
}

func (s *Session) start(ctx context.Context, began time.Time) error {
	o := s.options()
	need := s.cfg.Variant.Footprint(o)
	limit := startLimit(need)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("is not connected after %v, which is %v and what touching %s takes at 0.5 GB/s",
		limit, startTimeout, tensor.FormatBytes(int(need))))
	defer cancel()
	var err error
	if s.server, err = transports.Listen(ctx, s.cfg.Variant, s.at, o); err != nil {
		return err
	}
	for n := 0; n*s.cfg.PerProcess < s.cfg.Workers; n++ {
		if err := s.launch(n, o); err != nil {
			return s.withStderr(fmt.Errorf("trainer: start: %w", err))
		}
	}
	s.watched = make(chan struct{})
	go s.watch()
	s.waits.Store(waitStart)
	defer s.waits.Store(waitNone)
	for _, w := range s.procs {
		m, err := s.await(ctx, w)
		if err != nil {
			return s.withStderr(fmt.Errorf("trainer: start: %w", err))
		}
		w.ready = *m.Ready
		s.shaken.add(m.Ready)
	}
	s.spawned = time.Since(began)
	if s.cfg.Pings > 0 {
		s.waits.Store(waitPing)
		if err := s.ping(ctx, s.procs[0]); err != nil { // it hosts lane 0
			return s.withStderr(fmt.Errorf("trainer: ping: %w", err))
		}
	}
	s.startLanes()
	return nil
}

// startLimit is for how long workers may take to connect: they touch all the
// memory of the session first.
func startLimit(need int64) time.Duration {
	return startTimeout + time.Duration(min(need/startSpeed, 1<<20))*time.Second
}

// ping has w make its empty calls while nobody else does anything.
func (s *Session) ping(ctx context.Context, w *sessionProcess) error {
	w.ask("pinged")
	if err := s.tell(w, message{Ping: &ping{}}); err != nil {
		return err
	}
	m, err := s.await(ctx, w)
	if err == nil {
		s.pings = m.Pinged.Samples
	}
	return err
}

// Enter ends the window that is open and begins w, in all processes. It is
// called between rounds; round is the next one. Neither end is in the middle of
// anything then: what belongs to the rounds before is recorded and counted, and
// the workers have asked for the job that follows, where they do ask. An error
// ends the session.
func (s *Session) Enter(ctx context.Context, w Window, round int) error {
	s.endOutside()
	s.waits.Store(waitMark)
	defer s.waits.Store(waitNone)
	for _, proc := range s.procs {
		proc.ask("marked") // settle also waits for what they do until they get the message
	}
	err := s.settle(ctx)
	if err == nil {
		err = s.meter.mark(Outside, round) // the server's window is the inner one: it pays for no worker's answer
	}
	if err == nil {
		err = s.markWorkers(ctx, mark{Window: w, Round: round})
	}
	if err == nil && w == Outside {
		err = s.meter.survey()
	}
	if err == nil && w != Outside {
		err = s.meter.mark(w, round)
	}
	if err == nil {
		return nil
	}
	s.fail(err)
	return s.withStderr(fmt.Errorf("trainer: mark: %w", err))
}

func (s *Session) markWorkers(ctx context.Context, m mark) error {
	for _, proc := range s.procs {
		if err := s.tell(proc, message{Mark: &m}); err != nil {
			return err
		}
	}
	for _, proc := range s.procs {
		m, err := s.await(ctx, proc)
		if err != nil {
			return err
		}
		if m.Marked.Full {
			s.full = true
		}
	}
	return nil
}

// settle waits until every lane's worker has asked for its next job.
func (s *Session) settle(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.failed, cancel)()
	err := s.server.Settle(ctx)
	if err != nil && s.failed.Err() != nil {
		return context.Cause(s.failed) // the cause of the transport's error
	}
	return err
}

// Pause leaves what the server spends from here to Resume out of the window that
// is open, so that its work between two rounds is not taken for a part of them.
// The workers' window goes on: they are to be idle then.
func (s *Session) Pause() error {
	s.outside = s.rec.Outside() // a profile goes on, and leaves this out
	return s.meter.pause(true)
}

// Resume ends a Pause.
func (s *Session) Resume() error {
	err := s.meter.pause(false)
	s.endOutside()
	return err
}

func (s *Session) endOutside() {
	s.outside.End()
	s.outside = phase.Span{}
}

// Stop asks the worker functions of all rounds up to round to end early, those
// that run and those that have not begun.
func (s *Session) Stop(round int) error {
	var errs error
	for _, w := range s.procs {
		if err := s.tell(w, message{Stop: &stop{Below: round + 1}}); err != nil {
			errs = errors.Join(errs, fmt.Errorf("trainer: stop: %w", err))
		}
	}
	return errs
}

// halfFull is the share of a recorder's room from which on it counts as full:
// between two marks it must not run out.
const halfFull = 0.5

// Full reports whether a recorder may have no room for many more rounds.
func (s *Session) Full() bool { return s.full || s.rec.Full(halfFull) }

// Recorder returns the recorder of the server's process, nil if none is kept.
func (s *Session) Recorder() *phase.Recorder { return s.rec }

// Spawned returns how long it took until all workers were connected.
func (s *Session) Spawned() time.Duration { return s.spawned }

// Pings returns what each empty call on the connection of lane 0 took, in
// nanoseconds, made while nothing else went on; none if the transport makes no
// calls.
func (s *Session) Pings() []int64 { return s.pings }

// Places returns where the worker processes are, in order.
func (s *Session) Places() []Place {
	var places []Place
	for _, w := range s.procs {
		places = append(places, w.Place())
	}
	return places
}

// A Report is what all processes recorded, the server first.
type Report struct {
	Server    Totals
	Processes []Totals
}

// Close ends the session and returns what was recorded. After a failure it does
// not wait for anybody, and the report is incomplete. It returns only when every
// process is gone and the session's directory is removed.
func (s *Session) Close() (Report, error) {
	var r Report
	if s.closing {
		return r, errors.New("trainer: the session is closed")
	}
	s.closing = true
	s.endOutside()
	if s.watched != nil {
		close(s.unwatch)
		<-s.watched
	}
	healthy := s.failed.Err() == nil && len(s.procs) > 0
	s.stopLanes()
	if healthy {
		for _, w := range s.procs {
			w.control.report.Store(s.cfg.reportSize())
			w.ask("report")
		}
	}

	var errs error
	left := healthy // whether all workers have
	if s.server != nil {
		timeout := min(shutdownTimeout, max(s.limit, leastClose))
		if !healthy {
			timeout = time.Millisecond
		}
		ctx, cancel := context.WithTimeout(s.failed, timeout)
		err := s.server.Shutdown(ctx)
		left = left && ctx.Err() == nil
		cancel()
		if healthy {
			errs = errors.Join(errs, err)
		}
	}
	if healthy {
		errs = errors.Join(errs, s.collectReports(&r, left))
	}
	totals, err := s.meter.totals()
	r.Server, errs = totals, errors.Join(errs, err)

	// Every process is stopped even if another one makes trouble, all at once.
	stopped := make([]error, len(s.procs))
	var wg sync.WaitGroup
	for i, w := range s.procs {
		wg.Go(func() { stopped[i] = w.Stop() })
	}
	wg.Wait()
	s.readers.Wait()
	s.fail(io.ErrClosedPipe)
	return r, errors.Join(errs, errors.Join(stopped...), s.dir.Close())
}

// collectReports waits for the reports, which come at once where workers have
// left in order.
func (s *Session) collectReports(r *Report, left bool) error {
	timeout := min(reportTimeout, max(s.limit, leastClose))
	if !left {
		timeout = exitGrace
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("has sent no report %v after it was asked to leave", timeout))
	defer cancel()
	for _, w := range s.procs {
		m, err := s.await(ctx, w)
		for err == nil && m.Report == nil { // an answer that nobody waited for any more
			m, err = s.await(ctx, w)
		}
		if err != nil {
			return s.withStderr(fmt.Errorf("trainer: close: %w", err))
		}
		m.Report.Software, m.Report.Import = w.ready.Software, w.ready.Import
		r.Processes = append(r.Processes, m.Report.Totals)
	}
	return nil
}
