package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
)

// TestYardstick: across hosts, overhead and bandwidth are known
// only where the training agrees with the control's within 10 %, and else transfer ranks.
func TestYardstick(t *testing.T) {
	for name, tt := range map[string]struct {
		edit  func(r *result.Result)
		by    [2]string // of one worker and of four
		known []string  // with overhead, of four workers
		best  string    // of four workers
	}{
		"http trains longer": {func(*result.Result) {}, [2]string{"round", "transfer"}, []string{"grpc-stream", "pickle"}, "http"},
		"all agree":          {func(r *result.Result) { train(r, "http", 70) }, [2]string{"round", "round"}, []string{"grpc-stream", "http", "pickle"}, "http"},
		"9.9 % off":          {func(r *result.Result) { train(r, "http", 71.4) }, [2]string{"round", "round"}, []string{"grpc-stream", "http", "pickle"}, "http"},
		"10.1 % off":         {func(r *result.Result) { train(r, "http", 71.6) }, [2]string{"round", "transfer"}, []string{"grpc-stream", "pickle"}, "http"},
		"10.1 % less":        {func(r *result.Result) { train(r, "http", 58.4) }, [2]string{"round", "transfer"}, []string{"grpc-stream", "pickle"}, "http"},
		"as on one host": {func(r *result.Result) {
			for i := range r.Cells {
				r.Cells[i].Launcher = "processes"
			}
		}, [2]string{"round", "round"}, []string{"grpc-stream", "http", "pickle"}, "http"},
		"no control": {func(r *result.Result) {
			r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Transport == metrics.Control && c.Workers > 1 })
		}, [2]string{"round", "transfer"}, nil, "http"},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchtest.Fleet()
			tt.edit(r)
			a := metrics.New(r)
			verdicts := a.Verdicts()
			for i, v := range verdicts {
				check.That(t, v.By == tt.by[i] && (v.Off != nil) == (v.By == "transfer"),
					"%d workers are ranked by %s: want %s", v.Group.Workers, v.By, tt.by[i])
			}
			v := verdicts[1]
			if v.Best().Transport != tt.best {
				t.Errorf("best is %s: want %s", v.Best().Transport, tt.best)
			}
			if worst := v.Worst(); v.Cost(worst).More != worst.More(v.By, v.Best()) {
				t.Errorf("costs %v more", v.Cost(worst).More)
			}
			if v.Off != nil && v.Off.Control != nil && (v.Off.Transport != "http" || v.Own != v.Off.Of("train") || v.Control != v.Off.Control.Of("train")) {
				t.Errorf("the training of %s is furthest from the control's, %v and %v", v.Off.Transport, v.Own, v.Control)
			}
			var known []string
			for _, c := range a.Cells {
				if c.Workers > 1 && c.Of("overhead").Known() {
					known = append(known, c.Transport)
				}
				check.That(t, !c.Alone() || c.IsControl() || c.Of("bandwidth").Known(), "%s has no bandwidth", c.Name())
			}
			check.That(t, slices.Equal(known, tt.known), "overhead of %v: want %v", known, tt.known)
		})
	}
	r := benchtest.Fleet()
	train(r, "", 1)
	for _, c := range metrics.New(r).Cells {
		if c.Of("bandwidth").Known() {
			t.Errorf("%s has a bandwidth of %v", c.Name(), c.Of("bandwidth"))
		}
	}
}

// train lets all trainings of a transport, or of all but the control, take that many ms.
func train(r *result.Result, transport string, ms float64) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Transport == metrics.Control || transport != "" && (c.Transport != transport || c.Workers == 1) {
			continue
		}
		trains(c, ms)
	}
}

// trains lets all trainings of a cell take that many ms.
func trains(c *result.Cell, ms float64) {
	for _, b := range c.Blocks {
		for k := range b.Train {
			b.Train[k] = int64(ms * float64(benchtest.MS))
		}
	}
}

