package http

import (
	"errors"
	"maps"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports/driver"
)

// Once a round is over at both ends, all of it is recorded: what a client's turn
// costs, its request for a job included, is the same in every round, to the byte,
// call and span.
func TestRoundsAreRecordedWhole(t *testing.T) {
	for _, variant := range []string{"http", "http:batch=1", "http:body=json", "http:conn=per-request", "http-shm", "http-shm:network=tcp"} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, vectors(t, 3, 5000), 1)
			m := r.publish(1)
			w := r.workers[0]
			r.exchange(0, driver.Job{Round: 10}, m)
			state := func() map[string]int64 {
				all := map[string]int64{"server's samples": int64(r.o.Rec.Len()), "worker's samples": int64(r.recs[0].Len())}
				for name, n := range r.counts(-1) {
					all["server's "+name] = n
				}
				for name, n := range r.counts(0) {
					all["worker's "+name] = n
				}
				return all
			}
			var first map[string]int64
			for round := range 50 {
				before := state()
				done := make(chan error, 1)
				go func() { done <- train(t.Context(), w) }()
				check.Must(t, r.s.Settle(t.Context()))
				check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{Round: 11 + round}))
				p, err := r.s.Collect(t.Context(), 0)
				check.Must(t, errors.Join(err, <-done))
				p.Release()
				cost := state()
				for name, n := range before {
					cost[name] -= n
				}
				if cost["server's "+phase.WireSent] != cost["worker's "+phase.WireReceived] || cost["server's "+phase.WireReceived] != cost["worker's "+phase.WireSent] {
					t.Fatalf("round %d: what one end sent is not what the other received: %v", round, cost)
				}
				if first == nil {
					first = cost
				}
				check.Need(t, maps.Equal(cost, first), "round %d costs\n%v, the first one\n%v", round, cost, first)
			}
		})
	}
}
