package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/report/analysis"
)

// TestHostsView: what a terminal of 80 columns shows of a run with agents, and the same
// for scripts and pull requests.
func TestHostsView(t *testing.T) {
	r := benchtest.Fleet()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
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

// TestFleetLine: one line that fits a terminal says where workers were and over what they
// spoke, however many hosts there are.
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
		}, "workers on h1 (2), h2 (2), host0 (0), 89 more hosts: over TCP with mutual TLS"},
	} {
		r := benchtest.Fleet()
		tt.edit(r)
		if got := fleetLines(analysis.New(r)); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
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
	if text := shown(t, r); strings.Contains(text, "one machine") {
		t.Error(text)
	}
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
