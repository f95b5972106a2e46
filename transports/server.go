package transports

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
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
	origin  *origin // nil without a codec
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
func Listen(ctx context.Context, v Variant, e *driver.Endpoint, o driver.Options) (*Server, error) {
	s := &Server{variant: v, o: o, arrived: newArrivals(o.Rec)}
	s.o.Settings, s.o.Out = v.Settings, &s.out
	if err := v.Check(s.o); err != nil {
		return nil, err
	}
	s.lanes = make([]serverLane, o.Lanes)
	e.Variant = v.String()
	packed := v.driverOptions(s.o)
	if p := v.Codec(); p != nil {
		s.origin = newOrigin(p, s.o)
		packed.Out = &s.origin.out
	}
	var err error
	if s.driver, err = v.Transport.Listen(ctx, e, packed); err != nil {
		return nil, fmt.Errorf("%s: listen: %w", v.Transport.Name(), err)
	}
	if s.origin != nil {
		s.origin.driver = s.driver
	}
	return s, nil
}

// Reserve returns the package to write the next model into. Every byte must be written.
// It never waits. There are two model packages: once the next model is published, the
// previous one is free to be reserved.
func (s *Server) Reserve() (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	if err == nil && s.reserved != nil {
		err = errReserved
	}
	if err == nil {
		reserve := s.driver.Reserve
		if s.origin != nil {
			reserve = s.origin.reserve
		}
		if s.reserved, err = reserve(); err != nil {
			s.reserved = nil
			s.died(err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: reserve: %w", s.variant.Transport.Name(), err)
	}
	s.reserved.Receipt = s.reserved.Receipt[:0] // of an earlier model
	s.reserved.ResetRows()
	return s.reserved, nil
}

// Publish makes p, which Reserve returned, the model of later jobs. It returns p, the
// model that clients train: a lossy codec has changed its values. Publish takes ownership:
// the caller must not write to p again, but may read it until the next Publish returns.
// All earlier jobs must have been collected.
func (s *Server) Publish(ctx context.Context, p *tensor.Package) (*tensor.Package, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	if err == nil {
		err = s.publish(ctx, p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: publish: %w", s.variant.Transport.Name(), err)
	}
	return p, nil
}

// publish is Publish with s.mu held.
func (s *Server) publish(ctx context.Context, p *tensor.Package) error {
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
	publish := s.driver.Publish
	if s.origin != nil {
		publish = s.origin.publish
	}
	if err := publish(ctx, p); err != nil {
		s.died(err)
		return err
	}
	s.reserved, s.published = nil, p
	return nil
}

// died ends the session because of err. s.mu is held.
func (s *Server) died(err error) { s.err = fmt.Errorf("the session has failed: %w", err) }

// Dispatch sends a client's job, with the current model, to a lane whose last job was
// collected and that has fewer than Depth updates lent. It never waits for the worker to
// finish.
func (s *Server) Dispatch(ctx context.Context, lane int, j driver.Job) error {
	return s.call(lane, phase.Dispatch, &j, func(l *serverLane) error {
		if l.out {
			return fmt.Errorf("the update of client %d was not collected", l.job.Client)
		}
		s.mu.Lock()
		model := s.published
		s.mu.Unlock()
		if model == nil {
			return errNoModel
		}
		l.job, l.out = j, true
		if s.origin != nil {
			return l.died(s.origin.dispatch(ctx, lane, j))
		}
		return l.died(s.driver.Dispatch(ctx, lane, model, j))
	})
}

// Collect waits for the update of the job last dispatched to lane and returns it. The
// update is lent until the caller releases it, which may be after Shutdown.
func (s *Server) Collect(ctx context.Context, lane int) (p *tensor.Package, err error) {
	err = s.call(lane, phase.Collect, nil, func(l *serverLane) error {
		if !l.out {
			return errNoJob
		}
		update, d, err := s.driver.Collect(ctx, lane)
		if err == nil {
			if err = s.arrived.count(d, update); err != nil {
				update.Release()
			}
		}
		if err == nil && s.origin != nil {
			update, err = s.origin.collect(update, l.job.ID(lane))
		}
		if err != nil {
			return l.died(err)
		}
		p, l.out = update, false
		return nil
	})
	return p, err
}

// call runs f for a lane, in a span of phase p, and completes its error. The job is j or, if
// j is nil, the lane's last job.
func (s *Server) call(lane int, p phase.Phase, j *driver.Job, f func(l *serverLane) error) error {
	name := s.variant.Transport.Name()
	if lane < 0 || lane >= len(s.lanes) {
		return fmt.Errorf("%s: %s: no lane %d: the session has %d", name, p, lane, len(s.lanes))
	}
	l := &s.lanes[lane]
	if !l.TryLock() {
		return fmt.Errorf("%s: lane %d: %s: another call for the lane is running", name, lane, p)
	}
	defer l.Unlock()
	if j == nil {
		j = &l.job
	}
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err == nil && l.err != nil {
		err = fmt.Errorf("the lane has failed: %w", l.err)
	}
	if err == nil {
		span := s.o.Rec.Begin(p, j.ID(lane))
		err = f(l)
		span.End()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoJob):
		return fmt.Errorf("%s: lane %d: %s: %w", name, lane, p, err)
	}
	return fmt.Errorf("%s: lane %d: %s: round %d, client %d: %w", name, lane, p, j.Round, j.Client, err)
}

// died returns err, and marks the lane as failed if err is not nil.
func (l *serverLane) died(err error) error {
	l.err = err
	return err
}

// Settle waits until every lane's worker has asked for its next job. Then both ends have
// completed, and counted, all work for earlier jobs. No job may be out. If workers do not
// ask for jobs, Settle does nothing.
func (s *Server) Settle(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	if err == nil {
		if err = s.driver.Settle(ctx); err != nil {
			s.died(err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: settle: %w", s.variant.Transport.Name(), err)
	}
	return nil
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
	name := s.variant.Transport.Name()
	for n := range s.lanes {
		if !s.lanes[n].TryLock() {
			for n--; n >= 0; n-- {
				s.lanes[n].Unlock()
			}
			return fmt.Errorf("%s: shutdown: a call for a lane is running", name)
		}
	}
	s.err = errOver
	err := s.driver.Shutdown(ctx)
	for n := range s.lanes {
		s.lanes[n].Unlock()
	}
	if out := s.out.Out(); out > 0 {
		err = errors.Join(err, fmt.Errorf("%d updates are still out", out))
	}
	if err != nil {
		return fmt.Errorf("%s: shutdown: %w", name, err)
	}
	return nil
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
