package report

import (
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/stat"
)

// six returns six rounds around x.
func six(x float64) []float64 { return []float64{x * 0.98, x * 0.99, x, x, x * 1.01, x * 1.02} }

// pair returns a control of 10 ms and a transport of 20 ms that moves 100 MB each
// way.
func pair(workers, clients int) *bench.Result {
	m := bench.Model{Name: "even", Tensors: 4, Bytes: 100 * mb}
	return plainResult(
		plainCell("inproc", m, workers, clients, six(10)...),
		count(plainCell("pickle", m, workers, clients, six(20)...), "body.tensors", 16),
	)
}

// TestMetrics computes every metric by hand from a cell of 20 ms (the inproc
// cell of the same work takes 10 ms): 100 MB each way, 12 rounds in 6 blocks.
func TestMetrics(t *testing.T) {
	r := pair(1, 1)
	r.Cells[1] = count(r.Cells[1], "wire.sent", 500*mb)
	r.Cells[1] = count(r.Cells[1], "calls.a", 6)
	r.Cells[1] = count(r.Cells[1], "calls.b", 2)
	for i := range r.Cells[1].Blocks {
		b := &r.Cells[1].Blocks[i]
		b.Phases["decode"] = 4 * ms
		b.Phases["copy"] = 2 * ms
	}
	c := newView(r).cells[1]
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
		if got := c.of(name); math.Abs(got.Center-x) > 1e-9*math.Max(1, math.Abs(x))*100 {
			t.Errorf("%s: got %v, want %v", name, got.Center, x)
		}
	}
	if i := c.of("round"); i.N != 12 || i.Blocks != 6 || i.Low != 19.6e-3 || i.High != 20.4e-3 {
		t.Errorf("got round %+v, want 12 samples in 6 blocks from 19.6 to 20.4 ms", i)
	}
	for _, name := range []string{"round_p90", "round_p99", "copied_bytes"} { // 12 samples support no percentile (guard 12)
		if c.of(name).Known() {
			t.Errorf("got %s %v, want none", name, c.of(name).Center)
		}
	}
	for _, name := range []string{"overhead", "bandwidth"} {
		if inproc := newView(r).cells[0]; inproc.of(name).Known() {
			t.Errorf("the control has %s", name)
		}
	}
}

