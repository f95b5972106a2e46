package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

// TestCheck: a committed table that no longer matches its data is found, and rewritten on
// demand (guard 18).
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		check.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.Must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	check.Must(t, benchtest.Pair(1, 1).WriteFile(file("results/main.json", "")))
	readme := file("README.md", "# A\n\n<!-- ipcbench: begin results/main.json cells transport=pickle -->\nold\n<!-- ipcbench: end -->\n\nb\n"+
		"```\n<!-- ipcbench: begin an example in a fence -->\n```\n")
	machine := file("results/README.md", "<!-- ipcbench: begin main.json machine -->\n<!-- ipcbench: end -->\n")
	file("testdata/x.md", "<!-- ipcbench: begin nowhere.json cells -->\n")
	file(".git/x.md", "<!-- ipcbench: begin nowhere.json cells -->\n")

	tables, drifts, err := Check(dir)
	check.Need(t, err == nil && tables == 2 && len(drifts) == 2, "got %+v of %d, %v, want the two tables", drifts, tables, err)
	d := drifts[0]
	check.Equal(t, []any{d.File, d.Line, d.View}, []any{readme, 3, "results/main.json cells transport=pickle"})
	changed, err := Rewrite(dir)
	check.That(t, err == nil && len(changed) == 2, "got %v, %v", changed, err)
	_, drifts, err = Check(dir)
	check.That(t, err == nil && len(drifts) == 0, "after the update: got %v, %v", drifts, err)
	text := check.Value(os.ReadFile(readme))(t)
	doctest.Golden(t, "checked.md", string(text))
	holds(t, string(check.Value(os.ReadFile(machine))(t)), "Test CPU, ", ", build ")
	file("README.md", strings.Replace(string(text), "20.0", "19.0", 1)) // one digit edited by hand
	_, drifts, err = Check(dir)
	check.That(t, err == nil && len(drifts) == 1, "after an edit: got %v, %v", drifts, err)
	_, _, err = Check(t.TempDir())
	check.Fails(t, err, "no Markdown file in it has a line <!-- ipcbench: begin FILE VIEW -->")
}

