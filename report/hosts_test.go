package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// TestYardstick: across hosts, overhead and bandwidth are known only if training takes as
// long as the control's, within 10 %. Otherwise rows are ranked by transfer.
func TestYardstick(t *testing.T) {
	agree := []string{"grpc-stream", "http", "pickle"}
	for name, tt := range map[string]struct {
		edit  func(r *result.Result)
		four  string   // metric that ranks four workers; one worker is ranked by round
		known []string // transports with a known overhead, with four workers
	}{
		"http trains longer": {func(*result.Result) {}, "transfer", []string{"grpc-stream", "pickle"}},
		"all agree":          {func(r *result.Result) { train(r, "http", 70) }, "round", agree},
		"9.9 % off":          {func(r *result.Result) { train(r, "http", 71.4) }, "round", agree},
		"10.1 % off":         {func(r *result.Result) { train(r, "http", 71.6) }, "transfer", []string{"grpc-stream", "pickle"}},
		"10.1 % less":        {func(r *result.Result) { train(r, "http", 58.4) }, "transfer", []string{"grpc-stream", "pickle"}},
		"as on one host": {func(r *result.Result) {
			everyCell(r, func(c *result.Cell) { c.Launcher = "processes" })
		}, "round", agree},
		"no control": {func(r *result.Result) {
			without(r, func(c *result.Cell) bool { return c.Transport == metrics.Control && c.Workers > 1 })
		}, "transfer", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchtest.Fleet()
			tt.edit(r)
			a := metrics.New(r)
			for i, v := range contrast.Verdicts(a) {
				check.That(t, v.By == []string{"round", tt.four}[i] && (v.Off != nil) == (v.By == "transfer"), "%d workers are ranked by %s", v.Group.Workers, v.By)
			}
			v := contrast.Verdicts(a)[1]
			check.Equal(t, v.Best().Transport, "http")
			check.Equal(t, v.More(v.By, v.Worst()), contrast.New(v.By, v.Worst(), v.Best()).More, "costs more")
			check.That(t, v.Off == nil || v.Off.Control == nil || v.Off.Transport == "http", "the training of %v is furthest from the control's", v.Off)
			var known []string
			for _, c := range a.Cells {
				if c.Workers > 1 && c.Of("overhead").Known() {
					known = append(known, c.Transport)
				}
				check.That(t, !c.Alone() || c.IsControl() || c.Of("bandwidth").Known(), "%s has no bandwidth", c.Name())
			}
			check.Equal(t, known, tt.known, "have overhead")
		})
	}
	r := benchtest.Fleet()
	train(r, "", 1)
	for _, c := range metrics.New(r).Cells {
		check.That(t, !c.Of("bandwidth").Known(), "%s has a bandwidth of %v", c.Name(), c.Of("bandwidth"))
	}
}

// train sets the training time, in ms, of one transport's cells, or of all except the
// control's.
func train(r *result.Result, transport string, ms float64) {
	everyCell(r, func(c *result.Cell) {
		if c.Transport != metrics.Control && (transport == "" || c.Transport == transport && c.Workers > 1) {
			trains(c, ms)
		}
	})
}

func trains(c *result.Cell, ms float64) {
	for _, b := range c.Blocks {
		for k := range b.Train {
			b.Train[k] = int64(ms * float64(benchtest.MS))
		}
	}
}

// TestYardstickOfSweep: a sweep is plotted and searched for crossings by one metric, chosen
// by the step whose training differs most from the control's.
func TestYardstickOfSweep(t *testing.T) {
	r := benchtest.Fleet()
	one := without(r, func(c *result.Cell) bool { return c.Workers > 1 }).Cells
	r.Cells = nil
	for clients := range 3 {
		for _, c := range one {
			r.Cells = append(r.Cells, withClients(c, clients+1))
		}
	}
	s := table.SweepsOf(metrics.New(r))[0]
	check.That(t, s.By == "round" && s.Envelope()[0].Best[0].Cells[0].Transport == "grpc-stream", "ranked by %s", s.By)
	for _, b := range r.Cells[len(r.Cells)-1].Blocks {
		for k := range b.Train {
			b.Train[k] *= 2
		}
	}
	s = table.SweepsOf(metrics.New(r))[0]
	check.Equal(t, s.By, "transfer", "ranked by")
	of := s.Envelope()[0]
	next := of.Next.Cells[0].Of("transfer").Center / of.Best[0].Cells[0].Of("transfer").Center
	check.That(t, of.From == 0 && of.To == 2 && of.NextLow <= next && of.NextHigh >= next, "%+v, want %v", of, next)
}

// TestFleet: hosts that are one machine are found, and only hosts with lanes are checked
// for differences. The server's host has none, and its listening address is not a
// difference.
func TestFleet(t *testing.T) {
	check.That(t, table.FleetOf(metrics.New(benchtest.Pair(1, 1))) == nil, "a fleet of one host")
	r := benchtest.Fleet()
	r.Hosts[1].Environment.Listen = "off loopback"
	r.Hosts[0].Environment.CPUs, r.Hosts[2].Environment.Governor = 64, ""
	r.Hosts[1].SameMachine, r.Hosts[2].SameMachine = "", "h1"
	r.Cells[5].PerProcess, r.Cells[5].Workers = 3, 10 // of four processes with 3, 3, 3 and 1 lane
	got := slices.DeleteFunc(slices.Clone(answer.Findings(metrics.New(r))), func(f answer.Finding) bool { return f.Rule != answer.OneMachine && f.Rule != answer.UnequalHosts })
	check.That(t, len(got) == 1 && got[0].Rule == answer.OneMachine && strings.HasPrefix(got[0].Text, "h1, h2 are one machine, so "), "findings: %+v", got)
	f := table.FleetOf(metrics.New(r))
	check.That(t, f[1].Lanes == [2]int{1, 6} && f[2].Lanes == [2]int{0, 4}, "lanes %v and %v", f[1].Lanes, f[2].Lanes)
}

