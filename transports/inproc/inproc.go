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
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"ipcbench/phase"
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
	live map[string]*server // guarded by mu: by address
	last int                // guarded by mu: addresses given out
}

func (*transport) Name() string               { return "inproc" }
func (*transport) Settings() []driver.Setting { return nil }
func (*transport) InProcess() bool            { return true }

func (*transport) Check(o driver.Options) error {
	_, err := sizes(o)
	return err
}

func (*transport) Footprint(o driver.Options) int64 {
	s, err := sizes(o)
	if err != nil {
		return math.MaxInt64
	}
	return int64(s.models) + int64(o.Lanes)*int64(s.updates)
}

// memories are the sizes of a session's blocks of memory.
type memories struct{ models, updates int }

func sizes(o driver.Options) (m memories, err error) {
	if m.models, err = slab.SizeOf(o.Down, 2); err == nil {
		m.updates, err = slab.SizeOf(o.Up, o.Depth)
	}
	if err == nil && m.updates > (math.MaxInt-m.models)/o.Lanes {
		err = fmt.Errorf("%d lanes of %d bytes overflow", o.Lanes, m.updates)
	}
	if err != nil {
		return m, fmt.Errorf("inproc: %w", err)
	}
	return m, nil
}

// Listen implements [driver.Transport].
func (t *transport) Listen(ctx context.Context, o driver.Options) (driver.Server, error) {
	s, err := newServer(o)
	if err != nil {
		return nil, fmt.Errorf("inproc: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	s.addr = "inproc:" + strconv.Itoa(t.last)
	s.forget = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.live, s.addr)
	}
	t.live[s.addr] = s
	return s, nil
}

// Dial implements [driver.Transport].
func (t *transport) Dial(ctx context.Context, addr string, n int, o driver.Options) (driver.Worker, error) {
	t.mu.Lock()
	defer t.mu.Unlock() // a server leaves the map before it gives its memory up
	s := t.live[addr]
	switch {
	case s == nil:
		return nil, fmt.Errorf("inproc: dial %s: no such server in this process: workers of inproc are goroutines of the server's process", addr)
	case n < 0 || n >= len(s.lanes):
		return nil, fmt.Errorf("inproc: dial %s: no lane %d, the session has %d", addr, n, len(s.lanes))
	case o.Down.Digest() != s.o.Down.Digest() || o.Up.Digest() != s.o.Up.Digest():
		return nil, fmt.Errorf("inproc: dial %s: lane %d: the server has another model", addr, n)
	}
	l := s.lanes[n]
	if !l.taken.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("inproc: dial %s: lane %d has a worker already", addr, n)
	}
	return newWorker(s, l, o), nil
}

// attest counts tensors that travel as references.
type attest struct{ tensors, bytes *phase.Counter }

func newAttest(r *phase.Recorder) attest {
	return attest{r.Counter(phase.HandleTensors), r.Counter(phase.HandleBytes)}
}

func (a attest) count(l *tensor.Layout) {
	a.tensors.Add(l.Len())
	a.bytes.Add(l.Payload())
}

// lane is what server and worker share.
type lane struct {
	n       int
	mail    *mailbox.Lane
	updates *slab.Updates

	// Written by the server before a job goes into mail, read by the worker after
	// it was taken out.
	model, update slab.Handle
	modelReceipt  []byte

	taken, left atomic.Bool // by a worker
}
