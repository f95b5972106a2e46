package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"ipcbench/internal/crash"
	"ipcbench/internal/reexec"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A Job is one client's turn in one round, as the worker function sees it. Its packages
// are valid only until the function returns.
type Job struct {
	driver.Job
	Model  *tensor.Package // the global model; read-only
	Update *tensor.Package // the update to fill in; every byte must be written
	stop   *atomic.Int64   // the first round whose jobs need not end early
	rec    *phase.Recorder
	lane   int
}

// timed calls act and records its time as phase p.
func (j *Job) timed(p phase.Phase, act func() error) error {
	defer j.rec.Begin(p, j.ID(j.lane)).End()
	return act()
}

// Stopped reports whether the session asked worker functions to end early. A long worker
// function should check it once per epoch, and then return with the update it has.
func (j *Job) Stopped() bool { return int64(j.Round) < j.stop.Load() }

// A Train trains one client: it reads j.Model and writes j.Update.
type Train func(j *Job) error

// A Func makes the worker function of a lane from Config.FuncConfig. It is called once per
// lane, before the first round.
type Func func(config []byte) (Train, error)

// A Host is all that a worker process knows before the server assigns its lanes. Server and
// workers normally run the same program, so they have the same Host.
type Host struct {
	Transports []driver.Transport
	Funcs      map[string]Func

	confined *Confinement // nil unless this is a confined worker
}

// The environment variables of a worker that is another program.
const (
	workerEnv = "_IPCBENCH_WORKER" // its number; do not confuse it with IPCBENCH_WORKERS, which users may set
	buildEnv  = "_IPCBENCH_BUILD"  // the server's build
)

// MaybeWorker turns this process into a worker if it was started as one; then it never
// returns. It must be called first in main, and in TestMain of every package that opens
// sessions.
func (h Host) MaybeWorker() { reexec.Main(reexec.Roles{reexec.Worker: h.Work}) }

// Work is the role of a worker process, for a program that has other roles too. The question
// is its [Confinement], or null. The session keeps the error, and shows it if the worker has
// failed.
func (h Host) Work(question []byte) (answer any, err error) {
	if err := json.Unmarshal(question, &h.confined); err != nil {
		return nil, err
	}
	signal.Ignore(unix.SIGINT, unix.SIGPIPE) // the server handles Ctrl-C, and shuts its workers down in order
	conn, err := reexec.Control()
	if err != nil {
		return nil, fmt.Errorf("trainer: control socket: %w", err)
	}
	return nil, h.serve(conn)
}

// serve runs a worker process, or the goroutines that replace one. It returns nil when the
// session closes the control socket.
func (h Host) serve(conn net.Conn) error {
	defer conn.Close()
	c := &control{conn: conn, timeout: sendTimeout, limit: longMessage}
	err := c.send(message{Hello: newHello()})
	var m message
	if err == nil {
		m, err = c.receive()
	}
	if err == nil && m.Assign == nil {
		err = errProtocol
	}
	if err != nil {
		return fmt.Errorf("trainer: waiting for an assignment: %w", err)
	}
	c.limit = shortMessage
	w, err := h.newProcess(*m.Assign)
	if err != nil {
		err = fmt.Errorf("process %d: %w", m.Assign.Process, err)
		return errors.Join(err, c.send(message{Failure: newFailure(err)}))
	}

	// ctx is done when the control socket closes, which it does however the server ends.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		w.listen(ctx, cancel, c)
	}()
	defer func() {
		conn.Close()
		<-listening
	}()

	// Report only the first failure, because later ones are its consequences. Report none
	// once ctx is done: the server has closed the control socket, or knows the failure.
	var once sync.Once
	report := func(err error) (sent error) {
		if ctx.Err() != nil {
			return nil
		}
		once.Do(func() { sent = c.send(message{Failure: newFailure(err)}) })
		return sent
	}

	if err = w.serveLanes(ctx, c, report); err != nil {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, errProtocol):
			return cause
		case cause != nil:
			return nil // the server closed the control socket, which is how it ends a worker
		}
		return errors.Join(err, report(err))
	}
	totals, err := w.meter.totals()
	if err = errors.Join(err, c.send(message{Report: newReport(totals)})); err != nil {
		return err
	}
	<-listening // the session closes the socket when it has read the report
	return nil
}

// serveLanes connects the lanes, and runs them until the server shuts down.
func (w *process) serveLanes(ctx context.Context, c *control, report func(error) error) error {
	if err := w.join(ctx, c); err != nil {
		return err
	}
	lanes, err := w.dial(ctx)
	if err != nil && w.private {
		err = errors.New("cannot connect to the transport's server (the reason is not reported without TLS)")
	}
	if err == nil {
		counts := w.o.Rec.Counts()
		err = c.send(message{Ready: &ready{Handshakes: counts[phase.Handshakes], HandshakeTime: counts[phase.HandshakeTime], Cipher: w.at.Cipher()}})
	}
	if err == nil && w.a.Pings > 0 && w.a.Lanes[0] == 0 {
		err = w.ping(ctx, c, lanes[0])
	}
	if err == nil {
		return w.train(ctx, lanes, report)
	}
	for _, l := range lanes {
		err = errors.Join(err, l.end.Close())
	}
	return err
}

