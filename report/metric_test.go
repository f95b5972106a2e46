package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
)

// rowsOf returns the rows of a table of the answer, as a script reads them.
func rowsOf(t *testing.T, r *result.Result, table string) (rows []map[string]any) {
	t.Helper()
	var answer map[string]json.RawMessage
	check.Must(t, json.Unmarshal([]byte(format(t, "json", r)), &answer))
	err := json.Unmarshal(answer[table], &rows)
	check.Need(t, err == nil, "%s: %v in %s", table, err, answer[table])
	return rows
}

// TestCSV reads the long table as a script would: a line for each number, found by its
// table, its column, and a column for each key.
func TestCSV(t *testing.T) {
	r := benchtest.Pair(1, 1)
	r.Cells[1].Settings = map[string]string{"lanes": "2", "elems": "off"}
	r.Floors = []result.Floor{
		{Name: "copy", Unit: "B/s", Blocks: [][]float64{{3e9}, {4e9}}},
		{Name: "work", Unit: "s", Model: "even", Clients: 4, Blocks: [][]float64{{0.5, 0.5}}},
	}
	lines, err := csv.NewReader(strings.NewReader(format(t, "csv", r))).ReadAll()
	check.Must(t, err)
	if got, want := strings.Join(lines[0], ","), "table,transport,codec,model,update,workers,clients,build,change,values,scenario,link,language,function,train_ms,respawn,nested,"; !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, ",column,unit,median,low,high,confidence,blocks,n,text") {
		t.Errorf("got header %s", got)
	}
	first := slices.Index(lines[0], "column")
	have := map[string]string{}
	for _, line := range lines[1:] {
		name := line[slices.Index(lines[0], "transport")]
		if line[0] == "floors" {
			name = line[slices.Index(lines[0], "floor")]
		}
		have[line[0]+" "+name+" "+line[first]] = strings.Join(line[first+1:], ",")
	}
	for key, want := range map[string]string{
		"metrics pickle round": "s,0.02,0.0196,0.0204,0.96875,6,12,",
		// The sixth of 36 differences from either end: 19.8 - 10.1 and 20.2 - 9.9.
		"metrics pickle overhead":  "s,0.01,0.0097,0.0103,0.958874458874,6,12,",
		"metrics pickle bandwidth": "B/s,20000000000,19417475728.2,20618556701,0.958874458874,6,12,",
		"metrics pickle proved":    "1,1,,,0,6,6,",
		"metrics pickle settings":  ",,,,,,,elems=off;lanes=2",
		"floors copy value":        "B/s,3500000000,3000000000,4000000000,0.5,2,2,",
		"floors work value":        "s,0.5,,,0,1,2,",
	} {
		check.That(t, have[key] == want, "%s: got  %s\nwant %s", key, have[key], want)
	}
	check.That(t, have["metrics inproc overhead"] == "", "the control has an overhead: %s", have["metrics inproc overhead"])
	// A script must see that the bounds of a quick run are no 95 %, and of two builds
	// which is whose.
	r = benchtest.Interleaved(1)
	for i := range r.Cells {
		r.Cells[i].Blocks = r.Cells[i].Blocks[:3]
	}
	for _, build := range []string{"base", "head"} {
		check.That(t, hasLine(format(t, "csv", r), "metrics a cnn "+build+" round s 0.0199 0.0197 0.02004 0.75 3 6"),
			"no round of %s", build)
	}
}

// TestAnswer reads the answer as scripts do: the verdict, its cost, and what puts
// it in doubt.
func TestAnswer(t *testing.T) {
	m := benchtest.Models["cnn"]
	r := benchtest.Result(benchtest.Cell("inproc", m, 1, 1, benchtest.Six(5)...), benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...),
		benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("http", m, 1, 1, benchtest.Six(10.05)...))
	r.Cells[1].FileSystem = "tmpfs"
	r.Partial = "interrupted"
	r.Skipped = []result.Skipped{{Transport: "storage", Variant: "storage", Model: "cnn", Workers: 1, Clients: 1, Why: "the disk is full"}}
	verdicts, ranking, metrics := rowsOf(t, r, "verdict"), rowsOf(t, r, "ranking"), rowsOf(t, r, "metrics")
	if v := verdicts[0]; len(verdicts) != 1 || fmt.Sprint(v["best"]) != "[shm-slab http]" || v["outcome"] != "too close to call" || v["model"] != "cnn" || v["workers"] != 1.0 {
		t.Errorf("got verdicts %v", verdicts)
	}
	var order []string
	for _, of := range ranking {
		order = append(order, fmt.Sprint(of["rank"], " ", of["transport"]))
	}
	got := strings.Join(order, ", ")
	check.That(t, got == "1 shm-slab, 2 http, 3 pickle", "got %s", got)
	if more := ranking[2]["round_more"].(map[string]any); math.Abs(more["median"].(float64)-0.02) > 1e-9 || more["unit"] != "s" || more["blocks"] != 6.0 {
		t.Errorf("pickle costs %v more", more)
	}
	var found []string
	for _, f := range rowsOf(t, r, "findings") {
		found = append(found, fmt.Sprint(f["rule"], " ", f["cell"], ": ", f["text"]))
	}
	if want := []string{
		"partial <nil>: the run ended early (interrupted): cells and blocks are missing", "not_measured storage cnn workers=1 clients=1: the disk is full",
		"files_in_memory pickle cnn workers=1 clients=1: its files are in memory (tmpfs), and not on a disk: choose another directory with the setting dir=DIR",
	}; !slices.Equal(found, want) {
		t.Errorf("got findings %q, want %q", found, want)
	}
	want := map[string]any{"unit": "s", "median": 0.03, "low": 0.0294, "high": 0.0306, "confidence": 0.96875, "blocks": 6.0, "n": 12.0}
	if got := metrics[1]["round"]; !reflect.DeepEqual(got, want) {
		t.Errorf("got round %v", got)
	}
	if metrics[1]["bandwidth"] != nil || metrics[0]["transport"] != "inproc" {
		t.Errorf("got %v", metrics[:2])
	}
}

