package transports

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ipcbench/internal/crash"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// Errors of calls out of order, the same for every transport.
var (
	errOver     = errors.New("the session is over")
	errNoJob    = errors.New("no job is out")
	errNoModel  = errors.New("no model was published")
	errReserved = errors.New("the next model is reserved already")
	errForeign  = errors.New("not the package that was reserved")
)

// A Server is the aggregator's side of a session. It wraps a driver's server and enforces
// the order of calls that package driver promises: a call out of order returns an error
// and does not reach the driver.
//
// A lane must be used by one goroutine at a time. Calls for different lanes may be
// concurrent. If a call for a lane fails or its context ends, the lane cannot be used any
// more, because part of a message may have been sent. After such a call for all lanes,
// only Shutdown is possible.
//
// An error names the transport, the lane, the operation, the job and the cause.
type Server struct {
	variant Variant
	driver  driver.Server
	coded   *codedServer // nil without a codec
	o       driver.Options
	out     tensor.Ledger // counts updates that Collect has lent
	arrived arrivals
	lanes   []serverLane

	mu        sync.Mutex
	reserved  *tensor.Package // guarded by mu: the next model, or nil
	published *tensor.Package // guarded by mu: the current model, or nil
	err       error           // guarded by mu: why the session has ended, or nil
}

// serverLane is the state of one lane.
type serverLane struct {
	sync.Mutex // held during a call
	job        driver.Job
	out        bool  // job was dispatched and not collected
	err        error // why the lane has failed, or nil
}

// Listen starts the server's side of a session at e. On return it is ready for Dial. ctx
// bounds this call, not the session. If Listen fails, it leaves nothing behind. It sets
// e.Variant, and ignores o.Settings and o.Out.
func Listen(ctx context.Context, v Variant, e *endpoint.Endpoint, o driver.Options) (*Server, error) {
	s := &Server{variant: v, o: o, arrived: newArrivals(o.Rec)}
	s.o.Settings, s.o.Out = v.Settings, &s.out
	if err := v.Check(s.o); err != nil {
		return nil, err
	}
	s.lanes = make([]serverLane, o.Lanes)
	e.Variant = v.String()
	packed := v.driverOptions(s.o)
	if p := v.Codec(); p != nil {
		s.coded = newCodedServer(p, s.o)
		packed.Out = &s.coded.out
	}
	t, err := v.transport()
	if err != nil {
		return nil, err
	}
	if s.driver, err = t.Listen(ctx, e, packed); err != nil {
		return nil, fmt.Errorf("%s: listen: %w", v.Subject.Name(), err)
	}
	if s.coded != nil {
		s.coded.driver = s.driver
	}
	return s, nil
}

// Reserve returns the package to write the next model into. Every byte must be written.
// It never waits. There are two model packages: once the next model is published, the
// previous one is free to be reserved. round is only used in samples and errors.
func (s *Server) Reserve(round int) (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.err
	if refused == nil && s.reserved != nil {
		refused = errReserved
	}
	reserve := s.driver.Reserve
	if s.coded != nil {
		reserve = s.coded.reserve
	}
	var p *tensor.Package
	err := s.run("reserve", phase.Reserve, phase.OfRound(round), refused, &s.err, func() (err error) {
		p, err = reserve()
		return err
	})
	if err != nil {
		return nil, err
	}
	p.Receipt = p.Receipt[:0] // of an earlier model
	p.ResetRows()
	s.reserved = p
	return p, nil
}

// Publish makes p, which Reserve returned, the model of later jobs. It returns p, the
// model that clients train: a lossy codec has changed its values. Publish takes ownership:
// the caller must not write to p again, but may read it until the next Publish returns.
// All earlier jobs must have been collected. round is only used in samples and errors.
func (s *Server) Publish(ctx context.Context, round int, p *tensor.Package) (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.err
	if refused == nil {
		refused = s.publishable(p)
	}
	publish := s.driver.Publish
	if s.coded != nil {
		publish = s.coded.publish
	}
	err := s.run("publish", phase.Publish, phase.OfRound(round), refused, &s.err, func() error { return publish(ctx, p) })
	if err != nil {
		return nil, err
	}
	s.reserved, s.published = nil, p
	return p, nil
}

// publishable returns an error unless p is reserved and no job is out. s.mu must be held.
func (s *Server) publishable(p *tensor.Package) error {
	if p == nil || p != s.reserved {
		return errForeign
	}
	for n := range s.lanes {
		l := &s.lanes[n]
		if !l.TryLock() {
			return fmt.Errorf("lane %d: another call is running", n)
		}
		out := l.out && l.err == nil
		l.Unlock()
		if out {
			return fmt.Errorf("lane %d: the update of client %d was not collected", n, l.job.Client)
		}
	}
	return nil
}

// Dispatch sends a client's job, with the current model, to a lane whose last job was
// collected and that has fewer than Depth updates lent. It never waits for the worker to
// finish.
func (s *Server) Dispatch(ctx context.Context, lane int, j driver.Job) error {
	return s.call("dispatch", phase.Dispatch, lane, &j, func(l *serverLane, model *tensor.Package) error {
		l.job, l.out = j, true
		if s.coded != nil {
			return s.coded.dispatch(ctx, lane, j)
		}
		return s.driver.Dispatch(ctx, lane, model, j)
	})
}