// process is the state of a worker process.
type process struct {
	a       assignment
	o       driver.Options
	variant transports.Variant
	at      *endpoint.Endpoint
	fn      Func
	meter   *meter
	busy    *semaphore.Weighted // each job holds 1 from the end of Receive to the end of Submit; a mark holds all
	signs   atomic.Bool         // it has requested a certificate, which has not come
	signed  chan []byte         // the certificate; has room for it
	stop    atomic.Int64        // worker functions of the rounds below should end early
	quiet   chan struct{}       // closed when all workers are connected, so that pings are not disturbed
	lanes   []laneState         // in the order of a.Lanes
	private bool                // the server must not learn what answered at its address: it may be a service of this network
}

type lane struct {
	n     int
	end   *transports.Worker
	train Train
	state *laneState
}

// laneState is the current activity of a lane. Any goroutine may read it.
type laneState struct {
	doing atomic.Int32 // a step
	of    atomic.Int64 // the last job: its round in the upper half, its client in the lower
}

func (s *laneState) set(doing step) { s.doing.Store(int32(doing)) }

// news returns the current activity of the process.
func (w *process) news() *news {
	n := &news{Moves: moves(w.o.Rec)}
	for i := range w.lanes {
		of := w.lanes[i].of.Load()
		n.Lanes = append(n.Lanes, laneNews{
			Lane: w.a.Lanes[i], Doing: step(w.lanes[i].doing.Load()), Round: int(of >> 32), Client: int(int32(of)),
		})
	}
	return n
}

// laneError is an error of a lane's job. Its text does not name lane, round and client:
// errors of transports do so themselves, and the session adds them to other errors.
type laneError struct {
	lane, round, client int
	err                 error
}

func (e *laneError) Error() string { return e.err.Error() }
func (e *laneError) Unwrap() error { return e.err }

func newFailure(err error) *failure {
	var at *laneError
	if !errors.As(err, &at) {
		at = &laneError{-1, -1, -1, err}
	}
	text := at.err.Error()
	return &failure{Lane: at.lane, Round: at.round, Client: at.client, Text: text[:min(len(text), longestFailure)]}
}

func (h Host) newProcess(a assignment) (*process, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(h.Transports, func(t driver.Transport) bool { return t.Name() == a.Transport })
	if i < 0 {
		return nil, fmt.Errorf("no transport %q in this program", a.Transport)
	}
	var folders driver.Folders // all
	if h.confined != nil {
		folders = h.confined.Dirs
		if err := h.confined.admit(&a, h.Transports[i]); err != nil {
			return nil, fmt.Errorf("refused by the agent's host: %w", err)
		}
	}
	fn := h.Funcs[a.Func]
	if fn == nil {
		return nil, fmt.Errorf("no worker function %q in this program", a.Func)
	}
	down, err := tensor.NewLayout(a.Down)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	up, err := tensor.NewLayout(a.Up)
	if err != nil {
		return nil, fmt.Errorf("update: %w", err)
	}
	rec := phase.NewRecorder(a.Samples)
	meter := newMeter(rec)
	if meter.capture, err = a.Profiling.start(rec, ProcessName(a.Process)); err != nil {
		return nil, err
	}
	if meter.begin(a.Window); a.Window == Timed {
		if err := meter.capture.Start(); err != nil {
			return nil, err
		}
	}
	w := &process{
		a: a, variant: transports.Variant{Subject: h.Transports[i], Settings: a.Settings}, at: endpoint.At(a.Addr, a.Secret),
		fn: fn, meter: meter, busy: semaphore.NewWeighted(MaxWorkers), signed: make(chan []byte, 1), quiet: make(chan struct{}),
		lanes: make([]laneState, len(a.Lanes)), private: h.confined != nil && !a.Trust.Mutual,
		o: driver.Options{
			Down: down, Up: sameOrOwn(down, up), Lanes: a.TotalLanes, Clients: a.Clients, Depth: a.Depth,
			Settings: a.Settings, Pages: a.Pages, Rec: rec, Folders: folders,
		},
	}
	for i := range w.lanes {
		w.lanes[i].of.Store(-1)
	}
	return w, nil
}

// sameOrOwn returns down if up has the same tensors, else up. So at both ends of a session,
// equal layouts are one pointer, which lets a codec encode an update against the model.
func sameOrOwn(down, up *tensor.Layout) *tensor.Layout {
	same := slices.EqualFunc(down.Specs(), up.Specs(), func(a, b tensor.Spec) bool {
		return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && a.Var == b.Var
	})
	if same {
		return down
	}
	return up
}