// TestYardstickOfSweep: a sweep is drawn and crossed by one metric, that of its step in
// which training is furthest off.
func TestYardstickOfSweep(t *testing.T) {
	r := benchtest.Fleet()
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Workers > 1 })
	for _, clients := range []int{2, 3} {
		for _, c := range r.Cells[:4] {
			c.Clients = clients
			c.Blocks = slices.Clone(c.Blocks)
			for i := range c.Blocks {
				b := &c.Blocks[i]
				for _, s := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
					*s = slices.Repeat((*s)[:2], clients)
				}
			}
			r.Cells = append(r.Cells, c)
		}
	}
	if s := sweepsOf(metrics.New(r))[0]; s.By != "round" || s.Envelope()[0].Best[0].Cells[0].Transport != "grpc-stream" {
		t.Errorf("ranked by %s", s.By)
	}
	last := &r.Cells[len(r.Cells)-1]
	for i := range last.Blocks {
		for k := range last.Blocks[i].Train {
			last.Blocks[i].Train[k] *= 2
		}
	}
	s := sweepsOf(metrics.New(r))[0]
	check.That(t, s.By == "transfer", "ranked by %s", s.By)
	of := s.Envelope()[0]
	next := of.Next.Cells[0].Of("transfer").Center / of.Best[0].Cells[0].Of("transfer").Center
	check.That(t, of.From == 0 && of.To == 2 && of.NextLow <= next && of.NextHigh >= next, "%+v, want %v", of, next)
}

// TestFleet: what ran on which host, which hosts are one machine, and in what they
// differ.
func TestFleet(t *testing.T) {
	check.That(t, fleetOf(metrics.New(benchtest.Pair(1, 1))) == nil, "a fleet of one host")
	r := benchtest.Fleet()
	a := metrics.New(r)
	f := fleetOf(a)
	for i, want := range []struct {
		name             string
		lanes, processes [2]int
		otherClock       bool
		tls              float64
	}{{"server", [2]int{}, [2]int{}, false, 0}, {"h1", [2]int{1, 2}, [2]int{1, 2}, false, 1.1e9}, {"h2", [2]int{0, 2}, [2]int{0, 2}, true, 0.55e9}} {
		h, tls := f[i], linkFloor(a, "tls-stream", f[i].Name)
		if h.Name != want.name || h.Lanes != want.lanes || h.Processes != want.processes || h.OtherClock != want.otherClock || tls.Known() && tls.Center != want.tls || linkFloor(a, "tcp-stream", h.Name).Known() {
			t.Errorf("%+v: want %+v", h, want)
		}
	}
	if got := fleetFindings(a); len(got) != 2 || got[0].Rule != OneMachine || !strings.HasPrefix(got[0].Text, "server, h1, h2 are one machine: ") ||
		got[1].Rule != UnequalHosts || !strings.HasSuffix(got[1].Text, " (none on h1, powersave on h2)") {
		t.Errorf("findings: %+v", got)
	}
	// The server's host has no lanes: what it is does not make them unequal.
	// Nor does it that servers listen there.
	r.Hosts[1].Environment.Listen = "off loopback"
	r.Hosts[0].Environment.CPUs, r.Hosts[2].Environment.Governor = 64, ""
	r.Hosts[1].SameMachine, r.Hosts[2].SameMachine = "", "h1"
	r.Cells[5].PerProcess, r.Cells[5].Workers = 3, 10
	f = fleetOf(metrics.New(r))
	if got := fleetFindings(metrics.New(r)); len(got) != 1 || got[0].Rule != OneMachine || !strings.HasPrefix(got[0].Text, "h1, h2 are one machine: ") {
		t.Errorf("findings: %+v", got)
	}
	if f[1].Lanes != [2]int{1, 6} || f[2].Lanes != [2]int{0, 4} { // of four processes with 3, 3, 3 and 1 lane
		t.Errorf("lanes %v and %v", f[1].Lanes, f[2].Lanes)
	}
}

