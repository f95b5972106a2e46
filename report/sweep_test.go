package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/report/doc"
)

// swept is a result of ten transports and a control, with a number of sizes and all of
// these clients. What a transport saves by the byte, it pays once.
func swept(sizes int, clients ...int) *result.Result {
	r := benchtest.Result()
	for i := range sizes {
		size := int64(1024) << (2 * i)
		m := result.Model{Name: fmt.Sprintf("uniform:%dB/20", size), Tensors: 20, Bytes: size}
		for _, n := range clients {
			r.Cells = append(r.Cells, benchtest.Cell("inproc", m, 1, n, benchtest.Six(0.01+1e-7*float64(size))...))
			for k := range 10 {
				round := 0.05*float64(1+k*k) + 1e-5*float64(size)/float64(1+k)*float64(n)
				r.Cells = append(r.Cells, benchtest.Cell(fmt.Sprintf("transport-%d", k), m, 1, n, benchtest.Six(round)...))
			}
		}
	}
	return r
}

// TestSweepScreen: a sweep takes the place of its tables: one has a table, others have
// sentences, and a group that is in none keeps its table. A pull request says it in sentences.
func TestSweepScreen(t *testing.T) {
	one := swept(11, 1)
	changed := swept(4, 1)
	for i := range changed.Cells {
		changed.Cells[i].TrainMS = 5
	}
	if text := shown(t, changed, "crossover"); !strings.Contains(text, "20 tensors, 1 worker, 1 client, 5 ms of training") {
		t.Errorf("the title says nothing of the training:\n%s", text)
	}
	mixed := swept(4, 1, 2, 4)
	mixed.Cells = append(mixed.Cells, benchtest.Pair(6, 10).Cells...)
	for name, test := range map[string]struct {
		of    *result.Result
		lines int
		want  []string
	}{
		"one": {one, 40, []string{
			"uniform, 1 KiB to 1 GiB in 20 tensors, 1 worker, 1 client\n", "transport-0", "transport-1, ", "takes over at\n", "More: ipcbench report r.json --view crossover,cells,"}},
		"mixed": {mixed, 60, []string{
			"inproc", "1 KiB to 64 KiB in 20 tensors, 1 worker, 1 client\n", "1 KiB to 64 KiB in 20 tensors, 1 worker, 4 clients\n", "4 more sweeps: --view crossover\n"}},
	} {
		for _, width := range []int{45, 80, 120} {
			var b bytes.Buffer
			if err := writeText(&b, test.of, Options{File: "r.json", Text: doc.TextOptions{Width: width, Unicode: true}}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(line) - 1; n > width {
					t.Errorf("%s: %d columns of %d: %s", name, n, width, line)
				}
			}
			if lines := strings.Count(b.String(), "\n"); width >= 80 && lines > test.lines {
				t.Errorf("%s: %d lines at %d columns", name, lines, width)
			}
			for _, want := range test.want {
				if width == 120 && !strings.Contains(b.String(), want) {
					t.Errorf("%s lacks %q:\n%s", name, want, b.String())
				}
			}
			if n := strings.Count(b.String(), "\n  from "); width == 120 && n != 1 {
				t.Errorf("%s: %d tables of sweeps:\n%s", name, n, b.String())
			}
		}
	}
	md := format(t, "md", one)
	before, after, _ := strings.Cut(md, "<details>")
	if !strings.Contains(before, ": nothing beats transport-0") || strings.Contains(before, "\n|") || strings.Count(after, "<summary>uniform:") != 11 {
		t.Errorf("a request shows more than the sentences, or lacks a table:\n%s", before)
	}
	rows := rowsOf(t, one, "crossings")
	if len(rows) < 3 || rows[0]["over"] != "size" || rows[0]["from"] != "1 KiB" || rows[0]["best"].([]any)[0] != "transport-0" {
		t.Fatalf("got %v", rows)
	}
	at := rows[1]["at"].(map[string]any)
	if low, median, high := at["low"].(float64), at["median"].(float64), at["high"].(float64); rows[1]["overtakes"] != "transport-0" || rows[1]["best"].([]any)[0] != "transport-1" || at["unit"] != "B" ||
		!(low < median && median < high) {
		t.Errorf("got %v", rows[1])
	}
	sweeps := map[string]bool{}
	for _, row := range rowsOf(t, mixed, "crossings") {
		sweeps[fmt.Sprint(row["over"], row["model"], row["update"], row["workers"], row["clients"])] = true
	}
	if len(sweeps) != 7 {
		t.Errorf("%d sweeps: %v", len(sweeps), sweeps)
	}
}
