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

// A Client is one client's part in a round.
type Client struct {
	ID     int     `json:"id"`
	Weight float64 `json:"weight"`
	Device string  `json:"device"` // a label for the worker function
	Config []byte  `json:"-"`      // the client's own configuration
}

// A Round says what happens in one round.
type Round struct {
	Number  int
	Clients []Client // in the order in which they are dispatched
	Timed   bool     // whether the round's samples count

	// Each is called with every client's update, one call at a time, by the goroutine
	// of whichever lane has it next. It must see to it that the update is released,
	// then or later; until then its lane may have no room for another one.
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

// sessionLane is a lane as the session sees it. All but the first have a goroutine of
// their own; the first is worked by whoever calls Round. To wake another goroutine takes
// as long as to wake another process, and so a round with one lane wakes none.
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
	user   context.Context // Round's caller's
	ctx    context.Context // ends when the round fails
	cancel context.CancelFunc
	lanes  sync.WaitGroup // those with goroutines that still work for this round
	queues []*queue       // lane n takes from queue n, modulo their number

	mu      sync.Mutex
	come    []Update // guarded by mu: those that wait for their turn
	arrived int      // guarded by mu: how many have come
	next    int      // guarded by mu: whose turn it is
	seeing  bool     // guarded by mu: somebody is in Each
	failed  bool     // guarded by mu: why is being found out, or known

	err  error         // why the round has failed; set before over is closed
	over chan struct{} // closed when that is known
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
	for i, l := range s.lanes {
		l.credit = make(chan struct{}, s.cfg.Depth)
		for range s.cfg.Depth {
			l.credit <- struct{}{}
		}
		if i == 0 {
			continue
		}
		l.rounds, l.ended = make(chan *running), make(chan struct{})
		go func() {
			defer close(l.ended)
			for r := range l.rounds {
				s.work(r, l)
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

// work takes clients one after another until there are none left, or the round fails.
// Before it hands over the update of one, it dispatches the next, so that the worker
// trains while that update is folded. A lane whose updates are all alive waits for one
// to be released, and only then takes the next client: so the client whose turn it is
// to be folded is never waiting for room.
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

// take returns the next client of the lane, or -1 for none. It waits for room only if
// it is told to.
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
		case <-q.taken: // without waiting for a credit that may not come before the next round
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

// dispatch gives c's job to a lane.
func (s *Session) dispatch(r *running, l *sessionLane, c Client) error {
	l.client.Store(int64(c.ID))
	l.jobs.Add(1)
	err := crash.Guard(func() error {
		return s.server.Dispatch(r.ctx, l.n, driver.Job{
			Round: r.Number, Client: c.ID, Weight: c.Weight, Device: c.Device, Config: c.Config, Timed: r.Timed,
		})
	})
	l.given.Store(err == nil)
	return err
}

// collect waits for the update of client i, whose job was dispatched.
func (s *Session) collect(r *running, l *sessionLane, i int) (Update, error) {
	u := Update{Index: i, lane: l, rec: s.rec, id: phase.ID{Lane: l.n, Round: r.Number, Client: r.Clients[i].ID}}
	err := crash.Guard(func() (err error) { u.Package, err = s.server.Collect(r.ctx, l.n); return err })
	l.given.Store(false)
	if err != nil {
		return Update{}, err
	}
	l.client.Store(-1)
	l.jobs.Add(1) // done: that is progress too
	return u, nil
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
	if cap(s.come) < len(spec.Clients) {
		s.come = make([]Update, len(spec.Clients))
	}
	r := &running{Round: spec, user: ctx, come: s.come[:len(spec.Clients)], queues: s.queues(len(spec.Clients)), over: make(chan struct{})}
	clear(r.come)
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
	ended() // unless it is known
	<-r.over
	for _, u := range r.come { // Each has not seen them
		if u.Package != nil {
			u.Release()
		}
	}
	clear(r.come)
	return r.err
}

// give takes an update that has come, and hands to Each what has its turn: in client
// order, unless the round says otherwise. If another lane is in Each, that one goes on.
func (s *Session) give(r *running, u Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := u.Index
	if r.AsCompleted {
		at = r.arrived
	}
	r.arrived++
	r.come[at] = u
	for !r.seeing && !r.failed && r.next < len(r.come) && r.come[r.next].Package != nil {
		u := r.come[r.next]
		r.come[r.next] = Update{}
		r.seeing = true
		r.mu.Unlock()
		err := s.each(r, u)
		r.mu.Lock()
		r.seeing = false
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

// each hands an update to the user, who may take as long as he likes.
func (s *Session) each(r *running, u Update) error {
	s.busy.Store(true)
	defer s.busy.Store(false)
	return crash.Guard(func() error { return r.Each(u) })
}

// failRound ends a round that is not complete. It is called with the error of a lane's
// transport, with another one, or with none, if the session has failed or the user has
// given up. Only the first call counts.
func (s *Session) failRound(r *running, err error) {
	r.mu.Lock()
	late := r.failed || r.next == len(r.come)
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
	s.fail(err) // unless a process has died, which is the better cause
	r.cancel()
	close(r.over)
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
