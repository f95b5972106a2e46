package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/floors"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/transports/all"
)

func linkedSpec(t *testing.T, text string) Spec {
	t.Helper()
	return Specs(t, all.Transports(), text)[0]
}

// TestSlowLink: if rounds take seconds on a link, few are run, and each may take its time.
func TestSlowLink(t *testing.T) {
	plan := check.Value(DefaultPlan(Default))(t)
	slow := linkedSpec(t, "http:network=tcp histology link=100Mbit")
	each := slow.overLink() // 66.6 MB in each direction
	check.That(t, each >= 10*time.Second && each <= 12*time.Second, "a round needs %v on the link, want 10.7 s", each)
	p := slow.planned(plan)
	check.That(t, p.Least == 1 && p.Warmup == 0 && p.RoundLimit > each, "got %+v", p)
	for _, rate := range []string{" link=10Gbit", " link=unshaped", ""} {
		check.Equal(t, linkedSpec(t, "http:network=tcp histology"+rate).planned(plan), plan, rate)
	}
	over := linkedSpec(t, "http:network=tcp histology workers=2 clients=2 link=100Mbit").overLink()
	check.That(t, over > each && over < 2*each,
		"two workers need %v, want between %v and %v: some goes up while some goes down", over, each, 2*each)
}

// TestLinkFloors: each link has one floor per model for its bytes, and one for the bytes that cells actually sent, if
// these differ.
func TestLinkFloors(t *testing.T) {
	r := &run{here: &host{}}
	for _, text := range []string{
		"http:network=tcp:tls=on uniform:1MiB/4 link=100Mbit", "grpc-stream:network=tcp uniform:1MiB/4 link=100Mbit", // the same bytes
		"http:network=tcp uniform:4MiB/4 link=100Mbit", "http:network=tcp uniform:1MiB/4 link=1Gbit", "shm-slab uniform:1MiB/4",
	} {
		r.cells = append(r.cells, &cell{Spec: linkedSpec(t, text)})
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
		c.result.Blocks = []Block{{
			Round: []int64{1, 1}, Server: Process{Counts: map[string]int64{phase.WireReceived: 4 * up}},
			Processes: []Process{{Counts: map[string]int64{phase.WireReceived: 4 * down}}},
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
		r := &run{here: &host{}}
		for _, v := range strings.Split(variants, ",") {
			r.cells = append(r.cells, &cell{Spec: linkedSpec(t, v+" uniform:1MiB/4")})
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

// TestCheckLink: a cell without a network cannot be on a link, and the control is on none. Outside of its link, a cell
// fails.
func TestCheckLink(t *testing.T) {
	for variant, good := range map[string]bool{"http:network=tcp": true, "http": false, "shm-slab": false, "http-shm:network=tcp": false, "http-shm:network=tcp:shm=off": true} {
		s := linkedSpec(t, variant+" cnn link=100Mbit")
		err := s.Check()
		check.That(t, (err == nil) == good && (good || strings.Contains(err.Error(), "--link 100Mbit")), "%s: got %v", variant, err)
		id := s.String()
		check.That(t, strings.HasSuffix(id, " link=100Mbit"), "its name is %s", id)
	}
	s := linkedSpec(t, "http:network=tcp cnn link=100Mbit")
	c := s.control(s.Variant)
	check.That(t, !c.linked(), "the control is on %v", c.Link)
	_, err := onLink(t.Context(), s, func(context.Context) error { t.Error("it was run"); return nil })
	check.That(t, err != nil, "a block was run outside of its link")
}

// TestIdleStream: on a link with a delay, transfers after a rest are a floor of their own, which
// limits nothing.
func TestIdleStream(t *testing.T) {
	series := func() []floors.Series {
		return []floors.Series{{Variant: "write=1", Samples: []float64{9}}, {Variant: "write=1" + floors.Rested, Samples: []float64{4}}}
	}
	for text, want := range map[string][]float64{"100Mbit": {9, 4}, "100Mbit/25ms": {9}} {
		f := &Floor{Name: "tcp-stream", Unit: "B/s", Setup: Setup{Link: check.Value(link.Parse(text))(t)}, Bytes: 5}
		r := run{floors: []*Floor{f}}
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
