package metrics

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
)

// TestMetrics computes every metric by hand from a cell of 20 ms (the inproc
// cell of the same work takes 10 ms): 100 MB each way, 12 rounds in 6 blocks.
func TestMetrics(t *testing.T) {
	r := benchtest.Pair(1, 1)
	r.Cells[1] = benchtest.Count(r.Cells[1], "wire.sent", 500*benchtest.MB)
	r.Cells[1] = benchtest.Count(r.Cells[1], "calls.a", 6)
	r.Cells[1] = benchtest.Count(r.Cells[1], "calls.b", 2)
	for i := range r.Cells[1].Blocks {
		b := &r.Cells[1].Blocks[i]
		b.Phases["decode"] = 4 * benchtest.MS
		b.Phases["copy"] = 2 * benchtest.MS
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
		"cpu_user_per_gb":   45e-3 / 0.4,
		"cpu_system_per_gb": 15e-3 / 0.4,
		"minor_faults":      20 / 0.4,
		"wire_bytes":        250e6, // another column than the payload (guard 5)
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
	if i := c.Of("round"); i.N != 12 || i.Blocks != 6 || i.Low != 19.6e-3 || i.High != 20.4e-3 {
		t.Errorf("got round %+v, want 12 samples in 6 blocks from 19.6 to 20.4 ms", i)
	}
	for _, name := range []string{"round_p90", "round_p99", "copied_bytes"} { // 12 samples support no percentile (guard 12)
		if c.Of(name).Known() {
			t.Errorf("got %s %v, want none", name, c.Of(name).Center)
		}
	}
	for _, name := range []string{"overhead", "bandwidth"} {
		inproc := New(r).Cells[0]
		check.That(t, !inproc.Of(name).Known(), "the control has %s", name)
	}
}

// TestBandwidth: there is one only of one client on one worker that moves bytes,
// and only if the overhead excludes zero.
func TestBandwidth(t *testing.T) {
	even := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	with := func(round []float64, counts ...string) *result.Result {
		c := benchtest.Cell("x", even, 1, 1, round...)
		for _, name := range counts {
			benchtest.Count(c, name, 16)
		}
		return benchtest.Result(benchtest.Cell("inproc", even, 1, 1, benchtest.Six(10)...), c)
	}
	tests := []struct {
		name   string
		result *result.Result
		want   bool
	}{
		{"1 client on 1 worker", benchtest.Pair(1, 1), true},
		{"2 clients", benchtest.Pair(1, 2), false},
		{"2 workers", benchtest.Pair(2, 2), false},
		{"overhead may be zero", with([]float64{9.8, 10.2, 10, 9.9, 10.1, 10}, "body.tensors"), false},
		{"less than the control", with(benchtest.Six(9), "body.tensors"), false},
		{"a single block tells nothing", benchtest.Result(benchtest.Cell("inproc", even, 1, 1, 10), benchtest.Count(benchtest.Cell("pickle", even, 1, 1, 20), "body.tensors", 16)), false},
		{"no control", benchtest.Result(benchtest.Count(benchtest.Cell("pickle", even, 1, 1, benchtest.Six(20)...), "body.tensors", 16)), false},
		{"bytes", with(benchtest.Six(20), "body.tensors"), true},
		{"handles (guard 1)", with(benchtest.Six(20), "handle.tensors"), false},
		{"some handles", with(benchtest.Six(20), "handle.tensors", "body.tensors"), false},
		{"nothing is known of what it moves", with(benchtest.Six(20)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := New(tt.result)
			check.Equal(t, v.Cells[len(v.Cells)-1].Of("bandwidth").Known(), tt.want, "got a bandwidth")
		})
	}
}

// TestPercentiles: given where the rounds support them (guard 12).
func TestPercentiles(t *testing.T) {
	var rounds []float64
	for k := range 150 {
		rounds = append(rounds, float64(k+1))
	}
	c := New(benchtest.Result(benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, rounds...))).Cells[0] // each twice: 300
	p := c.Of("round_p90")
	check.That(t, math.Abs(p.Center-135e-3) <= 1e-3 && p.Confidence == 0, "got p90 %+v", p)
	if p := c.Of("round_p99"); math.Abs(p.Center-149e-3) > 1e-3 {
		t.Errorf("got p99 %+v", p)
	}
	check.That(t, !c.Of("round_p99.9").Known(), "p99.9 out of 300 samples")
	for blocks, want := range map[int]bool{1: false, 2: false, 3: true} {
		cell := benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 100, rounds[:blocks]...) // 200 clients in each
		check.Equal(t, New(benchtest.Result(cell)).Cells[0].Of("down_p99").Known(), want, blocks, "blocks: got a percentile")
	}
}