// TestBadMarkers: a page is neither checked nor written if one of its markers is invalid or
// names a result that ended early (guard 18).
func TestBadMarkers(t *testing.T) {
	const end = "\n<!-- ipcbench: end -->\n"
	for _, tt := range []struct{ name, text, want string }{
		{"no file", "<!-- ipcbench: begin gone.json cells -->" + end, "no such file"},
		{"outside", "<!-- ipcbench: begin ../r.json cells -->" + end, "must be in the same folder"},
		{"absolute", "<!-- ipcbench: begin /r.json cells -->" + end, "must be in the same folder"},
		{"no view", "<!-- ipcbench: begin r.json -->" + end, "must be FILE.json VIEW"},
		{"unknown view", "<!-- ipcbench: begin r.json tables -->" + end, `unknown view "tables": must be one of verdict, findings`},
		{"unknown filter", "<!-- ipcbench: begin r.json cells colour=red -->" + end, `"colour=red" must be transport=`},
		{"filter without value", "<!-- ipcbench: begin r.json cells model -->" + end, `"model" must be transport=`},
		{"nothing left", "<!-- ipcbench: begin r.json cells model=gpt2 -->" + end, `"model=gpt2" leaves no cell`},
		{"nothing to show", "<!-- ipcbench: begin r.json crossover -->" + end, "nothing to show"},
		{"no end", "a\n<!-- ipcbench: begin r.json cells -->\n", "README.md:2: must be <!-- ipcbench: begin FILE VIEW --> alone on its line"},
		{"no begin", "a\n<!-- ipcbench: end -->\n", "README.md:2: must be <!-- ipcbench: begin"},
		{"nested", "<!-- ipcbench: begin r.json cells -->\n<!-- ipcbench: begin r.json cells -->" + end, "README.md:1: must be <!-- ipcbench: begin"},
		{"not alone", "<!-- ipcbench: begin r.json cells --> a" + end, "alone on its line"},
		{"partial", "# A\n<!-- ipcbench: begin partial.json cells -->" + end, `README.md:2: marker "partial.json cells": the run of partial.json ended early (interrupted)`},
		{"partial claim", "<!-- ipcbench: begin partial.json claim round transport=pickle -->" + end, "the run of partial.json ended early (interrupted)"},
		{"first answer", "<!-- ipcbench: begin quick.json cells -->" + end, "timed rounds of quick.json began at a fixed place"},
		{"again without a file", "<!-- ipcbench: begin r.json claim round transport=pickle again -->" + end, "with again SECOND.json at the end"},
		{"again in a view", "<!-- ipcbench: begin r.json cells again r.json -->" + end, "must be FILE.json again SECOND.json"},
		{"again partial", "<!-- ipcbench: begin r.json again partial.json -->" + end, "the run of partial.json ended early (interrupted)"},
		{"again outside", "<!-- ipcbench: begin r.json again ../r.json -->" + end, "must be in the same folder or below"},
		{"partial environment", "<!-- ipcbench: begin partial.json environment -->" + end, "the run of partial.json ended early (interrupted)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, r := t.TempDir(), benchtest.Pair(1, 1)
			check.Must(t, r.WriteFile(filepath.Join(dir, "r.json")))
			r.Partial = "interrupted"
			check.Must(t, r.WriteFile(filepath.Join(dir, "partial.json")))
			r.Partial, r.Plan.Starts = "", 0
			check.Must(t, r.WriteFile(filepath.Join(dir, "quick.json")))
			path := filepath.Join(dir, "README.md")
			check.Must(t, os.WriteFile(path, []byte(tt.text), 0o644))
			_, _, err := Check(dir)
			check.Fails(t, err, tt.want)
			check.Fails(t, check.Err(Rewrite(dir)), tt.want)
			after, _ := os.ReadFile(path)
			check.Equal(t, string(after), tt.text)
		})
	}
}

// TestMachines: a folder of results is two tables: with a row per machine, the price of a page and of a wake-up; with a
// row per machine and model, the order of its transports. A folder without results, and one above the page, are refused.
func TestMachines(t *testing.T) {
	dir := t.TempDir()
	check.Must(t, os.Mkdir(filepath.Join(dir, "machines"), 0o700))
	a := benchtest.Result(eight("slow", 40), eight("fast", 10), eight("even", 10.02))
	a.Floors = []result.Floor{{Name: "first-touch", Unit: "B/s", Blocks: [][]float64{{2.048e9}, {2.048e9}}}, {Name: "futex", Unit: "s", Blocks: [][]float64{{5e-6}, {5e-6}}}}
	b := benchtest.Result(eight("slow", 10), eight("fast", 30))
	a.Environment.CPU, b.Environment.CPU, b.Environment.LLC = "one", "two", 0
	for name, r := range map[string]*result.Result{"a.json.gz": a, "b.json.gz": b} {
		check.Must(t, r.WriteFile(filepath.Join(dir, "machines", name)))
	}
	read := map[string]*result.Result{}
	text := check.Value(render(dir, "machines machines", read))(t)
	holds(t, strings.Join(strings.Fields(text), " "), "| one, 2 processors, kernel 6.1.0 | 32 MiB | 2.00 ± 0.00 | 5.00 ± 0.00 |", "| cnn | fast = even, slow 4.00 |", "| cnn | slow, fast 3.00 |", "| two, 2 processors, kernel 6.1.0 | | — | — |")
	for spec, want := range map[string]string{"none machines": "no FILE.json.gz is in the folder none", "../machines machines": "must be in the same folder or below"} {
		check.Fails(t, check.Err(render(filepath.Join(dir, "machines"), spec, read)), want)
	}
}
