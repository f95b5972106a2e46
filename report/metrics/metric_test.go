package metrics

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
)

// TestMetrics compares every metric with a value computed by hand. The cell takes 20 ms per
// round, and its control 10 ms: 100 MB each way, 12 rounds in 6 blocks.
func TestMetrics(t *testing.T) {
	r := benchtest.Pair(1, 1)
	for name, n := range map[string]int64{"wire.sent": 500 * benchtest.MB, "calls.a": 6, "calls.b": 2} {
		benchtest.Count(r.Cells[1], name, n)
	}
	for _, b := range r.Cells[1].Blocks {
		b.Phases["decode"], b.Phases["copy"] = 4*benchtest.MS, 2*benchtest.MS
	}
	c := New(r).Cells[1]
	want := map[string]float64{
		"round":             20e-3,
		"overhead":          10e-3,
		"transfer":          9e-3, // 95 % less 50 %
		"rtt":               19e-3,
		"down":              6e-3,
		"up":                13e-3,
		"uplink":            3e-3,
		"train":             10e-3,
		"copy_decode":       3e-3,
		"unattributed":      0.2e-3,
		"bandwidth":         200e6 / 10e-3, // 1 client, 1 worker: bytes both ways over overhead, not over round (guards 4 and 5)
		"goodput":           200e6 / 20e-3,
		"cpu_per_round":     30e-3, // server and worker (guard 9): 40 ms and 20 ms in two rounds
		"cpu_per_gb":        60e-3 / 0.4,
		"cpu_transport":     30e-3 / 0.4, // the control needs half
		"cpu_user_per_gb":   45e-3 / 0.4,
		"cpu_system_per_gb": 15e-3 / 0.4,
		"minor_faults":      20 / 0.4,
		"wire_bytes":        250e6, // not the payload, which has its own column (guard 5)
		"rpcs":              4,
		"allocs":            20,
		"alloc_bytes":       2000,
		"queue_wait":        1e-3,
		"peak_rss":          150e6,
		"peak_rss_server":   100e6,
		"peak_rss_workers":  50e6,
		"pss":               75e6,
		"cold_round":        60e-3, // in its own column (guard 6)
		"spawn":             20e-3,
		"attested":          1,
		"proved":            1,
		"recorder_share":    100 * 80e-9 / 40e-3, // (guard 7)
		"machine_busy":      0.5,
		"phase.decode":      2e-3,
		"round_outliers":    0,
	}
	for name, x := range want {
		got := c.Of(name)
		check.That(t, math.Abs(got.Center-x) <= 1e-9*math.Max(1, math.Abs(x))*100, "%s: got %v, want %v", name, got.Center, x)
	}
	i := c.Of("round")
	check.That(t, i.N == 12 && i.Blocks == 6 && i.Low == 19.6e-3 && i.High == 20.4e-3, "got round %+v, want 12 samples in 6 blocks from 19.6 to 20.4 ms", i)
	unknown(t, c, "round_p90", "round_p99", "copied_bytes") // 12 samples support no percentile (guard 12)
	unknown(t, New(r).Cells[0], "overhead", "bandwidth", "cpu_transport")
}

func unknown(t *testing.T, c *Cell, names ...string) {
	t.Helper()
	for _, name := range names {
		check.That(t, !c.Of(name).Known(), "%s has %s %v", c.Name(), name, c.Of(name))
	}
}

// even is a model of 100 MB. steady returns a cell of even with six blocks around a time in
// ms; it counts one tensor of the given kind, if any.
var even = result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}

func steady(transport string, ms float64, kinds ...string) result.Cell {
	c := benchtest.Cell(transport, even, 1, 1, benchtest.Six(ms)...)
	for _, kind := range kinds {
		benchtest.Count(c, kind+".tensors", 16)
	}
	return c
}

// TestBandwidth: bandwidth needs one client on one worker, a transport that moves bytes,
// and an overhead whose interval excludes zero.
func TestBandwidth(t *testing.T) {
	control := steady("inproc", 10)
	one := benchtest.Count(benchtest.Cell("x", even, 1, 1, 20), "body.tensors", 16)
	zero := benchtest.Count(benchtest.Cell("x", even, 1, 1, 9.8, 10.2, 10, 9.9, 10.1, 10), "body.tensors", 16)
	for _, tt := range []struct {
		name   string
		result *result.Result
		want   bool
	}{
		{"1 client on 1 worker", benchtest.Pair(1, 1), true},
		{"2 clients", benchtest.Pair(1, 2), false},
		{"2 workers", benchtest.Pair(2, 2), false},
		{"overhead may be zero", benchtest.Result(control, zero), false},
		{"less than the control", benchtest.Result(control, steady("x", 9, "body")), false},
		{"a single block tells nothing", benchtest.Result(benchtest.Cell("inproc", even, 1, 1, 10), one), false},
		{"no control", benchtest.Result(steady("x", 20, "body")), false},
		{"bytes", benchtest.Result(control, steady("x", 20, "body")), true},
		{"handles (guard 1)", benchtest.Result(control, steady("x", 20, "handle")), false},
		{"some handles", benchtest.Result(control, steady("x", 20, "handle", "body")), false},
		{"nothing is known of what it moves", benchtest.Result(control, steady("x", 20)), false},
	} {
		v := New(tt.result)
		check.Equal(t, v.Cells[len(v.Cells)-1].Of("bandwidth").Known(), tt.want, tt.name)
	}
}