// TestProfiledBlocksDoNotCount: a profile disturbs what it watches.
func TestProfiledBlocksDoNotCount(t *testing.T) {
	c := benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 10, 10, 10, 1000)
	c.Blocks[3].Profiled = true
	got := New(benchtest.Result(c)).Cells[0].Of("round")
	check.That(t, got.Center == 10e-3 && got.Blocks == 3, "got %+v", got)
}

// TestAbsent: what a machine does not tell is no number.
func TestAbsent(t *testing.T) {
	c := benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 10, 10)
	for i := range c.Blocks {
		c.Blocks[i].Server.Memory.PSS = nil
		c.Blocks[i].Server.Usage.Queue = nil
		c.Blocks[i].System = nil
		c.Blocks[i].Server.StalePeak = true
	}
	v := New(benchtest.Result(c)).Cells[0]
	for _, name := range []string{"pss", "queue_wait", "machine_busy", "peak_rss", "peak_rss_server", "rpcs", "wire_bytes", "attested"} {
		if v.Of(name).Known() {
			t.Errorf("got %s %v", name, v.Of(name).Center)
		}
	}
}

// TestBound: every cell shows how far it is from the floor that bounds it, and six
// blocks are enough for 95 %.
func TestBound(t *testing.T) {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
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
	inproc := func(workers, clients int) result.Cell {
		return benchtest.Cell("inproc", m, workers, clients, benchtest.Six(10)...)
	}
	over := func(on link.Rate, network, tls string) []result.Cell {
		c := benchtest.Count(benchtest.Cell("pickle", m, 1, 1, benchtest.Six(400)...), "body.tensors", 1)
		c.Link, c.Settings = on, map[string]string{"network": network, "tls": tls}
		return []result.Cell{inproc(1, 1), c}
	}
	tests := []struct {
		name  string
		cells []result.Cell
		floor string // of the last cell
		want  float64
	}{
		{"control", []result.Cell{inproc(1, 1)}, "work", 1.25},
		{"control whose workers share the work", []result.Cell{inproc(2, 1)}, "", math.NaN()},
		// 45 % of a round is transfer.
		{"bytes", []result.Cell{inproc(1, 1), benchtest.Count(benchtest.Cell("pickle", m, 1, 1, benchtest.Six(400)...), "body.tensors", 1)}, "unix-stream", 200e6 / 0.18 / 2e9},
		{"bytes over TCP", over(link.Rate{}, "tcp", "off"), "tcp-stream", 200e6 / 0.18 / 1e9},
		{"bytes on a link", over(link.Unshaped, "tcp", ""), "tcp-stream", 200e6 / 0.18 / 4e9},
		{"encrypted over TCP", over(link.Rate{}, "tcp", "mutual"), "tls-stream", 200e6 / 0.18 / 5e9},
		{"encrypted without TCP, by an older build", over(link.Rate{}, "unix", "on"), "", math.NaN()},
		{"on a link without a floor", over(benchtest.Text[link.Rate]("1Gbit"), "tcp", "off"), "", math.NaN()},
		{"handles", []result.Cell{inproc(1, 1), benchtest.Count(benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(1)...), "handle.tensors", 1)}, "futex", 9},
		{"handles by calls", []result.Cell{inproc(1, 1), benchtest.Count(benchtest.Cell("http-shm", m, 1, 1, benchtest.Six(1)...), "handle.tensors", 1)}, "rpc-empty", 2.25},
		// Two clients on one worker: 20 ms a client, 45 % of them transfer.
		{"two clients", []result.Cell{inproc(1, 2), benchtest.Count(benchtest.Cell("pickle", m, 1, 2, benchtest.Six(400)...), "body.tensors", 1)}, "unix-stream", 200e6 / 0.09 / 2e9},
		{"nothing is known of what it moves", []result.Cell{inproc(1, 1), benchtest.Cell("pickle", m, 1, 1, benchtest.Six(210)...)}, "", math.NaN()},
		{"without a control", []result.Cell{benchtest.Count(benchtest.Cell("pickle", m, 1, 1, benchtest.Six(400)...), "body.tensors", 1)}, "unix-stream", 200e6 / 0.18 / 2e9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := benchtest.Result(tt.cells...)
			r.Floors = floors
			v := New(r)
			floor, got := v.Cells[len(v.Cells)-1].Bound()
			if floor != tt.floor || got.Known() == math.IsNaN(tt.want) || got.Known() && math.Abs(got.Center/tt.want-1) > 1e-3 {
				t.Errorf("got %v of %s, want %v of %s", got, floor, tt.want, tt.floor)
			}
			check.That(t, !got.Known() || got.Sure() && got.Low <= got.Center*0.99 && got.High >= got.Center*1.01,
				"got %+v, want 95 %% and bounds that hold the spread of both", got)
		})
	}
}

