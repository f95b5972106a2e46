package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// rowsOf returns the rows of a table of the answer in JSON, as a script reads them.
func rowsOf(t *testing.T, r *result.Result, table string) (rows []map[string]any) {
	t.Helper()
	var answer map[string]json.RawMessage
	check.Must(t, json.Unmarshal([]byte(format(t, "json", r)), &answer))
	err := json.Unmarshal(answer[table], &rows)
	check.Need(t, err == nil, "%s: %v in %s", table, err, answer[table])
	return rows
}

// TestCSV reads the long table as a script would: one line per number, found by its table,
// its column, and a column for each key.
func TestCSV(t *testing.T) {
	r := benchtest.Pair(1, 1)
	r.Cells[1].Settings = map[string]string{"lanes": "2", "elems": "off"}
	r.Floors = []result.Floor{
		{Name: "copy", Unit: "B/s", Blocks: [][]float64{{3e9}, {4e9}}},
		{Name: "work", Unit: "s", Model: "even", Clients: 4, Blocks: [][]float64{{0.5, 0.5}}},
	}
	lines := check.Value(csv.NewReader(strings.NewReader(format(t, "csv", r))).ReadAll())(t)
	at := func(column string) int { return slices.Index(lines[0], column) }
	have := map[string]string{}
	for _, line := range lines[1:] {
		name := line[at(map[bool]string{true: "floor", false: "transport"}[line[0] == "floors"])]
		have[line[0]+" "+name+" "+line[at("column")]] = strings.Join(line[at("column")+1:], ",")
	}
	for key, want := range map[string]string{
		"metrics pickle round": "s,0.02,0.0196,0.0204,0.96875,6,12,",
		// The bounds are the sixth of 36 differences from either end: 19.8 - 10.1 and
		// 20.2 - 9.9.
		"metrics pickle overhead":  "s,0.01,0.0097,0.0103,0.958874458874,6,12,",
		"metrics pickle bandwidth": "B/s,20000000000,19417475728.2,20618556701,0.958874458874,6,12,",
		"metrics pickle proved":    "1,1,,,0,6,6,",
		"metrics pickle settings":  ",,,,,,,elems=off;lanes=2",
		"metrics inproc overhead":  "",
		"floors copy value":        "B/s,3500000000,3000000000,4000000000,0.5,2,2,",
		"floors work value":        "s,0.5,,,0,1,2,",
	} {
		check.Equal(t, have[key], want, key)
	}
}

// TestAnswer reads the answer as scripts do: the verdict, its cost, and the findings that
// cast doubt on it.
func TestAnswer(t *testing.T) {
	r := benchtest.Result(six("inproc", 5), six("pickle", 30), six("shm-slab", 10), six("http", 10.05))
	r.Cells[1].FileSystem = "tmpfs"
	r.Partial = "interrupted"
	r.Skipped = []result.Skipped{{Transport: "storage", Variant: "storage", Model: "cnn", Workers: 1, Clients: 1, Why: "the disk is full"}}
	answer := ""
	for table, columns := range map[string]string{"verdict": "best outcome model workers", "ranking": "rank transport", "findings": "rule cell text"} {
		for i, row := range rowsOf(t, r, table) {
			answer += fmt.Sprint("\n", table, " ", i, ":")
			for _, column := range strings.Fields(columns) {
				answer += fmt.Sprint(" ", row[column])
			}
		}
	}
	holds(t, answer+"\n", "\nverdict 0: [shm-slab http] too close to call cnn 1\n", "\nranking 0: 1 shm-slab\nranking 1: 2 http\nranking 2: 3 pickle\n",
		"\nfindings 0: partial <nil> the run ended early (interrupted): cells and blocks are missing\nfindings 1: not_measured storage cnn workers=1 clients=1 the disk is full\n"+
			"findings 2: files_in_memory pickle cnn workers=1 clients=1 its files are on tmpfs, so no disk was measured; set dir=DIR to a directory on a disk\n")
	more := rowsOf(t, r, "ranking")[2]["round_more"].(map[string]any)
	check.That(t, check.Nearly(more["median"].(float64), 0.02, 1e-9) && more["unit"] == "s" && more["blocks"] == 6.0, "pickle costs %v more", more)
	check.Equal(t, rowsOf(t, r, "metrics")[1]["round"], any(map[string]any{"unit": "s", "median": 0.03, "low": 0.0294, "high": 0.0306, "confidence": 0.96875, "blocks": 6.0, "n": 12.0}))
}

