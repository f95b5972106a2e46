package report

import (
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/report/metrics"
)

// TestVerdict: the best, the runner-up or "too close to call", and what the
// wrong choice costs.
func TestVerdict(t *testing.T) {
	m := benchtest.Models["cnn"]
	inproc := benchtest.Cell("inproc", m, 1, 1, benchtest.Six(5)...)
	tests := []struct {
		name  string
		cells []result.Cell
		want  string
	}{
		{"one is best", []result.Cell{inproc, benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...), benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("http", m, 1, 1, benchtest.Six(15)...)},
			"shm-slab is best, 10.0 ms a round. The runner-up, http, costs 5.00 ms (4.75 to 5.25) more a round; the worst, pickle, 20.0 ms (19.5 to 20.5)."},
		{"two", []result.Cell{benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...), benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...)},
			"shm-slab is best, 10.0 ms a round. The runner-up, pickle, costs 20.0 ms (19.5 to 20.5) more a round."},
		{"too close", []result.Cell{benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Six(10.05)...), benchtest.Cell("c", m, 1, 1, benchtest.Six(20)...)},
			"a or b: too close to call, 10.0 ms a round. The worst, c, costs 10.0 ms (9.70 to 10.3) more a round."},
		{"one block is far off", []result.Cell{benchtest.Cell("a", m, 1, 1, 10, 10, 10, 10, 10, 210), benchtest.Cell("b", m, 1, 1, benchtest.Six(12)...), benchtest.Cell("c", m, 1, 1, benchtest.Six(20)...)},
			"a looks best, 10.0 ms a round, but 6 blocks cannot separate it from b or c (run with --blocks 12)."},
		{"all too close", []result.Cell{benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Six(10.01)...)},
			"a or b: too close to call, 10.0 ms a round."},
		{"three blocks", []result.Cell{benchtest.Cell("a", m, 1, 1, 9, 10, 11), benchtest.Cell("b", m, 1, 1, 19, 20, 21)},
			"a looks best, 10.0 ms a round, but 3 blocks cannot prove it (run with --blocks 6). The runner-up, b, costs 10.0 ms (8.00 to 12.0) more a round."},
		{"one block", []result.Cell{benchtest.Cell("a", m, 1, 1, 9), benchtest.Cell("b", m, 1, 1, 19)},
			"a looks best, 9.00 ms a round, but 1 block cannot separate it from b (run with --blocks 6)."},
		{"many too close", []result.Cell{
			benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("c", m, 1, 1, benchtest.Six(10)...),
			benchtest.Cell("d", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("e", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("f", m, 1, 1, benchtest.Six(10)...)},
			"a, b, c, d or 2 others: too close to call, 10.0 ms a round."},
		{"alone", []result.Cell{inproc, benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...)},
			"pickle takes 30.0 ms a round; there is nothing to compare it with."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := benchtest.Result(tt.cells...)
			got := verdictSentence(metrics.New(r).Verdicts()[0])
			check.That(t, got == tt.want, "got  %s\nwant %s", got, tt.want)
			wantLines(t, shown(t, r), tt.want)
			wantLines(t, shown(t, r, "verdict"), groupTitle(metrics.New(r).Verdicts()[0].Group)+": "+tt.want)
		})
	}
}

func built(build string, cells []result.Cell) []result.Cell {
	for i := range cells {
		cells[i].Build = build
	}
	return cells
}

// TestBuildColumn: rows name their build where there are two.
func TestBuildColumn(t *testing.T) {
	m := benchtest.Models["cnn"]
	var cells []result.Cell
	for _, build := range []string{"base", "head"} {
		c := benchtest.Count(benchtest.Cell("http", m, 1, 1, benchtest.Six(10)...), "calls.jobs", 2)
		cells = append(cells, built(build, []result.Cell{c})...)
	}
	for name, want := range map[string]string{"workers": "http cnn head 1 1", "calls": "http cnn head 1 1"} {
		text := shown(t, benchtest.Result(cells...), name)
		check.That(t, strings.Contains(text, want), "%s: no %q in\n%s", name, want, text)
	}
}

