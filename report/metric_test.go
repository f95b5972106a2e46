package report

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/report/analysis"
)

// TestCSV reads the long table as a script would: the columns of issue 2, one row
// a cell and metric, floors as transport "floor".
func TestCSV(t *testing.T) {
	r := benchtest.Pair(1, 1)
	r.Cells[1].Settings = map[string]string{"lanes": "2", "elems": "off"}
	r.Floors = []result.Floor{
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
	r = benchtest.Interleaved(1)
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

// TestAnswer reads the answer as scripts do: the verdict, its cost, and what puts
// it in doubt, in CSV and in JSON.
func TestAnswer(t *testing.T) {
	m := benchtest.Models["cnn"]
	r := benchtest.Result(benchtest.Cell("inproc", m, 1, 1, benchtest.Six(5)...), benchtest.Cell("pickle", m, 1, 1, benchtest.Six(30)...),
		benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("http", m, 1, 1, benchtest.Six(10.05)...))
	r.Cells[1].FileSystem = "tmpfs"
	r.Partial = "interrupted"
	r.Skipped = []result.Skipped{{Transport: "storage", Variant: "storage", Model: "cnn", Workers: 1, Clients: 1, Why: "the disk is full"}}
	rows, err := csv.NewReader(strings.NewReader(format(t, "csv", r))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, row := range rows {
		have[row[0]+" "+row[5]] = strings.Join(row[4:13], "|")
	}
	for key, want := range map[string]string{
		"shm-slab verdict.rank":          "|verdict.rank|1|6|1|||0|6",
		"shm-slab verdict.best":          "|verdict.best|1|6|1|||0|6",
		"http verdict.best":              "|verdict.best|1|6|1|||0|6", // too close to call
		"pickle verdict.best":            "|verdict.best|1|6|0|||0|6",
		"pickle verdict.rank":            "|verdict.rank|1|6|3|||0|6",
		"pickle verdict.proved":          "|verdict.proved|1|6|0|||0|6",
		"shm-slab verdict.round_more":    "|verdict.round_more|s|6|0|||0|6",
		"pickle verdict.round_more":      "|verdict.round_more|s|12|0.02|0.0195|0.0205|0.958874458874|6",
		"pickle verdict.cpu_more":        "|verdict.cpu_more|s|12|0.03|0.029250002|0.03075|0.958874458874|6",
		"pickle finding.files_in_memory": "severity=warning;text=" + "its files are in memory (tmpfs), and not on a disk: choose another directory with the setting dir=DIR" + "|finding.files_in_memory||0||||0|0",
		"- finding.partial":              "severity=warning;text=" + "the run ended early (interrupted): cells and blocks are missing" + "|finding.partial||0||||0|0",
		"storage skipped":                "variant=storage;why=the disk is full|skipped||0||||0|0",
	} {
		if have[key] != want {
			t.Errorf("%s: got  %s\nwant %s", key, have[key], want)
		}
	}
	if have["inproc verdict.rank"] != "" {
		t.Error("the control has a rank")
	}

	var a answer
	if err := json.Unmarshal([]byte(format(t, "json", r)), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Verdicts) != 1 || !slices.Equal(a.Verdicts[0].Best, []string{"shm-slab", "http"}) || a.Verdicts[0].Proved || a.Verdicts[0].Ranking[2].Variant != "pickle" ||
		math.Abs(*a.Verdicts[0].Ranking[2].Round.Median-0.02) > 1e-9 {
		t.Errorf("got verdicts %+v", a.Verdicts)
	}
	var rules []string
	for _, f := range a.Findings {
		rules = append(rules, f.Rule+" "+f.Cell)
	}
	if want := []string{"partial ", "not_measured storage cnn workers=1 clients=1", "files_in_memory pickle cnn workers=1 clients=1"}; !slices.Equal(rules, want) {
		t.Errorf("got findings %q, want %q", rules, want)
	}
	if e := a.Cells[1].Metrics["round"]; e.Unit != "s" || *e.Median != 0.03 || *e.Low != 0.0294 || e.Confidence != 0.96875 || e.Blocks != 6 || e.N != 12 {
		t.Errorf("got round %+v", e)
	}
	if a.Cells[1].Metrics["bandwidth"] != nil || !a.Cells[0].Control {
		t.Errorf("got %+v", a.Cells)
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
	if csv := format(t, "csv", r); !strings.Contains(csv, ",wait=block,cpu_per_gb,") || !strings.Contains(csv, ",wait=spin,cpu_per_gb,") {
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
		c := analysis.New(r).Cells[0]
		got := details(c, r.Plan)
		if got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
		if text := shown(t, r); tt.remark != "" && !strings.Contains(text, tt.remark+": "+c.Variant+".") {
			t.Errorf("the screen does not say %q:\n%s", tt.remark, text)
		}
		if text := shown(t, r, "cells"); tt.want != "" && !strings.Contains(text, "\n"+c.Variant+": "+tt.want) {
			t.Errorf("the view does not show %q:\n%s", tt.want, text)
		}
	}
}