// TestWithout: a variant loses settings by name, in any place, and a transport is not a setting.
func TestWithout(t *testing.T) {
	for text, want := range map[string]string{
		"http:network=tcp:tls=on:conn=kept:codec=delta+topk=1%": "http:conn=kept",
		"http:tls=mutual":  "http",
		"http:tls-like=on": "http:tls-like=on",
		"tls:network=tcp":  "tls",
		"pickle":           "pickle",
	} {
		c := Cell{Cell: &result.Cell{Variant: text}}
		check.Equal(t, c.Without("network", "tls", "codec"), want, text)
	}
}

// TestPercentiles: a percentile is the median over six blocks or more, each with enough
// rounds, however many clients they have (guard 12).
func TestPercentiles(t *testing.T) {
	of := func(blocks, rounds, clients int) *Cell {
		cell := benchtest.Rounds(func(block, k int) float64 { return float64(block + k + 1) })
		cell.Blocks, cell.Clients = nil, clients
		for i := range blocks {
			b := result.Block{}
			for k := range rounds {
				b.Round = append(b.Round, int64(100*i+k+1)*1e6)
			}
			b.Down = slices.Repeat([]int64{5, 7}, rounds*clients/2)
			cell.Blocks = append(cell.Blocks, b)
		}
		return New(benchtest.Result(cell)).Cells[0]
	}
	c := of(7, 300, 2)
	p90, p99 := c.Of("round_p90"), c.Of("round_p99") // the median block has 301 to 600 ms
	check.That(t, math.Abs(p90.Center-0.5701) <= 1e-4 && p90.Confidence >= 0.95 && p90.Low < 0.3 && math.Abs(p99.Center-0.59701) <= 1e-4, "got p90 %+v, p99 %+v", p90, p99)
	unknown(t, c, "round_p99.9") // of 300 samples per block
	for _, test := range []struct {
		blocks, rounds, clients int
		want                    bool
	}{{5, 300, 1, false}, {6, 298, 1, false}, {6, 300, 1, true}, {6, 298, 2, false}, {6, 3, 2000, false}, {6, 299, 2, true}} {
		check.Equal(t, of(test.blocks, test.rounds, test.clients).Of("down_p99").Known(), test.want, test)
	}
}

// TestProfiledBlocksDoNotCount: profiled blocks are excluded, because a profile slows them
// down.
func TestProfiledBlocksDoNotCount(t *testing.T) {
	c := benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 10, 10, 10, 1000)
	c.Blocks[3].Profiled = true
	got := New(benchtest.Result(c)).Cells[0].Of("round")
	check.That(t, got.Center == 10e-3 && got.Blocks == 3, "got %+v", got)
}

// TestAbsent: values that a machine does not provide are unknown.
func TestAbsent(t *testing.T) {
	c := benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 10, 10)
	for i := range c.Blocks {
		b := &c.Blocks[i]
		b.Server.Memory.PSS, b.Server.Usage.Queue, b.System, b.Server.StalePeak = nil, nil, nil, true
	}
	unknown(t, New(benchtest.Result(c)).Cells[0], "pss", "queue_wait", "machine_busy", "peak_rss", "peak_rss_server", "rpcs", "wire_bytes", "attested")
}

// TestWhen: the duration over which blocks were spread is written without zeros at its end only.
func TestWhen(t *testing.T) {
	r := benchtest.Pair(1, 1)
	for spread, want := range map[time.Duration]string{
		0: "", 2 * time.Hour: "over 2h on ", 100 * time.Minute: "over 1h40m on ", 50 * time.Minute: "over 50m on ", 90 * time.Second: "over 1m30s on ",
	} {
		r.Plan.Spread = spread
		got := New(r).Cells[0].When()
		check.That(t, strings.HasPrefix(got, want) && (got == "") == (want == ""), "%v: got %q", spread, got)
	}
}

