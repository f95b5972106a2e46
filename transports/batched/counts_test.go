package batched

import (
	"maps"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
)

// TestCalls: O1, O2, O10, O11. 8 clients and 20 tensors make 160 fetches a round
// or 8, and with reports=3 192 calls or 40, exactly, at both ends.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		variant string
		want    map[string]int64
		total   int64
	}{
		{"grpc-tensor", map[string]int64{"GetTasks": 8, "GetAggregatedTensor": 160, "SendLocalTaskResults": 8}, 176},
		{"grpc-batch", map[string]int64{"GetTasks": 8, "GetAggregatedTensors": 8, "SendLocalTaskResults": 8}, 24},
		{"grpc-stream", map[string]int64{"GetTasks": 8, "StreamAggregatedTensors": 8, "SendLocalTaskResults": 8}, 24},
		{"grpc-tensor:reports=3", map[string]int64{"GetTasks": 8, "GetAggregatedTensor": 160, "SendLocalTaskResults": 24}, 192},
		{"grpc-batch:reports=3", map[string]int64{"GetTasks": 8, "GetAggregatedTensors": 8, "SendLocalTaskResults": 24}, 40},
	} {
		t.Run(c.variant, func(t *testing.T) {
			r := open(t, c.variant, twenty(t), 2)
			r.round(0, 8) // the first round has no say in what the second costs
			for number := 1; number < 3; number++ {
				servedBefore, _ := r.counts("served.")
				_, callsBefore := r.counts("calls.")
				r.round(number, 8)
				served, _ := r.counts("served.")
				_, calls := r.counts("calls.")
				got := less(served, servedBefore)
				if made := less(calls, callsBefore); !maps.Equal(got, c.want) || !maps.Equal(made, c.want) {
					t.Errorf("round %d: served %v, made %v, want %v", number, got, made, c.want)
				}
				total := int64(0)
				for _, n := range got {
					total += n
				}
				check.Equal(t, total, c.total, "round", number, "calls")
			}
			r.shutdown()
			served, _ := r.counts("served.")
			_, calls := r.counts("calls.")
			check.That(t, maps.Equal(served, calls), "the server counted %v, the workers %v", served, calls)
		})
	}
}

// TestHalfACall: results that the server refuses half-way are no call.
func TestHalfACall(t *testing.T) {
	r := listen(t, "grpc-stream", layoutOf(t, streamWindow), 1) // four windows: not all is out before the refusal
	w := r.dial("grpc-stream", 0)
	r.dispatch(0, jobOf(0, 0))
	if _, _, err := w.Receive(limited(t)); err != nil {
		t.Fatal(err)
	}
	u, err := w.Reserve()
	check.Must(t, err)
	w.inner.task.Round = 1
	refused(t, "results of another round", w.Submit(limited(t), u), wrongTask, "round 1")
	served, _ := r.counts("served.")
	_, calls := r.counts("calls.")
	check.That(t, calls["SendLocalTaskResults"] == 0 && served["SendLocalTaskResults"] == 0,
		"made %v, served %v, want no results", calls, served)
}

// TestConnections: O12. A connection of its own for each call, or one connection
// a worker for the whole session; and what the former cost.
func TestConnections(t *testing.T) {
	for _, c := range []struct {
		variant string
		round   int64
	}{
		{"grpc-tensor", 0},
		{"grpc-tensor:conn=per-call", 8 * 22},
		{"grpc-batch:conn=per-call", 8 * 3},
		{"grpc-stream:conn=per-call:network=tcp", 8 * 3},
	} {
		t.Run(c.variant, func(t *testing.T) {
			r := open(t, c.variant, twenty(t), 1)
			r.round(0, 8)
			_, before := r.counts("connections.")
			r.round(1, 8)
			_, after := r.counts("connections.")
			_, cost := r.counts(phase.DialTime)
			check.That(t, (cost[""] > 0) == (c.round > 0), "%d ns went into connections of single calls", cost[""])
			// The request that parks after the round may have a connection already.
			got := less(after, before)["dialled"]
			check.That(t, got >= c.round-1 && got <= c.round+1, "dialled %d connections in a round, want %d", got, c.round)
			r.shutdown()
			server, workers := r.counts("connections.")
			check.That(t, server["accepted"] == workers["dialled"],
				"accepted %d connections, dialled %d", server["accepted"], workers["dialled"])
		})
	}
}

// TestWireBytes: O2. Bytes on the wire are counted at both ends alike, and the
// three ways differ by framing alone.
func TestWireBytes(t *testing.T) {
	for _, variant := range []string{"grpc-tensor", "grpc-batch", "grpc-stream", "grpc-stream:network=tcp"} {
		t.Run(variant, func(t *testing.T) {
			r := open(t, variant, layoutOf(t, 1<<18, 1<<16, 3), 1)
			r.round(0, 4)
			r.shutdown()
			server, workers := r.counts("wire.")
			payload := int64(4 * r.o.Down.Payload())
			for _, n := range []int64{server["sent"], server["received"], workers["sent"], workers["received"]} {
				check.That(t, n >= payload && n <= payload+payload/20, "%d bytes on the wire for %d of payload", n, payload)
			}
			_, bodies := r.counts("body.")
			if bodies["tensors"] != 4*3 || bodies["bytes"] != int64(4*r.o.Down.Payload()) {
				t.Errorf("workers took %v, want 12 tensors of %d bytes", bodies, r.o.Down.Payload())
			}
		})
	}
}

// TestCache: O7. What a client has is not asked for again, all of it local means
// no call, and neither another client nor another model profits.
func TestCache(t *testing.T) {
	for _, c := range []struct {
		variant string
		want    [4]int64 // fetches of each job
		hits    int64
	}{
		{"grpc-tensor:cache=on", [4]int64{20, 0, 20, 20}, 20},
		{"grpc-batch:cache=on", [4]int64{1, 0, 1, 1}, 20},
		{"grpc-stream:cache=on", [4]int64{1, 0, 1, 1}, 20},
		{"grpc-batch:cache=off", [4]int64{1, 1, 1, 1}, 0},
	} {
		t.Run(c.variant, func(t *testing.T) {
			r := open(t, c.variant, twenty(t), 1)
			for n, job := range []struct {
				client  int
				publish bool
			}{{5, false}, {5, false}, {6, false}, {6, true}} {
				if job.publish {
					r.publish(uint64(n))
				}
				before, _ := r.counts("served.")
				j := jobOf(0, job.client)
				check.Must(t, r.exchange(0, j))
				after, _ := r.counts("served.")
				got := less(after, before)
				check.Equal(t, got["GetAggregatedTensor"]+got["GetAggregatedTensors"]+got["StreamAggregatedTensors"], c.want[n],
					"job", n, "fetches")
			}
			_, cache := r.counts("cache.")
			check.That(t, cache["hits"] == c.hits, "%d tensors were local, want %d", cache["hits"], c.hits)
		})
	}
}
