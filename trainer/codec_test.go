package trainer_test

import (
	"testing"

	"ipcbench/phase"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// TestLanesByClient: with a codec, client i of a round is trained by lane i modulo their
// number, whichever lane is free, and updates are folded in the order of clients; lanes
// without a client have none.
func TestLanesByClient(t *testing.T) {
	h := host()
	transport := h.Transports[0]
	v, err := transports.NewVariant(transport, driver.Settings{"codec": "sparse"})
	check(t, err)
	for _, lanes := range []int{1, 2, 3, 7} {
		p, err := openSession(t, transport, trainer.NewGoroutines(h), func(c *trainer.Config) {
			c.Variant, c.Workers, c.Clients, c.Depth, c.Func, c.FuncConfig = v, lanes, 5, 1, "linger", []byte("0s")
		})
		check(t, err)
		for n, clients := range []int{5, 1, 0, 4} {
			model, err := p.Reserve(n)
			check(t, err)
			_, err = p.Publish(t.Context(), n, model)
			check(t, err)
			next := 0
			check(t, p.Round(t.Context(), trainer.Round{Number: n, Clients: trainer.Roster(clients), Each: func(u trainer.Update) error {
				if u.Index != next {
					t.Errorf("%d lanes, round %d: got client %d, want %d", lanes, n, u.Index, next)
				}
				next++
				u.Release()
				return nil
			}}))
			if next != clients {
				t.Errorf("%d lanes, round %d: %d updates, want %d", lanes, n, next, clients)
			}
		}
		report, err := p.Close()
		check(t, err)
		jobs := 0
		for _, s := range report.Server.Samples {
			if s.Phase != phase.Collect {
				continue
			}
			if jobs++; int(s.Lane) != int(s.Client)%lanes {
				t.Errorf("%d lanes: client %d was on lane %d", lanes, s.Client, s.Lane)
			}
		}
		if jobs != 10 {
			t.Errorf("%d lanes: %d jobs, want 10", lanes, jobs)
		}
	}
}