// TestFleetFloors: a cell is bounded by the link to its host, or by the fastest of several
// links.
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
		name, i := c.Bound()
		check.That(t, name == "tls-stream" && check.Nearly(i.Center, share, share*0.03), "on %s: %v of %s, want %v", host, i.Center, name, share)
	}
	f := metrics.New(r).Cells[5].Floor("tls-stream")
	check.That(t, f != nil && f.Host == "h1", "on two hosts: %+v", f)
	// Bytes that arrive faster than the link allows, 1.33 GB/s over 0.55, are an error,
	// even if the overhead is unknown.
	train(r, "", 1)
	for _, b := range at("h2").Timed() {
		for k := range b.RTT {
			b.RTT[k] = b.Train[k] + 100*benchtest.MS
		}
	}
	holds(t, shown(t, r, "findings"), "Error: grpc-stream:network=tcp:tls=mutual, histology, 1 worker, 1 client: moves bytes at 1.33 GB/s")
}

// TestCompareHosts: a comparison lists the differences of hosts.
func TestCompareHosts(t *testing.T) {
	base, head := benchtest.Fleet(), benchtest.Fleet()
	head.Hosts[1].Environment.Kernel = "6.2.0"
	head.Hosts[2].SameMachine = ""
	head.Hosts = append(head.Hosts, result.Host{Name: "h3"})
	holds(t, strings.Join(differenceTexts(compare(t, base, head, CompareOptions{})), "\n"), "hosts: server h1 h2 h3 instead of server h1 h2",
		"kernel of h1: 6.2.0 instead of 6.1.0", "machine of h2: its own instead of server")
}

// TestHostsView: the first screen of a run with agents fits a terminal of 80 columns, and the other
// formats have the same numbers.
func TestHostsView(t *testing.T) {
	r := benchtest.Fleet()
	doctest.Golden(t, "hosts.text", terminal(t, r, 80))
	shows(t, r, map[string][]string{
		"csv": {
			"floors tls-stream h1 66608288 value B/s 1100000000", "spent http:network=tcp:tls=mutual histology 4 h1 lanes 1 2", "ranking transfer_more s", "findings other_training control s",
		},
		"json":     {`"ranked_by":"transfer"`, `"transfer_more":{`, `"clock":"its own"`, `"same_machine":"server"`, `"host":"h2"`},
		"benchfmt": {"\nhosts: h1:2,h2:2\nplace: spread\n", "\nhosts: none\nplace: none\n"},
		"md":       {"\nworkers on h1 (2), h2 (2): over TCP with mutual TLS\n", "training took 120 ms with http but 65.0 ms with inproc", "| server |"},
		"html":     {"workers on h1 (2), h2 (2): over TCP with mutual TLS"},
	})
}

// TestFleetLine: a line has the hosts of the workers and the kind of connection.
func TestFleetLine(t *testing.T) {
	const both, mutual = "workers on h1 (2), h2 (2)", ": over TCP with mutual TLS"
	tls := func(settings ...string) func(r *result.Result) {
		return func(r *result.Result) {
			for i, c := range r.Cells {
				if c.Launcher == "agents" {
					c.Settings["tls"] = settings[i%len(settings)]
				}
			}
		}
	}
	for want, edit := range map[string]func(r *result.Result){
		both + ": over TCP without TLS":            tls("off"),
		both + ": over TCP, some of them with TLS": tls("off", "on"),
		"workers on server (1), h1 (2), h2 (2)" + mutual: func(r *result.Result) {
			for _, b := range r.Cells[5].Blocks {
				b.Processes[0].Host = ""
			}
		},
		"workers on h1 (1), h2 (0)" + mutual: func(r *result.Result) { r.Cells = r.Cells[:4] },
		both + ", host0 (0), host1 (0), 88 more hosts" + mutual: func(r *result.Result) {
			for i := range 90 {
				r.Hosts = append(r.Hosts, result.Host{Name: fmt.Sprint("host", i)})
			}
		},
	} {
		r := benchtest.Fleet()
		edit(r)
		check.Equal(t, answer.FleetLines(metrics.New(r)), []string{want})
	}
}

// TestRig: the first screen warns if several hosts are one machine.
func TestRig(t *testing.T) {
	r := benchtest.Fleet() // TestHostsView has it
	r.Hosts[1].SameMachine, r.Hosts[2].SameMachine = "", "h1"
	wantLines(t, shown(t, r), "Warning: h1, h2 are one machine, so they share its processors and memory")
	r.Hosts[2].SameMachine = ""
	lacks(t, shown(t, r), "one machine")
}

// TestOtherClock: if a worker's host has another clock than the server, metrics that need
// one clock are unknown in every format (guard 22).
func TestOtherClock(t *testing.T) {
	r := benchtest.Fleet() // h2 has workers in the cells with four workers
	for _, c := range metrics.New(r).Cells {
		for _, metric := range []string{"down", "up", "uplink", "unattributed"} {
			check.Equal(t, c.Of(metric).Known(), c.Workers == 1 || c.IsControl(), c.Name(), metric, "is known")
		}
	}
	for name, value := range map[string]string{"json": `"down":{`, "csv": ",down,s"} {
		check.Equal(t, strings.Count(format(t, name, r), value), len(r.Cells)-3, name, "values") // TestHostsView tests the formats for people
	}
}
