package batched

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/prometheus/procfs"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// TestAllocations: O24. What a round allocates, at both ends together, does not
// grow with the model, but for a few bytes in a thousand: gRPC's lists of frames.
func TestAllocations(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, variantName := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
		perRound := func(elems int) float64 {
			r := open(t, variantName, layoutOf(t, elems, elems, elems, elems), 1)
			defer r.shutdown()
			r.round(0, 4)
			const rounds = 5
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for n := range rounds {
				r.round(n+1, 4)
			}
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc-before.TotalAlloc) / rounds / 4
		}
		small, large := perRound(1<<14), perRound(1<<20)
		payload := float64(2 * 4 * 4 * (1<<20 - 1<<14)) // more, down and up
		t.Logf("%s: a client allocates %.0f kB with 256 KiB of model, %.0f kB with 16 MiB: %.4f of the payload", variantName, small/1e3, large/1e3, (large-small)/payload)
		check.That(t, (large-small)/payload <= 0.05,
			"%s: allocations grow by %.3f of the payload", variantName, (large-small)/payload)
	}
}

// TestNothingKept: O24. A session that is over keeps nothing of its memory alive.
func TestNothingKept(t *testing.T) {
	skip.Long(t)
	for _, variantName := range []string{"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-stream:conn=per-call"} {
		before := heap()
		t.Run(variantName, func(t *testing.T) { // the rig ends with its test
			r := open(t, variantName, layoutOf(t, 1<<21), 1) // 8 MiB
			r.round(0, 4)
		})
		// gRPC's goroutines let go of what they hold when they end, which may be
		// after Shutdown has returned.
		waiting.Until(t, "the end of what a session of "+variantName+" holds", func() bool { return heap()-before <= 4<<20 })
	}
}

// TestFlatHeap: O24. What is alive after a round, at both ends together, is after
// 90 rounds what it was after 30. Idle buffers, whose number is that of the round
// that needed most of them, are left out.
func TestFlatHeap(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, variantName := range []string{"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-stream:conn=per-call"} {
		r := listen(t, variantName, layoutOf(t, 1<<10, 1, 1<<12), 2)
		done := make(chan error, r.o.Lanes)
		ends := []*framePool{&r.server.frames}
		for lane := range r.o.Lanes {
			w := r.dial(variantName, lane)
			ends = append(ends, &w.inner.frames)
			go func() { done <- errors.Join(serve(w), w.Close()) }()
		}
		r.workers = nil
		alive := func() int {
			n := heap()
			for _, p := range ends {
				n -= p.most()
			}
			return n
		}
		var after [3]int
		for part := range after {
			for n := range 30 {
				r.publish(uint64(part + 1))
				r.round(30*part+n, 4)
			}
			after[part] = alive()
		}
		t.Logf("%s: alive after 30, 60 and 90 rounds: %v bytes", variantName, after)
		waiting.Until(t, "as little memory after 90 rounds as after 30", func() bool {
			return alive()-after[0] <= 64<<10 // gRPC may be at the end of a write, with its buffer
		})
		r.shutdown()
		for range r.o.Lanes {
			check.OK(t, <-done)
		}
	}
}

// heap returns the bytes that are alive.
func heap() int {
	for range 3 { // pools let go of what they hold after two
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestFlatMemory: O24, O19. With 8 clients of 64 MB the server's memory stays
// within lanes × depth updates and two models, and is flat over 200 rounds.
func TestFlatMemory(t *testing.T) {
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("skipped: takes minutes; make soak runs it")
	}
	// Left alone, Go lets the little garbage that gRPC makes grow to the size of
	// all models together before it collects. Collecting often costs nothing:
	// there are no pointers in tensors.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	const lanes, depth, clients = 2, 2, 8
	l := layoutOf(t, 4<<20, 4<<20, 4<<20, 4<<20) // 64 MiB
	for _, name := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
		tr, settings := variant(t, name)
		for range 3 { // pools let go of what they hold after two collections
			debug.FreeOSMemory()
		}
		base := resident(t)
		p, err := trainer.Open(t.Context(), trainer.Config{
			Variant: transports.Variant{Transport: tr, Settings: settings},
			Down:    l, Up: l, Workers: lanes, Depth: depth, Clients: clients, Func: "train", Launcher: trainer.NewProcesses(),
		})
		check.Must(t, err)
		roster := make([]trainer.Client, clients)
		for i := range roster {
			roster[i].ID = i
		}
		early, late := 0, 0
		for round := range 200 {
			m, err := p.Reserve(round)
			check.Must(t, err)
			tensor.Fill(m, uint64(round))
			if _, err := p.Publish(t.Context(), round, m); err != nil {
				t.Fatal(err)
			}
			each := func(u trainer.Update) error { u.Release(); return nil }
			check.Must(t, p.Round(t.Context(), trainer.Round{Number: round, Clients: roster, Each: each}))
			switch now := resident(t) - base; {
			case round < 20:
				early = max(early, now)
			default:
				late = max(late, now)
			}
		}
		if _, err := p.Close(); err != nil {
			t.Fatal(err)
		}
		model := l.Size()
		bound := (lanes*depth+2)*model*11/10 + lanes*2*(streamWindow+2*settings.Int("chunk"))
		t.Logf("%s: server at %.2f models after 20 rounds, %.2f at most after that; bound %.2f",
			name, float64(early)/float64(model), float64(late)/float64(model), float64(bound)/float64(model))
		check.That(t, late <= bound && late-early <= model/8,
			"%s: memory grew from %d to %d bytes, bound %d", name, early, late, bound)
	}
}

// resident returns this process's resident memory in bytes.
func resident(t *testing.T) int {
	self, err := procfs.Self()
	check.Must(t, err)
	status, err := self.NewStatus()
	check.Must(t, err)
	return int(status.VmRSS)
}
