package trainer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/crash"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A Client is one client's part in a round.
type Client struct {
	ID     int
	Weight float64
	Device string // a label for the worker function
	Config []byte // the client's own configuration
}

// A Round says what happens in one round.
type Round struct {
	Number  int
	Clients []Client // in the order in which they are dispatched
	Timed   bool     // whether the round's samples count

	// Each is called with every client's update, one call at a time. It must see
	// to it that the update is released, then or later; until then its lane may
	// have no room for another one.
	Each func(u Update) error

	// AsCompleted makes Each see the updates in the order in which they arrive,
	// and not in the order of Clients.
	AsCompleted bool
}

// An Update is what one client sent back.
type Update struct {
	Index   int // of the client in Round.Clients
	Package *tensor.Package
	lane    *sessionLane
	id      phase.ID
	rec     *phase.Recorder
}

// Release gives the update's memory back to its transport.
func (u Update) Release() {
	span := u.rec.Begin(phase.Release, u.id)
	u.Package.Release()
	span.End()
	u.lane.credit <- struct{}{}
}

// sessionLane is a lane as the session sees it, with a goroutine of its own.
type sessionLane struct {
	n       int
	process *sessionProcess
	credit  chan struct{} // holds a token for every update that may come alive
	rounds  chan *running
	ended   chan struct{} // closed when the goroutine has returned
	client  atomic.Int64  // whose job is out, or -1
	given   atomic.Bool   // the job was dispatched
	jobs    atomic.Int64  // begun and ended so far
}

// running is a round in progress.
type running struct {
	Round
	ctx      context.Context
	cancel   context.CancelFunc
	updates  chan Update
	failures chan laneError // room for one a lane
	lanes    sync.WaitGroup // that still work for this round
	queues   []*queue       // lane n takes from queue n, modulo their number
}

// A queue is clients that wait for a lane: each step-th, from next on.
type queue struct {
	step, end int
	taken     chan struct{} // closed when none waits

	mu   sync.Mutex
	next int // guarded by mu
}

func newQueue(first, step, end int) *queue {
	q := &queue{step: step, end: end, taken: make(chan struct{}), next: first}
	if first >= end {
		close(q.taken)
	}
	return q
}

// take returns the next client to dispatch, or -1.
func (q *queue) take() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.next
	if i >= q.end {
		return -1
	}
	if q.next += q.step; q.next >= q.end {
		close(q.taken)
	}
	return i
}

// queues returns those of a round of n clients. One is for all lanes. But with a codec,
// what a lane is sent depends on what it did before: there each has its own, so that
// rounds are the same whichever worker is faster.
func (s *Session) queues(n int) []*queue {
	if !s.coded {
		return []*queue{newQueue(0, 1, n)}
	}
	queues := make([]*queue, len(s.lanes))
	for i := range queues {
		queues[i] = newQueue(i, len(queues), n)
	}
	return queues
}

func (s *Session) startLanes() {
	for _, l := range s.lanes {
		l.credit = make(chan struct{}, s.cfg.Depth)
		for range s.cfg.Depth {
			l.credit <- struct{}{}
		}
		l.rounds, l.ended = make(chan *running), make(chan struct{})
		go func() {
			defer close(l.ended)
			for r := range l.rounds {
				if err := s.work(r, l); err != nil {
					r.failures <- *err
				}
				r.lanes.Done()
			}
		}()
	}
}

func (s *Session) stopLanes() {
	for _, l := range s.lanes {
		if l.rounds != nil {
			close(l.rounds)
			<-l.ended
		}
	}
}

// work takes clients one after another until there are none left. A lane whose
// updates are all alive waits for the fold to release one, and only then takes
// the next client: so the client whose turn it is to be folded is never waiting
// for room.
func (s *Session) work(r *running, l *sessionLane) *laneError {
	q := r.queues[l.n%len(r.queues)]
	for {
		select {
		case <-l.credit:
		case <-q.taken: // without waiting for a credit that may not come before the next round
			return nil
		case <-r.ctx.Done():
			return nil
		}
		i := q.take()
		if i < 0 {
			l.credit <- struct{}{}
			return nil
		}
		c := r.Clients[i]
		l.client.Store(int64(c.ID))
		l.jobs.Add(1)
		var update *tensor.Package
		err := crash.Guard(func() (err error) { update, err = s.exchange(r, l, c); return err })
		if err != nil {
			return &laneError{lane: l.n, round: r.Number, client: c.ID, err: err}
		}
		l.client.Store(-1)
		l.jobs.Add(1) // done: that is progress too
		// There is room: no more updates are alive than there are tokens.
		r.updates <- Update{Index: i, Package: update, lane: l, rec: s.rec, id: phase.ID{Lane: l.n, Round: r.Number, Client: c.ID}}
	}
}

// exchange gives a job to a lane and waits for its update.
func (s *Session) exchange(r *running, l *sessionLane, c Client) (*tensor.Package, error) {
	err := s.server.Dispatch(r.ctx, l.n, driver.Job{
		Round: r.Number, Client: c.ID, Weight: c.Weight, Device: c.Device, Config: c.Config, Timed: r.Timed,
	})
	if err != nil {
		return nil, err
	}
	l.given.Store(true)
	defer l.given.Store(false)
	return s.server.Collect(r.ctx, l.n)
}