// TestVerdictTable: what another choice costs, in time and CPU time, where there are
// more comparisons than anybody reads sentences.
func TestVerdictTable(t *testing.T) {
	m := benchtest.Models["cnn"]
	var cells []result.Cell
	for clients := range mostSentences + 1 {
		cells = append(cells, benchtest.Cell("a", m, 1, clients+1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, clients+1, benchtest.Six(20)...),
			idle(benchtest.Cell("c", m, 1, clients+1, benchtest.Six(40)...), 8))
	}
	wantLines(t, shown(t, benchtest.Result(cells...), "verdict"),
		"model workers clients best round, ms runner-up costs, ms CPU, ms worst costs, ms CPU, ms",
		"cnn 1 1 a 10.0 ± 0.2 b 10.0 ± 0.3 15.0 ± 0.5 c 30.0 ± 0.6 −7.50 ± 0.23")
}

// idle returns c with CPU times divided by n.
func idle(c result.Cell, n time.Duration) result.Cell {
	for i := range c.Blocks {
		b := &c.Blocks[i]
		for _, u := range []*usage.Usage{&b.Server.Usage, &b.Processes[0].Usage} {
			u.User, u.System = u.User/n, u.System/n
		}
	}
	return c
}

// TestSummary: only what was compared counts, for each build by itself, and only
// what is proved is a win.
func TestSummary(t *testing.T) {
	cells := func(build string) []result.Cell {
		return built(build, []result.Cell{
			benchtest.Cell("a", benchtest.Models["cnn"], 1, 1, benchtest.Six(10)...), benchtest.Cell("b", benchtest.Models["cnn"], 1, 1, benchtest.Six(20)...),
			benchtest.Cell("a", benchtest.Models["resnet18"], 1, 1, 9, 10, 11), benchtest.Cell("b", benchtest.Models["resnet18"], 1, 1, 19, 20, 21),
			benchtest.Cell("a", benchtest.Models["histology"], 1, 1, benchtest.Six(10)...),
			benchtest.Cell("a", benchtest.Models["cnn"], 2, 4, benchtest.Six(10)...), benchtest.Cell("b", benchtest.Models["cnn"], 2, 4, benchtest.Six(10)...),
		})
	}
	for _, tt := range []struct {
		cells []result.Cell
		want  string
	}{
		{cells(""), "Of 3 comparisons: a is fastest in 1 and too close to call or not proved in 2."},
		{append(cells("base"), cells("head")...), "base: Of 3 comparisons: a is fastest in 1 and too close to call or not proved in 2.\nhead: Of 3 comparisons: a is fastest in 1 and too close to call or not proved in 2."},
		{cells("")[4:], ""},
	} {
		got := strings.Join(summaries(metrics.New(benchtest.Result(tt.cells...)).Verdicts()), "\n")
		check.That(t, got == tt.want, "got  %s\nwant %s", got, tt.want)
	}
}

// TestPhases observes B23: downlink, compute, uplink and what it takes to have the update
// (copy and decode, and reconstruct where it is a Go value) side by side, and the speed-up
// against pickle for each model.
func TestPhases(t *testing.T) {
	m := benchtest.Models["cnn"]
	pickle := benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...)
	for i := range pickle.Blocks {
		pickle.Blocks[i].Phases["decode"] = 6 * benchtest.MS
	}
	wantLines(t, shown(t, benchtest.Result(pickle, benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...)), "phases"),
		"transport transfer, ms down, ms train, ms uplink, ms copy and decode, ms speed-up of the transfer speed-up of the round",
		"pickle 13.5 ± 0.3 9.00 ± 0.18 15.0 ± 0.3 4.50 ± 0.09 3.00 ± 0.00 — —",
		"shm-slab 4.50 ± 0.09 3.00 ± 0.06 5.00 ± 0.10 1.50 ± 0.03 — 3.00 ± 0.07 3.00 ± 0.07")
	for i := range pickle.Blocks {
		pickle.Blocks[i].Phases["reconstruct"] = 2 * benchtest.MS
	}
	wantLines(t, shown(t, benchtest.Result(pickle), "phases"),
		"transport transfer, ms down, ms train, ms uplink, ms copy and decode, ms reconstruct, ms",
		"pickle 13.5 ± 0.3 9.00 ± 0.18 15.0 ± 0.3 4.50 ± 0.09 3.00 ± 0.00 1.00 ± 0.00")
}

