package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// TestVerdict: a verdict names the best and the runner-up, or "too close to call", and the
// cost of the wrong choice.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cells []result.Cell
		want  string
	}{
		{"one is best", []result.Cell{six("inproc", 5), six("pickle", 30), six("shm-slab", 10), six("http", 15)},
			"shm-slab is the fastest, 10.0 ms per round. The next, http, takes 5.00 ms (4.75 to 5.25) longer; the slowest, pickle, 20.0 ms (19.5 to 20.5)."},
		{"two", []result.Cell{six("pickle", 30), six("shm-slab", 10)},
			"shm-slab is the fastest, 10.0 ms per round. The next, pickle, takes 20.0 ms (19.5 to 20.5) longer."},
		{"too close", []result.Cell{six("a", 10), six("b", 10.05), six("c", 20)},
			"a and b are too close to call, at 10.0 ms per round: a round with b is from 1.5 % shorter to 2.5 % longer. The next, c, takes 10.0 ms (9.70 to 10.3) longer."},
		{"one block is far off", []result.Cell{cnn("a", 10, 10, 10, 10, 10, 210), six("b", 12), six("c", 20)},
			"a has the lowest median, 10.0 ms per round, but there are too few blocks (6) to tell it from b and c (use --blocks 12): a round with the others is from 94 % shorter to 2.02 times as long."},
		{"all too close", []result.Cell{six("a", 10), six("b", 10.01)},
			"a and b are too close to call, at 10.0 ms per round: a round with b is from 1.9 % shorter to 2.1 % longer."},
		{"three blocks", []result.Cell{cnn("a", 9, 10, 11), cnn("b", 19, 20, 21)},
			"a has the lowest median, 10.0 ms per round, but there are too few blocks (3) to show that it is the fastest (use --blocks 6). The next, b, takes 10.0 ms (8.00 to 12.0) longer."},
		{"one block", []result.Cell{cnn("a", 9), cnn("b", 19)},
			"a has the lowest median, 9.00 ms per round, but there are too few blocks (1) to tell it from b (use --blocks 6)."},
		{"many too close", []result.Cell{
			six("a", 10), six("b", 10), six("c", 10),
			six("d", 10), six("e", 10), six("f", 10)},
			"a, b, c, d and 2 more are too close to call, at 10.0 ms per round: a round with the others is from 2.0 % shorter to 2.0 % longer."},
		{"alone", []result.Cell{six("inproc", 5), six("pickle", 30)},
			"pickle takes 30.0 ms per round; there is nothing to compare it with."},
	} {
		r := benchtest.Result(tt.cells...)
		wantLines(t, shown(t, r), tt.want)
		wantLines(t, shown(t, r, "verdict"), table.GroupTitle(contrast.Verdicts(metrics.New(r))[0].Group)+": "+tt.want)
	}
}

func built(build string, cells []result.Cell) []result.Cell {
	for i := range cells {
		cells[i].Program = build
	}
	return cells
}

// TestBuildColumn: rows name their build if the result has two.
func TestBuildColumn(t *testing.T) {
	var cells []result.Cell
	for _, build := range []string{"base", "head"} {
		cells = append(cells, built(build, []result.Cell{benchtest.Count(six("http", 10), "calls.jobs", 2)})...)
	}
	for _, view := range []string{"workers", "calls"} {
		holds(t, shown(t, benchtest.Result(cells...), view), "http cnn head 1 1")
	}
}

// TestVerdictTable: if there are more verdicts than sentences are printed for, a table
// shows what other choices cost in time and CPU time.
func TestVerdictTable(t *testing.T) {
	var cells []result.Cell
	for clients := range 9 {
		for _, c := range []result.Cell{six("a", 10), six("b", 20), idle(six("c", 40), 8)} {
			cells = append(cells, withClients(c, clients+1))
		}
	}
	wantLines(t, shown(t, benchtest.Result(cells...), "verdict"),
		"model workers clients best round, ms next longer by, ms CPU, ms slowest longer by, ms CPU, ms",
		"cnn 1 1 a 10.0 ± 0.2 b 10.0 ± 0.3 15.0 ± 0.5 c 30.0 ± 0.6 −7.50 ± 0.23")
}

// withClients returns c with n clients, each with the samples of c's first client.
func withClients(c result.Cell, n int) result.Cell {
	c.Clients, c.Blocks = n, slices.Clone(c.Blocks)
	for i := range c.Blocks {
		b := &c.Blocks[i]
		b.Round = slices.Clone(b.Round)
		for _, s := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
			*s = slices.Repeat((*s)[:len(b.Round)], n)
		}
	}
	return c
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