// TestBandwidth: there is one only of one client on one worker that moves bytes,
// and only if the overhead is told from zero.
func TestBandwidth(t *testing.T) {
	even := bench.Model{Name: "even", Tensors: 4, Bytes: 100 * mb}
	with := func(round []float64, counts ...string) *bench.Result {
		c := plainCell("x", even, 1, 1, round...)
		for _, name := range counts {
			count(c, name, 16)
		}
		return plainResult(plainCell("inproc", even, 1, 1, six(10)...), c)
	}
	tests := []struct {
		name   string
		result *bench.Result
		want   bool
	}{
		{"1 client on 1 worker", pair(1, 1), true},
		{"2 clients", pair(1, 2), false},
		{"2 workers", pair(2, 2), false},
		{"overhead may be zero", with([]float64{9.8, 10.2, 10, 9.9, 10.1, 10}, "body.tensors"), false},
		{"less than the control", with(six(9), "body.tensors"), false},
		{"a single block tells nothing", plainResult(plainCell("inproc", even, 1, 1, 10), count(plainCell("pickle", even, 1, 1, 20), "body.tensors", 16)), false},
		{"no control", plainResult(count(plainCell("pickle", even, 1, 1, six(20)...), "body.tensors", 16)), false},
		{"bytes", with(six(20), "body.tensors"), true},
		{"handles (guard 1)", with(six(20), "handle.tensors"), false},
		{"some handles", with(six(20), "handle.tensors", "body.tensors"), false},
		{"nothing is known of what it moves", with(six(20)), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newView(tt.result)
			if got := v.cells[len(v.cells)-1].of("bandwidth").Known(); got != tt.want {
				t.Errorf("got a bandwidth: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestAttested: what did not go the way of the transport's name shows with its
// reasons in the table (guard 15).
func TestAttested(t *testing.T) {
	m := models["cnn"]
	tests := []struct {
		name   string
		counts map[string]int64
		want   float64 // NaN: nothing attested
		note   string
	}{
		{"handles", map[string]int64{"handle.tensors": 40}, 1, ""},
		{"bodies", map[string]int64{"body.tensors": 40}, 1, ""},
		{"fallback", map[string]int64{"handle.tensors": 30, "body.tensors": 10, "fallback.full": 6, "fallback.dtype": 4}, 0.75, "only 75 % went the way of its name: dtype 12, full 18"},
		{"silent", map[string]int64{"handle.tensors": 30, "body.tensors": 10}, 0.75, "only 75 % went the way of its name"},
		{"never local", map[string]int64{"body.tensors": 40, "fallback.remote": 40}, 0, "only 0 % went the way of its name: remote 120"},
		{"nearly", map[string]int64{"handle.tensors": 99999, "body.tensors": 1, "fallback.full": 1}, 0.99999, "only 99.99 % went the way of its name: full 3"},
		{"no counters", nil, math.NaN(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cell := plainCell("http-shm", m, 1, 1, 10, 10, 10)
			for name, n := range tt.counts {
				count(cell, name, n)
			}
			r := plainResult(cell)
			c := newView(r).cells[0]
			if got := c.of("attested").Center; math.Abs(got-tt.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := c.note(); got != tt.note {
				t.Errorf("got note %q, want %q", got, tt.note)
			}
			if text := format(t, "text", r); tt.note != "" && !strings.Contains(text, tt.note) {
				t.Errorf("the table does not show it:\n%s", text)
			}
		})
	}
}

// TestNotes: what one number cannot say stands beside it (guard 11).
func TestNotes(t *testing.T) {
	m := models["cnn"]
	many := func(of func(block, round int) float64) bench.Cell {
		c := plainCell("pickle", m, 1, 1, 1, 1, 1, 1, 1, 1)
		for i := range c.Blocks {
			b := &c.Blocks[i]
			b.Round, b.Unattributed, b.Train, b.RTT, b.Down, b.Up, b.Phases = nil, 20, nil, nil, nil, nil, nil
			for k := range 20 {
				b.Round = append(b.Round, int64(of(i, k)*float64(ms)))
				for _, s := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
					*s = append(*s, 1)
				}
			}
		}
		return c
	}
	wobble := func(block, round int) float64 { return 0.01 * float64((round*7+block*3)%5) }
	tests := []struct {
		name string
		cell bench.Cell
		want string
	}{
		{"quiet", many(func(b, k int) float64 { return 10 + wobble(b, k) }), ""},
		{"two modes", many(func(b, k int) float64 { return 4 + 12*float64((k+b)%2) + wobble(b, k) }), "two modes: 4.02 ms (50 %) and 16.0 ms (50 %)"},
		{"drift within", many(func(b, k int) float64 { return 10 + 0.2*float64(k) + wobble(b, k) }), "drifts: +31.9 % within a block"},
		{"drift across", many(func(b, k int) float64 { return 10 + float64(b) + wobble(b, k) }), "drifts: +39"},
		{"outliers", many(func(b, k int) float64 {
			if k%8 == 0 {
				return 50
			}
			return 10 + wobble(b, k)
		}), "18 outliers among 120 rounds"},
		{"wide", plainCell("pickle", m, 1, 1, 8, 12, 9, 11, 10, 10), "time ran out at ±20 %"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newView(plainResult(tt.cell)).cells[0]
			if got := c.note(); got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestPercentiles: given where the rounds support them (guard 12).
func TestPercentiles(t *testing.T) {
	var rounds []float64
	for k := range 150 {
		rounds = append(rounds, float64(k+1))
	}
	c := newView(plainResult(plainCell("pickle", models["cnn"], 1, 1, rounds...))).cells[0] // each twice: 300
	if p := c.of("round_p90"); math.Abs(p.Center-135e-3) > 1e-3 || p.Confidence != 0 {
		t.Errorf("got p90 %+v", p)
	}
	if p := c.of("round_p99"); math.Abs(p.Center-149e-3) > 1e-3 {
		t.Errorf("got p99 %+v", p)
	}
	if c.of("round_p99.9").Known() {
		t.Error("p99.9 out of 300 samples")
	}
	for blocks, want := range map[int]bool{1: false, 2: false, 3: true} {
		cell := plainCell("pickle", models["cnn"], 1, 100, rounds[:blocks]...) // 200 clients in each
		if got := newView(plainResult(cell)).cells[0].of("down_p90").Known(); got != want {
			t.Errorf("%d blocks: got a percentile: %v, want %v", blocks, got, want)
		}
	}
}

// TestProfiledBlocksDoNotCount: a profile disturbs what it watches.
func TestProfiledBlocksDoNotCount(t *testing.T) {
	c := plainCell("pickle", models["cnn"], 1, 1, 10, 10, 10, 1000)
	c.Blocks[3].Profiled = true
	if got := newView(plainResult(c)).cells[0].of("round"); got.Center != 10e-3 || got.Blocks != 3 {
		t.Errorf("got %+v", got)
	}
}

// TestAbsent: what a machine does not tell is no number.
func TestAbsent(t *testing.T) {
	c := plainCell("pickle", models["cnn"], 1, 1, 10, 10)
	for i := range c.Blocks {
		c.Blocks[i].Server.Memory.PSS = nil
		c.Blocks[i].Server.Usage.Queue = nil
		c.Blocks[i].System = nil
		c.Blocks[i].Server.StalePeak = true
	}
	v := newView(plainResult(c)).cells[0]
	for _, name := range []string{"pss", "queue_wait", "machine_busy", "peak_rss", "peak_rss_server", "rpcs", "wire_bytes", "attested"} {
		if v.of(name).Known() {
			t.Errorf("got %s %v", name, v.of(name).Center)
		}
	}
}

// TestCSV reads the long table as a script would: the columns of issue 2, one row
// a cell and metric, floors as transport "floor".
func TestCSV(t *testing.T) {
	r := pair(1, 1)
	r.Cells[1].Settings = map[string]string{"lanes": "2", "elems": "off"}
	r.Floors = []bench.Floor{
		{Name: "copy", Unit: "B/s", Blocks: [][]float64{{3e9}, {4e9}}},
		{Name: "work", Unit: "s", Model: "even", Clients: 4, Blocks: [][]float64{{0.5, 0.5}}},
	}
	rows, err := csv.NewReader(strings.NewReader(format(t, "csv", r))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != "transport,model,workers,clients,settings,metric,unit,n,median,low,high,confidence,blocks,mode,commit" {
		t.Errorf("got header %s", got)
	}
	have := map[string]string{}
	for _, row := range rows[1:] {
		have[row[0]+" "+row[5]] = strings.Join(row, ",")
	}
	for key, want := range map[string]string{
		"pickle round": "pickle,even,1,1,elems=off;lanes=2,round,s,12,0.02,0.0196,0.0204,0.96875,6,default,0123456789abcdef",
		// The sixth of 36 differences from either end: 19.8 - 10.1 and 20.2 - 9.9.
		"pickle overhead":  "pickle,even,1,1,elems=off;lanes=2,overhead,s,12,0.01,0.0097,0.0103,0.958874458874,6,default,0123456789abcdef",
		"pickle bandwidth": "pickle,even,1,1,elems=off;lanes=2,bandwidth,B/s,12,20000000000,19417475728.2,20618556701,0.958874458874,6,default,0123456789abcdef",
		"pickle proved":    "pickle,even,1,1,elems=off;lanes=2,proved,1,6,1,,,0,6,default,0123456789abcdef",
		"floor copy":       "floor,-,1,1,,copy,B/s,2,3500000000,3000000000,4000000000,0.5,2,default,0123456789abcdef",
		"floor work":       "floor,even,1,1,clients=4,work,s,2,0.5,,,0,1,default,0123456789abcdef",
	} {
		if have[key] != want {
			t.Errorf("%s: got  %s\nwant %s", key, have[key], want)
		}
	}
	if have["inproc overhead"] != "" {
		t.Errorf("the control has an overhead: %s", have["inproc overhead"])
	}
	// A script must see that the bounds of a quick run are no 95 %, and of two builds
	// which is whose.
	r = interleaved(1)
	r.Plan.Mode = "quick"
	for i := range r.Cells {
		r.Cells[i].Blocks = r.Cells[i].Blocks[:3]
	}
	against := r.Environment
	against.Commit, against.Dirty = "fedcba", true
	r.Against = &against
	text := format(t, "csv", r)
	for _, want := range []string{
		"a,cnn,1,1,build=base,round,s,6,0.0199,0.0197,0.02004,0.75,3,quick,fedcba+dirty\n",
		"a,cnn,1,1,build=head,round,s,6,0.0199,0.0197,0.02004,0.75,3,quick,0123456789abcdef\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no row %s in\n%.2000s", want, text)
		}
	}
}

// TestQuotient: bounds hold for any sign of the dividend.
func TestQuotient(t *testing.T) {
	b := stat.Interval{Center: 2, Low: 1, High: 4, Confidence: 0.96}
	for _, tt := range []struct{ a, want stat.Interval }{
		{stat.Interval{Center: 8, Low: 4, High: 12, Confidence: 0.97}, stat.Interval{Center: 4, Low: 1, High: 12}},
		{stat.Interval{Center: 2, Low: -4, High: 8, Confidence: 0.97}, stat.Interval{Center: 1, Low: -4, High: 8}},
		{stat.Interval{Center: -2, Low: -4, High: -1, Confidence: 0.97}, stat.Interval{Center: -1, Low: -4, High: -0.25}},
	} {
		got := quotient(tt.a, b)
		if got.Center != tt.want.Center || got.Low != tt.want.Low || got.High != tt.want.High || math.Abs(got.Confidence-0.93) > 1e-9 {
			t.Errorf("%v / %v: got %v", tt.a, b, got)
		}
	}
}

// TestWaitMode: two wait modes of one transport are two rows, and CPU seconds
// stand beside their times (guard 20).
func TestWaitMode(t *testing.T) {
	m := models["cnn"]
	block, spin := plainCell("shm-slab", m, 1, 1, six(10)...), plainCell("shm-slab", m, 1, 1, six(9)...)
	spin.Variant, spin.Settings = "shm-slab:wait=spin", map[string]string{"wait": "spin"}
	block.Settings = map[string]string{"wait": "block"}
	for i := range spin.Blocks {
		spin.Blocks[i].Server.Usage.User *= 4
	}
	r := plainResult(block, spin)
	text := strings.Join(strings.Fields(format(t, "text", r)), " ")
	for _, want := range []string{"round, ms transfer, ms down, ms up, ms CPU s/GB", "shm-slab 10.0 ±0.2", "shm-slab:wait=spin 9.00 ±0.18"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if csv := format(t, "csv", r); !strings.Contains(csv, ",wait=block,cpu_per_gb,") || !strings.Contains(csv, ",wait=spin,cpu_per_gb,") {
		t.Error("CSV does not tell the modes apart")
	}
}

// TestBound: every cell shows how far it is from the floor that bounds it.
func TestBound(t *testing.T) {
	m := bench.Model{Name: "even", Tensors: 4, Bytes: 100 * mb}
	floors := []bench.Floor{
		{Name: "unix-stream", Unit: "B/s", Blocks: [][]float64{{2e9}, {2e9}}},
		{Name: "futex", Unit: "s", Model: "other", Blocks: [][]float64{{1e-6}}},
		{Name: "futex", Unit: "s", Model: "even", Blocks: [][]float64{{50e-6}, {50e-6}}},
		{Name: "rpc-empty", Unit: "s", Transport: "http-shm", Blocks: [][]float64{{100e-6}, {100e-6}}},
		{Name: "work", Unit: "s", Model: "even", Clients: 1, Blocks: [][]float64{{8e-3}, {8e-3}}},
	}
	inproc := func(workers, clients int) bench.Cell { return plainCell("inproc", m, workers, clients, six(10)...) }
	tests := []struct {
		name  string
		cells []bench.Cell
		want  string // of the last cell
	}{
		{"control", []bench.Cell{inproc(1, 1)}, "1.25× (1.22 to 1.28) work"},
		{"control whose workers share the work", []bench.Cell{inproc(2, 1)}, none},
		{"bytes", []bench.Cell{inproc(1, 1), count(plainCell("pickle", m, 1, 1, six(210)...), "body.tensors", 1)}, "0.500× (0.490 to 0.510) unix-stream"},
		// 45 % of a round is transfer.
		{"handles", []bench.Cell{inproc(1, 1), count(plainCell("shm-slab", m, 1, 1, six(1)...), "handle.tensors", 1)}, "9.00× (8.82 to 9.18) futex"},
		{"handles by calls", []bench.Cell{inproc(1, 1), count(plainCell("http-shm", m, 1, 1, six(1)...), "handle.tensors", 1)}, "2.25× (2.20 to 2.29) rpc-empty"},
		// Two clients on one worker: 20 ms a client, 45 % of them transfer.
		{"two clients", []bench.Cell{inproc(1, 2), count(plainCell("pickle", m, 1, 2, six(400)...), "body.tensors", 1)}, "1.11× (1.09 to 1.13) unix-stream"},
		{"nothing is known of what it moves", []bench.Cell{inproc(1, 1), plainCell("pickle", m, 1, 1, six(210)...)}, none},
		{"less than nothing", []bench.Cell{inproc(1, 1), count(plainCell("pickle", m, 1, 1, six(9)...), "body.tensors", 1)}, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := plainResult(tt.cells...)
			r.Floors = floors
			v := newView(r)
			if got := v.cells[len(v.cells)-1].boundText(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