// TestWaitMode: two wait modes of one transport are two rows, and CPU seconds
// stand beside their times (guard 20).
func TestWaitMode(t *testing.T) {
	m := benchtest.Models["cnn"]
	block, spin := benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(9)...)
	spin.Variant, spin.Settings = "shm-slab:wait=spin", map[string]string{"wait": "spin"}
	block.Settings = map[string]string{"wait": "block"}
	for i := range spin.Blocks {
		spin.Blocks[i].Server.Usage.User *= 4
	}
	r := benchtest.Result(block, spin)
	wantLines(t, shown(t, r), "transport round, ms × best CPU, s/GB", "shm-slab:wait=spin 9.00 ± 0.18 1.00 "+strings.Repeat("█", 36)+" 68.0", "shm-slab 10.0 ± 0.2 1.11 "+strings.Repeat("█", 40)+" 30.2")
	if csv := format(t, "csv", r); !hasLine(csv, "metrics shm-slab, cpu_per_gb") || !hasLine(csv, "metrics shm-slab:wait=spin cpu_per_gb") {
		t.Error("CSV does not tell the modes apart")
	}
}

// TestMarks: what one number cannot say is said in a sentence below the table, and with
// its numbers in the view of cells.
func TestMarks(t *testing.T) {
	m := benchtest.Models["cnn"]
	shm := benchtest.Cell("http-shm", m, 1, 1, 10, 10, 10)
	for name, n := range map[string]int64{"handle.tensors": 30, "body.tensors": 10, "fallback.full": 6, "fallback.dtype": 4} {
		benchtest.Count(shm, name, n)
	}
	wobble := func(block, round int) float64 { return 0.01 * float64((round*7+block*3)%5) }
	stopped := benchtest.Cell("pickle", m, 1, 1, 10, 10, 10)
	stopped.Stopped = "interrupted"
	for _, tt := range []struct {
		cell   result.Cell
		remark string
		want   string
	}{
		{benchtest.Cell("pickle", m, 1, 1, 10, 10, 10), "", ""},
		{shm, "Some tensors did not go the way that the transport is named for", "only 75 % of the tensors went the way that the transport is named for: dtype 12, full 18"},
		{benchtest.Rounds(func(b, k int) float64 { return 4 + 12*float64((k+b)%2) + wobble(b, k) }), "Rounds fall into two groups", "rounds fall into two groups: 4.02 ms (50 %) and 16.0 ms (50 %)"},
		{benchtest.Rounds(func(b, k int) float64 { return 10 + 0.2*float64(k) + wobble(b, k) }), "Rounds became slower or faster", "rounds changed by +32 % within a block"},
		{benchtest.Rounds(func(b, k int) float64 { return 10 + float64(b) + wobble(b, k) }), "Rounds became slower or faster", "rounds changed by +40 %"},
		{benchtest.Rounds(func(b, k int) float64 {
			if k%8 == 0 {
				return 50
			}
			return 10 + wobble(b, k)
		}), "Over a tenth of the rounds lie far from the median", "18 of 120 rounds lie far from the median"},
		{benchtest.Cell("pickle", m, 1, 1, 8, 12, 9, 11, 10, 10), "", "time ran out at ±20 %, before ±5 % was reached"},
		{stopped, "The measurement was interrupted", "the measurement was interrupted"},
	} {
		r := benchtest.Result(tt.cell)
		c := metrics.New(r).Cells[0]
		got := strings.Join(details(c, r.Plan), "; ")
		check.That(t, got == tt.want || tt.want != "" && strings.HasPrefix(got, tt.want), "got %q, want %q", got, tt.want)
		if text := shown(t, r); tt.remark != "" && !strings.Contains(text, tt.remark+": "+c.Variant+".") {
			t.Errorf("the screen does not say %q:\n%s", tt.remark, text)
		}
		if text := shown(t, r, "cells"); tt.want != "" && !strings.Contains(text, "\n"+c.Variant+": "+tt.want) {
			t.Errorf("the view does not show %q:\n%s", tt.want, text)
		}
	}
}
