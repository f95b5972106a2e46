package batched

import (
	"context"
	"strconv"
	"sync/atomic"

	"ipcbench/phase"
)

// slots bounds the number of requests in service at the same time, and counts requests by
// it. A request is in service while the server decodes, looks up or encodes for it. It
// is not while it waits for a job or, unless whole is set, while gRPC encodes and sends or
// it waits for the network, so that a client that does not read takes no slot from others.
type slots struct {
	free  chan struct{} // nil without a bound
	whole bool          // a request keeps its slot until its handler has handed the response to gRPC's transport

	rec    *phase.Recorder
	now    atomic.Int32                    // number of requests in service
	begun  []atomic.Pointer[phase.Counter] // [n-1]: requests started as one of n in service; nil until used
	queued *phase.Counter                  // requests that had to wait for a slot; nil without a bound
}

// newSlots returns n slots, or unbounded ones if n is 0, for a session with this many lanes.
func newSlots(n int, whole bool, lanes int, rec *phase.Recorder) *slots {
	s := &slots{whole: whole, rec: rec}
	most := lanes + spareStreams
	if n > 0 {
		most = n
		s.free, s.queued = make(chan struct{}, n), rec.Counter(phase.Queued)
	}
	s.begun = make([]atomic.Pointer[phase.Counter], most+1) // the last counter shows a violated bound
	return s
}

// A slotUse is the use of the slots by one request.
type slotUse struct {
	s  *slots
	in bool // the request has a slot
}

// take waits for a slot, unless the request has one. A wait is timed in t.
func (u *slotUse) take(ctx context.Context, t *stopwatch) error {
	if u.in {
		return nil
	}
	if err := u.s.claim(ctx, t); err != nil {
		return err
	}
	u.in = true
	n := min(int(u.s.now.Add(1)), len(u.s.begun)) // the request is one of n in service
	level := &u.s.begun[n-1]
	c := level.Load()
	if c == nil {
		c = u.s.rec.Counter(phase.InService + strconv.Itoa(n))
		level.Store(c)
	}
	c.Add(1)
	return nil
}

// rest frees the slot, unless whole is set. The request then waits for the network.
func (u *slotUse) rest() {
	if !u.s.whole {
		u.end()
	}
}

// end frees the slot, if the request has one.
func (u *slotUse) end() {
	if !u.in {
		return
	}
	u.in = false
	u.s.now.Add(-1)
	if u.s.free != nil {
		<-u.s.free
	}
}

func (s *slots) claim(ctx context.Context, t *stopwatch) error {
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
		return refuse(stalled, "no server thread was free before the deadline")
	}
}
