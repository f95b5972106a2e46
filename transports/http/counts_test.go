package http

import (
	"errors"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// Once a round is over at both ends, all of it is recorded: what a client's turn
// costs, its request for a job included, is the same in every round, to the byte,
// call and span.
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
			var costs [2]counts // of the first round that another one came before
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

// since returns what was counted between two times.
func since(before, now counts) counts {
	cost := counts{}
	for name, n := range now {
		cost[name] = n - before[name]
	}
	return cost
}
