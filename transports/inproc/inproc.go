// Package inproc hands packages over by reference, to lanes that are goroutines
// of the server's process. It is the control that every other transport is
// compared with: the same round, the same allocator over memory that was touched
// before, and no process boundary.
//
// Copies per direction: none. Nothing keeps a worker function from writing into
// the model here, since there is one mapping for all.
package inproc

import (
	"context"
	"errors"
	"math"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

// New returns the transport. Its workers have to be dialled from the same value
// in the same process.
func New() driver.Transport { return &transport{live: map[string]*server{}} }

type transport struct {
	mu   sync.Mutex
	live map[string]*server // guarded by mu: by their sessions' secrets
}

func (*transport) Name() string                         { return "inproc" }
func (*transport) Settings() []driver.Setting           { return nil }
func (*transport) Traits(driver.Settings) driver.Traits { return driver.Traits{Reach: driver.Process} }

func (*transport) Check(o driver.Options) error {
	_, _, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	return err
}

func (*transport) Footprint(o driver.Options) int64 {
	models, updates, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	if err != nil {
		return math.MaxInt64
	}
	return int64(models) + int64(o.Lanes)*int64(updates)
}

// Listen implements [driver.Transport].
func (t *transport) Listen(_ context.Context, e *driver.Endpoint, o driver.Options) (driver.Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.live[e.Secret()] != nil {
		return nil, errors.Join(errors.New("the session has a server already"), s.release())
	}
	s.forget = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.live, e.Secret())
	}
	t.live[e.Secret()] = s
	return s, nil
}

// Dial implements [driver.Transport].
func (t *transport) Dial(_ context.Context, e *driver.Endpoint, n int, o driver.Options) (driver.Worker, error) {
	t.mu.Lock()
	defer t.mu.Unlock() // a server leaves the map before it gives its memory up
	s := t.live[e.Secret()]
	switch {
	case s == nil:
		return nil, errors.New("no such server in this process: workers of inproc are goroutines of the server's process")
	case o.Down.Digest() != s.o.Down.Digest() || o.Up.Digest() != s.o.Up.Digest():
		return nil, errors.New("the server has another model")
	}
	l := s.lanes[n]
	if !l.taken.CompareAndSwap(false, true) {
		return nil, errors.New("the lane has a worker already")
	}
	return newWorker(s, l, o), nil
}

// An order is what a lane's worker is handed.
type order struct {
	job           driver.Job
	bare          bool // there is no model
	model, update slab.Handle
	beside        driver.Beside // the model
}

// handed says that the whole of p went as references.
func handed(p *tensor.Package) driver.Delivered { return driver.Delivered{Handle: driver.All(p)} }

// newLane returns a lane whose worker has not come.
func newLane(updates *slab.Updates) *lane {
	return &lane{mail: mailbox.NewLane[order](), updates: updates}
}
