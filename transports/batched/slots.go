package batched

import (
	"context"
	"strconv"
	"sync/atomic"

	"ipcbench/phase"
)

// slots bounds how many requests are in service at once, and counts how many there
// are. A request is in service while the server decodes, looks up or encodes for it,
// and never while it waits for a job or, unless whole is set, for the network: so a
// client that does not read takes nothing from the others. The answer to a unary request
// is gRPC's to send, when its handler has returned and its slot is free.
type slots struct {
	free  chan struct{} // nil: no bound
	whole bool          // a request keeps its slot until its handler returns

	rec    *phase.Recorder
	now    atomic.Int32                    // in service
	begun  []atomic.Pointer[phase.Counter] // of requests by how many were in service, less 1; made when first needed
	queued *phase.Counter                  // requests that had to wait for a slot; nil without a bound
}

// newSlots returns n slots, or without a bound those of that many lanes.
func newSlots(n int, whole bool, lanes int, rec *phase.Recorder) *slots {
	s := &slots{whole: whole, rec: rec}
	most := lanes + spareStreams
	if n > 0 {
		most = n
		s.free, s.queued = make(chan struct{}, n), rec.Counter(phase.Queued)
	}
	s.begun = make([]atomic.Pointer[phase.Counter], most+1) // with one that shows if the bound does not hold
	return s
}

// A seat is a request's use of the slots.
type seat struct {
	s  *slots
	in bool
}

// take waits for a slot, unless the request has it. Only a wait is timed.
func (u *seat) take(ctx context.Context, t *tally) error {
	if u.in {
		return nil
	}
	if err := u.s.claim(ctx, t); err != nil {
		return err
	}
	u.in = true
	u.s.count(int(u.s.now.Add(1)))
	return nil
}

// rest gives the slot back while the request waits for the network.
func (u *seat) rest() {
	if !u.s.whole {
		u.end()
	}
}

// end gives the slot back, if the request has it.
func (u *seat) end() {
	if !u.in {
		return
	}
	u.in = false
	u.s.now.Add(-1)
	if u.s.free != nil {
		<-u.s.free
	}
}

func (s *slots) claim(ctx context.Context, t *tally) error {
	if s.free == nil {
		return nil
	}
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	s.queued.Add(1)
	defer t.begin(phase.Queue).end()
	select {
	case s.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return refuse(stalled, "no handler was free in time")
	}
}

// count counts a request that is one of n in service.
func (s *slots) count(n int) {
	n = min(n, len(s.begun))
	level := &s.begun[n-1]
	c := level.Load()
	if c == nil {
		c = s.rec.Counter(phase.InService + strconv.Itoa(n))
		level.Store(c)
	}
	c.Add(1)
}
