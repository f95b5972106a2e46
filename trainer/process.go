package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"ipcbench/phase/usage"
	"ipcbench/transports/driver"
)

// poolProcess is a worker process as the pool sees it.
type poolProcess struct {
	Process
	n       int
	lanes   []*poolLane // that it hosts
	control *control
	ready   chan struct{} // closed when all its lanes are connected
	marked  chan struct{} // answers to marks
	pinged  chan struct{} // closed when samples is set
	samples []int64       // what empty calls took
	report  chan Totals
	gone    chan struct{} // closed when nothing more comes from its control socket

	mu    sync.Mutex
	owed  debt  // guarded by mu: answers that were asked for
	heard int64 // guarded by mu: messages so far
	moved int64 // guarded by mu: those that showed progress
	news  *news // guarded by mu: the last ones
}

// A debt is a set of answers that a worker process owes the pool. One that
// nobody has asked for is a breach of the protocol.
type debt uint

const (
	oweReady debt = 1 << iota
	owePinged
	oweMarked
	oweReport
	oweNews
)

// ask notes that w owes an answer, before it is asked for it. It returns false if
// w owes it already.
func (w *poolProcess) ask(d debt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	owed := w.owed&d != 0
	w.owed |= d
	return !owed
}

// settle notes that an answer has come, and reports whether it was owed. What an
// answer to a poke says may be that nothing has moved.
func (w *poolProcess) settle(d debt, n *news) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard++
	if n == nil || n.progress(w.news) {
		w.moved++
	}
	if n != nil {
		w.news = n
	}
	owed := w.owed&d != 0
	w.owed &^= d
	return owed
}

// processError is what a worker process did that it was not asked for: most often
// its end.
type processError struct {
	n    int
	lane int // or -1
	err  error
}

func (e *processError) Error() string { return fmt.Sprintf("worker %d %v", e.n, e.err) }
func (e *processError) Unwrap() error { return e.err }

// How large a message of a worker may be.
const (
	shortMessage = 1 << 20  // any but a report
	spareReport  = 64 << 20 // a report, besides its spans and profiles
	spanSize     = 64       // of a span in a report, at most
	profilesSize = 1 << 30
)

func (c *Config) reportSize() int64 {
	size := int64(spareReport + spanSize*c.Samples)
	if c.Profiling != nil {
		size += profilesSize
	}
	return size
}

// launch starts process n with its share of the lanes.
func (p *Pool) launch(n int, o driver.Options) error {
	proc, err := p.cfg.Launcher.Launch(n)
	if err != nil {
		return err
	}
	w := &poolProcess{
		Process: proc, n: n, control: newControl(proc.Conn(), min(sendTimeout, p.limit)),
		ready: make(chan struct{}), marked: make(chan struct{}, 1), gone: make(chan struct{}),
		pinged: make(chan struct{}), report: make(chan Totals, 1),
	}
	w.control.limit.Store(shortMessage + int64(16*p.cfg.Pings))
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
		l := &poolLane{n: lane, process: w}
		l.client.Store(-1)
		w.lanes, p.lanes = append(w.lanes, l), append(p.lanes, l)
	}
	a.Profiling = p.cfg.Profiling.worker(proc)
	w.ask(oweReady)
	p.readers.Go(func() { p.listen(w) })
	return p.tell(w, message{Assign: &a})
}

// tell sends a message to w. If that fails because w has died, its exit status
// says why.
func (p *Pool) tell(w *poolProcess, m message) error {
	err := w.control.send(m)
	if err == nil {
		return nil
	}
	if dead := p.death(w); dead != nil {
		return dead
	}
	return &processError{w.n, -1, fmt.Errorf("takes no message, and %s: %w", w.state(), err)}
}

// death returns what has failed the pool, or nil. What the sockets of a dead
// process say comes before its exit status, so it waits: for a moment while w
// seems to live, and for the status if its control socket has closed.
func (p *Pool) death(w *poolProcess) *processError {
	timer := time.NewTimer(exitGrace)
	defer timer.Stop()
	select {
	case <-w.gone:
		<-p.failed.Done() // listen sees to it
	case <-p.failed.Done():
	case <-timer.C:
	}
	var dead *processError
	errors.As(context.Cause(p.failed), &dead)
	return dead
}

// listen reads a worker's messages until its control socket closes, and sees to
// it that an end which nobody asked for fails the pool.
func (p *Pool) listen(w *poolProcess) {
	m, err := w.control.receive()
	for err == nil {
		if err = p.take(w, m); err == nil {
			m, err = w.control.receive()
		}
	}
	close(w.gone)
	p.fail(&processError{w.n, -1, w.end(err)})
}

// take does what a message asks for. It never waits: no worker can keep the pool
// from reading what another one says.
func (p *Pool) take(w *poolProcess, m message) error {
	if m.Failure != nil {
		p.fail(&processError{w.n, m.Failure.Lane, errors.New("failed: " + m.Failure.Text)})
		return nil
	}
	d, name := m.answers()
	if d == 0 || !w.settle(d, m.News) {
		return fmt.Errorf("%w: %s, which nobody asked for", errProtocol, name)
	}
	switch d {
	case oweReady:
		close(w.ready)
	case owePinged:
		w.samples = m.Pinged.Samples
		close(w.pinged)
	case oweMarked:
		if m.Marked.Full {
			p.full.Store(true)
		}
		w.marked <- struct{}{}
	case oweReport:
		w.report <- m.Report.Totals
	}
	return nil
}

// end says how w ended, given the error of its control socket. A socket that
// closes is most often the end of its process, whose status follows.
func (w *poolProcess) end(err error) error {
	switch {
	case w.control.ended == nil:
		return fmt.Errorf("spoke out of turn: %w", err)
	case !awaitClosed(context.Background(), w.Exited(), deathGrace):
		return fmt.Errorf("closed its control socket, and %s: %w", w.state(), err)
	case w.Err() == nil:
		return errors.New("exited: exit status 0, before it was asked to")
	}
	return fmt.Errorf("exited: %w", w.Err())
}

// state says what the kernel says of the process.
func (w *poolProcess) state() string {
	if w.PID() == os.Getpid() {
		return "is a goroutine"
	}
	return fmt.Sprintf("process %d is %s", w.PID(), usage.State(w.PID()))
}

// await waits for w to signal on ch, for ctx, or for any process to die.
func (p *Pool) await(ctx context.Context, w *poolProcess, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-p.failed.Done():
		return context.Cause(p.failed)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &processError{w.n, -1, fmt.Errorf("%w; %s", context.Cause(ctx), w.state())}
		}
		return fmt.Errorf("worker %d: %w", w.n, context.Cause(ctx))
	}
}

// withStderr adds the end of what a worker wrote to stderr, if err is about one.
func (p *Pool) withStderr(err error) error {
	var about *processError
	if errors.As(err, &about) {
		if text := p.procs[about.n].Stderr(); text != "" {
			return fmt.Errorf("%w\nstderr of worker %d:\n%s", err, about.n, indent(text))
		}
	}
	return err
}
