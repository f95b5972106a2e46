package batched

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// inService returns how many requests were in service, and the most at once.
func inService(counts map[string]int64) (n int64, most int) {
	for name, times := range counts {
		if level, ok := strings.CutPrefix(name, phase.InService); ok && times > 0 {
			k, _ := strconv.Atoi(level)
			n, most = n+times, max(most, k)
		}
	}
	return n, most
}

// TestInService: O8. A server of T threads with more collaborators, in processes of
// their own, never works on more than T requests at once. Where a thread is held until
// its handler returns, all of them come to be in use, and the wait for one is recorded:
// handlers that take results wait for their bytes, and those that stream for a reader.
func TestInService(t *testing.T) {
	const lanes, rounds = 8, 3
	l := layoutOf(t, slices.Repeat([]int{1 << 16}, 8)...) // 2 MiB
	for _, c := range []struct {
		variant string
		threads int   // 0 is no bound
		fills   bool  // all threads come to be in use
		begun   int64 // requests in service, of one client
	}{
		{"grpc-tensor:chunk=256KiB", 0, false, 8 + 8},
		{"grpc-tensor:chunk=256KiB:threads=1", 1, true, 8 + 8},
		{"grpc-batch:chunk=256KiB:threads=2", 2, false, 1 + 8},
		{"grpc-stream:chunk=256KiB:threads=2", 2, false, 8 + 8},
		{"grpc-tensor:chunk=256KiB:threads=2:hold=call", 2, true, 8 + 1},
		{"grpc-batch:chunk=256KiB:threads=3:hold=call", 3, true, 1 + 1},
		{"grpc-stream:chunk=256KiB:threads=3:hold=call", 3, true, 1 + 1},
	} {
		t.Run(c.variant, func(t *testing.T) {
			tr, settings := variant(t, c.variant)
			s, err := trainer.Open(t.Context(), trainer.Config{
				Variant: transports.Variant{Transport: tr, Settings: settings}, Down: l, Up: l, Workers: lanes, PerProcess: 4,
				Clients: lanes, Func: "train", Launcher: trainer.NewProcesses(), Samples: 1 << 14, Window: trainer.Timed,
			})
			if err != nil {
				t.Fatal(err)
			}
			for n := range rounds {
				m, err := s.Reserve(n)
				if err != nil {
					t.Fatal(err)
				}
				tensor.Fill(m, uint64(n))
				if _, err := s.Publish(t.Context(), n, m); err != nil {
					t.Fatal(err)
				}
				each := func(u trainer.Update) error { u.Release(); return nil }
				if err := s.Round(t.Context(), trainer.Round{Number: n, Clients: trainer.Roster(lanes), Each: each}); err != nil {
					t.Fatal(err)
				}
			}
			report, err := s.Close()
			if err != nil {
				t.Fatal(err)
			}
			counts := report.Server.Counts[trainer.Timed]
			n, most := inService(counts)
			t.Logf("of %d requests up to %d were in service at once, and %d had to wait", n, most, counts[phase.Queued])
			if want := c.begun * lanes * rounds; n != want {
				t.Errorf("%d requests were in service, want %d", n, want)
			}
			if c.threads > 0 && most > c.threads || c.fills && most < c.threads {
				t.Errorf("%d requests were in service at once, with %d threads", most, c.threads)
			}
			waits := slices.ContainsFunc(report.Server.Samples, func(s phase.Sample) bool { return s.Phase == phase.Queue })
			if waits != (counts[phase.Queued] > 0) || c.threads == 0 && waits || c.fills && c.threads > 1 && !waits {
				t.Errorf("%d requests had to wait, and a wait was recorded: %v", counts[phase.Queued], waits)
			}
		})
	}
}

// TestHeld: O8. What a client that never reads holds, and whether it keeps others waiting,
// with one thread: a stream's handler has the thread with hold=call until its client has
// read. The answer to a unary request is sent when its handler has returned, and so holds
// none, as with servers in Python that have a thread for each call.
func TestHeld(t *testing.T) {
	const window = 64 << 10
	for _, c := range []struct {
		variant, method string
		held            int32
	}{
		{"grpc-batch:threads=1:hold=call", pb.Federation_GetAggregatedTensors_FullMethodName, 0},
		{"grpc-stream:chunk=64KiB:threads=1", pb.Federation_StreamAggregatedTensors_FullMethodName, 0},
		{"grpc-stream:chunk=64KiB:threads=1:hold=call", pb.Federation_StreamAggregatedTensors_FullMethodName, 1},
	} {
		t.Run(c.variant, func(t *testing.T) {
			r := listen(t, c.variant, layoutOf(t, 500_000, 1), 2) // 2 MB, of which a window's worth gets through
			for lane := range 2 {
				r.dispatch(lane, driver.Job{})
			}
			ctx, cancel := context.WithCancel(limited(t))
			defer cancel()
			_, cc := r.stranger(grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
			call, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, c.method)
			if err != nil {
				t.Fatal(err)
			}
			if err := call.SendMsg(&pb.GetAggregatedTensorsRequest{Header: r.head(1), Specs: r.specs(0, 0)}); err != nil {
				t.Fatal(err)
			}
			if err := call.CloseSend(); err != nil {
				t.Fatal(err)
			}
			slots := r.server.slots
			for begun := int64(0); begun == 0 || slots.now.Load() != c.held; begun, _ = inService(r.recs[0].Counts()) {
				if ctx.Err() != nil {
					t.Fatalf("%d requests have begun and %d have a thread, want %d", begun, slots.now.Load(), c.held)
				}
				time.Sleep(time.Millisecond)
			}
			wait, want := patience, codes.OK
			if c.held > 0 {
				wait, want = 100*time.Millisecond, codes.DeadlineExceeded
			}
			short, done := context.WithTimeout(ctx, wait)
			defer done()
			other, _ := r.stranger()
			_, err = other.GetAggregatedTensors(short, &pb.GetAggregatedTensorsRequest{Header: r.head(0), Specs: r.specs(0, 1)})
			if got := status.Code(err); got != want {
				t.Errorf("another request: got %v, want %v", err, want)
			}
			if got := slots.now.Load(); got != c.held {
				t.Errorf("%d requests have a thread, want %d", got, c.held)
			}
		})
	}
}
