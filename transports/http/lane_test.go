package http

import (
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// TestLanesInPython: with all settings, workers in Python exchange the same calls and bytes
// as workers in Go.
func TestLanesInPython(t *testing.T) {
	drivertest.RunLanes(t, []driver.Transport{New(), Local()}, []string{
		"http", "http:batch=7:network=tcp", "http:body=json", "http:conn=per-request:cache=on", "http:body=json:batch=9:cache=on:cache-size=64KiB",
		"http-shm", "http-shm:network=tcp", "http-shm:shm=off", "http-shm:pool=192KiB", "http-shm:pool=64B:batch=5",
		"http:cache=on:drain=on", "http-shm:copy=out", "http-shm:missing=30", "http-shm:missing=70:copy=out",
	}, nil)
}

// TestLiesInPython: the worker's error names the fault of each wrong answer. A wrong secret
// is an error, too.
func TestLiesInPython(t *testing.T) {
	l, all := lies(t)
	r := start(t, "http", l, 1)
	lane := drivertest.Lane{Variant: r.Variant, At: endpoint.At(r.Endpoint.Addr(), "another"), Options: r.Options}
	lanes := []drivertest.Lane{lane}
	all = append([]lie{{name: "another secret", inPython: "POST /v1/lanes/0: 401 Unauthorized: the request must have the header field Authorization"}}, all...)
	all = slices.DeleteFunc(all, lie.silent)
	for _, c := range all[1:] {
		lane.At = endpoint.At(fakeServer(t, c.answers()), "secret")
		lanes = append(lanes, lane)
	}
	for i, got := range drivertest.Lanes(t, lanes)() {
		check.That(t, strings.Contains(got.Error, all[i].inPython) && !strings.Contains(got.Error, "Traceback"),
			"%s: got error %q, want one with %q", all[i].name, got.Error, all[i].inPython)
	}
}

// TestFallbackInPython: A4, A6. A worker in Python reads undamaged tensors of a model in
// the slab, and fetches only the damaged ones.
func TestFallbackInPython(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 10, 1000), 1)
	wait := drivertest.Lanes(t, []drivertest.Lane{{Variant: r.Variant, At: r.Endpoint, Options: r.Options}})
	for round, damaged := range [][]int{{2, 3, 7}, nil} {
		r.Publish(uint64(round))
		r.damage(round, damaged...)
		j := driver.Job{Round: round}
		check.Must(t, r.Server.Dispatch(t.Context(), 0, j))
		p := check.Value(r.Server.Collect(t.Context(), 0))(t)
		check.Must(t, tensor.Prove(p, r.Model, drivertest.Key(j)))
		p.Release()
	}
	check.Must(t, r.Server.Shutdown(t.Context()))
	got := wait()[0]
	check.Equal(t, got.Error, "")
	counted(t, "worker", got.Counts, partial)
	r.counted(counts{phase.HandleTensors: 20, phase.BodyTensors: 0}, nil)
}
