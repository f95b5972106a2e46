// Package inproc hands packages over by reference to workers that are goroutines of the
// server's process. It is the control that every other transport is compared with: the
// same round and the same allocator, with memory touched in advance, but no process
// boundary.
//
// It copies nothing in either direction. All workers share one writable mapping, so
// nothing prevents a worker function from writing to the model.
package inproc

import (
	"context"
	"errors"
	"math"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/mailbox"
	"ipcbench/transports/internal/slab"
)

// New returns the transport. A session's server and workers must use the same value, in
// one process.
func New() driver.Transport { return &transport{live: map[string]*server{}} }

type transport struct {
	mu   sync.Mutex
	live map[string]*server // guarded by mu: servers by their session's secret
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

// Needs implements [driver.Transport].
func (*transport) Needs(driver.Options) (driver.Needs, error) { return driver.Needs{}, nil }

// Listen implements [driver.Transport].
func (t *transport) Listen(_ context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
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
func (t *transport) Dial(_ context.Context, e *endpoint.Endpoint, n int, o driver.Options) (driver.Worker, error) {
	t.mu.Lock()
	defer t.mu.Unlock() // held until the worker keeps the memory: a server leaves the map before it frees that
	s := t.live[e.Secret()]
	switch {
	case s == nil:
		return nil, errors.New("no such server in this process: workers of inproc are goroutines of the server's process")
	case o.Down.Digest() != s.o.Down.Digest() || o.Up.Digest() != s.o.Up.Digest():
		return nil, errors.New("the server has other layouts")
	}
	l := s.lanes[n]
	if !l.taken.CompareAndSwap(false, true) {
		return nil, errors.New("the lane has a worker already")
	}
	return newWorker(s, l, o), nil
}

// An order is a job as the server passes it to a lane's worker.
type order struct {
	job           driver.Job
	bare          bool // without a model
	model, update slab.Handle
	beside        driver.Beside // the model's receipt and rows
}

// handed returns the Delivered of p, all of whose tensors were passed by reference.
func handed(p *tensor.Package) driver.Delivered { return driver.Delivered{Handle: driver.All(p)} }

// newLane returns a lane without a worker.
func newLane(updates *slab.Updates) *lane {
	return &lane{mail: mailbox.NewLane[order](), updates: updates}
}