// TestMarks: what one number cannot say stands beside it (guards 11 and 15).
func TestMarks(t *testing.T) {
	m := benchtest.Models["cnn"]
	counted := func(counts map[string]int64) result.Cell {
		c := benchtest.Cell("http-shm", m, 1, 1, 10, 10, 10)
		for name, n := range counts {
			benchtest.Count(c, name, n)
		}
		return c
	}
	wobble := func(block, round int) float64 { return 0.01 * float64((round*7+block*3)%5) }
	stopped := benchtest.Cell("pickle", m, 1, 1, 10, 10, 10)
	stopped.Stopped = "interrupted"
	tests := []struct {
		name string
		cell result.Cell
		want Marks
	}{
		{"no counters", counted(nil), Marks{}},
		{"handles", counted(map[string]int64{"handle.tensors": 40}), Marks{}},
		{"bodies", counted(map[string]int64{"body.tensors": 40}), Marks{}},
		{"fallback", counted(map[string]int64{"handle.tensors": 30, "body.tensors": 10, "fallback.full": 6, "fallback.dtype": 4}),
			Marks{Astray: true, Attested: 0.75, Reasons: map[string]int64{"full": 18, "dtype": 12}}},
		{"silent", counted(map[string]int64{"handle.tensors": 30, "body.tensors": 10}), Marks{Astray: true, Attested: 0.75, Reasons: map[string]int64{}}},
		{"never local", counted(map[string]int64{"body.tensors": 40, "fallback.remote": 40}), Marks{Astray: true, Reasons: map[string]int64{"remote": 120}}},
		{"nearly", counted(map[string]int64{"handle.tensors": 99999, "body.tensors": 1, "fallback.full": 1}),
			Marks{Astray: true, Attested: 0.99999, Reasons: map[string]int64{"full": 3}}},
		{"interrupted", stopped, Marks{Interrupted: true}},
		{"quiet", benchtest.Rounds(func(b, k int) float64 { return 10 + wobble(b, k) }), Marks{}},
		{"two modes", benchtest.Rounds(func(b, k int) float64 { return 4 + 12*float64((k+b)%2) + wobble(b, k) }),
			Marks{Modes: []stat.Mode{{Center: 4.02e-3, Share: 0.5}, {Center: 16.02e-3, Share: 0.5}}}},
		{"drift within", benchtest.Rounds(func(b, k int) float64 { return 10 + 0.2*float64(k) + wobble(b, k) }), Marks{Drift: stat.Trend{Within: 0.319}}},
		{"drift across", benchtest.Rounds(func(b, k int) float64 { return 10 + float64(b) + wobble(b, k) }), Marks{Drift: stat.Trend{Across: 0.4}}},
		{"outliers", benchtest.Rounds(func(b, k int) float64 {
			if k%8 == 0 {
				return 50
			}
			return 10 + wobble(b, k)
		}), Marks{Outliers: 18}},
		{"wide", benchtest.Cell("pickle", m, 1, 1, 8, 12, 9, 11, 10, 10), Marks{OutOfTime: 0.2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := New(benchtest.Result(tt.cell)).Cells[0].Marks()
			if tt.want.OutOfTime == 0 {
				got.OutOfTime = 0
			}
			diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 0.01))
			check.That(t, diff == "" && (!got.Astray || got.Attested != 1), "(-want +got):\n%s", diff)
		})
	}
}

// TestMetricTable: each metric has a name of its own, a unit and a definition, and
// those that scripts read are there.
func TestMetricTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if m.Help == "" || m.Unit == "" || seen[m.Name] || (m.Better != "" && m.Better != Lower && m.Better != Higher) || m.source == nil {
			t.Errorf("metric %+v", m)
		}
		seen[m.Name] = true
	}
	for _, name := range []string{"round", "overhead", "transfer", "down", "up", "train", "bandwidth", "goodput", "unattributed", "proved"} {
		check.That(t, seen[name], "no metric %s, which scripts read", name)
	}
}
