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

// What a user of a session can do wrong, in the same words for every transport.
var (
	errOver     = errors.New("the session is over")
	errNoJob    = errors.New("no job is out")
	errNoModel  = errors.New("no model was published")
	errReserved = errors.New("the next model is reserved already")
	errForeign  = errors.New("not the package that was reserved")
)

// A Server is the aggregator's side of a session: a driver's server, and the rules
// that are the same for all of them. The driver is called only in the order that
// package driver promises; whoever calls out of order gets an error, and the driver
// never hears of it.
//
// A lane has one goroutine. Calls for different lanes may be concurrent. A call that
// failed, or whose context ended, leaves its lane dead, and one for all lanes the
// session: half a message may be on the wire. Only Shutdown follows.
//
// Errors are of one form: the transport, the lane, the act, the job, the cause.
type Server struct {
	variant Variant
	driver  driver.Server
	origin  *origin // nil without a codec
	o       driver.Options
	out     tensor.Ledger // updates that Collect returned
	came    arrivals
	lanes   []serverLane

	mu        sync.Mutex
	reserved  *tensor.Package // guarded by mu: the next model
	published *tensor.Package // guarded by mu: the last model
	err       error           // guarded by mu: why nothing goes on any more
}

// serverLane is a lane as the server's user sees it.
type serverLane struct {
	sync.Mutex // held by the call that goes on
	job        driver.Job
	out        bool  // job is out
	err        error // why the lane is dead
}

// Listen starts the server's side of a session at e. It is ready for Dial on return.
// ctx bounds the call, not the session. An error leaves nothing behind. o.Out is
// Listen's own.
func Listen(ctx context.Context, v Variant, e *driver.Endpoint, o driver.Options) (*Server, error) {
	s := &Server{variant: v, o: o, came: newArrivals(o.Rec)}
	s.o.Settings, s.o.Out = v.Settings, &s.out
	if err := v.Check(s.o); err != nil {
		return nil, err
	}
	s.lanes = make([]serverLane, o.Lanes)
	e.Variant = v.String()
	travelling := v.travelling(s.o)
	if p := v.Codec(); p != nil {
		s.origin = newOrigin(p, s.o)
		travelling.Out = &s.origin.out
	}
	var err error
	if s.driver, err = v.Transport.Listen(ctx, e, travelling); err != nil {
		return nil, fmt.Errorf("%s: listen: %w", v.Transport.Name(), err)
	}
	if s.origin != nil {
		s.origin.driver = s.driver
	}
	return s, nil
}

// Reserve returns where the next model is to be written, every byte of it. It never
// waits. There is a pair of models: a round publishes the current one, which frees
// the one before, and then reserves the next.
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
	s.reserved.Receipt = s.reserved.Receipt[:0] // that of a model before
	s.reserved.ResetRows()
	return s.reserved, nil
}

// Publish makes p, which Reserve returned, the model of the jobs that follow, and
// returns what clients train on: p, in which a codec may have changed what it loses. It
// takes p: the caller must not write to it again, and may read it until the next Publish
// returns. Every job of the model before has been collected.
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
			return fmt.Errorf("lane %d: a call is going on", n)
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

// died makes err the end of the session. s.mu is held.
func (s *Server) died(err error) { s.err = fmt.Errorf("the session has failed: %w", err) }

// Dispatch gives a client's job to a lane whose last job was collected and which has
// fewer than Depth updates out. It never waits for the worker to finish.
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

// Collect waits for the update of the job that was last dispatched to lane and
// returns it, lent until the caller releases it, which may be after Shutdown.
func (s *Server) Collect(ctx context.Context, lane int) (p *tensor.Package, err error) {
	err = s.call(lane, phase.Collect, nil, func(l *serverLane) error {
		if !l.out {
			return errNoJob
		}
		update, d, err := s.driver.Collect(ctx, lane)
		if err == nil {
			if err = s.came.attest(d, update); err != nil {
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

// call makes a call for a lane, which the span of phase p encloses. The job is j, or
// the one that is out.
func (s *Server) call(lane int, p phase.Phase, j *driver.Job, f func(l *serverLane) error) error {
	name := s.variant.Transport.Name()
	if lane < 0 || lane >= len(s.lanes) {
		return fmt.Errorf("%s: %s: no lane %d: the session has %d", name, p, lane, len(s.lanes))
	}
	l := &s.lanes[lane]
	if !l.TryLock() {
		return fmt.Errorf("%s: lane %d: %s: another call for the lane is going on", name, lane, p)
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

// died makes err, if there is one, the end of the lane.
func (l *serverLane) died(err error) error {
	l.err = err
	return err
}

// Settle waits until every lane's worker has asked for its next job, where workers
// ask: then everything of the jobs before is over, and at both ends counted. No job
// is out.
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

// Shutdown ends the session in band: a Receive that has no job returns io.EOF. It
// waits for the workers until ctx ends, and releases everything either way. Its error
// says how many updates are still out; their memory lives until they are released.
// Calls that wait have to end first: their contexts have. A second Shutdown does
// nothing.
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
			return fmt.Errorf("%s: shutdown: a call for a lane is going on", name)
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

// arrivals count how tensors have come.
type arrivals struct{ bodyTensors, bodyBytes, handleTensors, handleBytes *phase.Counter }

func newArrivals(rec *phase.Recorder) arrivals {
	return arrivals{
		rec.Counter(phase.BodyTensors), rec.Counter(phase.BodyBytes),
		rec.Counter(phase.HandleTensors), rec.Counter(phase.HandleBytes),
	}
}

// attest counts the delivered tensors of p. A driver that does not say of each of
// them how it came would have no bandwidth, and no floor to be held to: that is an
// error.
func (a arrivals) attest(d driver.Delivered, p *tensor.Package) error {
	got := driver.Amount{
		Tensors: d.Body.Tensors + d.Handle.Tensors + d.Cached.Tensors,
		Bytes:   d.Body.Bytes + d.Handle.Bytes + d.Cached.Bytes,
	}
	if want := driver.All(p); got != want {
		return fmt.Errorf("the driver has counted %d tensors of %d bytes, and delivered %d of %d", got.Tensors, got.Bytes, want.Tensors, want.Bytes)
	}
	a.bodyTensors.Add(d.Body.Tensors)
	a.bodyBytes.Add(d.Body.Bytes)
	a.handleTensors.Add(d.Handle.Tensors)
	a.handleBytes.Add(d.Handle.Bytes)
	return nil
}
