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

// How long things may take that are not part of a round.
const (
	startTimeout    = 60 * time.Second       // until all workers are connected: they touch all their memory first
	shutdownTimeout = 5 * time.Second        // for workers to leave in order
	markTimeout     = 10 * time.Second       // for a worker to answer a mark
	reportTimeout   = 10 * time.Second       // for a worker's samples
	exitGrace       = 500 * time.Millisecond // in which an exit status outranks the transport's error
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
	server transports.Server
	lanes  []*poolLane
	procs  []*poolProcess

	outside phase.Span // of the user's goroutine, between the rounds of a window

	spawned time.Duration
	pings   []int64

	updates chan Update // has room for all updates that may be alive
	early   []Update    // those of a round that wait for their turn, by index

	// failed ends when a worker process dies; its cause is the processError.
	failed context.Context
	fail   context.CancelCauseFunc

	full    atomic.Bool    // a worker's recorder is
	closing bool           // set by the user's goroutine
	readers sync.WaitGroup // of control sockets
}

// poolProcess is a worker process as the pool sees it.
type poolProcess struct {
	Process
	n       int
	control *control
	ready   chan struct{} // closed when all its lanes are connected
	marked  chan struct{} // answers to marks
	pinged  chan []int64
	report  chan Totals
}

// processError is the end of a worker process that was not asked to end.
type processError struct {
	n    int
	lane int // or -1
	err  error
}

func (e *processError) Error() string { return fmt.Sprintf("worker %d %v", e.n, e.err) }
func (e *processError) Unwrap() error { return e.err }

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
	p := &Pool{cfg: cfg, dir: dir}
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

func (p *Pool) options() transports.Options {
	return transports.Options{
		Down: p.cfg.Down, Up: p.cfg.Up,
		Lanes: p.cfg.Workers, Clients: p.cfg.Clients, Depth: p.cfg.Depth,
		Dir: p.dir.Path(), Settings: p.cfg.Variant.Settings, Rec: p.rec,
	}
}

func (p *Pool) start(ctx context.Context, began time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("workers were not connected after %v", startTimeout))
	defer cancel()
	t, o := p.cfg.Variant.Transport, p.options()
	if err := t.Check(o); err != nil {
		return err
	}
	var err error
	if p.server, err = t.Listen(ctx, o); err != nil {
		return err
	}
	for n := 0; n*p.cfg.PerProcess < p.cfg.Workers; n++ {
		if err := p.launch(n, o); err != nil {
			return err
		}
	}
	for _, w := range p.procs {
		if err := p.await(ctx, w, w.ready); err != nil {
			return p.withStderr(fmt.Errorf("trainer: start: %w", err), w.n)
		}
	}
	p.spawned = time.Since(began)
	if p.cfg.Pings > 0 {
		if err := p.ping(ctx, p.procs[0]); err != nil { // it hosts lane 0
			return p.withStderr(fmt.Errorf("trainer: ping: %w", err), 0)
		}
	}
	p.startLanes()
	return nil
}

// ping has w make its empty calls while nobody else does anything.
func (p *Pool) ping(ctx context.Context, w *poolProcess) error {
	if err := w.control.send(message{Ping: &ping{}}); err != nil {
		return err
	}
	select {
	case p.pings = <-w.pinged:
		return nil
	case <-p.failed.Done():
		return context.Cause(p.failed)
	case <-ctx.Done():
		return fmt.Errorf("worker %d: %w", w.n, context.Cause(ctx))
	}
}

// launch starts process n with its share of the lanes.
func (p *Pool) launch(n int, o transports.Options) error {
	proc, err := p.cfg.Launcher.Launch(n)
	if err != nil {
		return err
	}
	w := &poolProcess{
		Process: proc, n: n, control: newControl(proc.Conn()),
		ready: make(chan struct{}), marked: make(chan struct{}, 1),
		pinged: make(chan []int64, 1), report: make(chan Totals, 1),
	}
	p.procs = append(p.procs, w)
	a := assignment{
		Process: n, Transport: p.cfg.Variant.Transport.Name(), Settings: o.Settings,
		Down: o.Down.Specs(), Up: o.Up.Specs(),
		TotalLanes: o.Lanes, Clients: o.Clients, Depth: o.Depth,
		Dir: o.Dir, Addr: p.server.Addr(),
		Func: p.cfg.Func, FuncConfig: p.cfg.FuncConfig, Samples: p.cfg.Samples,
		Window: p.cfg.Window, Pings: p.cfg.Pings,
	}
	for lane := n * p.cfg.PerProcess; lane < min((n+1)*p.cfg.PerProcess, p.cfg.Workers); lane++ {
		a.Lanes = append(a.Lanes, lane)
		p.lanes = append(p.lanes, &poolLane{n: lane, process: w})
	}
	a.Profiling = p.cfg.Profiling.worker(proc)
	p.readers.Go(func() { p.listen(w) })
	return w.control.send(message{Assign: &a})
}

