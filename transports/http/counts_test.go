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
			r.carry(0, driver.Job{Round: 10})
			var last [2]counts
			var first [2]counts
			for round := range 51 {
				done := make(chan error, 1)
				go func() { done <- drivertest.Turn(t.Context(), r.Workers[0].Worker, drivertest.Stock) }()
				check.Must(t, r.Server.Settle(t.Context()))
				check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{Round: 11 + round}))
				p, err := r.Server.Collect(t.Context(), 0)
				check.Must(t, errors.Join(err, <-done))
				p.Release()
				s, w := r.Counts()
				s["samples"], w["samples"] = int64(r.Options.Rec.Len()), int64(r.Workers[0].Rec.Len())
				cost := [2]counts{since(last[0], s), since(last[1], w)}
				last = [2]counts{s, w}
				switch {
				case round == 0: // counted from the beginning
				case round == 1:
					first = cost
					check.That(t, cost[0][phase.WireSent] == cost[1][phase.WireReceived] && cost[0][phase.WireReceived] == cost[1][phase.WireSent],
						"what one end sent is not what the other received: %v", cost)
				default:
					check.Equal(t, cost, first, "round", round, "costs")
				}
			}
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
