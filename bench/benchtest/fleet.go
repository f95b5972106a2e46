package benchtest

import (
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/result"
)

// remote gives c worker processes on hosts, and a training time of train ms. Placed is the number of processes on each
// host, such as "h1:2,h2:2".
func remote(c result.Cell, train float64, placed string) result.Cell {
	c.Launcher, c.Variant = "agents", c.Variant+":network=tcp:tls=mutual"
	var hosts []string
	for at := range strings.SplitSeq(placed, ",") {
		h, n, _ := strings.Cut(at, ":")
		count, _ := strconv.Atoi(n)
		hosts = append(hosts, slices.Repeat([]string{h}, count)...)
	}
	c.Settings = map[string]string{"network": "tcp", "tls": "mutual"}
	c.Place, c.Hosts = "spread", placed
	for i := range c.Blocks {
		b := &c.Blocks[i]
		for k, h := range hosts {
			b.Processes[k].Host, b.Processes[k].OtherClock = h, h == "h2"
		}
		for k := range b.Train {
			b.Train[k] = int64(train * float64(MS) * float64(b.Round[0]) / float64(c.Blocks[2].Round[0]))
			b.Up[k] = b.Train[k] + b.RTT[k]/4
			b.Down[k] = b.RTT[k] / 4
		}
		if slices.Contains(hosts, "h2") {
			b.Down, b.Up, b.Unattributed = nil, nil, 0
		}
	}
	return c
}

// Fleet returns a result with agents on h1 and h2, both on the server's machine, and h2 with another clock. With one
// worker, training takes about as long as in the control; with four, training takes longer with http.
func Fleet() *result.Result {
	m := Models["histology"]
	r := Result()
	add := func(workers, clients int, control float64, placed string, rounds, train map[string]float64) {
		c := Cell("inproc", m, workers, clients, Six(control)...)
		c.Launcher = "goroutines"
		r.Cells = append(r.Cells, c)
		for _, transport := range []string{"grpc-stream", "http", "pickle"} {
			r.Cells = append(r.Cells, remote(Count(Cell(transport, m, workers, clients, Six(rounds[transport])...), "body.tensors", 80), train[transport], placed))
		}
	}
	add(1, 1, 60, "h1:1", map[string]float64{"grpc-stream": 340, "http": 420, "pickle": 430}, map[string]float64{"grpc-stream": 30.5, "http": 31, "pickle": 29})
	add(4, 4, 130, "h1:2,h2:2", map[string]float64{"grpc-stream": 700, "http": 690, "pickle": 950}, map[string]float64{"grpc-stream": 66, "http": 120, "pickle": 64})
	for i, name := range []string{"server", "h1", "h2"} {
		h := result.Host{Name: name, Environment: r.Environment, Server: i == 0}
		if i > 0 {
			h.SameMachine = "server"
			near := float64(i)
			r.Floors = append(r.Floors,
				result.Floor{Name: "tls-stream", Unit: "B/s", Host: name, Bytes: m.Bytes, Help: "bytes through a TLS connection", Blocks: [][]float64{{1.1e9 / near}, {1.12e9 / near}, {1.09e9 / near}, {1.11e9 / near}, {1.1e9 / near}, {1.1e9 / near}}},
				result.Floor{Name: "tcp-pingpong", Unit: "s", Host: name, Help: "one byte and one back", Blocks: [][]float64{{40e-6 * near}, {41e-6 * near}, {40e-6 * near}, {39e-6 * near}, {40e-6 * near}, {40e-6 * near}}})
		}
		r.Hosts = append(r.Hosts, h)
	}
	r.Hosts[2].Environment.Governor = "powersave"
	return r
}
