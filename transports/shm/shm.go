// Package shm hands packages over in shared memory, between a server and worker
// processes of one machine.
//
//   - [Slab] keeps all tensors in slabs that are made and touched before the first
//     round: one for the models, two rounds deep, and one for each lane's
//     updates. They are sealed memfds without a name, passed by descriptor. No
//     tensor is copied in either direction, nothing is mapped or allocated in a
//     round. The model is mapped read-only by workers, an update by the server.
//   - [PerTensor] keeps each tensor in a segment of its own, a file in a private
//     directory under /dev/shm, made anew for every round, as systems that share
//     tensors one by one do. It shows what names, mappings and first touches
//     cost. No tensor is copied either, but each round makes a few small
//     allocations a tensor.
//
// Jobs and receipts travel in a mailbox in shared memory, one for each lane and
// direction, with a futex for a bell: one system call to wake the peer and one to
// sleep. Its bytes count as sent and received, as those of a socket would. A Unix
// socket a lane carries descriptors, and its end tells each side at once that the
// other one is gone.
//
// What arrives from another process is checked before it is used, and copied
// before it is checked where the peer could change it meanwhile.
//
// A job's device and configuration, the model's receipt and the update's receipt
// must fit into the mailbox: 256 KiB and 64 bytes a tensor.
package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/internal/slab"
)

// Slab returns the transport that keeps all tensors in slabs.
func Slab() transports.Transport { return slabTransport{} }

type slabTransport struct{}

func (slabTransport) Name() string { return "shm-slab" }

func (slabTransport) Settings() []transports.Setting {
	return []transports.Setting{
		{Name: "wait", Values: []string{"block", "spin"}, Default: "block",
			Help: "how to wait for the peer: asleep, or burning a processor"},
		{Name: "copy", Values: []string{"off", "in"}, Default: "off",
			Help: "in: write tensors on the heap first and copy them into the slab, to see what that costs"},
	}
}

// spins reports whether waiting burns a processor.
func spins(o transports.Options) bool { return o.Settings["wait"] == "spin" }

// sizes are those of a session's slabs.
type sizes struct{ models, updates int }

func slabSizes(o transports.Options) (s sizes, err error) {
	if s.models, err = slab.SizeOf(o.Down, 2); err == nil {
		s.updates, err = slab.SizeOf(o.Up, o.Depth)
	}
	if err == nil && s.updates > (math.MaxInt/2-s.models)/o.Lanes {
		err = fmt.Errorf("%d lanes of %d bytes overflow", o.Lanes, s.updates)
	}
	return s, err
}

func (t slabTransport) Footprint(o transports.Options) int64 {
	s, err := slabSizes(o)
	if err != nil {
		return math.MaxInt64
	}
	total := int64(s.models) + int64(o.Lanes)*int64(s.updates) + controlBytes(o)
	if o.Settings["copy"] == "in" {
		total += 2*int64(o.Down.Size()) + int64(o.Lanes)*int64(o.Up.Size())
	}
	return total
}

// controlBytes is the size of all control areas of a session.
func controlBytes(o transports.Options) int64 {
	return int64(o.Lanes) * int64(controlSize(o.Down.Len())+controlSize(o.Up.Len()))
}

func (t slabTransport) Check(o transports.Options) error {
	if _, err := slabSizes(o); err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	return nil
}

func (t slabTransport) Listen(ctx context.Context, o transports.Options) (transports.Server, error) {
	ledger := &tensor.Ledger{}
	st, err := newSlabStore(o, ledger)
	if err != nil {
		return nil, fmt.Errorf("%s: listen: %w", t.Name(), err)
	}
	s, err := listen(ctx, t.Name(), o, ledger, st)
	if err != nil {
		return nil, fmt.Errorf("%s: listen: %w", t.Name(), err)
	}
	return s, nil
}

func (t slabTransport) Dial(ctx context.Context, addr string, lane int, o transports.Options) (transports.Worker, error) {
	w, err := connect(ctx, t.Name(), addr, lane, o, func(_ string, files []*os.File, _ *link) (view, error) {
		return newSlabView(o, files)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: dial lane %d: %w", t.Name(), lane, err)
	}
	return w, nil
}

// connect dials the server and makes the worker's side of a lane. open makes
// the view out of what the server's store sent, and takes the descriptors.
func connect(ctx context.Context, name, addr string, lane int, o transports.Options,
	open func(text string, files []*os.File, l *link) (view, error)) (*worker, error) {
	l, text, files, err := dial(ctx, addr, helloOf(name, lane, o), o.Rec)
	if err != nil {
		return nil, err
	}
	if len(files) < 2 {
		closeAll(files)
		return nil, errors.Join(fmt.Errorf("welcome with %d descriptors", len(files)), l.conn.Close())
	}
	v, err := open(text, files[2:], l)
	if err != nil {
		closeAll(files[:2])
		return nil, errors.Join(err, l.conn.Close())
	}
	w, err := newWorker(name, lane, o, l, files[:2], v)
	if err != nil {
		return nil, errors.Join(err, v.close(), l.conn.Close())
	}
	return w, nil
}