func respawned(c result.Cell) result.Cell {
	c.Respawn = true
	return c
}

// TestWorkers observes B24: clients a second over clients × workers × model with
// their intervals, and how starting the workers (20 ms here) compares with a cold
// round: where all of the interval is above 1, it dominates.
func TestWorkers(t *testing.T) {
	small := benchtest.Models["cnn"]
	for _, tt := range []struct {
		name string
		cell result.Cell
		want string
	}{
		{"shorter", benchtest.Cell("a", small, 2, 4, benchtest.Six(8)...), "a cnn 2 4 500 ± 11 20.0 ± 0.0 24.0 ± 0.5 0.833 ± 0.018"},
		{"longer than a warm round only", benchtest.Cell("a", small, 1, 1, benchtest.Six(10)...), "a cnn 1 1 100 ± 3 20.0 ± 0.0 30.0 ± 0.6 0.667 ± 0.014"},
		{"longer", benchtest.Cell("a", small, 1, 1, benchtest.Six(3)...), "a cnn 1 1 333 ± 7 20.0 ± 0.0 9.00 ± 0.18 2.22 ± 0.05"},
		{"in every round", respawned(benchtest.Cell("a", small, 1, 1, benchtest.Six(35)...)), "a cnn 1 1 fresh workers for each round 28.6 ± 0.6 20.0 ± 0.0 15.0 ± 0.7 1.33 ± 0.07"},
		{"one block", benchtest.Cell("a", small, 1, 1, 3), "a cnn 1 1 333 20.0 9.00 2.22"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantLines(t, shown(t, benchtest.Result(tt.cell), "workers"), tt.want)
		})
	}
	start := func(c result.Cell) result.Cell { // 20 ms, and an end of 4
		for _, b := range c.Blocks {
			b.Phases["spawn"], b.Phases["stop"] = 2*20*benchtest.MS, 2*4*benchtest.MS
		}
		return respawned(c)
	}
	few := start(benchtest.Cell("a", small, 1, 1, benchtest.Six(40)...))
	many := start(benchtest.Cell("a", small, 1, 4, benchtest.Six(80)...))
	for want, cells := range map[string][]result.Cell{
		"Starting and ending them takes most of every round.":                {few},
		"Starting and ending them is nowhere shown to take most of a round.": {many, start(benchtest.Cell("b", small, 1, 1, 35))},
		"Starting and ending them takes most of the rounds of a (cnn, 248 kB in 10 tensors, 1 worker, 1 client, fresh workers for each round). Elsewhere that is not shown.": {few, many},
	} {
		wantLines(t, shown(t, benchtest.Result(cells...), "workers"),
			"Where each round has fresh workers, the cold round is the round without starting them. "+want)
	}
}

// TestCalls observes O10: the mix of requests, of which 160 of 192 (83 %) carry
// tensors where 8 collaborators fetch 20 tensors one by one (O1, O11).
func TestCalls(t *testing.T) {
	c := benchtest.Cell("grpc-tensor", result.Model{Name: "histology", Tensors: 20, Bytes: benchtest.MB}, 1, 8, 10, 10, 10)
	for name, n := range map[string]int64{"GetAggregatedTensor": 160, "GetTasks": 8, "SendLocalTaskResults": 24} {
		benchtest.Count(c, "calls."+name, 2*n) // two rounds a block
	}
	wantLines(t, shown(t, benchtest.Result(c), "calls"), "grpc-tensor histology 1 8 192 375 ± 0 10.0 100 160 GetAggregatedTensor (83 %), 24 SendLocalTaskResults (12 %), 8 GetTasks (4.2 %)")
	got := metrics.New(benchtest.Result(c)).Cells[0].Of("rpcs_tensors")
	check.That(t, got.Center == 160, "%v calls brought tensors, want 160", got)
}

