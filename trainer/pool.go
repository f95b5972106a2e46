package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/phase"
	"ipcbench/scratch"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Config says what a pool is made of. All fields are required unless they say
// otherwise.
type Config struct {
	Variant    transports.Variant
	Down, Up   *tensor.Layout
	Workers    int // lanes
	PerProcess int // lanes that one process hosts; 0 is 1
	Clients    int // the most clients that a round has
	Depth      int // updates of a lane that may be alive; 0 is DefaultDepth
	Func       string
	FuncConfig []byte
	Launcher   Launcher
	Samples    int // room for samples in each process; 0 records nothing

	// Window is the one in which the processes begin, so that it holds what their
	// start costs.
	Window Window

	// RoundLimit is for how long nothing may move while workers are waited for: no
	// job, no span, no counted byte; a worker function may take as long as it
	// likes. It ends the session. 0 is a minute, or a hundred times the slowest
	// round so far if that is more.
	RoundLimit time.Duration

	// Pings is how many empty calls are made before the first round, if the
	// transport makes calls: see Pool.Pings.
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
	exitGrace       = 500 * time.Millisecond // in which a worker's death outranks the transport's error
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

// A Pool is a session: a server in this process and workers in others. It has
// one user at a time, but for Stop, which any goroutine may call.
type Pool struct {
	cfg    Config
	rec    *phase.Recorder
	meter  *meter
	dir    *scratch.Dir
	at     *driver.Endpoint // where the server listens
	server *transports.Server
	lanes  []*poolLane
	procs  []*poolProcess

	outside phase.Span // of the user's goroutine, between the rounds of a window

	spawned time.Duration
	pings   []int64

	updates chan Update // has room for all updates that may be alive
	early   []Update    // those of a round that wait for their turn, by index

	// failed ends when a worker process dies or is stuck; its cause is the
	// processError.
	failed context.Context
	fail   context.CancelCauseFunc

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
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	began := time.Now()
	dir, err := scratch.New(scratch.Roots()[0])
	if err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, dir: dir, at: driver.NewEndpoint(dir.Path()), limit: cfg.RoundLimit, unwatch: make(chan struct{})}
	if p.limit == 0 {
		p.limit = leastLimit
	}
	p.failed, p.fail = context.WithCancelCause(context.Background())
	if cfg.Samples > 0 {
		p.rec = phase.NewRecorder(cfg.Samples)
	}
	p.meter = newMeter(p.rec)
	p.updates = make(chan Update, cfg.Workers*cfg.Depth)
	p.meter.capture, err = cfg.Profiling.server().start(p.rec, phase.ServerProcess)
	if err == nil {
		err = p.meter.mark(cfg.Window, 0)
	}
	if err == nil {
		err = p.start(ctx, began)
	}
	if err != nil {
		_, closeErr := p.Close()
		return nil, errors.Join(err, closeErr)
	}
	return p, nil
}

func (p *Pool) options() driver.Options {
	return driver.Options{
		Down: p.cfg.Down, Up: p.cfg.Up,
		Lanes: p.cfg.Workers, Clients: p.cfg.Clients, Depth: p.cfg.Depth,
		Settings: p.cfg.Variant.Settings, Rec: p.rec,
	}
}

func (p *Pool) start(ctx context.Context, began time.Time) error {
	o := p.options()
	need := p.cfg.Variant.Transport.Footprint(o)
	limit := startLimit(need)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("is not connected after %v, which is %v and what touching %s takes at 0.5 GB/s",
		limit, startTimeout, tensor.FormatBytes(int(need))))
	defer cancel()
	var err error
	if p.server, err = transports.Listen(ctx, p.cfg.Variant, p.at, o); err != nil {
		return err
	}
	for n := 0; n*p.cfg.PerProcess < p.cfg.Workers; n++ {
		if err := p.launch(n, o); err != nil {
			return p.withStderr(fmt.Errorf("trainer: start: %w", err))
		}
	}
	p.watched = make(chan struct{})
	go p.watch()
	p.waits.Store(waitStart)
	defer p.waits.Store(waitNone)
	for _, w := range p.procs {
		if _, err := p.await(ctx, w); err != nil {
			return p.withStderr(fmt.Errorf("trainer: start: %w", err))
		}
	}
	p.spawned = time.Since(began)
	if p.cfg.Pings > 0 {
		p.waits.Store(waitPing)
		if err := p.ping(ctx, p.procs[0]); err != nil { // it hosts lane 0
			return p.withStderr(fmt.Errorf("trainer: ping: %w", err))
		}
	}
	p.startLanes()
	return nil
}

// startLimit is for how long workers may take to connect: they touch all the
// memory of the session first.
func startLimit(need int64) time.Duration {
	return startTimeout + time.Duration(min(need/startSpeed, 1<<20))*time.Second
}

// ping has w make its empty calls while nobody else does anything.
func (p *Pool) ping(ctx context.Context, w *poolProcess) error {
	w.ask("pinged")
	if err := p.tell(w, message{Ping: &ping{}}); err != nil {
		return err
	}
	m, err := p.await(ctx, w)
	if err == nil {
		p.pings = m.Pinged.Samples
	}
	return err
}

