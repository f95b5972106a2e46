package bench

import (
	"context"
	"slices"
	"testing"
	"time"
)

// SetStoppedPatience makes runs wait for a stopped process of a block for d, until
// the test ends.
func SetStoppedPatience(t *testing.T, d time.Duration) {
	before := stoppedPatience
	t.Cleanup(func() { stoppedPatience = before })
	stoppedPatience = d
}

// RunWithoutFloors is Run without the floors that take time for themselves, for
// tests of something else.
func RunWithoutFloors(ctx context.Context, o Options) (*Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.floors = slices.DeleteFunc(r.floors, func(f *Floor) bool { return f.Name != rpcEmpty })
	return r.all(ctx)
}
