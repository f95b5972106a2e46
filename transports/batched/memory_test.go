package batched

import (
	"runtime"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// TestFlatHeap: O24. The live memory of both ends is the same after 90 rounds as after 30,
// and is released after the session. Idle buffers are not counted, because their number
// depends on the round that needed most of them.
func TestFlatHeap(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, name := range []string{"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-stream:conn=per-call"} {
		before := heap()
		t.Run(name, func(t *testing.T) { // the rig is closed at the end of its subtest
			r := open(t, name, layoutOf(t, 1<<20, 1, 1<<19), 1) // 6 MiB
			alive := func(rounds int) int {
				for n := range rounds {
					r.Publish(uint64(n))
					r.Round(n, 2)
				}
				return heap() - r.server.frames.most() - worked(r).frames.most()
			}
			early := alive(30)
			late := alive(60)
			waiting.Until(t, "as little memory after 90 rounds as after 30", func() bool {
				return min(late, alive(0))-early <= 64<<10 // gRPC may still hold the buffer of its last write
			})
		})
		// gRPC's goroutines may end, and release their memory, after Shutdown has returned.
		waiting.Until(t, "the end of what a session of "+name+" holds", func() bool { return heap()-before <= 4<<20 })
	}
}

// worked returns the driver of the first worker.
func worked(r *rig) *worker { return r.Workers[0].Driver.(*worker) }

// heap returns the live bytes of the heap.
func heap() int {
	for range 3 { // pools are emptied by the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestExtraMemory: O19, O24. Models are lent whole at both ends, as the driver contract
// requires. The other buffers of a transfer depend on the chunk size and a stream's window,
// not on the model. Only a batch needs the model's size once more, and a call per tensor
// the tensor's size.
func TestExtraMemory(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	const size = 24 << 20
	l := layoutOf(t, size/8, size/8)
	for name, message := range map[string]int{ // bytes that the worker gets in one message, if that is more than a chunk
		"grpc-stream": 0, "grpc-stream:chunk=64KiB": 0, "grpc-batch": size, "grpc-tensor": size / 2,
	} {
		r := listen(t, name, l, 1)
		w := r.Dial(0)
		server, client := &r.server.frames, &worked(r).frames
		r.Prove(0, jobOf(0, 0))
		idle := server.most() + client.most()
		garbage := check.Allocated(func() { r.Prove(0, jobOf(0, 1)) })
		// The checks below bound the kept buffers; the rest is gRPC's lists of buffers.
		garbage -= server.most() + client.most() - idle
		check.That(t, garbage <= size/20,
			"%s: a model and an update of %d bytes each made %d bytes of garbage", name, size, garbage)
		bound := streamWindow + 3*r.Variant.Settings.Int("chunk")
		check.That(t, server.most() <= bound, "%s: the server had %d bytes in buffers at once, bound %d", name, server.most(), bound)
		check.That(t, client.most() <= max(bound, message+message/8) && client.most() >= message*9/10,
			"%s: the worker had %d bytes in buffers at once, bound %d, for messages of %d", name, client.most(), bound, message)
		check.Must(t, w.Close())
	}
}

// most returns the bytes of all buffers that were ever in use at once, because the pool
// keeps them all.
func (p *framePool) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) * frameSize
}
