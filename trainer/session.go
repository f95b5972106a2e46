package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/identity"
	"ipcbench/internal/scratch"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// Config describes a session. A field is required unless its comment says otherwise.
type Config struct {
	Variant    transports.Variant
	Down, Up   *tensor.Layout // layouts of the model and of updates; if equal, Down serves both
	Workers    int            // number of lanes
	PerProcess int            // lanes per process; 0 means 1
	Clients    int            // most clients in a round
	Depth      int            // most updates of a lane between dispatch and release; 0 means DefaultDepth
	Pages      pages.Size     // of all memory that tensors are in
	Func       string         // name of the worker function in Host.Funcs
	FuncConfig []byte         // passed to that Func; may be nil
	Launcher   Launcher
	Samples    int // most samples that each process records; 0 records nothing

	// UserCode marks Func as user code. RoundLimit then applies to it too, and workers report
	// hashes of models and updates in unmeasured rounds. See [Session.Sent].
	UserCode bool

	// Window is open when the processes start, so that it includes the cost of starting
	// them.
	Window Window

	// RoundLimit fails the session if nothing progresses for this long while workers are
	// awaited: no job, span or counted byte. Worker functions may take any time, unless
	// Func is user code. Zero means one minute, or 100 times the slowest round so far if
	// that is longer.
	RoundLimit time.Duration

	// Host is the address at which a transport that uses TCP listens, with or without a
	// port. Empty means 127.0.0.1. An address off the loopback interface requires mutual
	// TLS, unless Insecure is set. Workers dial Via, if it is not empty, to reach Host.
	Host     string
	Via      string
	Ports    endpoint.Ports // ports to choose from if Host has none; zero means any
	Insecure bool

	// Files are the certificates for a transport that uses TLS. If nil, each session
	// makes its own.
	Files *identity.Files

	// Pings is the number of empty calls to measure before the first round, if the
	// transport makes calls. See [Session.Pings].
	Pings int

	Profiling *Profiling // nil takes no profiles and sets no labels
}

// DefaultDepth lets a lane train while its last update waits to be folded.
const DefaultDepth = 2

// MaxWorkers bounds the lanes of a session.
const MaxWorkers = 4096

// maxPings is the most empty calls whose durations fit into one message.
const maxPings = 10_000

// maxSamples is the most samples that a process records, which take 1 GiB.
const maxSamples = 1 << 25

// LeastRoundLimit is the shortest Config.RoundLimit: on a machine with more processes
// than processors, a healthy process may have to wait for a while.
const LeastRoundLimit = 100 * time.Millisecond

// Time limits of everything that is not part of a round.
const (
	startTimeout    = 60 * time.Second       // for all workers to connect, in addition to the time for touching their memory
	startSpeed      = 500_000_000            // slowest rate at which memory is touched, in bytes per second
	shutdownTimeout = 5 * time.Second        // for workers to leave in order, or the round limit if that is shorter
	reportTimeout   = 10 * time.Second       // for the samples of all workers, or the round limit if that is shorter
	leastClose      = 2 * time.Second        // the least value of these two, however short the round limit
	exitGrace       = 500 * time.Millisecond // for a process's death to be noticed after a transport's error, which it outranks
	deathGrace      = 5 * time.Second        // for an exit status to follow the end of the control socket
)

func (c *Config) defaults() error {
	if c.PerProcess == 0 {
		c.PerProcess = 1
	}
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	c.Samples = min(c.Samples, maxSamples)
	for _, f := range []struct {
		name           string
		n, least, most int
	}{
		{"Workers", c.Workers, 1, MaxWorkers}, {"PerProcess", c.PerProcess, 1, math.MaxInt},
		{"Depth", c.Depth, 1, math.MaxInt}, {"Clients", c.Clients, 0, math.MaxInt}, {"Pings", c.Pings, 0, maxPings},
	} {
		if f.n < f.least || f.n > f.most {
			return fmt.Errorf("trainer: %s is %d, must be %d to %d", f.name, f.n, f.least, f.most)
		}
	}
	if c.RoundLimit < 0 || c.RoundLimit > 0 && c.RoundLimit < LeastRoundLimit {
		return fmt.Errorf("trainer: RoundLimit is %v, must be 0 or at least %v", c.RoundLimit, LeastRoundLimit)
	}
	return nil
}