// TestSummary: only compared cells count, for each build separately, and only proved
// differences are wins.
func TestSummary(t *testing.T) {
	cells := func(build string) []result.Cell {
		resnet18 := benchtest.Models["resnet18"]
		return built(build, []result.Cell{six("a", 10), six("b", 20), benchtest.Cell("a", resnet18, 1, 1, 9, 10, 11), benchtest.Cell("b", resnet18, 1, 1, 19, 20, 21),
			benchtest.Cell("a", benchtest.Models["histology"], 1, 1, benchtest.Six(10)...), benchtest.Cell("a", benchtest.Models["cnn"], 2, 4, benchtest.Six(10)...), benchtest.Cell("b", benchtest.Models["cnn"], 2, 4, benchtest.Six(10)...)})
	}
	const all = "Of 3 comparisons: a is the fastest in 1 and no transport is shown to be the fastest in 2."
	for want, cells := range map[string][]result.Cell{all: cells(""), "base: " + all + "\nhead: " + all: append(cells("base"), cells("head")...), "": cells("")[4:]} {
		check.Equal(t, strings.Join(answer.Summaries(contrast.Verdicts(metrics.New(benchtest.Result(cells...)))), "\n"), want)
	}
}

// TestPhases observes B23: a row has downlink, compute, uplink, the time to get the update,
// and the speed-up over pickle for each model. The time to get the update is copy and
// decode, and for a Go value also reconstruct.
func TestPhases(t *testing.T) {
	pickle := six("pickle", 30)
	phase := func(name string, ms int64) {
		for i := range pickle.Blocks {
			pickle.Blocks[i].Phases[name] = ms * benchtest.MS
		}
	}
	phase("decode", 6)
	wantLines(t, shown(t, benchtest.Result(pickle, six("shm-slab", 10)), "phases"),
		"transport transfer, ms down, ms train, ms uplink, ms copy and decode, ms speed-up of the transfer speed-up of the round",
		"pickle 13.5 ± 0.3 9.00 ± 0.18 15.0 ± 0.3 4.50 ± 0.09 3.00 ± 0.00 — —",
		"shm-slab 4.50 ± 0.09 3.00 ± 0.06 5.00 ± 0.10 1.50 ± 0.03 — 3.00 ± 0.07 3.00 ± 0.07")
	phase("reconstruct", 2)
	wantLines(t, shown(t, benchtest.Result(pickle), "phases"),
		"transport transfer, ms down, ms train, ms uplink, ms copy and decode, ms reconstruct, ms",
		"pickle 13.5 ± 0.3 9.00 ± 0.18 15.0 ± 0.3 4.50 ± 0.09 3.00 ± 0.00 1.00 ± 0.00")
}

// TestCommunication: if a user's function trains, the first screen shows the share of a
// client's round trip outside of training, and what was proved. The view phases shows that
// share also if ipcbench trains for a given time. Other results have no such column.
func TestCommunication(t *testing.T) {
	r := benchtest.Pair(1, 1)
	text := shown(t, r) + shown(t, r, "phases")
	lacks(t, text, "communication")
	r.Cells[1].TrainMS = 10
	wantLines(t, shown(t, r, "phases"), "transport transfer, ms down, ms train, ms uplink, ms communication, %", "pickle 9.00 ± 0.18 6.00 ± 0.12 10.0 ± 0.2 3.00 ± 0.06 47 ± 0")
	r.Cells = r.Cells[1:]
	r.Cells[0].TrainMS, r.Cells[0].Language, r.Cells[0].Train = 0, "python", "mymodule:train"
	edited(r, func(b *result.Block) { b.Proof.Hashed = 0 }) // there is no reference chain
	first := shown(t, r)
	wantLines(t, first, "transport transfer, ms × best communication, %",
		"pickle (python) 9.00 ± 0.18 1 ████████████████████████████████████████ 47 ± 0", // 9 ms of 19
		"communication: share of a client's round trip that is not training by mymodule:train. Hashes prove what was sent, not what the training computed.")
	lacks(t, first, "the data was not proved")
	wantLines(t, shown(t, r, "phases"), "transport transfer, ms down, ms train, ms uplink, ms communication, %")
}

func respawned(c result.Cell) result.Cell {
	c.Respawn = true
	return c
}

