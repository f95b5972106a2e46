package trainer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/internal/crash"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A Client is a participant in a round.
type Client struct {
	ID     int     `json:"id"`
	Weight float64 `json:"weight"`
	Device string  `json:"device"` // a label for the worker function
	Config []byte  `json:"-"`      // the client's own configuration
}

// A Round describes one round.
type Round struct {
	Number  int
	Clients []Client // in the order in which they are dispatched
	Timed   bool     // whether the round's samples count

	// Each is called once per update, never concurrently, on any lane's goroutine. The
	// update must be released, by Each or later; until then its lane may have no room for
	// another one. An error fails the session.
	Each func(u Update) error

	// AsCompleted passes updates to Each in the order of arrival instead of the order of
	// Clients.
	AsCompleted bool
}

// An Update is the update that one client sent back.
type Update struct {
	Index   int // index of the client in Round.Clients
	Package *tensor.Package
	lane    *sessionLane
	id      phase.ID
	rec     *phase.Recorder
}

// Release returns the update's memory to the transport. It must be called once.
func (u Update) Release() {
	span := u.rec.Begin(phase.Release, u.id)
	u.Package.Release()
	span.End()
	u.lane.credit <- struct{}{}
}

// sessionLane is the session's side of a lane. Each lane has a goroutine of its own, except
// the first, which the caller of Round serves. Waking a goroutine takes as long as waking a
// process, so a round with one lane wakes none.
type sessionLane struct {
	n       int
	process *sessionProcess
	credit  chan struct{} // a token for each further update that the lane has room for
	rounds  chan *running
	client  atomic.Int64 // ID of the client whose update has not come yet, or -1
	given   atomic.Bool  // that client's job has been dispatched
	jobs    atomic.Int64 // number of jobs begun plus number ended
}

// running is a round in progress.
type running struct {
	Round
	user   context.Context // of the caller of Round
	ctx    context.Context // done when the round ends or fails
	cancel context.CancelFunc
	lanes  sync.WaitGroup // lane goroutines that still work for this round
	queues []*queue       // lane n takes clients from queue n modulo len(queues)

	mu      sync.Mutex
	updates []Update // guarded by mu: arrived ones that wait for Each, at their turn
	arrived int      // guarded by mu: number of updates that have arrived
	next    int      // guarded by mu: index in updates of the next one for Each
	inEach  bool     // guarded by mu: a lane is in Each
	failed  bool     // guarded by mu: the round has failed; err may not be set yet

	err  error         // the reason of the failure; set before over is closed
	over chan struct{} // closed when err is set
}

// A queue holds the clients that wait for a lane: every step-th one, from next to end.
type queue struct {
	next      atomic.Int64
	step, end int
	taken     chan struct{} // closed when the queue is empty
}

func newQueue(first, step, end int) *queue {
	q := &queue{step: step, end: end, taken: make(chan struct{})}
	q.next.Store(int64(first))
	if first >= end {
		close(q.taken)
	}
	return q
}

// take removes the next client and returns its index, or -1 if the queue is empty.
func (q *queue) take() int {
	next := int(q.next.Add(int64(q.step)))
	i := next - q.step
	if i >= q.end {
		return -1
	}
	if next >= q.end { // only for the last client
		close(q.taken)
	}
	return i
}

// queues returns the queues of a round of n clients. Without a codec, all lanes share one.
// With a codec, a lane's earlier jobs decide which bytes it is sent. So each lane has its own
// queue, and rounds are the same whichever worker is faster.
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
	for i, l := range s.lanes {
		l.credit = make(chan struct{}, s.cfg.Depth)
		for range s.cfg.Depth {
			l.credit <- struct{}{}
		}
		if i == 0 {
			continue
		}
		l.rounds = make(chan *running)
		s.running.Go(func() {
			for r := range l.rounds {
				s.work(r, l)
				r.lanes.Done()
			}
		})
	}
}

func (s *Session) stopLanes() {
	for _, l := range s.lanes {
		if l.rounds != nil {
			close(l.rounds)
		}
	}
	s.running.Wait()
}

// work serves clients on lane l until none is left or the round fails. It dispatches the
// next client before it hands over the last one's update, so that the worker trains while
// that update is folded. A lane without room waits for the release of an update before it
// takes the next client. So the client whose update is folded next never waits for room.
func (s *Session) work(r *running, l *sessionLane) {
	var done Update
	for {
		i := l.take(r, done.Package == nil)
		if i < 0 && done.Package == nil {
			return
		}
		var err error
		if i >= 0 {
			err = s.dispatch(r, l, r.Clients[i])
		}
		if done.Package != nil {
			s.give(r, done)
			done = Update{}
		}
		if err == nil && i >= 0 {
			done, err = s.collect(r, l, i)
		}
		if err != nil {
			s.failRound(r, &laneError{lane: l.n, round: r.Number, client: r.Clients[i].ID, err: err})
			return
		}
	}
}

// take returns the index of the lane's next client, or -1 if none is left or the lane has no
// room. If wait is set, it waits for room.
func (l *sessionLane) take(r *running, wait bool) int {
	q := r.queues[l.n%len(r.queues)]
	select {
	case <-l.credit:
	default:
		if !wait {
			return -1
		}
		select {
		case <-l.credit:
		case <-q.taken: // a credit may not come before the next round
			return -1
		case <-r.ctx.Done():
			return -1
		}
	}
	i := q.take()
	if i < 0 || r.ctx.Err() != nil {
		l.credit <- struct{}{}
		return -1
	}
	return i
}

// dispatch sends c's job to the worker of a lane.
func (s *Session) dispatch(r *running, l *sessionLane, c Client) error {
	l.client.Store(int64(c.ID))
	l.jobs.Add(1)
	err := s.server.Dispatch(r.ctx, l.n, driver.Job{
		Round: r.Number, Client: c.ID, Weight: c.Weight, Device: c.Device, Config: c.Config, Timed: r.Timed,
	})
	l.given.Store(err == nil)
	return err
}

