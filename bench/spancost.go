package bench

import "ipcbench/phase"

// spanCost measures what recording one span costs in this process, in
// nanoseconds: the harness's own share of a round is spans × this.
func spanCost() int64 {
	const n = 2000
	rec := phase.NewRecorder(n)
	start := phase.Now()
	for range n {
		rec.Begin(phase.Copy, phase.ID{}).End()
	}
	return (phase.Now() - start) / n
}