// Collect waits for the update of the job last dispatched to lane and returns it. The
// update is lent until the caller releases it, which may be after Shutdown.
func (s *Server) Collect(ctx context.Context, lane int) (p *tensor.Package, err error) {
	err = s.call("collect", phase.Collect, lane, nil, func(l *serverLane, _ *tensor.Package) error {
		update, d, err := s.driver.Collect(ctx, lane)
		if err == nil {
			if err = s.arrived.count(d, update); err != nil {
				update.Release()
			}
		}
		if err == nil && s.coded != nil {
			update, err = s.coded.collect(update, l.job.ID(lane))
		}
		if err == nil {
			p, l.out = update, false
		}
		return err
	})
	return p, err
}

// call runs f, an act for a lane, with the published model. The act begins job j or, if j
// is nil, ends the lane's job.
func (s *Server) call(
	act string, p phase.Phase, lane int, j *driver.Job, f func(l *serverLane, model *tensor.Package) error,
) error {
	if lane < 0 || lane >= len(s.lanes) {
		return failed(s.variant, act, phase.OfRound(-1), fmt.Errorf("no lane %d: the session has %d", lane, len(s.lanes)))
	}
	l, id := &s.lanes[lane], phase.ID{Lane: lane, Round: -1, Client: -1}
	if !l.TryLock() {
		return failed(s.variant, act, id, errors.New("another call for the lane is running"))
	}
	defer l.Unlock()
	if j != nil {
		id = j.ID(lane)
	} else if l.out {
		id = l.job.ID(lane)
	}
	s.mu.Lock()
	refused, model := s.err, s.published
	s.mu.Unlock()
	switch {
	case refused != nil:
	case l.err != nil:
		refused = l.err
	case j == nil && !l.out:
		refused = errNoJob
	case j != nil && l.out:
		refused = fmt.Errorf("the update of client %d was not collected", l.job.Client)
	case model == nil:
		refused = errNoModel
	}
	return s.run(act, p, id, refused, &l.err, func() error { return f(l, model) })
}

// run calls f, an act that is described by id, and completes its error. It does not call f
// if refused is set. f runs in a span of phase p, if there is one, and may panic or touch
// memory whose file has shrunk. If f fails, run sets fate, with which later acts are
// refused.
func (s *Server) run(act string, p phase.Phase, id phase.ID, refused error, fate *error, f func() error) error {
	if refused != nil {
		return failed(s.variant, act, id, refused)
	}
	var span phase.Span
	if p != phase.None {
		span = s.o.Rec.Begin(p, id)
	}
	err := crash.Guard(f)
	span.End()
	if err == nil {
		return nil
	}
	kind := "session"
	if id.Lane >= 0 {
		kind = "lane"
	}
	*fate = fmt.Errorf("the %s has failed: %w", kind, err)
	return failed(s.variant, act, id, err)
}

// failed adds to err the transport, the act, and the lane, round and client of id, if any.
func failed(v Variant, act string, id phase.ID, err error) error {
	if id.Lane >= 0 {
		act = fmt.Sprintf("lane %d: %s", id.Lane, act)
	}
	if id.Round >= 0 {
		act = fmt.Sprintf("%s: round %d", act, id.Round)
	}
	if id.Client >= 0 {
		act = fmt.Sprintf("%s, client %d", act, id.Client)
	}
	return fmt.Errorf("%s: %s: %w", v.Subject.Name(), act, err)
}

// Settle waits until every lane's worker has asked for its next job. Then both ends have
// completed, and counted, all work for earlier jobs. No job may be out. If workers do not
// ask for jobs, Settle does nothing.
func (s *Server) Settle(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run("settle", phase.None, phase.OfRound(-1), s.err, &s.err, func() error { return s.driver.Settle(ctx) })
}

// Shutdown ends the session: a Receive without a job returns io.EOF. It waits for the
// workers until ctx ends, and in either case releases everything. Updates that are still
// lent are an error; their memory is freed when they are released. No other call may be
// running, so end their contexts first. A second Shutdown does nothing.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(s.err, errOver) {
		return nil
	}
	var refused error
	for n := range s.lanes {
		if !s.lanes[n].TryLock() {
			refused = errors.New("a call for a lane is running")
			break
		}
		defer s.lanes[n].Unlock()
	}
	err := s.run("shutdown", phase.None, phase.OfRound(-1), refused, &s.err, func() error {
		err := s.driver.Shutdown(ctx)
		if out := s.out.Out(); out > 0 {
			err = errors.Join(err, fmt.Errorf("%d updates are still out", out))
		}
		return err
	})
	if refused == nil {
		s.err = errOver
	}
	return err
}

// arrivals counts delivered tensors by kind of delivery.
type arrivals struct{ bodyTensors, bodyBytes, handleTensors, handleBytes *phase.Counter }

func newArrivals(rec *phase.Recorder) arrivals {
	return arrivals{
		rec.Counter(phase.BodyTensors), rec.Counter(phase.BodyBytes),
		rec.Counter(phase.HandleTensors), rec.Counter(phase.HandleBytes),
	}
}

// count counts the tensors of p, delivered as d says. It fails unless d accounts for all
// tensors and bytes, because bandwidth and floors are computed from these counts.
func (a arrivals) count(d driver.Delivered, p *tensor.Package) error {
	got := driver.Amount{
		Tensors: d.Body.Tensors + d.Handle.Tensors + d.Cached.Tensors,
		Bytes:   d.Body.Bytes + d.Handle.Bytes + d.Cached.Bytes,
	}
	if want := driver.All(p); got != want {
		return fmt.Errorf("the driver counted %d tensors of %d bytes, but delivered %d of %d", got.Tensors, got.Bytes, want.Tensors, want.Bytes)
	}
	a.bodyTensors.Add(d.Body.Tensors)
	a.bodyBytes.Add(d.Body.Bytes)
	a.handleTensors.Add(d.Handle.Tensors)
	a.handleBytes.Add(d.Handle.Bytes)
	return nil
}
