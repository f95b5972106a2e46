package report

import (
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/phase/usage"
	"ipcbench/report/analysis"
)

// sentences returns the paragraphs of a view.
func sentences(t testing.TB, name string, r *bench.Result) string {
	t.Helper()
	v, err := viewNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	s := v.make(analysis.New(r))
	return strings.Join(append(s.lead, s.tail...), "\n")
}

// TestVerdict: the best, the runner-up or "too close to call", and what the
// wrong choice costs.
func TestVerdict(t *testing.T) {
	m := benchtest.Models["cnn"]
	inproc := benchtest.Cell("inproc", m, 1, 1, benchtest.Six(5)...)
	tests := []struct {
		name  string
		cells []bench.Cell
		want  string
	}{
		{"one is best", []bench.Cell{inproc, benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...), benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("http", m, 1, 1, benchtest.Six(15)...)},
			"cnn, 1 worker, 1 client: shm-slab is best, 10.0 ms a round. The runner-up, http, costs 5.00 ms (4.75 to 5.25) a round more and 7.50 ms (7.12 to 7.88) more CPU time; " +
				"the worst choice, pickle, costs 20.0 ms (19.5 to 20.5) a round more and 30.0 ms (29.3 to 30.7) more CPU time."},
		{"two", []bench.Cell{benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...), benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...)},
			"cnn, 1 worker, 1 client: shm-slab is best, 10.0 ms a round. The runner-up, pickle, costs 20.0 ms (19.5 to 20.5) a round more and 30.0 ms (29.3 to 30.7) more CPU time."},
		{"too close", []bench.Cell{benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Six(10.05)...), benchtest.Cell("c", m, 1, 1, benchtest.Six(20)...)},
			"cnn, 1 worker, 1 client: a and b are too close to call, from 10.0 ms a round on; the worst choice, c, costs 10.0 ms (9.70 to 10.3) a round more and 15.0 ms (14.5 to 15.4) more CPU time."},
		{"all too close", []bench.Cell{benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Six(10.01)...)},
			"cnn, 1 worker, 1 client: a and b are too close to call, from 10.0 ms a round on."},
		{"three blocks", []bench.Cell{benchtest.Cell("a", m, 1, 1, 9, 10, 11), benchtest.Cell("b", m, 1, 1, 19, 20, 21)},
			"cnn, 1 worker, 1 client: a looks best, 10.0 ms a round, though 3 blocks cannot prove it. The runner-up, b, costs 10.0 ms (8.00 to 12.0) a round more and 15.0 ms (12.0 to 18.0) more CPU time."},
		{"as much CPU time", []bench.Cell{benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), idle(benchtest.Cell("b", m, 1, 1, benchtest.Six(20)...), 2)},
			"cnn, 1 worker, 1 client: a is best, 10.0 ms a round. The runner-up, b, costs 10.0 ms (9.70 to 10.3) a round more."},
		{"less CPU time", []bench.Cell{benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), idle(benchtest.Cell("b", m, 1, 1, benchtest.Six(20)...), 4)},
			"cnn, 1 worker, 1 client: a is best, 10.0 ms a round. The runner-up, b, costs 10.0 ms (9.70 to 10.3) a round more and 7.50 ms (7.27 to 7.72) less CPU time."},
		{"one block", []bench.Cell{benchtest.Cell("a", m, 1, 1, 9), benchtest.Cell("b", m, 1, 1, 19)},
			"cnn, 1 worker, 1 client: a and b are too close to call, from 9.00 ms a round on."},
		{"alone", []bench.Cell{inproc, benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...)},
			"cnn, 1 worker, 1 client: pickle takes 30.0 ms a round; nothing else was measured."},
		{"control only", []bench.Cell{inproc}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sentences(t, "verdict", benchtest.Result(tt.cells...)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func built(build string, cells []bench.Cell) []bench.Cell {
	for i := range cells {
		cells[i].Build = build
	}
	return cells
}

// TestBuildColumn: rows of two builds are told apart.
func TestBuildColumn(t *testing.T) {
	m := benchtest.Models["cnn"]
	var cells []bench.Cell
	for _, build := range []string{"base", "head"} {
		c := benchtest.Count(benchtest.Cell("http", m, 1, 1, benchtest.Six(10)...), "calls.jobs", 2)
		cells = append(cells, built(build, []bench.Cell{c})...)
	}
	for name, want := range map[string]string{"workers": "http cnn head 1 1", "calls": "http cnn head 1 1"} {
		v, _ := viewNamed(name)
		if text := strings.Join(lines(t, v.make(analysis.New(benchtest.Result(cells...)))), "\n"); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", name, want, text)
		}
	}
}

// idle returns c with CPU times divided by n.
func idle(c bench.Cell, n time.Duration) bench.Cell {
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
	cells := func(build string) []bench.Cell {
		return built(build, []bench.Cell{
			benchtest.Cell("a", benchtest.Models["cnn"], 1, 1, benchtest.Six(10)...), benchtest.Cell("b", benchtest.Models["cnn"], 1, 1, benchtest.Six(20)...),
			benchtest.Cell("a", benchtest.Models["resnet18"], 1, 1, 9, 10, 11), benchtest.Cell("b", benchtest.Models["resnet18"], 1, 1, 19, 20, 21),
			benchtest.Cell("a", benchtest.Models["histology"], 1, 1, benchtest.Six(10)...),
		})
	}
	for _, tt := range []struct {
		cells []bench.Cell
		want  string
	}{
		{cells(""), "Fastest of 2 comparisons: a in 1; 1 not proved."},
		{append(cells("base"), cells("head")...), "base: Fastest of 2 comparisons: a in 1; 1 not proved.\nhead: Fastest of 2 comparisons: a in 1; 1 not proved."},
		{cells("")[4:], ""},
	} {
		if got := strings.Join(summaries(analysis.New(benchtest.Result(tt.cells...)).Verdicts()), "\n"); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestPhases observes B23: downlink, compute, uplink and reconstruct (copy and decode) side by
// side, and the speed-up against pickle for each model.
func TestPhases(t *testing.T) {
	m := benchtest.Models["cnn"]
	pickle := benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...)
	for i := range pickle.Blocks {
		pickle.Blocks[i].Phases["decode"] = 6 * benchtest.MS
	}
	text := format(t, "text", benchtest.Result(pickle, benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...)))
	for _, want := range []string{
		" transport    down, ms   train, ms   uplink, ms  copy and decode, ms  round, ms  speed-up of transfer  speed-up of the round ",
		" pickle     9.00 ±0.18  15.0 ±0.3  4.50 ±0.09       3.00 ±0.00  30.0 ±0.6                     —                      — ",
		" shm-slab   3.00 ±0.06  5.00 ±0.10  1.50 ±0.03                —  10.0 ±0.2  3.00× (2.94 to 3.06)   3.00× (2.94 to 3.06) ",
	} {
		squeezed := strings.Join(strings.Fields(want), " ")
		if !strings.Contains(strings.Join(strings.Fields(text), " "), squeezed) {
			t.Errorf("no line %s in\n%s", squeezed, text)
		}
	}
}

func respawned(c bench.Cell) bench.Cell {
	c.Respawn = true
	return c
}

// TestWorkers observes B24: clients a second over clients × workers × model with
// their intervals, and where starting the workers dominates (20 ms here).
func TestWorkers(t *testing.T) {
	small, large := benchtest.Models["cnn"], benchtest.Models["histology"]
	inproc := benchtest.Cell("inproc", small, 1, 1, benchtest.Six(5)...)
	tests := []struct {
		name  string
		cells []bench.Cell
		want  string
	}{
		{"nowhere", []bench.Cell{inproc, benchtest.Cell("a", small, 1, 1, benchtest.Six(30)...)}, "In no cell is starting the workers shown to take longer than all else in a cold round."},
		{"longer than a warm round only", []bench.Cell{benchtest.Cell("a", small, 1, 1, benchtest.Six(10)...)}, "In no cell is starting the workers shown to take longer than all else in a cold round."},
		{"everywhere", []bench.Cell{inproc, benchtest.Cell("a", small, 1, 1, benchtest.Six(3)...)}, "Starting the workers takes longer than all else in a cold round everywhere: a session that is started for every round spends most of its time so."},
		{"a model", []bench.Cell{benchtest.Cell("a", small, 1, 1, benchtest.Six(3)...), benchtest.Cell("a", small, 2, 4, benchtest.Six(6)...), benchtest.Cell("a", large, 1, 1, benchtest.Six(300)...)},
			"Starting the workers takes longer than all else in a cold round, and so dominates a session that is started for every round, for all cells of cnn."},
		{"a cell", []bench.Cell{benchtest.Cell("a", small, 1, 1, benchtest.Six(3)...), benchtest.Cell("a", small, 2, 4, benchtest.Six(60)...)},
			"Starting the workers takes longer than all else in a cold round, and so dominates a session that is started for every round, for a at cnn, 1 worker, 1 client."},
		{"in every round", []bench.Cell{respawned(benchtest.Cell("a", small, 1, 1, benchtest.Six(35)...)), respawned(benchtest.Cell("a", large, 1, 1, benchtest.Six(45)...))},
			"Starting the workers takes longer than all else in a cold round, and so dominates a session that is started for every round, for all cells of cnn."},
		{"no telling", []bench.Cell{benchtest.Cell("a", small, 1, 1, 3)}, "In no cell is starting the workers shown to take longer than all else in a cold round."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, _, _ := strings.Cut(sentences(t, "workers", benchtest.Result(tt.cells...)), "\n"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	text := strings.Join(strings.Fields(format(t, "text", benchtest.Result(benchtest.Cell("a", small, 2, 4, benchtest.Six(8)...)))), " ")
	if want := "a cnn 2 4 500 ±11 20.0 ±0.0 24.0 ±0.5 0.833"; !strings.Contains(text, want) {
		t.Errorf("no row %q in %s", want, text)
	}
}

// TestCalls observes O10: the mix of requests, of which 160 of 192 (83 %) carry
// tensors where 8 collaborators fetch 20 tensors one by one (O1, O11).
func TestCalls(t *testing.T) {
	c := benchtest.Cell("grpc-tensor", bench.Model{Name: "histology", Tensors: 20, Bytes: benchtest.MB}, 1, 8, 10, 10, 10)
	for name, n := range map[string]int64{"GetTensor": 160, "GetTasks": 8, "SendResults": 24} {
		benchtest.Count(c, "calls."+name, 2*n) // two rounds a block
	}
	text := strings.Join(strings.Fields(format(t, "text", benchtest.Result(c))), " ")
	if want := "grpc-tensor histology 1 8 192 0.375 ±0.000 0.0100 100 160 GetTensor (83 %), 24 SendResults (12 %), 8 GetTasks (4.2 %)"; !strings.Contains(text, want) {
		t.Errorf("no row %q in %s", want, text)
	}
}

// TestConnections observes O12 and O22: what dialling for every call costs stands
// beside the calls, and so do calls that were made again; where there is none of
// them, there is no column.
func TestConnections(t *testing.T) {
	c := benchtest.Cell("grpc-tensor:conn=per-call", bench.Model{Name: "histology", Tensors: 20, Bytes: benchtest.MB}, 1, 8, 10, 10, 10)
	for name, n := range map[string]int64{"calls.GetTasks": 192, "connections.dialled": 176, "connections.ns": 5 * benchtest.MS, "retries": 0} {
		benchtest.Count(c, name, 2*n)
	}
	header := func() string {
		return strings.Join(callTable(analysis.New(benchtest.Result(c))).tables[0].header, "|")
	}
	if got := header(); !strings.Contains(got, "|calls a round|connections a round|connecting, ms|down, ms|") {
		t.Errorf("got columns %s", got)
	}
	v := analysis.New(benchtest.Result(c))
	if got, again := v.Cells[0].Of("connections"), v.Cells[0].Of("retries"); got.Center != 176 || again.Center != 0 {
		t.Errorf("got %v connections and %v retries, want 176 and 0", got, again)
	}
	if got := v.Cells[0].Of("connecting"); got.Center != 5e-3 {
		t.Errorf("got %v s of connecting, want 5 ms", got)
	}
	benchtest.Count(c, "retries", 4)
	if got := header(); !strings.Contains(got, "|connecting, ms|retries a round|") {
		t.Errorf("got columns %s", got)
	}
	other := benchtest.Cell("http", benchtest.Models["cnn"], 1, 1, 10)
	if got := analysis.New(benchtest.Result(other)).Cells[0]; got.Of("connections").Known() || got.Of("retries").Known() {
		t.Error("what is not counted is known")
	}
}

// TestCrossover observes A33: from which size and count of tensors on the shared
// memory beats HTTP, with bounds, and what part of a round is at stake.
func TestCrossover(t *testing.T) {
	small, middle, large := benchtest.Models["cnn"], benchtest.Models["resnet18"], benchtest.Models["histology"]
	cells := func(a, b string, rounds ...[2]float64) []bench.Cell {
		var all []bench.Cell
		for i, m := range []bench.Model{small, middle, large}[:len(rounds)] {
			all = append(all, benchtest.Cell("inproc", m, 1, 1, benchtest.Six(5)...),
				benchtest.Cell(a, m, 1, 1, benchtest.Six(rounds[i][0])...), benchtest.Cell(b, m, 1, 1, benchtest.Six(rounds[i][1])...))
		}
		return all
	}
	const bounds = "\nA crossing is given as the two measured sizes between which it lies. Intervals have at least 96 % confidence; faster means that that of the ratio excludes 1."
	tests := []struct {
		name  string
		cells []bench.Cell
		want  string
	}{
		{"crosses", cells("http", "http-shm", [2]float64{8, 10}, [2]float64{20, 20}, [2]float64{60, 20}),
			"With 1 worker and 1 client: http-shm overtakes http between cnn (248 kB in 10 tensors), where it is slower than http (0.800× (0.784 to 0.816)), " +
				"and histology (66.6 MB in 20 tensors), where it is faster (3.00× (2.94 to 3.06)); not decided: 1.00× (0.98 to 1.02) at resnet18 (46.8 MB in 122 tensors). " +
				"Of a round of http, moving tensors is 38 % at cnn (35 % to 40 %) and 92 % at histology (88 % to 95 %)."},
		{"no crossing shown", cells("http", "http-shm", [2]float64{20, 20}, [2]float64{60, 20}),
			"With 1 worker and 1 client: http-shm is faster than http: 3.00× (2.94 to 3.06) at resnet18 (46.8 MB in 122 tensors); not decided: 1.00× (0.98 to 1.02) at cnn (248 kB in 10 tensors). Of"},
		{"no telling at the largest", cells("http", "http-shm", [2]float64{20, 10}, [2]float64{20, 20}),
			"With 1 worker and 1 client: http-shm is faster than http: 2.00× (1.96 to 2.04) at cnn (248 kB in 10 tensors); not decided: 1.00× (0.98 to 1.02) at resnet18 (46.8 MB in 122 tensors). Of"},
		{"slower first", cells("http-shm", "http", [2]float64{10, 8}, [2]float64{10, 20}, [2]float64{20, 60}),
			"With 1 worker and 1 client: http-shm overtakes http between cnn (248 kB in 10 tensors), where it is slower than http (0.800× (0.784 to 0.816)), " +
				"and resnet18 (46.8 MB in 122 tensors), where it is faster (2.00× (1.96 to 2.04)), up to 3.00× (2.94 to 3.06) at histology (66.6 MB in 20 tensors). Of"},
		{"always ahead", cells("http", "http-shm", [2]float64{20, 10}, [2]float64{60, 20}),
			"With 1 worker and 1 client: http-shm beats http at every size measured, from 2.00× (1.96 to 2.04) at cnn (248 kB in 10 tensors) to 3.00× (2.94 to 3.06) at resnet18 (46.8 MB in 122 tensors). Of"},
		{"close", cells("http", "http-shm", [2]float64{20, 20}, [2]float64{20, 20}),
			"With 1 worker and 1 client: http and http-shm are too close to call at every size up to 1.00× (0.98 to 1.02) at resnet18 (46.8 MB in 122 tensors). Of"},
		{"of a build", built("head", cells("grpc", "storage", [2]float64{20, 40}, [2]float64{40, 20})), "With 1 worker and 1 client, head: storage overtakes grpc"},
		{"another pair", cells("grpc", "storage", [2]float64{20, 40}, [2]float64{40, 20}),
			"With 1 worker and 1 client: storage overtakes grpc between cnn (248 kB in 10 tensors), where it is slower than grpc (0.500× (0.490 to 0.510)), and resnet18 (46.8 MB in 122 tensors), where it is faster (2.00× (1.96 to 2.04))." + bounds},
		{"no order", cells("a", "b", [2]float64{20, 40}, [2]float64{40, 20}, [2]float64{20, 20}),
			"With 1 worker and 1 client: a is faster: 2.00× (1.96 to 2.04) at cnn (248 kB in 10 tensors); b is faster: 0.500× (0.490 to 0.510) at resnet18 (46.8 MB in 122 tensors); no size decides." + bounds},
		{"another pair that does not cross", cells("a", "b", [2]float64{20, 40}, [2]float64{20, 40}), ""},
		{"one model", cells("http", "http-shm", [2]float64{20, 10}), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := sentences(t, "crossover", benchtest.Result(tt.cells...))
			if got != tt.want && !(tt.want != "" && strings.HasPrefix(got, tt.want)) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
