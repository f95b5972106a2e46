package batched

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// TestLanesInPython: with all settings, workers in Python do the same jobs as workers in Go
// with the same number of calls. They copy more bytes, and count bytes of messages instead
// of wire bytes.
func TestLanesInPython(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	drivertest.RunLanes(t, []driver.Transport{Unary(), Batched(), Streaming()}, []string{
		"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-tensor:network=tcp:conn=per-call:cache=on",
		"grpc-batch:split=on:chunk=32KiB:limit=96KiB", "grpc-batch:marshal=generated:cache=on",
		"grpc-stream:marshal=generated:network=tcp:chunk=4KiB", "grpc-stream:reports=3:cache=on:deadline=600",
	}, []string{"wire.", "copied", "connections."})
}

// inPython returns a lane whose worker is in Python.
func inPython(t *testing.T, text string, at *endpoint.Endpoint, l *tensor.Layout) drivertest.Lane {
	t.Helper()
	return drivertest.Lane{Variant: variant(t, text), At: at, Options: driver.Options{Down: l, Up: l, Lanes: 1}}
}

// TestLiesInPython: answers that our server never sends are errors that name the tensor. A
// wrong secret and a missing server are errors, too.
func TestLiesInPython(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	two := layoutOf(t, 2, 2)
	var lanes []drivertest.Lane
	var names, wants []string
	add := func(name, variant string, at *endpoint.Endpoint, want string) {
		lanes, names, wants = append(lanes, inPython(t, variant, at, two)), append(names, variant+": "+name), append(wants, want)
	}
	for _, c := range lies() {
		at := (&liar{layout: two, lie: c.lie}).serve(t)
		if !c.many {
			add(c.name, "grpc-tensor", at, c.inPython)
		}
		add(c.name, "grpc-batch:marshal=generated", at, c.inPython)
		add(c.name, "grpc-stream", at, c.inPython)
	}
	for name, b := range malformations() {
		at := (&liar{layout: two}).serve(t, grpc.ForceServerCodecV2(appending{newCodec(0), b}))
		if name != "an end without a group" { // Python's generated code accepts it
			add(name, "grpc-batch:marshal=generated", at, "a message with tensors: not a TensorChunk")
		}
		add(name, "grpc-stream", at, "a message with tensors is malformed")
	}
	r := listen(t, "grpc-stream", two, 1)
	add("another secret", "grpc-stream", endpoint.At(r.Endpoint.Addr(), "another"), "Join: UNAUTHENTICATED: metadata authorization")
	add("nobody there", "grpc-stream", endpoint.At("unix:"+t.TempDir()+"/s", "s"), "Join: 8 attempts: UNAVAILABLE")
	late := &liar{layout: two, lie: func(*answer) { <-t.Context().Done() }}
	add("too late", "grpc-batch:deadline=1", late.serve(t), "GetAggregatedTensors: no answer within 1 s: DEADLINE_EXCEEDED")
	for i, got := range drivertest.Lanes(t, lanes)() {
		check.That(t, strings.Contains(got.Error, wants[i]) && !strings.Contains(got.Error, "Traceback"),
			"%s: got error %q, want one with %q", names[i], got.Error, wants[i])
	}
}

// appending adds bytes to the end of every message with tensors.
type appending struct {
	codec
	bytes []byte
}

func (a appending) Marshal(v any) (mem.BufferSlice, error) {
	b, err := a.codec.Marshal(v)
	switch v.(type) {
	case *pb.TensorChunk, *answer:
		b = mem.BufferSlice{mem.SliceBuffer(slices.Concat(b.Materialize(), a.bytes))}
	}
	return b, err
}

// TestBrokenInPython: whenever the connection of a worker in Python breaks, the job ends
// with correct data, and the repeated calls are counted.
func TestBrokenInPython(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	l := layoutOf(t, 100_000, 1, 0, 100_000, 50_000) // 1 MB
	var lanes []drivertest.Lane
	var rigs []*rig
	for _, c := range []struct {
		variant string
		cuts    []int64
	}{
		{"grpc-tensor", []int64{500_000}}, {"grpc-batch", []int64{1_500_000}}, {"grpc-stream", []int64{2_500, 600_000}},
		{"grpc-stream:conn=per-call", []int64{never, never, never, 500_000, never, 500_000}}, // during a fetch, then an upload
	} {
		r := listen(t, c.variant+":chunk=64KiB", l, 1)
		lanes = append(lanes, inPython(t, c.variant+":chunk=64KiB", r.through(&cutter{cuts: c.cuts}), l))
		rigs = append(rigs, r)
	}
	wait := drivertest.Lanes(t, lanes)
	for i, r := range rigs {
		for n := range 3 {
			j := jobOf(n, n)
			r.dispatch(0, j)
			p := r.collect()
			check.OK(t, tensor.Prove(p, r.Model, drivertest.Key(j)), lanes[i].Variant)
			p.Release()
		}
		r.shutdown()
	}
	for i, got := range wait() {
		n := got.Counts["retries"]
		check.That(t, got.Error == "" && n >= 1 && n <= 20, "%s: error %q, %d retries", lanes[i].Variant, got.Error, n)
	}
}