// TestFleetFloors: a cell is bounded by the link to the host that it is on, and by the
// faster one of several.
func TestFleetFloors(t *testing.T) {
	r := benchtest.Fleet()
	r.Floors = append(r.Floors, result.Floor{Name: "tls-stream", Unit: "B/s", Bytes: benchtest.Models["histology"].Bytes, Blocks: [][]float64{{9e9}}}) // of the server's host alone
	at := func(host string) *metrics.Cell {
		for i := range r.Cells[1].Blocks {
			r.Cells[1].Blocks[i].Processes[0].Host = host
		}
		return metrics.New(r).Cells[1]
	}
	for host, want := range map[string]float64{"h1": 1.1e9, "h2": 0.55e9, "": 9e9} {
		c := at(host)
		share := float64(c.Payload()) / c.Of("transfer").Center / want
		if name, i := c.Bound(); name != "tls-stream" || i.Center < share*0.97 || i.Center > share*1.03 {
			t.Errorf("on %s: %v of %s, want %v", host, i.Center, name, share)
		}
	}
	if f := metrics.New(r).Cells[5].Floor("tls-stream"); f == nil || f.Host != "h1" {
		t.Errorf("on two hosts: %+v", f)
	}
	// Bytes that come faster than the link are a bug, also where overhead is not known.
	train(r, "", 1)
	c := at("h2")
	for i := range c.Timed() {
		for k := range c.Timed()[i].RTT {
			c.Timed()[i].RTT[k] = c.Timed()[i].Train[k] + 100*benchtest.MS
		}
	}
	found := Findings(metrics.New(r))
	if !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Rule == "faster_than_floor" && f.Measured.Transport == "grpc-stream" && f.Measured.Workers == 1
	}) {
		t.Errorf("1.33 GB/s over a link of 0.55 GB/s: %+v", found)
	}
}

// TestCompareHosts: a comparison names in what hosts differ.
func TestCompareHosts(t *testing.T) {
	base, head := benchtest.Fleet(), benchtest.Fleet()
	head.Hosts[1].Environment.Kernel = "6.2.0"
	head.Hosts[2].SameMachine = ""
	head.Hosts = append(head.Hosts, result.Host{Name: "h3"})
	c, err := Compare(base, head, CompareOptions{})
	check.Must(t, err)
	for _, want := range [][3]string{{"hosts", "server h1 h2", "server h1 h2 h3"}, {"kernel of h1", "6.1.0", "6.2.0"}, {"machine of h2", "server", "its own"}} {
		if !slices.ContainsFunc(c.Differences, func(d Difference) bool { return [3]string{d.What, d.Base, d.Head} == want }) {
			t.Errorf("no difference %v in %v", want, c.Differences)
		}
	}
}

// TestHostsView: what a terminal of 80 columns shows of a run with agents, and the same
// for scripts and pull requests.
func TestHostsView(t *testing.T) {
	r := benchtest.Fleet()
	check.Must(t, r.Validate())
	shows(t, r, "hosts.text", [][]string{nil, {"hosts"}, {"verdict", "findings", "cells", "floors", "phases", "environment"}}, map[string][]string{
		"csv": {
			"floors tls-stream h1 66608288 value B/s 1100000000", "spent http:network=tcp:tls=mutual histology 4 h1 lanes 1 2", "ranking transfer_more s", "findings other_training control s",
		},
		"json":     {`"ranked_by":"transfer"`, `"transfer_more":{`, `"clock":"its own"`, `"same_machine":"server"`, `"host":"h2"`},
		"benchfmt": {"\nhosts: h1:2,h2:2\nplace: spread\n", "\nhosts: none\nplace: none\n"},
		"md":       {"\nworkers on h1 (2), h2 (2): over TCP with mutual TLS\n", "a training took 120 ms with http, and 65.0 ms with inproc", "| server |"},
		"html":     {"workers on h1 (2), h2 (2): over TCP with mutual TLS"},
	})
}

