package batched

import (
	"errors"
	"maps"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
)

// less returns the increase of each counter since before.
func less(now, before map[string]int64) map[string]int64 {
	d := maps.Clone(now)
	for name, n := range before {
		if d[name] -= n; d[name] == 0 {
			delete(d, name)
		}
	}
	return d
}

// TestCalls: O1, O2, O10, O11. 8 clients and 20 tensors make exactly 160 fetches per round,
// or 8; with reports=3, exactly 192 calls, or 40. Both ends count the same.
func TestCalls(t *testing.T) {
	for variant, want := range map[string]map[string]int64{
		"grpc-tensor":           {"GetTasks": 8, "GetAggregatedTensor": 160, "SendLocalTaskResults": 8},
		"grpc-batch":            {"GetTasks": 8, "GetAggregatedTensors": 8, "SendLocalTaskResults": 8},
		"grpc-stream":           {"GetTasks": 8, "StreamAggregatedTensors": 8, "SendLocalTaskResults": 8},
		"grpc-tensor:reports=3": {"GetTasks": 8, "GetAggregatedTensor": 160, "SendLocalTaskResults": 24},
		"grpc-batch:reports=3":  {"GetTasks": 8, "GetAggregatedTensors": 8, "SendLocalTaskResults": 24},
	} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, twenty(t), 2)
			r.Round(0, 8) // the first round also joins
			servedBefore, _ := r.counts(phase.Served)
			_, callsBefore := r.counts(phase.Calls)
			r.Round(1, 8)
			served, _ := r.counts(phase.Served)
			_, calls := r.counts(phase.Calls)
			check.Equal(t, less(served, servedBefore), want, "served")
			check.Equal(t, less(calls, callsBefore), want, "made")
			r.shutdown()
			served, _ = r.counts(phase.Served)
			_, calls = r.counts(phase.Calls)
			check.Equal(t, served, calls, "what the server has counted, and what the workers have")
		})
	}
}

// TestHalfACall: results that are refused midway are not counted as a call. Results sent
// twice are refused.
func TestHalfACall(t *testing.T) {
	r := listen(t, "grpc-stream", layoutOf(t, streamWindow), 1) // four windows, so that the refusal comes before the end
	w := r.Dial(0)
	r.dispatch(0, jobOf(0, 0))
	_, _, err := w.Receive(waiting.Context(t))
	u, reserved := w.Reserve()
	check.Must(t, errors.Join(err, reserved))
	worked(r).task.Round = 1
	refused(t, "results of another round", w.Submit(waiting.Context(t), u), wrongTask, "round 1")
	server, workers := r.Counts()
	check.Equal(t, server[phase.Served+"SendLocalTaskResults"]+workers[phase.Calls+"SendLocalTaskResults"], 0, "calls made and served")
	worked(r).task.Round = 0
	check.Must(t, worked(r).send(waiting.Context(t)))
	refused(t, "the results again", worked(r).send(waiting.Context(t)), duplicateResults, "the results were already received")
}

// TestConnections: O12. A worker uses one connection for each call, or a single one for the
// whole session. The time spent on connections per call is counted.
func TestConnections(t *testing.T) {
	for variant, want := range map[string]int64{
		"grpc-tensor":                           1,
		"grpc-tensor:conn=per-call":             1 + 2*8*22 + 1, // join, two rounds, and the end
		"grpc-batch:conn=per-call":              1 + 2*8*3 + 1,
		"grpc-stream:conn=per-call:network=tcp": 1 + 2*8*3 + 1,
	} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, twenty(t), 1)
			r.Round(0, 8)
			r.Round(1, 8)
			r.shutdown()
			server, workers := r.Counts()
			check.Equal(t, workers[phase.Dialled], want, "connections dialled")
			check.Equal(t, server[phase.Accepted], want, "connections accepted")
			check.That(t, (workers[phase.DialTime] > 0) == (want > 1), "%d ns went into connections of single calls", workers[phase.DialTime])
		})
	}
}

// TestWireBytes: O2. Both ends count the same bytes, and the three methods differ only in
// framing.
func TestWireBytes(t *testing.T) {
	for _, variant := range []string{"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-stream:network=tcp"} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, layoutOf(t, 1<<18, 1<<16, 3), 1)
			r.Round(0, 4)
			r.shutdown()
			server, workers := r.Counts()
			payload := int64(4 * r.Options.Down.Payload())
			for _, of := range []map[string]int64{server, workers} {
				check.Equal(t, of[phase.Copied], payload, "bytes put in place")
				for _, n := range []int64{of[phase.WireSent], of[phase.WireReceived]} {
					check.That(t, n >= payload && n <= payload+payload/20, "%d bytes on the wire for %d of payload", n, payload)
				}
			}
			_, bodies := r.counts("body.")
			check.Equal(t, bodies, map[string]int64{"tensors": 4 * 3, "bytes": payload}, "what workers took")
		})
	}
}

// TestCache: O7. A client does not fetch a cached tensor again, and makes no call if all
// are cached. The cache serves neither another client nor another model.
func TestCache(t *testing.T) {
	for variant, whole := range map[string]int64{ // fetches of a whole model
		"grpc-tensor:cache=on": 20, "grpc-batch:cache=on": 1, "grpc-stream:cache=on": 1, "grpc-batch:cache=off": 1,
	} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, twenty(t), 1)
			cached := int64(0)
			if variant != "grpc-batch:cache=off" {
				cached = 1
			}
			for n, want := range []int64{whole, whole * (1 - cached), whole, whole} {
				if n == 3 {
					r.Publish(3)
				}
				before, _ := r.counts(phase.Served)
				check.Must(t, r.Carry(0, jobOf(0, []int{5, 5, 6, 6}[n])))
				after, _ := r.counts(phase.Served)
				got := less(after, before)
				check.Equal(t, got["GetAggregatedTensor"]+got["GetAggregatedTensors"]+got["StreamAggregatedTensors"], want, "job", n, "fetches")
			}
			_, workers := r.Counts()
			check.Equal(t, workers[phase.CacheHits], 20*cached, "local tensors")
		})
	}
}
