package bench

import (
	"slices"

	"ipcbench/phase"
)

// spanCost measures the time that recording one span takes in this process, in
// nanoseconds. It is the median of a few batches, one of which may be interrupted. The
// harness's own share of a round is its number of spans times this.
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