// TestWorkers observes B24: the view has clients per second over clients × workers × model,
// with intervals. It also has the ratio of the workers' start (20 ms here) to a cold round.
// Starting dominates if that ratio's whole interval is above 1.
func TestWorkers(t *testing.T) {
	model := benchtest.Models["cnn"]
	r := benchtest.Result(benchtest.Cell("shorter", model, 2, 4, benchtest.Six(8)...), six("longer-than-warm", 10), six("longer", 3),
		respawned(six("every-round", 35)), cnn("one-block", 3))
	wantLines(t, shown(t, r, "workers"), "shorter cnn 2 4 500 ± 11 20.0 ± 0.0 24.0 ± 0.5 0.833 ± 0.018", "longer-than-warm cnn 1 1 100 ± 3 20.0 ± 0.0 30.0 ± 0.6 0.667 ± 0.014",
		"longer cnn 1 1 333 ± 7 20.0 ± 0.0 9.00 ± 0.18 2.22 ± 0.05", "every-round cnn 1 1 fresh workers for each round 28.6 ± 0.6 20.0 ± 0.0 15.0 ± 0.7 1.33 ± 0.07",
		"one-block cnn 1 1 333 20.0 9.00 2.22")
	start := func(c result.Cell) result.Cell { // 20 ms to start, 4 ms to end
		for _, b := range c.Blocks {
			b.Phases["spawn"], b.Phases["stop"] = 2*20*benchtest.MS, 2*4*benchtest.MS
		}
		return respawned(c)
	}
	few, many := start(six("a", 40)), start(benchtest.Cell("a", model, 1, 4, benchtest.Six(80)...))
	for want, cells := range map[string][]result.Cell{
		"Starting and ending them takes most of every round.":                        {few},
		"Starting and ending them is not shown to take most of a round in any cell.": {many, start(cnn("b", 35))},
		"Starting and ending them takes most of the rounds of a (cnn, 248 kB in 10 tensors, 1 worker, 1 client, fresh workers for each round). For the other cells, that is not shown.": {few, many},
	} {
		wantLines(t, shown(t, benchtest.Result(cells...), "workers"),
			"If each round has fresh workers, the cold round is the round without starting them. "+want)
	}
}

// perRound returns c with counts per round; each block has two rounds.
func perRound(c result.Cell, counts map[string]int64) result.Cell {
	for name, n := range counts {
		benchtest.Count(c, name, 2*n)
	}
	return c
}

// TestCalls observes O10: the mix of requests is shown. 160 of 192 (83 %) carry tensors if
// 8 collaborators fetch 20 tensors one by one (O1, O11).
func TestCalls(t *testing.T) {
	c := perRound(benchtest.Cell("grpc-tensor", result.Model{Name: "histology", Tensors: 20, Bytes: benchtest.MB}, 1, 8, 10, 10, 10),
		map[string]int64{"calls.GetAggregatedTensor": 160, "calls.GetTasks": 8, "calls.SendLocalTaskResults": 24})
	wantLines(t, shown(t, benchtest.Result(c), "calls"), "grpc-tensor histology 1 8 192 375 ± 0 10.0 100 160 GetAggregatedTensor (83 %), 24 SendLocalTaskResults (12 %), 8 GetTasks (4.2 %)")
	check.Equal(t, metrics.New(benchtest.Result(c)).Cells[0].Of("rpcs_tensors").Center, 160, "calls that brought tensors")
}

// TestInService observes O8: the view has the number of requests in service at once. If the
// server's threads are limited, it has the share of requests that waited for one.
func TestInService(t *testing.T) {
	cell := func(variant, threads string) result.Cell {
		c := perRound(benchtest.Cell(variant, benchtest.Models["cnn"], 1, 8, benchtest.Six(10)...), map[string]int64{"calls.GetTasks": 4, "service.1": 15, "service.2": 5, "queued": 2})
		c.Settings["threads"] = threads
		return c
	}
	wantLines(t, shown(t, benchtest.Result(cell("grpc-batch:threads=2", "2"), cell("grpc-batch", "0")), "calls"),
		"transport model workers clients requests, per round down, µs in service in service, most requests queued, % CPU of the server, ms/round memory of the server, MB requests by kind",
		"grpc-batch:threads=2 cnn 1 8 4 375 ± 8 1.25 ± 0.00 2 10 ± 0 10.0 100 4 GetTasks (100 %)",
		"grpc-batch cnn 1 8 4 375 ± 8 1.25 ± 0.00 2 — 10.0 100 4 GetTasks (100 %)") // without a limit no request waits
}