// TestWaitMode: two wait modes of one transport are two rows, with CPU seconds beside their
// times (guard 20).
func TestWaitMode(t *testing.T) {
	block, spin := six("shm-slab", 10), six("shm-slab", 9)
	spin.Variant, spin.Settings, block.Settings = "shm-slab:wait=spin", map[string]string{"wait": "spin"}, map[string]string{"wait": "block"}
	r := edited(benchtest.Result(block, spin), func(b *result.Block) { b.Server.Usage.User *= 4 })
	wantLines(t, shown(t, r), "transport round, ms × best total CPU, s/GB", "shm-slab:wait=spin 9.00 ± 0.18 1.00 "+strings.Repeat("█", 36)+" 68.0", "shm-slab 10.0 ± 0.2 1.11 "+strings.Repeat("█", 40)+" 30.2")
	csv := format(t, "csv", r)
	check.That(t, hasLine(csv, "metrics shm-slab, cpu_per_gb") && hasLine(csv, "metrics shm-slab:wait=spin cpu_per_gb"), "CSV does not tell the modes apart")
}

// TestMarks: a sentence below the table reports effects that one number cannot show, and
// the view cells adds the numbers. metrics.TestMarks tests these numbers.
func TestMarks(t *testing.T) {
	r := benchtest.Result(perRound(cnn("http-shm", 10, 10, 10), map[string]int64{"handle.tensors": 15, "body.tensors": 5, "fallback.full": 3, "fallback.dtype": 2}))
	for name, of := range map[string]func(block, round int) float64{
		"modes":  func(b, k int) float64 { return 4 + 12*float64((k+b)%2) },
		"within": func(b, k int) float64 { return 10 + 0.2*float64(k) },
		"across": func(b, _ int) float64 { return 10 + float64(b) },
		"far":    func(_, k int) float64 { return map[bool]float64{true: 50, false: 10}[k%8 == 0] },
	} {
		c := benchtest.Rounds(func(b, k int) float64 { return of(b, k) + 0.01*float64((k*7+b*3)%5) })
		c.Transport, c.Variant = name, name
		r.Cells = append(r.Cells, c)
	}
	r.Cells = append(r.Cells, cnn("slow", 8, 12, 9, 11, 10, 10), cnn("stopped", 10, 10, 10))
	r.Cells[6].Stopped = "interrupted"
	remarks := map[string]string{"http-shm": "Some tensors did not use the transport's own mechanism", "modes": "Rounds fall into two groups", "slow": "More",
		"within": "Rounds drifted", "across": "Rounds drifted", "far": "Over a tenth of rounds are outliers"}
	for _, c := range r.Cells[:6] {
		holds(t, shown(t, benchtest.Result(c)), "\n"+remarks[c.Variant]+": ")
	}
	stopped := benchtest.Result(r.Cells[6])
	stopped.Partial = "interrupted by SIGINT after 3 of 6 blocks"
	holds(t, shown(t, stopped), "which are too few for 95 %, as the run ended early.", "the run ended early (interrupted by SIGINT after 3 of 6 blocks)")
	lacks(t, shown(t, stopped), "use --blocks")
	holds(t, shown(t, r, "cells"), "\nhttp-shm: only 75 % of the tensors used the transport's own mechanism: dtype 12, full 18",
		"\nmodes: rounds fall into two groups: 4.02 ms (50 %) and 16.0 ms (50 %)", "\nwithin: rounds changed by +32 % within a block", "\nacross: rounds changed by +40 %",
		"\nfar: 18 of 120 rounds far from the median", "\nTime ran out before ±5 % was reached: across (±20 %) and slow (±20 %)", "\nstopped: the measurement was interrupted")
}