// listen handles the session's messages until the control socket closes or a message is
// invalid, and then cancels ctx.
func (w *process) listen(ctx context.Context, cancel context.CancelCauseFunc, c *control) {
	var marks sync.WaitGroup
	defer marks.Wait()
	quiet := false
	for {
		m, err := c.receive()
		if err != nil {
			w.stop.Store(math.MaxInt64) // updates are of no more use
			cancel(fmt.Errorf("the server is gone: %w", err))
			return
		}
		switch {
		case m.Mark != nil:
			marks.Go(func() {
				if err := w.mark(ctx, c, *m.Mark); err != nil {
					cancel(err)
				}
			})
		case m.Stop != nil:
			w.stop.Store(int64(m.Stop.Below))
		case m.Signed != nil && w.signs.CompareAndSwap(true, false):
			w.signed <- m.Signed.Certificate
		case m.Ping != nil && !quiet:
			quiet = true
			close(w.quiet)
		case m.Poke != nil:
			if err := c.send(message{News: w.news()}); err != nil {
				cancel(err)
			}
		default:
			cancel(fmt.Errorf("%w: %s", errProtocol, m.kind))
			return
		}
	}
}

// mark moves the process to the window in m as soon as no lane is inside a job. The session
// may send a mark when it has an update but the lane has not recorded the end of its job.
func (w *process) mark(ctx context.Context, c *control, m mark) error {
	if err := w.busy.Acquire(ctx, MaxWorkers); err != nil {
		return err
	}
	err := w.meter.mark(m.Window, m.Round)
	if err == nil && m.Window == Outside {
		err = w.meter.survey()
	}
	w.busy.Release(MaxWorkers) // before the answer, because the next job may follow it at once
	answer := message{Marked: &marked{Full: w.o.Rec.Full(halfFull)}}
	if err != nil {
		answer = message{Failure: newFailure(err)}
	}
	return errors.Join(err, c.send(answer))
}

// unmeasured is the number of empty calls before the measured ones: the first calls open
// connections and allocate buffers.
const unmeasured = 10

// ping measures empty calls on the lane's own connection, before its first job and while
// all other processes are idle.
func (w *process) ping(ctx context.Context, c *control, l lane) error {
	select {
	case <-w.quiet:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !w.variant.Subject.Traits(w.variant.Settings).Calls {
		return c.send(message{Pinged: &pinged{}})
	}
	samples := make([]int64, 0, w.a.Pings)
	for i := range unmeasured + w.a.Pings {
		start := phase.Now()
		if err := l.end.Ping(ctx); err != nil {
			return &laneError{l.n, -1, -1, err}
		}
		if i >= unmeasured {
			samples = append(samples, phase.Now()-start)
		}
	}
	return c.send(message{Pinged: &pinged{Samples: samples}})
}

// dial connects all lanes of the process. With an error, it returns the lanes connected so far.
func (w *process) dial(ctx context.Context) ([]lane, error) {
	var lanes []lane
	for i, n := range w.a.Lanes {
		l := lane{n: n, state: &w.lanes[i]}
		err := crash.Guard(func() (err error) { l.train, err = w.fn(w.a.FuncConfig); return err })
		if err != nil {
			err = fmt.Errorf("worker function %s: %w", w.a.Func, err)
		} else {
			err = crash.Guard(func() (err error) { l.end, err = transports.Dial(ctx, w.variant, w.at, n, w.o); return err })
		}
		if err != nil {
			return lanes, err
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

// train runs all lanes until the server shuts down or one of them fails, and
// closes them. It reports a failure at once, because the server sees the lane close and
// other lanes may be in worker functions, which cannot be interrupted.
func (w *process) train(ctx context.Context, lanes []lane, report func(error) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() {
			err := crash.Guard(func() error { return w.run(ctx, l) })
			if err != nil && !errors.Is(err, context.Canceled) {
				err = errors.Join(err, report(err))
			}
			if errs[i] = errors.Join(err, l.end.Close()); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs { // prefer the cause to the cancellations that followed
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// run serves one lane: receive, train, submit, until the server shuts down.
func (w *process) run(ctx context.Context, l lane) error {
	j := &Job{stop: &w.stop, rec: w.o.Rec, lane: l.n}
	for {
		l.state.set(receiving)
		job, model, err := l.end.Receive(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &laneError{l.n, -1, -1, err}
		}
		j.Job, j.Model = job, model
		if err := w.busy.Acquire(ctx, 1); err != nil {
			return &laneError{l.n, job.Round, job.Client, err}
		}
		l.state.of.Store(int64(job.Round)<<32 | int64(uint32(job.Client)))
		err = w.work(ctx, l, j)
		w.busy.Release(1)
		if err != nil {
			return &laneError{l.n, job.Round, job.Client, err}
		}
	}
}

// work does the job that l has received.
func (w *process) work(ctx context.Context, l lane, j *Job) (err error) {
	if j.Update, err = l.end.Reserve(); err != nil {
		return err
	}

	l.state.set(training)
	train := w.o.Rec.Begin(phase.Train, j.ID(l.n))
	err = crash.Guard(func() error { return l.train(j) })
	train.End()
	if err != nil {
		return fmt.Errorf("worker function %s: %w", w.a.Func, err)
	}

	l.state.set(submitting)
	return l.end.Submit(ctx, j.Update)
}