// Publish makes model, which Reserve returned, the one that the clients of the
// next rounds get, and returns what they train on. It takes model: the caller must
// not write to it again. What it returns may be read until the next Publish returns.
// An error ends the session. round is for samples and errors.
func (s *Session) Publish(ctx context.Context, round int, model *tensor.Package) (*tensor.Package, error) {
	span := s.rec.Begin(phase.Publish, phase.Whole(round))
	var trained *tensor.Package
	err := crash.Guard(func() (err error) { trained, err = s.server.Publish(ctx, model); return err })
	span.End()
	if err == nil {
		return trained, nil
	}
	err = fmt.Errorf("round %d: %w", round, err)
	if awaitClosed(context.Background(), s.failed.Done(), exitGrace) {
		err = fmt.Errorf("%w (%w)", s.explain(round, nil), err)
	}
	s.fail(err)
	return nil, err
}

// Reserve returns where the next model is to be written, every byte of it. round
// is for samples and errors.
func (s *Session) Reserve(round int) (*tensor.Package, error) {
	span := s.rec.Begin(phase.Reserve, phase.Whole(round))
	var next *tensor.Package
	err := crash.Guard(func() (err error) { next, err = s.server.Reserve(); return err })
	span.End()
	if err != nil {
		return nil, fmt.Errorf("round %d: %w", round, err)
	}
	return next, nil
}

// Round has every client trained by the next free lane and hands the updates to
// Each. It returns when Each has seen all of them. After an error the session is of
// no more use: only Close follows.
func (s *Session) Round(ctx context.Context, spec Round) error {
	if len(spec.Clients) > s.cfg.Clients {
		return fmt.Errorf("trainer: round %d has %d clients, the session was made for %d", spec.Number, len(spec.Clients), s.cfg.Clients)
	}
	if s.failed.Err() != nil {
		return s.explain(spec.Number, nil)
	}
	if len(spec.Clients) == 0 {
		return nil
	}

	s.waits.Store(waitRound)
	defer s.waits.Store(waitNone)
	began := time.Now()
	r := &running{Round: spec, updates: s.updates, failures: make(chan laneError, len(s.lanes)), queues: s.queues(len(spec.Clients))}
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	r.lanes.Add(len(s.lanes))
	for _, l := range s.lanes {
		l.rounds <- r
	}
	err := s.fold(r)
	if err != nil {
		s.fail(err) // unless a process has died, which is the better cause
		r.cancel()
	}
	r.lanes.Wait()
	if err != nil {
		s.drop(r)
	}
	s.slowest.Store(max(s.slowest.Load(), int64(time.Since(began))))
	return err
}

// fold hands updates to Each until it has seen all of them, in client order
// unless the round says otherwise.
func (s *Session) fold(r *running) error {
	if cap(s.early) < len(r.Clients) {
		s.early = make([]Update, len(r.Clients))
	}
	s.early = s.early[:len(r.Clients)]
	clear(s.early)
	for next := 0; next < len(r.Clients); {
		select {
		case u := <-r.updates:
			if r.AsCompleted {
				next++
				if err := s.each(r, u); err != nil {
					return fmt.Errorf("round %d, client %d: %w", r.Number, r.Clients[u.Index].ID, err)
				}
				continue
			}
			s.early[u.Index] = u
		case failed := <-r.failures:
			return s.explain(r.Number, &failed)
		case <-s.failed.Done():
			return s.explain(r.Number, nil)
		case <-r.ctx.Done():
			return fmt.Errorf("round %d: %w", r.Number, context.Cause(r.ctx))
		}
		for ; next < len(r.Clients) && s.early[next].Package != nil; next++ {
			u := s.early[next]
			s.early[next] = Update{}
			if err := s.each(r, u); err != nil {
				return fmt.Errorf("round %d, client %d: %w", r.Number, r.Clients[next].ID, err)
			}
		}
	}
	return nil
}

// each hands an update to the user, who may take as long as he likes.
func (s *Session) each(r *running, u Update) error {
	s.busy.Store(true)
	defer s.busy.Store(false)
	return crash.Guard(func() error { return r.Each(u) })
}

// drop releases the updates of a failed round that Each has not seen.
func (s *Session) drop(r *running) {
	for {
		select {
		case u := <-r.updates:
			u.Release()
		default:
			for _, u := range s.early {
				if u.Package != nil {
					u.Release()
				}
			}
			clear(s.early)
			return
		}
	}
}

// explain says why round n failed. The death of a worker process explains what
// its lanes' transports complain of, so its exit status, which may take a
// moment to arrive, comes first; the transport's own error is joined to it.
func (s *Session) explain(n int, failed *laneError) error {
	var dead *processError
	if failed != nil {
		dead = s.death(s.lanes[failed.lane].process)
	} else {
		errors.As(context.Cause(s.failed), &dead)
	}
	if dead == nil {
		if failed == nil {
			return fmt.Errorf("round %d: %w", n, context.Cause(s.failed))
		}
		return fmt.Errorf("round %d, client %d: process %d: %w", n, failed.client, s.lanes[failed.lane].process.n, failed.err)
	}
	err := fmt.Errorf("round %d%s: %w", n, s.clientsOf(dead), dead)
	if failed != nil && s.lanes[failed.lane].process.n == dead.n {
		err = fmt.Errorf("round %d, client %d: %w (%w)", n, failed.client, dead, failed.err)
	}
	return s.withStderr(err)
}

// clientsOf names the client that the dead process was working for, if any.
func (s *Session) clientsOf(dead *processError) string {
	for _, l := range s.procs[dead.n].lanes {
		if dead.lane < 0 || dead.lane == l.n {
			if c := l.client.Load(); c >= 0 {
				return fmt.Sprintf(", client %d", c)
			}
		}
	}
	return ", between clients"
}