// TestConnections observes O12 and O22: the time to dial for every call is shown beside the
// calls, and so is the number of retried calls. Without such calls there is no column.
func TestConnections(t *testing.T) {
	c := perRound(benchtest.Cell("grpc-tensor:conn=per-call", result.Model{Name: "histology", Tensors: 20, Bytes: benchtest.MB}, 1, 8, 10, 10, 10),
		map[string]int64{"calls.GetTasks": 192, "connections.dialled": 176, "connections.ns": 5 * benchtest.MS, "retries": 0})
	of := " histology 1 8 192 176 5.00 "
	holds(t, shown(t, benchtest.Result(c), "calls"), " requests, per round connections, per round connecting, ms/round down, µs", of+"375")
	benchtest.Count(c, "retries", 4)
	holds(t, shown(t, benchtest.Result(c), "calls"), " connecting, ms/round retries, per round down, µs", of+"2 375")
	holds(t, shown(t, benchtest.Result(perRound(cnn("http", 10), map[string]int64{"calls.jobs": 1})), "calls"),
		"requests, per round down, ms")
}

// TestCaches observes A31: the growth of workers' caches per round, and the tensors found
// in them, are costs. Without caches there are no such columns.
func TestCaches(t *testing.T) {
	cell := func(variant string, counts map[string]int64) result.Cell {
		c := perRound(six(variant, 10), counts)
		c.Settings["cache"] = "on"
		return c
	}
	none := benchtest.Count(six("grpc-batch", 10), "cache.hits", 0)
	text := shown(t, benchtest.Result(cell("http:cache=on", map[string]int64{"cache.bytes": 1000}), cell("http:cache=on:drain=on", map[string]int64{"cache.hits": 3}), none), "costs")
	holds(t, text, "caches grew by, kB/round found in caches, per round", " 1.00 1.00 0 20 ", " 1.00 0 3 20 ", " 1.00 — — 20 ")
	text = shown(t, benchtest.Result(none), "costs")
	lacks(t, text, "caches")
}

// TestCrossover observes A33: the view has the size above which shared memory beats HTTP,
// with bounds.
func TestCrossover(t *testing.T) {
	for name, tt := range map[string]struct {
		rounds [][2]float64 // rounds of http and http-shm in ms, for 1, 4, 16 and 64 MiB
		want   []string
	}{
		// The ratio goes from 1/2 to 2, symmetric in logarithms: it is 1 midway between 4
		// and 16 MiB.
		"crosses": {[][2]float64{{5, 20}, {10, 20}, {40, 20}, {160, 20}}, []string{"from to best round next takes over at",
			"1 MiB 4 MiB http 5.00 ms to 10.0 ms http-shm, 2.00 to 4.00 times", "16 MiB 64 MiB http-shm 20.0 ms http, 2.00 to 8.00 times 8.00 MiB (7.84 to 8.16)"}},
		"to the end": {[][2]float64{{5, 20}, {10, 20}, {20, 19.9}}, []string{"uniform, 1 MiB to 16 MiB in 4 tensors, 1 worker, 1 client, head: the fastest",
			"1 MiB 16 MiB http 5.00 ms to 20.0 ms http-shm, 0.995 to 4.00 times"}},
		"from the beginning":     {[][2]float64{{19.9, 20}, {40, 20}, {60, 20}}, []string{"1 MiB 16 MiB http-shm 20.0 ms http, 0.995 to 3.00 times"}},
		"two sizes are no curve": {[][2]float64{{5, 20}, {40, 20}}, []string{"crossover: this result has nothing to show."}},
	} {
		r := benchtest.Result()
		for i, round := range tt.rounds {
			m := result.Model{Name: fmt.Sprintf("uniform:%dMiB/4", 1<<(2*i)), Tensors: 4, Bytes: 1 << (20 + 2*i)}
			r.Cells = append(r.Cells, benchtest.Cell("inproc", m, 1, 1, benchtest.Six(1)...),
				benchtest.Cell("http", m, 1, 1, benchtest.Six(round[0])...), benchtest.Cell("http-shm", m, 1, 1, benchtest.Six(round[1])...))
		}
		if name == "to the end" {
			built("head", r.Cells)
		}
		wantLines(t, shown(t, r, "crossover"), tt.want...)
	}
}