// Enter ends the window that is open and begins w, in all processes. It is
// called between rounds; round is the next one. Neither end is in the middle of
// anything then: what belongs to the rounds before is recorded and counted, and
// the workers have asked for the job that follows, where they do ask. An error
// ends the session.
func (p *Pool) Enter(ctx context.Context, w Window, round int) error {
	p.endOutside()
	p.waits.Store(waitMark)
	defer p.waits.Store(waitNone)
	for _, proc := range p.procs {
		proc.ask("marked") // what they do until they are told to is waited for too
	}
	err := p.settle(ctx)
	if err == nil {
		err = p.meter.mark(Outside, round) // the server's window is the inner one: it pays for no worker's answer
	}
	if err == nil {
		err = p.markWorkers(ctx, mark{Window: w, Round: round})
	}
	if err == nil && w == Outside {
		err = p.meter.survey()
	}
	if err == nil && w != Outside {
		err = p.meter.mark(w, round)
	}
	if err == nil {
		return nil
	}
	p.fail(err)
	return p.withStderr(fmt.Errorf("trainer: mark: %w", err))
}

func (p *Pool) markWorkers(ctx context.Context, m mark) error {
	for _, proc := range p.procs {
		if err := p.tell(proc, message{Mark: &m}); err != nil {
			return err
		}
	}
	for _, proc := range p.procs {
		m, err := p.await(ctx, proc)
		if err != nil {
			return err
		}
		if m.Marked.Full {
			p.full = true
		}
	}
	return nil
}

// settle waits until every lane's worker has asked for its next job.
func (p *Pool) settle(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.failed, cancel)()
	err := p.server.Settle(ctx)
	if err != nil && p.failed.Err() != nil {
		return context.Cause(p.failed) // the cause of the transport's error
	}
	return err
}

// Pause leaves what the server spends from here to Resume out of the window that
// is open, so that its work between two rounds is not taken for a part of them.
// The workers' window goes on: they are to be idle then.
func (p *Pool) Pause() error {
	p.outside = p.rec.Outside() // a profile goes on, and leaves this out
	return p.meter.pause(true)
}

// Resume ends a Pause.
func (p *Pool) Resume() error {
	err := p.meter.pause(false)
	p.endOutside()
	return err
}

func (p *Pool) endOutside() {
	p.outside.End()
	p.outside = phase.Span{}
}

// Stop asks the worker functions of all rounds up to round to end early, those
// that run and those that have not begun.
func (p *Pool) Stop(round int) error {
	var errs error
	for _, w := range p.procs {
		if err := p.tell(w, message{Stop: &stop{Below: round + 1}}); err != nil {
			errs = errors.Join(errs, fmt.Errorf("trainer: stop: %w", err))
		}
	}
	return errs
}

// halfFull is the share of a recorder's room from which on it counts as full:
// between two marks it must not run out.
const halfFull = 0.5

// Full reports whether a recorder may have no room for many more rounds.
func (p *Pool) Full() bool { return p.full || p.rec.Full(halfFull) }

// Recorder returns the recorder of the server's process, nil if none is kept.
func (p *Pool) Recorder() *phase.Recorder { return p.rec }

// Spawned returns how long it took until all workers were connected.
func (p *Pool) Spawned() time.Duration { return p.spawned }

// Pings returns what each empty call on the connection of lane 0 took, in
// nanoseconds, made while nothing else went on; none if the transport makes no
// calls.
func (p *Pool) Pings() []int64 { return p.pings }

// Places returns where the worker processes are, in order.
func (p *Pool) Places() []Place {
	var places []Place
	for _, w := range p.procs {
		places = append(places, w.Place())
	}
	return places
}

// A Report is what all processes recorded, the server first.
type Report struct {
	Server  Totals
	Workers []Totals
}

// Close ends the session and returns what was recorded. After a failure it does
// not wait for anybody, and the report is incomplete. It returns only when every
// process is gone and the session's directory is removed.
func (p *Pool) Close() (Report, error) {
	var r Report
	if p.closing {
		return r, errors.New("trainer: pool is closed")
	}
	p.closing = true
	p.endOutside()
	if p.watched != nil {
		close(p.unwatch)
		<-p.watched
	}
	healthy := p.failed.Err() == nil && len(p.procs) > 0
	p.stopLanes()
	if healthy {
		for _, w := range p.procs {
			w.ask("report")
		}
	}

	var errs error
	left := healthy // whether all workers have
	if p.server != nil {
		timeout := min(shutdownTimeout, max(p.limit, leastClose))
		if !healthy {
			timeout = time.Millisecond
		}
		ctx, cancel := context.WithTimeout(p.failed, timeout)
		err := p.server.Shutdown(ctx)
		left = left && ctx.Err() == nil
		cancel()
		if healthy {
			errs = errors.Join(errs, err)
		}
	}
	if healthy {
		errs = errors.Join(errs, p.collectReports(&r, left))
	}
	totals, err := p.meter.totals()
	r.Server, errs = totals, errors.Join(errs, err)

	// Every process is stopped even if another one makes trouble, all at once.
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, w := range p.procs {
		wg.Go(func() {
			err := w.Stop()
			mu.Lock()
			defer mu.Unlock()
			errs = errors.Join(errs, err)
		})
	}
	wg.Wait()
	p.readers.Wait()
	p.fail(io.ErrClosedPipe)
	return r, errors.Join(errs, p.dir.Close())
}

// collectReports waits for the reports, which come at once where workers have
// left in order.
func (p *Pool) collectReports(r *Report, left bool) error {
	timeout := min(reportTimeout, max(p.limit, leastClose))
	if !left {
		timeout = exitGrace
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("has sent no report %v after it was told to leave", timeout))
	defer cancel()
	for _, w := range p.procs {
		m, err := p.await(ctx, w)
		for err == nil && m.Report == nil { // an answer that nobody waited for any more
			m, err = p.await(ctx, w)
		}
		if err != nil {
			return p.withStderr(fmt.Errorf("trainer: close: %w", err))
		}
		r.Workers = append(r.Workers, *m.Report)
	}
	return nil
}
