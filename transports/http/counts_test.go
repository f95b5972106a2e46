package http

import (
	"errors"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestRoundsAreRecordedWhole: when a round has ended at both ends, all of it is recorded. A
// client's turn, including its request for a job, costs the same bytes, calls and spans in
// every round.
func TestRoundsAreRecordedWhole(t *testing.T) {
	for _, variant := range []string{"http", "http:batch=1", "http:body=json", "http:conn=per-request", "http-shm", "http-shm:network=tcp"} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, vectors(t, 3, 5000), 1)
			r.Publish(1)
			recorded := func() (s, w counts) {
				s, w = r.Counts()
				s["samples"], w["samples"] = int64(r.Options.Rec.Len()), int64(r.Workers[0].Rec.Len())
				return s, w
			}
			var costs [2]counts // of round 1, the first that follows another round
			for round := range 51 {
				server, worker := recorded()
				done := make(chan error, 1)
				go func() { done <- drivertest.Turn(t.Context(), r.Workers[0].Worker, drivertest.Stock) }()
				check.Must(t, r.Server.Settle(t.Context()))
				check.Must(t, errors.Join(r.Carry(0, driver.Job{Round: 10 + round}), <-done))
				s, w := recorded()
				if cost := [2]counts{since(server, s), since(worker, w)}; round > 1 {
					check.Equal(t, cost, costs, "round", round, "costs")
				} else {
					costs = cost
				}
			}
			check.Equal(t, costs[0][phase.WireSent], costs[1][phase.WireReceived], "what the server sends")
			check.Equal(t, costs[0][phase.WireReceived], costs[1][phase.WireSent], "what the worker sends")
		})
	}
}

// since returns the increase of each counter since before.
func since(before, now counts) counts {
	cost := counts{}
	for name, n := range now {
		cost[name] = n - before[name]
	}
	return cost
}