// TestInService observes O8: how many requests a server worked on at once, and which
// share of them waited for a thread of the server, where threads are bounded.
func TestInService(t *testing.T) {
	bounded := benchtest.Cell("grpc-batch:threads=2", benchtest.Models["cnn"], 1, 8, benchtest.Six(10)...)
	free := benchtest.Cell("grpc-batch", benchtest.Models["cnn"], 1, 8, benchtest.Six(10)...)
	bounded.Settings["threads"], free.Settings["threads"] = "2", "0"
	for _, c := range []result.Cell{bounded, free} {
		for name, n := range map[string]int64{"calls.GetTasks": 8, "service.1": 30, "service.2": 10, "queued": 4} {
			benchtest.Count(c, name, n)
		}
	}
	wantLines(t, shown(t, benchtest.Result(bounded, free), "calls"),
		"transport model workers clients requests, per round down, µs in service in service, most requests queued, % CPU of the server, ms/round memory of the server, MB requests by kind",
		"grpc-batch:threads=2 cnn 1 8 4 375 ± 8 1.25 ± 0.00 2 10 ± 0 10.0 100 4 GetTasks (100 %)",
		"grpc-batch cnn 1 8 4 375 ± 8 1.25 ± 0.00 2 — 10.0 100 4 GetTasks (100 %)")
	v := metrics.New(benchtest.Result(bounded, free))
	for name, want := range map[string]float64{"in_service": 1.25, "in_service_most": 2, "queued_share": 0.1} {
		got := v.Cells[0].Of(name)
		check.That(t, got.Center == want, "%s: got %v, want %v", name, got, want)
	}
	check.That(t, !v.Cells[1].Of("queued_share").Known() && v.Cells[1].Of("in_service").Known(),
		"without a bound no request waits, and requests are counted all the same")
}

// TestConnections observes O12 and O22: what dialling for every call costs stands
// beside the calls, and so do calls that were made again; where there is none of
// them, there is no column.
func TestConnections(t *testing.T) {
	c := benchtest.Cell("grpc-tensor:conn=per-call", result.Model{Name: "histology", Tensors: 20, Bytes: benchtest.MB}, 1, 8, 10, 10, 10)
	for name, n := range map[string]int64{"calls.GetTasks": 192, "connections.dialled": 176, "connections.ns": 5 * benchtest.MS, "retries": 0} {
		benchtest.Count(c, name, 2*n)
	}
	header := func() string { return shown(t, benchtest.Result(c), "calls") }
	if got := header(); !strings.Contains(got, " requests, per round connections, per round connecting, ms/round down, µs") {
		t.Errorf("got columns %s", got)
	}
	v := metrics.New(benchtest.Result(c))
	if got, again := v.Cells[0].Of("connections"), v.Cells[0].Of("retries"); got.Center != 176 || again.Center != 0 {
		t.Errorf("got %v connections and %v retries, want 176 and 0", got, again)
	}
	if got := v.Cells[0].Of("connecting"); got.Center != 5e-3 {
		t.Errorf("got %v s of connecting, want 5 ms", got)
	}
	benchtest.Count(c, "retries", 4)
	if got := header(); !strings.Contains(got, " connecting, ms/round retries, per round ") {
		t.Errorf("got columns %s", got)
	}
	other := benchtest.Cell("http", benchtest.Models["cnn"], 1, 1, 10)
	if got := metrics.New(benchtest.Result(other)).Cells[0]; got.Of("connections").Known() || got.Of("retries").Known() {
		t.Error("what is not counted is known")
	}
}

