package bench

import (
	"context"
	"slices"
)

// RunWithFloors is Run without the floors that take time for themselves, but for
// those that are named.
func RunWithFloors(ctx context.Context, o Options, names ...string) (*Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	r.floors = slices.DeleteFunc(r.floors, func(f *Floor) bool { return f.Name != rpcEmpty && !slices.Contains(names, f.Name) })
	return r.all(ctx)
}
