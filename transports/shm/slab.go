package shm

import (
	"context"
	"fmt"
	"math"
	"os"

	"ipcbench/machine"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// Slab returns the transport that keeps all tensors in slabs.
func Slab() driver.Transport { return slabTransport{} }

type slabTransport struct{}

func (slabTransport) Name() string { return "shm-slab" }

func (slabTransport) Settings() []driver.Setting {
	return []driver.Setting{
		{Name: "wait", Values: []string{"block", "spin"}, Default: "block",
			Help: "how to wait for the peer: asleep, or burning a processor"},
		{Name: "copy", Values: []string{"off", "in"}, Default: "off",
			Help: "in: write tensors on the heap first and copy them into the slab, to see what that costs"},
	}
}

// Spins implements [driver.Spinner].
func (slabTransport) Spins(s driver.Settings) bool { return spins(s) }

// sizes are those of a session's slabs.
type sizes struct{ models, updates int }

func slabSizes(o driver.Options) (s sizes, err error) {
	if s.models, err = slab.SizeOf(o.Down, 2); err == nil {
		s.updates, err = slab.SizeOf(o.Up, o.Depth)
	}
	if err == nil && s.updates > (math.MaxInt/2-s.models)/o.Lanes {
		err = fmt.Errorf("%d lanes of %d bytes overflow", o.Lanes, s.updates)
	}
	return s, err
}

func (t slabTransport) Footprint(o driver.Options) int64 {
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

func (t slabTransport) Check(o driver.Options) error {
	_, err := slabSizes(o)
	if err == nil {
		err = checkMemory(t.Footprint(o))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	return nil
}

// checkMemory compares a session's need with what there is. Memfds have no limit
// of their own: what is too much is taken from everybody.
func checkMemory(need int64) error {
	if have, limit := machine.MemoryLimit(); need > have {
		return fmt.Errorf("%d bytes of memory are needed, %d are available (%s)", need, have, limit)
	}
	return nil
}

func (t slabTransport) Listen(ctx context.Context, o driver.Options) (driver.Server, error) {
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

func (t slabTransport) Dial(ctx context.Context, addr string, lane int, o driver.Options) (driver.Worker, error) {
	w, err := connect(ctx, t.Name(), addr, lane, o, func(_ string, files []*os.File, _ *link) (view, error) {
		return newSlabView(o, files)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: dial lane %d: %w", t.Name(), lane, err)
	}
	return w, nil
}
