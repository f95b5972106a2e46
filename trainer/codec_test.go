package trainer_test

import (
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/trainer"
)

// TestLanesByClient: with a codec, client i of a round is trained by lane i modulo the
// number of lanes, even if another lane is free. Updates are folded in client order.
func TestLanesByClient(t *testing.T) {
	for _, lanes := range []int{1, 2, 3, 7} {
		p := mustOpen(t, "inproc:codec=sparse", trainer.NewGoroutines(host()), func(c *trainer.Config) {
			c.Workers, c.Clients, c.Depth = lanes, 5, 1
		})
		for n, clients := range []int{5, 1, 0, 4} {
			next := 0
			check.Must(t, round(t.Context(), p, n, clients, func(u trainer.Update) error {
				check.Equal(t, u.Index, next, lanes, "lanes, round", n, "got client")
				next++
				u.Release()
				return nil
			}))
			check.Equal(t, next, clients, lanes, "lanes, round", n, "updates")
		}
		jobs := 0
		for _, s := range closes(t, p).Server.Samples {
			if s.Phase != phase.Collect {
				continue
			}
			jobs++
			check.Equal(t, int(s.Lane), int(s.Client)%lanes, lanes, "lanes: client", s.Client, "was on lane")
		}
		check.Equal(t, jobs, 10, lanes, "lanes  jobs")
	}
}