// TestBound: every cell has its ratio to the floor that bounds it, and six blocks are
// enough for 95 %.
func TestBound(t *testing.T) {
	six := func(x float64) (blocks [][]float64) {
		for _, v := range benchtest.Six(x) {
			blocks = append(blocks, []float64{v})
		}
		return blocks
	}
	floors := []result.Floor{
		{Name: "unix-stream", Unit: "B/s", Blocks: six(2e9)},
		{Name: "tcp-stream", Unit: "B/s", Bytes: 1e8, Blocks: six(1e9)},
		{Name: "tcp-stream", Unit: "B/s", Bytes: 1e6, Blocks: six(3e9)},
		{Name: "tcp-stream", Unit: "B/s", Bytes: 1e8, Setup: result.Setup{Link: link.Unshaped}, Blocks: six(4e9)},
		{Name: "tls-stream", Unit: "B/s", Bytes: 5e7, Blocks: six(5e9)},
		{Name: "unix-tls-stream", Unit: "B/s", Bytes: 1e8, Blocks: six(6e9)},
		{Name: "futex", Unit: "s", Model: "other", Blocks: six(1e-6)},
		{Name: "futex", Unit: "s", Model: "even", Blocks: six(50e-6)},
		{Name: "rpc-empty", Unit: "s", Variant: "http-shm", Blocks: six(100e-6)},
		{Name: "work", Unit: "s", Model: "even", Clients: 1, Blocks: six(8e-3)},
	}
	over := func(on link.Rate, network, tls string) result.Cell {
		c := steady("pickle", 400, "body")
		c.Link, c.Settings = on, map[string]string{"network": network, "tls": tls}
		return c
	}
	two := benchtest.Count(benchtest.Cell("pickle", even, 1, 2, benchtest.Six(400)...), "body.tensors", 1)
	const moved = 200e6 / 0.18 // bytes per second: 45 % of a round is transfer
	for _, tt := range []struct {
		name  string
		cell  result.Cell
		floor string
		want  float64
	}{
		{"control", steady("inproc", 10), "work", 1.25},
		{"control whose workers share the work", benchtest.Cell("inproc", even, 2, 1, benchtest.Six(10)...), "", math.NaN()},
		{"bytes", steady("pickle", 400, "body"), "unix-stream", moved / 2e9},
		{"bytes over TCP", over(link.Rate{}, "tcp", "off"), "tcp-stream", moved / 1e9},
		{"bytes on a link", over(link.Unshaped, "tcp", ""), "tcp-stream", moved / 4e9},
		{"encrypted over TCP", over(link.Rate{}, "tcp", "mutual"), "tls-stream", moved / 5e9},
		{"encrypted without TCP, by an older build", over(link.Rate{}, "unix", "on"), "", math.NaN()},
		{"on a link without a floor", over(benchtest.Text[link.Rate]("1Gbit"), "tcp", "off"), "", math.NaN()},
		{"handles", steady("shm-slab", 1, "handle"), "futex", 9},
		{"handles by calls", steady("http-shm", 1, "handle"), "rpc-empty", 2.25},
		{"two clients", two, "unix-stream", 2 * moved / 2e9}, // 20 ms per client
		{"nothing is known of what it moves", steady("pickle", 210), "", math.NaN()},
	} {
		r := benchtest.Result(tt.cell)
		r.Floors = floors
		floor, got := New(r).Cells[0].Bound()
		check.That(t, floor == tt.floor && got.Known() != math.IsNaN(tt.want) && (!got.Known() || math.Abs(got.Center/tt.want-1) <= 1e-3), "%s: got %v of %s, want %v of %s", tt.name, got, floor, tt.want, tt.floor)
		check.That(t, !got.Known() || got.Sure() && got.Low <= got.Center*0.99 && got.High >= got.Center*1.01, "%s: got %+v, want 95 %% and bounds that hold the spread of both", tt.name, got)
	}
}

// TestMetricTable: each metric has a unique name, a unit and a definition, and the metrics
// that scripts read exist.
func TestMetricTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		check.That(t, m.Help != "" && m.Unit != "" && !seen[m.Name] && (m.Better == "" || m.Better == Lower || m.Better == Higher) && m.source != nil, "metric %+v", m)
		seen[m.Name] = true
	}
	for _, name := range []string{"round", "overhead", "transfer", "down", "up", "train", "bandwidth", "goodput", "unattributed", "proved"} {
		check.That(t, seen[name], "no metric %s, which scripts read", name)
	}
}

// TestBudget: a server with a part of the processors has no overhead, because its control has all
// of them, and so it has no bandwidth.
func TestBudget(t *testing.T) {
	m := benchtest.Models["cnn"]
	r := benchtest.Result(benchtest.Cell("inproc", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("pickle", m, 1, 1, benchtest.Six(20)...))
	check.That(t, New(r).Cells[1].Of("overhead").Known(), "no overhead")
	r.Plan.ServerCPUs = 1
	unknown(t, New(r).Cells[1], "overhead", "bandwidth")
}
