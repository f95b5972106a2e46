package bench_test

import (
	"maps"
	"strings"
	"testing"

	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

// The tests of this file check the edges of the window of timed rounds: it has every span, byte and counter of a timed
// round, and none of another round (guards 4, 5 and 9).

// TestWindowEdges: in every block, each end received the bytes that the other sent, every call was answered, and two
// blocks of the same rounds have equal counts. For gRPC, 512 bytes may differ, because HTTP/2 sends control frames at
// any time.
func TestWindowEdges(t *testing.T) {
	for _, transport := range all.Transports() {
		name := transport.Name()
		if drivertest.Inside(t, transport) || testing.Short() && name != "http" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := short(t, 12, 2)
			p.Verify = session.VerifyAll
			c := cellOf(t, measure(t, p, name+" cnn workers=2 clients=3"), name)
			slack := int64(0)
			if strings.HasPrefix(name, "grpc-") {
				slack = 512
			}
			for _, b := range c.Blocks {
				down, up := b.Server.Counts[phase.WireSent], -b.Server.Counts[phase.WireReceived] // bytes that only one end has counted
				for _, w := range b.Processes {
					down -= w.Counts[phase.WireReceived]
					up += w.Counts[phase.WireSent]
				}
				if name == "storage" { // the model's file is written once and read by every client
					down += int64(len(b.Round)) * 2 * c.Model.Bytes
					slack = int64(len(b.Round)) * 4096 // frames, which are also written once
				}
				check.That(t, max(down, -down, up, -up) <= slack,
					"block %d: %d more bytes sent than received on the way down, %d on the way up", b.Index, down, up)
				for call, n := range b.Counts() {
					if method, ok := strings.CutPrefix(call, phase.Calls); ok {
						check.Equal(t, n, b.Counts()[phase.Served+method], "calls, and those answered, of", method)
					}
				}
			}
			first, second := c.Blocks[0].Counts(), c.Blocks[1].Counts()
			for _, wire := range []string{phase.WireSent, phase.WireReceived} {
				d := first[wire] - second[wire]
				check.That(t, max(d, -d) <= slack, "%s: %d and %d bytes in two blocks of the same rounds", wire, first[wire], second[wire])
				delete(first, wire)
				delete(second, wire)
			}
			for _, counts := range []map[string]int64{first, second} { // how many calls overlap is chance, but their sum is not
				for name, n := range counts {
					if strings.HasPrefix(name, phase.InService) {
						counts["service"] += n
						delete(counts, name)
					}
				}
			}
			check.That(t, maps.Equal(first, second), "two blocks of the same rounds counted\n%v and\n%v", first, second)
		})
	}
}
