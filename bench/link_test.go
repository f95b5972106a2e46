package bench

import (
	"fmt"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/floors"
	"ipcbench/bench/place"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports/all"
)

func specOf(t *testing.T, text string) session.Spec {
	t.Helper()
	return benchtest.Specs[session.Spec](t, all.Transports(), text)[0]
}

// TestLinkFloors: each link has one floor per model for its bytes, and one for the bytes that cells actually sent, if
// these differ.
func TestLinkFloors(t *testing.T) {
	r := &run{here: &place.Here{}}
	for _, text := range []string{
		"http:network=tcp:tls=on uniform:1MiB/4 link=100Mbit", "grpc-stream:network=tcp uniform:1MiB/4 link=100Mbit", // the same bytes
		"http:network=tcp uniform:4MiB/4 link=100Mbit", "http:network=tcp uniform:1MiB/4 link=1Gbit", "shm-slab uniform:1MiB/4",
	} {
		r.cells = append(r.cells, &cell{Spec: specOf(t, text)})
	}
	for _, f := range floors.All() {
		if f.TCP || f.TLS {
			r.planNetworkFloor(f)
		}
	}
	count := func() map[string]int {
		n := map[string]int{}
		for _, f := range r.floors {
			n[f.Name]++
		}
		return n
	}
	check.Equal(t, count(), map[string]int{"tcp-stream": 3, "tls-stream": 1, "tcp-pingpong": 2}, "floors")
	sent := func(c *cell, down, up int64) {
		c.Clients = 2
		c.result.Blocks = []result.Block{{
			Round: []int64{1, 1}, Server: result.Process{Counts: map[string]int64{phase.WireReceived: 4 * up}},
			Processes: []result.Process{{Counts: map[string]int64{phase.WireReceived: 4 * down}}},
		}}
	}
	sent(r.cells[0], 1<<20+9000, 1<<20)
	sent(r.cells[1], 60_000, 50_000)
	sent(r.cells[2], 61_000, 61_000) // about the same number of bytes
	r.planWire()
	check.Equal(t, count()["tcp-stream"], 4, "streams once cells have sent what they send")
	check.That(t, r.planned("tcp-stream", r.cells[0].Link, "", 60_000), "got no floor of 60,000 bytes")
}

// TestNetworkFloors: each network that tensors use has floors, measured without tensors at each payload size. Other
// networks have none.
func TestNetworkFloors(t *testing.T) {
	const always = " copy first-touch unix-stream unix-pingpong futex"
	for variants, want := range map[string]string{
		"pickle,http,grpc-stream,shm-slab,http-shm:network=tcp:tls=on": "",
		"http,http:network=tcp":         " tcp-stream/1048576 tcp-pingpong",
		"http-shm:network=tcp:shm=off":  " tcp-stream/1048576 tcp-pingpong",
		"http:tls=on,pickle:tls=mutual": "",
		"http:network=tcp:tls=mutual":   " tcp-stream/1048576 tcp-pingpong tls-stream/1048576",
	} {
		r := &run{here: &place.Here{}}
		for _, v := range strings.Split(variants, ",") {
			r.cells = append(r.cells, &cell{Spec: specOf(t, v+" uniform:1MiB/4")})
		}
		r.planFloors()
		got := ""
		for _, f := range r.floors {
			got += " " + f.Name
			if f.Bytes > 0 {
				got += fmt.Sprintf("/%d", f.Bytes)
			}
		}
		check.Equal(t, got, strings.Replace(always, " futex", want+" futex", 1), variants, "got the floors")
	}
}

// TestIdleStream: on a link with a delay, transfers after a rest are a floor of their own, which
// limits nothing.
func TestIdleStream(t *testing.T) {
	series := func() []floors.Series {
		return []floors.Series{{Variant: "write=1", Samples: []float64{9}}, {Variant: "write=1" + floors.Rested, Samples: []float64{4}}}
	}
	for text, want := range map[string][]float64{"100Mbit": {9, 4}, "100Mbit/25ms": {9}} {
		f := &result.Floor{Name: "tcp-stream", Unit: "B/s", Setup: result.Setup{Link: check.Value(link.Parse(text))(t)}, Bytes: 5}
		r := run{floors: []*result.Floor{f}}
		for range 2 {
			var kept []float64
			for _, s := range r.keepIdle(f, series()) {
				kept = append(kept, s.Samples...)
			}
			check.Equal(t, fmt.Sprint(kept), fmt.Sprint(want), text)
		}
		if len(want) == 1 {
			check.That(t, len(r.floors) == 2 && r.floors[1].Name == "tcp-stream-idle" && len(r.floors[1].Blocks) == 2, "%s: %+v", text, r.floors)
		} else {
			check.Equal(t, len(r.floors), 1, text)
		}
	}
}

// TestOffLink: outside of its link, a cell fails.
func TestOffLink(t *testing.T) {
	s := specOf(t, "http:network=tcp cnn link=100Mbit")
	_, err := onLink(s, func() error { t.Error("it was run"); return nil })
	check.That(t, err != nil, "a block was run outside of its link")
}