// listen reads a worker's messages until its control socket closes, and sees to
// it that an end which nobody asked for fails the pool.
func (p *Pool) listen(w *poolProcess) {
	for {
		m, err := w.control.receive()
		switch {
		case err != nil:
			if awaitClosed(context.Background(), w.Exited(), exitGrace) {
				err = exitError(w.Err())
			} else {
				err = fmt.Errorf("closed its control socket: %w", err)
			}
			p.fail(&processError{w.n, -1, err})
			return
		case m.Ready != nil:
			close(w.ready)
		case m.Pinged != nil:
			w.pinged <- m.Pinged.Samples
		case m.Marked != nil:
			if m.Marked.Full {
				p.full.Store(true)
			}
			w.marked <- struct{}{}
		case m.Report != nil:
			w.report <- m.Report.Totals
		case m.Failure != nil:
			p.fail(&processError{w.n, m.Failure.Lane, errors.New("failed: " + m.Failure.Text)})
		}
	}
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exited: exit status 0, before it was asked to")
	}
	return fmt.Errorf("exited: %w", err)
}

// await waits for w to signal on ch, for ctx, or for any process to die.
func (p *Pool) await(ctx context.Context, w *poolProcess, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-p.failed.Done():
		return context.Cause(p.failed)
	case <-ctx.Done():
		return fmt.Errorf("worker %d: %w", w.n, context.Cause(ctx))
	}
}

// Enter ends the window that is open and begins w, in all processes. It is
// called between rounds; round is the next one. Neither end is in the middle of
// anything then: what belongs to the rounds before is recorded and counted, and
// the workers have asked for the job that follows, where they do ask.
func (p *Pool) Enter(ctx context.Context, w Window, round int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, markTimeout, fmt.Errorf("no answer to a mark after %v", markTimeout))
	defer cancel()
	p.endOutside()
	if err := p.settle(ctx); err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	if err := p.meter.mark(Outside, round); err != nil { // the server's window is the inner one: it pays for no worker's answer
		return err
	}
	for _, proc := range p.procs {
		if err := proc.control.send(message{Mark: &mark{Window: w, Round: round}}); err != nil {
			return fmt.Errorf("trainer: worker %d: %w", proc.n, err)
		}
	}
	for _, proc := range p.procs {
		if err := p.await(ctx, proc, proc.marked); err != nil {
			return fmt.Errorf("trainer: %w", err)
		}
	}
	if w == Outside {
		return p.meter.survey()
	}
	return p.meter.mark(w, round)
}

// settle waits until every lane's worker has asked for its next job.
func (p *Pool) settle(ctx context.Context) error {
	s, asks := p.server.(transports.Settler)
	if !asks {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.failed, func() { cancel(context.Cause(p.failed)) })()
	return s.Settle(ctx)
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
		errs = errors.Join(errs, w.control.send(message{Stop: &stop{Below: round + 1}}))
	}
	return errs
}

// halfFull is the share of a recorder's room from which on it counts as full:
// between two marks it must not run out.
const halfFull = 0.5

// Full reports whether a recorder may have no room for many more rounds.
func (p *Pool) Full() bool { return p.full.Load() || p.rec.Full(halfFull) }

// Recorder returns the recorder of the server's process, nil if none is kept.
func (p *Pool) Recorder() *phase.Recorder { return p.rec }

// Spawned returns how long it took until all workers were connected.
func (p *Pool) Spawned() time.Duration { return p.spawned }

// Pings returns what each empty call on the connection of lane 0 took, in
// nanoseconds, made while nothing else went on; none if the transport makes no
// calls.
func (p *Pool) Pings() []int64 { return p.pings }

// PIDs returns the process ids of the workers, for display.
func (p *Pool) PIDs() []int {
	var pids []int
	for _, w := range p.procs {
		pids = append(pids, w.PID())
	}
	return pids
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
	healthy := p.failed.Err() == nil && len(p.procs) > 0
	p.stopLanes()

	var errs error
	if p.server != nil {
		timeout := shutdownTimeout
		if !healthy {
			timeout = time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		err := p.server.Shutdown(ctx)
		cancel()
		if healthy {
			errs = errors.Join(errs, err)
		}
	}
	if healthy {
		errs = errors.Join(errs, p.collectReports(&r))
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

func (p *Pool) collectReports(r *Report) error {
	timer := time.NewTimer(reportTimeout)
	defer timer.Stop()
	for _, w := range p.procs {
		select {
		case totals := <-w.report:
			r.Workers = append(r.Workers, totals)
		case <-p.failed.Done():
			return fmt.Errorf("trainer: close: %w", context.Cause(p.failed))
		case <-timer.C:
			return fmt.Errorf("trainer: close: worker %d sent no report within %v", w.n, reportTimeout)
		}
	}
	return nil
}
