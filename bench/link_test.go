package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/floors"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor/models"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

func linkedSpec(t *testing.T, variant, model, rate string) Spec {
	t.Helper()
	m, err := models.Parse(model)
	check.Must(t, err)
	v, err := transports.Parse(variant, all.Transports())
	check.Must(t, err)
	r, err := link.Parse(rate)
	check.Must(t, err)
	return Spec{Variant: v, Model: m, Workers: 1, Clients: 1, PerProcess: 1, Depth: 2, Setup: Setup{Link: r}}
}

// TestSlowLink: rounds that take seconds are few, and the guesses know them.
func TestSlowLink(t *testing.T) {
	plan, err := DefaultPlan(Default)
	check.Must(t, err)
	slow := linkedSpec(t, "http:network=tcp", "histology", "100Mbit")
	each := slow.overLink() // 66.6 MB each way
	check.That(t, each >= 10*time.Second && each <= 12*time.Second, "a round needs %v on the link, want 10.7 s", each)
	p := slow.planned(plan)
	check.That(t, p.Least == 1 && p.Warmup == 0 && p.RoundLimit > each, "got %+v", p)
	if block, timed := slow.guess(plan, 2); timed < each || timed > 2*each || block < 4*each || block > 7*each {
		t.Errorf("a block of %v, %v of it timed, where a round takes %v", block, timed, each)
	}
	for _, rate := range []string{"10Gbit", "unshaped", "none"} {
		fast := linkedSpec(t, "http:network=tcp", "histology", rate)
		check.Equal(t, fast.planned(plan), plan, rate)
	}
	two := slow
	two.Workers, two.Clients = 2, 2
	if over := two.overLink(); over <= each || over >= 2*each {
		t.Errorf("two workers need %v, want between %v and %v: some goes up while some goes down", over, each, 2*each)
	}
}

// TestLinkFloors: there is a floor for the bytes of each model on each link, and one
// for those that a cell has really sent, if they are others.
func TestLinkFloors(t *testing.T) {
	r := &run{here: &host{}}
	for _, of := range [][3]string{
		{"http:network=tcp:tls=on", "uniform:1MiB/4", "100Mbit"}, {"grpc-stream:network=tcp", "uniform:1MiB/4", "100Mbit"}, // the same bytes
		{"http:network=tcp", "uniform:4MiB/4", "100Mbit"}, {"http:network=tcp", "uniform:1MiB/4", "1Gbit"}, {"shm-slab", "uniform:1MiB/4", "none"},
	} {
		r.cells = append(r.cells, &cell{Spec: linkedSpec(t, of[0], of[1], of[2])})
	}
	for _, f := range floors.All() {
		if f.TCP || f.TLS {
			r.planNetworkFloor(f)
		}
	}
	count := func() (streams, encrypted, pings int) {
		for _, f := range r.floors {
			switch {
			case f.Name == "tcp-pingpong":
				pings++
			case f.Name == "tls-stream":
				encrypted++
			default:
				streams++
			}
		}
		return streams, encrypted, pings
	}
	if streams, encrypted, pings := count(); streams != 3 || encrypted != 1 || pings != 2 {
		t.Errorf("got %d streams, %d encrypted and %d ping-pongs, want 3, 1 and 2", streams, encrypted, pings)
	}
	sent := func(c *cell, down, up int64) {
		c.Clients = 2
		c.result.Blocks = []Block{{
			Round: []int64{1, 1}, Server: Process{Counts: map[string]int64{phase.WireReceived: 4 * up}},
			Processes: []Process{{Counts: map[string]int64{phase.WireReceived: 4 * down}}},
		}}
	}
	sent(r.cells[0], 1<<20+9000, 1<<20)
	sent(r.cells[1], 60_000, 50_000)
	sent(r.cells[2], 61_000, 61_000) // about as many
	r.planWire()
	if streams, _, _ := count(); streams != 4 {
		t.Errorf("got %d streams once cells have sent what they send, want 4", streams)
	}
	check.That(t, r.planned("tcp-stream", r.cells[0].Link, "", 60_000), "got no floor of 60,000 bytes")
}

// TestNetworkFloors: what tensors go over is measured without them, at each size that
// they have, and nothing else is.
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
			r.cells = append(r.cells, &cell{Spec: linkedSpec(t, v, "uniform:1MiB/4", "none")})
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

// TestCheckLink: what goes over no network is on no link, and outside of one no rate
// is set.
func TestCheckLink(t *testing.T) {
	for variant, good := range map[string]bool{"http:network=tcp": true, "http": false, "shm-slab": false, "http-shm:network=tcp": false, "http-shm:network=tcp:shm=off": true} {
		s := linkedSpec(t, variant, "cnn", "100Mbit")
		err := s.Check()
		check.That(t, (err == nil) == good && (good || strings.Contains(err.Error(), "--link 100Mbit")), "%s: got %v", variant, err)
		id := s.String()
		check.That(t, strings.HasSuffix(id, " link=100Mbit"), "its name is %s", id)
	}
	s := linkedSpec(t, "http:network=tcp", "cnn", "100Mbit")
	c := s.control(s.Variant)
	check.That(t, !c.linked(), "the control is on %v", c.Link)
	_, err := onLink(s, func() error { t.Error("it was run"); return nil })
	check.That(t, err != nil, "a block was run outside of its link")
}
