package bench

import (
	"context"
	"slices"

	"ipcbench/bench/result"
)

// RunWithFloors is Run with only the named floors and rpc-empty, because the other floors take time of their own.
func RunWithFloors(ctx context.Context, o Options, names ...string) (*result.Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	r.floors = slices.DeleteFunc(r.floors, func(f *result.Floor) bool { return f.Name != rpcEmpty && !slices.Contains(names, f.Name) })
	return r.all(ctx)
}
