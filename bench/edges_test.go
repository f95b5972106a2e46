package bench_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// The tests of this file look at the edges of the window of timed rounds: every
// span, byte and counter of a timed round is in it, and of no other round (guards
// 4, 5 and 9).

// late is a transport whose server has the update well before the worker's Submit
// returns, and which counts its work only then.
type late struct{ driver.Transport }

func (late) Name() string { return "late" }

func (l late) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w, err := l.Transport.Dial(ctx, e, lane, o)
	return lateWorker{w, o.Rec.Counter(phase.Calls + "late")}, err
}

type lateWorker struct {
	driver.Worker
	calls *phase.Counter
}

func (w lateWorker) Submit(ctx context.Context, p *tensor.Package) error {
	err := w.Worker.Submit(ctx, p)
	waiting.Pause(2 * time.Millisecond)
	w.calls.Add(1)
	return err
}

// TestLateEnds: what a worker records after the server has gone on is in its
// round.
func TestLateEnds(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Verify = 10, bench.VerifyAll // every second round ends the window
	r := measure(t, h, p, spec(t, h, "late", "uniform:4KiB/3", 2, 4))
	for _, b := range cellOf(t, r, "late").Blocks {
		rounds := int64(len(b.Round))
		got := b.Counts()[phase.Calls+"late"]
		check.That(t, got == 4*rounds, "block %d: %d calls in %d rounds, want 4 in each", b.Index, got, rounds)
		check.That(t, b.Phases["submit"] != 0, "block %d: no span of submit", b.Index)
	}
}

// TestWindowEdges: in every block, what one end has sent the other has received,
// every call was answered, and two blocks of the same rounds count the same. Frames
// with which HTTP/2 controls itself come when they come.
func TestWindowEdges(t *testing.T) {
	h := host()
	for _, transport := range all.Transports() {
		name := transport.Name()
		if drivertest.Inside(t, transport) || testing.Short() && name != "http" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p := quick(t)
			p.Rounds, p.Verify = 12, bench.VerifyAll
			s := spec(t, h, name, "cnn", 2, 3)
			r := measure(t, h, p, s)
			slack := int64(0)
			if strings.HasPrefix(name, "grpc-") {
				slack = 512
			}
			blocks := cellOf(t, r, name).Blocks
			for _, b := range blocks {
				var down, up int64 // bytes that only one end has counted
				down, up = b.Server.Counts[phase.WireSent], -b.Server.Counts[phase.WireReceived]
				for _, w := range b.Processes {
					down -= w.Counts[phase.WireReceived]
					up += w.Counts[phase.WireSent]
				}
				if name == "storage" { // the model's file is written once and read by every client
					down += int64(len(b.Round)) * 2 * int64(s.Model.Layout.Payload())
					slack = int64(len(b.Round)) * 4096 // and its frame, likewise
				}
				check.That(t, max(down, -down, up, -up) <= slack,
					"block %d: %d more bytes sent than received on the way down, %d on the way up", b.Index, down, up)
				for call, n := range b.Counts() {
					if method, ok := strings.CutPrefix(call, phase.Calls); ok && n != b.Counts()[phase.Served+method] {
						t.Errorf("block %d: %d calls of %s, %d answered", b.Index, n, method, b.Counts()[phase.Served+method])
					}
				}
			}
			first, second := blocks[0].Counts(), blocks[1].Counts()
			for _, wire := range []string{phase.WireSent, phase.WireReceived} {
				if d := first[wire] - second[wire]; max(d, -d) > slack {
					t.Errorf("%s: %d and %d bytes in two blocks of the same rounds", wire, first[wire], second[wire])
				}
				delete(first, wire)
				delete(second, wire)
			}
			for _, counts := range []map[string]int64{first, second} { // how many meet is chance, and how many there are is not
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