// TestCaches observes A31: what the caches of workers grow by in a round, and what they are
// good for, is a cost; where nothing is kept there is no such column.
func TestCaches(t *testing.T) {
	cell := func(variant string, grown, hits int64) result.Cell {
		c := benchtest.Cell(variant, benchtest.Models["cnn"], 1, 1, benchtest.Six(10)...)
		c.Settings = map[string]string{"cache": "on"}
		for name, n := range map[string]int64{"cache.bytes": 2 * grown, "cache.hits": 2 * hits} { // two rounds a block
			if n != 0 {
				benchtest.Count(c, name, n)
			}
		}
		return c
	}
	none := benchtest.Count(benchtest.Cell("grpc-batch", benchtest.Models["cnn"], 1, 1, benchtest.Six(10)...), "cache.hits", 0)
	text := shown(t, benchtest.Result(cell("http:cache=on", 1000, 0), cell("http:cache=on:drain=on", 0, 3), none), "costs")
	if want := "caches grew by, kB/round found in caches, per round"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
	for _, want := range []string{" 1.00 1.00 0 20 ", " 1.00 0 3 20 ", " 1.00 — — 20 "} {
		check.That(t, strings.Contains(text, want), "no %q in\n%s", want, text)
	}
	if text := shown(t, benchtest.Result(none), "costs"); strings.Contains(text, "cache") {
		t.Errorf("columns of caches that are off:\n%s", text)
	}
}

// TestCrossover observes A33: from which size on the shared memory beats HTTP, with
// bounds.
func TestCrossover(t *testing.T) {
	uniform := func(bytes int64, name string) result.Model {
		return result.Model{Name: "uniform:" + name + "/4", Tensors: 4, Bytes: bytes}
	}
	sizes := []result.Model{uniform(1<<20, "1MiB"), uniform(4<<20, "4MiB"), uniform(16<<20, "16MiB"), uniform(64<<20, "64MiB")}
	named := []result.Model{benchtest.Models["cnn"], benchtest.Models["resnet18"], benchtest.Models["histology"]}
	cells := func(models []result.Model, a, b string, rounds ...[2]float64) []result.Cell {
		var all []result.Cell
		for i, m := range models[:len(rounds)] {
			all = append(all, benchtest.Cell("inproc", m, 1, 1, benchtest.Six(1)...),
				benchtest.Cell(a, m, 1, 1, benchtest.Six(rounds[i][0])...), benchtest.Cell(b, m, 1, 1, benchtest.Six(rounds[i][1])...))
		}
		return all
	}
	tests := []struct {
		name  string
		cells []result.Cell
		want  []string // rows, or none
	}{
		// The ratio goes from 1/2 to 2, as far in logarithms: the middle of 4 and 16 MiB.
		{"crosses", cells(sizes, "http", "http-shm", [2]float64{5, 20}, [2]float64{10, 20}, [2]float64{40, 20}, [2]float64{160, 20}), []string{
			"from to best round next takes over at", "1 MiB 4 MiB http 5.00 ms to 10.0 ms http-shm, 2.00 to 4.00 times", "16 MiB 64 MiB http-shm 20.0 ms http, 2.00 to 8.00 times 8.00 MiB (7.84 to 8.16)"}},
		{"to the end", built("head", cells(sizes, "http", "http-shm", [2]float64{5, 20}, [2]float64{10, 20}, [2]float64{20, 19.9})), []string{
			"uniform, 1 MiB to 16 MiB in 4 tensors, 1 worker, 1 client, head: the best", "1 MiB 16 MiB http 5.00 ms to 20.0 ms http-shm, 0.995 to 4.00 times"}},
		{"from the beginning", cells(sizes, "http", "http-shm", [2]float64{19.9, 20}, [2]float64{40, 20}, [2]float64{60, 20}), []string{
			"1 MiB 16 MiB http-shm 20.0 ms http, 0.995 to 3.00 times"}},
		{"other models", cells(named, "http", "http-shm", [2]float64{8, 10}, [2]float64{20, 20}, [2]float64{60, 20}), nil},
		{"one model", cells(named, "http", "http-shm", [2]float64{20, 10}), nil},
		{"two sizes are no curve", cells(sizes, "http", "http-shm", [2]float64{5, 20}, [2]float64{40, 20}), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := benchtest.Result(tt.cells...)
			s := sweeps(metrics.New(r))
			check.Need(t, s.Empty() == (tt.want == nil), "got %+v", s)
			if tt.want != nil {
				wantLines(t, shown(t, r, "crossover"), tt.want...)
			}
		})
	}
}
