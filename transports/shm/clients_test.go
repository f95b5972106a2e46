package shm

import (
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestClientBuffers: B6: with buffers=client, no two clients of a round use the same segments, and all of them are kept
// until the next model is published. An update that is lent for longer stays whole. If more jobs come with one model, they
// get new segments, instead of those that are kept.
func TestClientBuffers(t *testing.T) {
	for _, name := range []string{"shm-tensor:buffers=client", "shm-tensor:buffers=client:pass=fd"} {
		s := open(t, name, options())
		s.Dial(1)
		var k *keeper
		switch d := s.Driver.(type) {
		case *clientServer:
			k = &d.keeper
		case *passingServer:
			k = &d.keeper
		}
		for round := range 3 {
			var last *tensor.Package
			var job driver.Job
			whole := map[*segmentSet]bool{}
			for client := range s.Options.Clients {
				if job = (driver.Job{Round: round, Client: client}); last != nil {
					last.Release()
				}
				last = s.Exchange(client%2, job)
			}
			for _, b := range k.kept {
				whole[b] = len(b.segments) == s.Options.Up.Len()
			}
			check.Equal(t, len(whole), s.Options.Clients-1, name, "different updates that are kept")
			for _, ok := range whole {
				check.That(t, ok, "%s: an update lost its segments within its round", name)
			}
			model := s.Model
			s.Publish(uint64(round))
			check.Equal(t, len(k.kept), 0, name, "updates that are kept for another round")
			check.Must(t, tensor.Prove(last, model, drivertest.Key(job)), name)
			last.Release()
			check.Equal(t, len(k.kept), 1, name, "the update that was lent for longer")
			s.Publish(uint64(round))
		}
		for client := range 3 * s.Options.Clients {
			s.Exchange(client%2, driver.Job{Round: 3, Client: client}).Release()
			check.That(t, len(k.kept) <= s.Options.Clients, "%s: %d updates are kept", name, len(k.kept))
		}
	}
}