// TestFleetLine: a line says where workers were and over what they spoke.
func TestFleetLine(t *testing.T) {
	tls := func(r *result.Result, settings ...string) {
		for i := range r.Cells {
			if r.Cells[i].Launcher == "agents" {
				r.Cells[i].Settings["tls"] = settings[i%len(settings)]
			}
		}
	}
	for name, tt := range map[string]struct {
		edit func(r *result.Result)
		want string
	}{
		"mutual":   {func(*result.Result) {}, "workers on h1 (2), h2 (2): over TCP with mutual TLS"},
		"insecure": {func(r *result.Result) { tls(r, "off") }, "workers on h1 (2), h2 (2): over TCP without TLS"},
		"some":     {func(r *result.Result) { tls(r, "off", "on") }, "workers on h1 (2), h2 (2): over TCP, of which some with TLS"},
		"on the server's host": {func(r *result.Result) {
			for i := range r.Cells[5].Blocks {
				r.Cells[5].Blocks[i].Processes[0].Host = ""
			}
		}, "workers on server (1), h1 (2), h2 (2): over TCP with mutual TLS"},
		"idle": {func(r *result.Result) { r.Cells = r.Cells[:4] }, "workers on h1 (1), h2 (0): over TCP with mutual TLS"},
		"many": {func(r *result.Result) {
			for i := range 90 {
				r.Hosts = append(r.Hosts, result.Host{Name: fmt.Sprint("host", i)})
			}
		}, "workers on h1 (2), h2 (2), host0 (0), host1 (0), 88 more hosts: over TCP with mutual TLS"},
	} {
		r := benchtest.Fleet()
		tt.edit(r)
		got := fleetLines(metrics.New(r))
		check.That(t, len(got) == 1 && got[0] == tt.want, "%s: %q, want %q", name, got, tt.want)
	}
}

// TestRig: what ran on one machine is a rig, and no result, as the first screen says.
func TestRig(t *testing.T) {
	const rig = "warning: server, h1, h2 are one machine: a rig, and no result about hosts or the network between them"
	r := benchtest.Fleet()
	wantLines(t, shown(t, r), rig)
	r.Hosts[1].SameMachine, r.Hosts[2].SameMachine = "", "h1"
	wantLines(t, shown(t, r), "warning: h1, h2 are one machine: they share its processors and its memory")
	r.Hosts[2].SameMachine = ""
	text := shown(t, r)
	check.That(t, !strings.Contains(text, "one machine"), "%v", text)
}

// TestOtherClock: with workers on a host whose clock is not the server's, what takes one
// clock is not known in any format (guard 22).
func TestOtherClock(t *testing.T) {
	r := benchtest.Fleet() // h2 has workers in the cells of four
	write := func(name string) string {
		if name == "text" {
			return shown(t, r, "phases")
		}
		return format(t, name, r)
	}
	two := map[string]string{}
	for _, f := range Formats() {
		if f.Name != "perfetto" { // which needs a timeline
			two[f.Name] = write(f.Name)
		}
	}
	for i := range r.Cells {
		for k := range r.Cells[i].Blocks {
			b := &r.Cells[i].Blocks[k]
			for n := range b.Processes {
				b.Processes[n].OtherClock = false
			}
			if b.Down == nil {
				b.Down, b.Up, b.Unattributed = slices.Clone(b.RTT), slices.Clone(b.RTT), 1
			}
		}
	}
	const cells = 3
	for _, name := range []string{"text", "md", "html"} {
		if more := strings.Count(two[name], "—") - strings.Count(write(name), "—"); more < 2*cells { // down and uplink
			t.Errorf("%s: %d values more are unknown", name, more)
		}
	}
	for _, metric := range []string{"down", "up", "uplink", "unattributed"} {
		for name, value := range map[string]string{"json": `"` + metric + `":{`, "csv": "," + metric + ",s"} {
			if one, got := strings.Count(write(name), value), strings.Count(two[name], value); one != len(r.Cells) || got != one-cells {
				t.Errorf("%s: %d cells have %s, and %d with one clock: want %d, and all", name, got, metric, one, len(r.Cells)-cells)
			}
		}
	}
}