// A Session is a server in this process with its workers, usually in other processes. Only
// one goroutine may use it at a time, except for Stop, which any goroutine may call.
type Session struct {
	cfg    Config
	rec    *phase.Recorder
	meter  *meter
	dir    *scratch.Dir
	at     *endpoint.Endpoint // where the server listens
	server *transports.Server
	lanes  []*sessionLane
	procs  []*sessionProcess

	outside phase.Span // of the caller's goroutine, from Pause to Resume

	spawned    time.Duration
	handshakes Handshakes
	pings      []int64

	proofs   chan proof   // as workers report them; has room for all clients of two rounds
	reported map[job]Sent // taken from proofs, and not yet returned by Sent
	updates  []Update     // memory for the updates of a round, reused

	// failed is done when the session has failed. If a worker process has died or is
	// stuck, the cause is a processError.
	failed context.Context
	fail   context.CancelCauseFunc

	coded   bool          // the variant has a codec
	limit   time.Duration // Config.RoundLimit, or leastLimit if that is 0
	waits   atomic.Int32  // one of waitNone to waitAnswer
	busy    atomic.Bool   // Round.Each is running
	slowest atomic.Int64  // longest round so far, in ns
	unwatch chan struct{} // closed to end watch
	watched chan struct{} // closed when watch has ended; nil if it never began

	full    bool           // a worker process's recorder is almost full
	closing bool           // Close has been called
	readers sync.WaitGroup // goroutines that use control sockets
	running sync.WaitGroup // goroutines of lanes
}

// Open starts a session: it checks that the variant supports it, starts the server and the
// workers, and returns when all lanes are connected. If it fails, it stops everything.
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
	p := &Session{cfg: cfg, dir: dir, at: endpoint.New(dir.Path()), limit: cfg.RoundLimit, unwatch: make(chan struct{})}
	p.at.Host, p.at.Via, p.at.Ports, p.at.Insecure, p.at.Files, p.at.PerProcess = cfg.Host, cfg.Via, cfg.Ports, cfg.Insecure, cfg.Files, cfg.PerProcess
	if p.limit == 0 {
		p.limit = leastLimit
	}
	p.failed, p.fail = context.WithCancelCause(context.Background())
	if cfg.Samples > 0 {
		p.rec = phase.NewRecorder(cfg.Samples)
	}
	p.meter = newMeter(p.rec)
	p.coded = cfg.Variant.Codec() != nil
	p.proofs, p.reported = make(chan proof, 2*cfg.Clients), map[job]Sent{}
	p.meter.capture, err = cfg.Profiling.server().start(p.rec, phase.ServerProcess)
	if err == nil {
		err = p.meter.mark(cfg.Window, 0)
	}
	if err == nil {
		err = p.start(ctx, began)
	}
	if err != nil {
		p.fail(err) // so that Close waits for no worker
		_, closeErr := p.Close()
		return nil, errors.Join(err, closeErr)
	}
	return p, nil
}

func (s *Session) start(ctx context.Context, began time.Time) error {
	o := driver.Options{
		Down: s.cfg.Down, Up: s.cfg.Up,
		Lanes: s.cfg.Workers, Clients: s.cfg.Clients, Depth: s.cfg.Depth,
		Settings: s.cfg.Variant.Settings, Pages: s.cfg.Pages, Rec: s.rec,
	}
	pages.Forget() // what earlier sessions of this process had
	need := s.cfg.Variant.Footprint(o)
	limit := startLimit(need)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("is not connected after %v (%v, and the time to touch %s at 0.5 GB/s)",
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
		h := &s.handshakes
		h.N += int(w.ready.Handshakes)
		h.Longest = max(h.Longest, time.Duration(w.ready.HandshakeTime))
		h.Cipher = cmp.Or(w.ready.Cipher, h.Cipher)
	}
	s.spawned = time.Since(began)
	if s.cfg.Pings > 0 {
		s.waits.Store(waitAnswer)
		if err := s.ping(ctx, s.procs[0]); err != nil { // it hosts lane 0
			return s.withStderr(fmt.Errorf("trainer: ping: %w", err))
		}
	}
	s.startLanes()
	return nil
}

