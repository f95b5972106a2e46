package bench

import (
	"slices"

	"ipcbench/phase"
)

// spanCost measures what recording one span costs in this process, in
// nanoseconds: the harness's own share of a round is spans × this. It is the
// median of a few batches, since something may interrupt one of them.
func spanCost() int64 {
	const batches, n = 9, 300
	rec := phase.NewRecorder(batches * n)
	var costs []int64
	for range batches {
		start := phase.Now()
		for range n {
			rec.Begin(phase.Copy, phase.ID{}).End()
		}
		costs = append(costs, (phase.Now()-start)/n)
	}
	slices.Sort(costs)
	return costs[batches/2]
}
