package bench

import (
	"context"
	"slices"
)

// RunWithoutFloors is Run without the floors that take time for themselves, for
// tests of something else.
func RunWithoutFloors(ctx context.Context, o Options) (*Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	r.floors = slices.DeleteFunc(r.floors, func(f *Floor) bool { return f.Name != rpcEmpty })
	return r.all(ctx)
}