// startLimit returns how long workers may take to connect to a session that needs that many
// bytes of memory: they touch all of it first.
func startLimit(need int64) time.Duration {
	return startTimeout + time.Duration(min(need/startSpeed, 1<<20))*time.Second
}

// ping has w make its empty calls while all other processes are idle.
func (s *Session) ping(ctx context.Context, w *sessionProcess) error {
	w.ask("pinged")
	if err := s.send(w, message{Ping: &ping{}}); err != nil {
		return err
	}
	m, err := s.await(ctx, w)
	if err == nil {
		s.pings = m.Pinged.Samples
	}
	return err
}

// Enter ends the open window and begins w, in all processes. It must be called between
// rounds; round is the number of the next one. Enter first waits until both ends are idle:
// everything of the rounds before is recorded and counted, and workers that ask for jobs
// have asked for the next one. After an error the session has failed.
func (s *Session) Enter(ctx context.Context, w Window, round int) error {
	s.endOutside()
	s.waits.Store(waitAnswer)
	defer s.waits.Store(waitNone)
	for _, proc := range s.procs {
		proc.ask("marked") // so that watch also covers the wait in settle
	}
	err := s.settle(ctx)
	if err == nil {
		err = s.meter.mark(Outside, round) // outside of the workers' windows: the server's excludes the cost of their answers
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
		if err := s.send(proc, message{Mark: &m}); err != nil {
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
		return context.Cause(s.failed) // which led to the transport's error
	}
	return err
}

// Pause excludes the server's usage from the open window until Resume, so that its work
// between two rounds is not counted as part of them. The workers' window stays open,
// because they should be idle.
func (s *Session) Pause() error {
	s.outside = s.rec.Outside() // a profile continues, and excludes this span
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

// Stop asks all worker functions of rounds up to and including round to end early, whether
// or not they have begun. See [Job.Stopped].
func (s *Session) Stop(round int) error {
	var errs error
	for _, w := range s.procs {
		if err := s.send(w, message{Stop: &stop{Below: round + 1}}); err != nil {
			errs = errors.Join(errs, fmt.Errorf("trainer: stop: %w", err))
		}
	}
	return errs
}

// halfFull is the share of a recorder's room above which it counts as full, because the
// room must not run out between two marks.
const halfFull = 0.5

// Full reports whether the recorder of some process may lack room for many more rounds.
func (s *Session) Full() bool { return s.full || s.rec.Full(halfFull) }

// Recorder returns the recorder of the server's process, or nil if Config.Samples is 0.
func (s *Session) Recorder() *phase.Recorder { return s.rec }

// Spawned returns the time from the call of Open until all workers were connected.
func (s *Session) Spawned() time.Duration { return s.spawned }

// Pings returns the duration of each empty call on the connection of lane 0, in nanoseconds,
// measured while nothing else was running. It is empty if the transport makes no calls.
func (s *Session) Pings() []int64 { return s.pings }

// Places returns the place of every worker process, in order.
func (s *Session) Places() []Place {
	var places []Place
	for _, w := range s.procs {
		places = append(places, w.Place())
	}
	return places
}

// A Report holds the recordings of all processes of a session.
type Report struct {
	Server    Totals
	Processes []Totals
}

// Close ends the session and returns the recordings of all processes. After a failure it does
// not wait for workers, and the report is incomplete. It returns only when every process has
// ended and the session's directory is removed. It may be called once.
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
	left := healthy // all workers have left in order
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

	// Stop all processes at the same time, even if one of them cannot be stopped.
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

// collectReports waits for the workers' reports, which arrive at once if all workers have
// left in order.
func (s *Session) collectReports(r *Report, left bool) error {
	timeout := min(reportTimeout, max(s.limit, leastClose))
	if !left {
		timeout = exitGrace
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("has sent no report within %v of being asked to end", timeout))
	defer cancel()
	for _, w := range s.procs {
		m, err := s.await(ctx, w)
		for err == nil && m.Report == nil { // a late answer to an earlier request
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
