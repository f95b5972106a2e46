package trainer_test

import (
	"testing"

	"ipcbench/internal/test/check"
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
	check.Must(t, err)
	for _, lanes := range []int{1, 2, 3, 7} {
		p, err := openSession(t, transport, trainer.NewGoroutines(h), func(c *trainer.Config) {
			c.Variant, c.Workers, c.Clients, c.Depth, c.Func, c.FuncConfig = v, lanes, 5, 1, "linger", []byte("0s")
		})
		check.Must(t, err)
		for n, clients := range []int{5, 1, 0, 4} {
			model, err := p.Reserve(n)
			check.Must(t, err)
			_, err = p.Publish(t.Context(), n, model)
			check.Must(t, err)
			next := 0
			check.Must(t, p.Round(t.Context(), trainer.Round{Number: n, Clients: trainer.Roster(clients), Each: func(u trainer.Update) error {
				check.Equal(t, u.Index, next, lanes, "lanes, round", n, "got client")
				next++
				u.Release()
				return nil
			}}))
			check.Equal(t, next, clients, lanes, "lanes, round", n, "updates")
		}
		report, err := p.Close()
		check.Must(t, err)
		jobs := 0
		for _, s := range report.Server.Samples {
			if s.Phase != phase.Collect {
				continue
			}
			if jobs++; int(s.Lane) != int(s.Client)%lanes {
				t.Errorf("%d lanes: client %d was on lane %d", lanes, s.Client, s.Lane)
			}
		}
		check.Equal(t, jobs, 10, lanes, "lanes  jobs")
	}
}