// collect waits for the update of client i, whose job was dispatched.
func (s *Session) collect(r *running, l *sessionLane, i int) (Update, error) {
	p, err := s.server.Collect(r.ctx, l.n)
	l.given.Store(false)
	if err != nil {
		return Update{}, err
	}
	l.client.Store(-1)
	l.jobs.Add(1) // a finished job is progress too
	id := phase.ID{Lane: l.n, Round: r.Number, Client: r.Clients[i].ID}
	return Update{Index: i, Package: p, lane: l, rec: s.rec, id: id}, nil
}

// Publish makes model, which Reserve returned, the model of the next rounds. It returns the
// model as clients get it, which a codec may have changed; it may be read until the next
// Publish returns. Publish takes ownership of model: the caller must not write to it again.
// After an error the session has failed. round is only used in samples and errors.
func (s *Session) Publish(ctx context.Context, round int, model *tensor.Package) (*tensor.Package, error) {
	trained, err := s.server.Publish(ctx, round, model)
	if err == nil {
		return trained, nil
	}
	if awaitClosed(s.failed.Done(), exitGrace) {
		err = fmt.Errorf("%w (%w)", s.explain(round, nil), err)
	}
	s.fail(err)
	return nil, err
}

// Reserve returns the package to write the next model into. Every byte must be written.
// round is only used in samples and errors.
func (s *Session) Reserve(round int) (*tensor.Package, error) { return s.server.Reserve(round) }

// Round trains every client and passes the updates to Each. A client goes to the next free
// lane or, with a codec, to the lane of its index modulo the number of lanes. Round returns
// when Each has returned for all updates. After an error, only Close may be called.
func (s *Session) Round(ctx context.Context, spec Round) error {
	if len(spec.Clients) > s.cfg.Clients {
		return fmt.Errorf("trainer: round %d has %d clients, more than Config.Clients, %d", spec.Number, len(spec.Clients), s.cfg.Clients)
	}
	if s.failed.Err() != nil {
		return s.explain(spec.Number, nil)
	}
	if len(spec.Clients) == 0 {
		return nil
	}

	s.waits.Store(waitAnswer)
	defer s.waits.Store(waitNone)
	began := time.Now()
	if cap(s.updates) < len(spec.Clients) {
		s.updates = make([]Update, len(spec.Clients))
	}
	r := &running{Round: spec, user: ctx, updates: s.updates[:len(spec.Clients)], queues: s.queues(len(spec.Clients)), over: make(chan struct{})}
	clear(r.updates)
	r.ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	ended := func() { s.failRound(r, nil) }
	defer context.AfterFunc(s.failed, ended)()
	defer context.AfterFunc(ctx, ended)()

	lanes := s.lanes[:min(len(s.lanes), len(spec.Clients))]
	r.lanes.Add(len(lanes) - 1)
	for _, l := range lanes[1:] {
		l.rounds <- r
	}
	s.work(r, lanes[0])
	r.lanes.Wait()
	s.slowest.Store(max(s.slowest.Load(), int64(time.Since(began))))

	r.mu.Lock()
	complete := r.next == len(r.Clients) && !r.failed
	r.mu.Unlock()
	if complete {
		return nil
	}
	ended() // sets r.err, unless that is done already
	<-r.over
	for _, u := range r.updates { // Each was not called with them
		if u.Package != nil {
			u.Release()
		}
	}
	clear(r.updates)
	return r.err
}

// give stores an update that has arrived, and passes all updates whose turn it is to Each:
// in the order of Clients, or of arrival with AsCompleted. If another lane is in Each, that
// lane passes them on.
func (s *Session) give(r *running, u Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := u.Index
	if r.AsCompleted {
		at = r.arrived
	}
	r.arrived++
	r.updates[at] = u
	for !r.inEach && !r.failed && r.next < len(r.updates) && r.updates[r.next].Package != nil {
		u := r.updates[r.next]
		r.updates[r.next] = Update{}
		r.inEach = true
		r.mu.Unlock()
		err := s.each(r, u)
		r.mu.Lock()
		r.inEach = false
		if err != nil {
			err = fmt.Errorf("round %d, client %d: %w", r.Number, r.Clients[u.Index].ID, err)
			r.mu.Unlock()
			s.failRound(r, err)
			r.mu.Lock()
			return
		}
		r.next++
	}
}

// each calls Round.Each, which may take any time.
func (s *Session) each(r *running, u Update) error {
	s.busy.Store(true)
	defer s.busy.Store(false)
	return crash.Guard(func() error { return r.Each(u) })
}

// failRound ends an incomplete round. err is a *laneError, another error, or nil if the
// session has failed or the caller's context is done. Only the first call has an effect.
func (s *Session) failRound(r *running, err error) {
	r.mu.Lock()
	late := r.failed || r.next == len(r.updates)
	if !late {
		r.failed = true
	}
	r.mu.Unlock()
	if late {
		return
	}
	failed, ofLane := err.(*laneError)
	switch {
	case err != nil && !ofLane:
	case r.user.Err() != nil:
		err = fmt.Errorf("round %d: %w", r.Number, context.Cause(r.user))
	default:
		err = s.explain(r.Number, failed)
	}
	r.err = err
	s.fail(err) // keeps the death of a process, if that came first: it is the better cause
	r.cancel()
	close(r.over)
}

// explain returns the error of round n. The death of a worker process explains the errors
// of its lanes' transports. So explain waits a moment for an exit status, which comes
// first in the error, and joins the transport's own error to it.
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

// clientsOf names the client that the dead process was training, if any.
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
