package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

// TestCheck: a committed table that no longer matches its data is found, and
// written anew on demand (guard 18).
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
	file("results/README.md", "<!-- ipcbench: begin main.json verdict -->\n<!-- ipcbench: end -->\n")
	file("testdata/x.md", "<!-- ipcbench: begin nowhere.json cells -->\n")
	file(".git/x.md", "<!-- ipcbench: begin nowhere.json cells -->\n")

	drifts, err := Check(dir)
	check.Must(t, err)
	if len(drifts) != 2 || drifts[0].File != readme || drifts[0].Line != 3 || drifts[0].View != "results/main.json cells transport=pickle" || drifts[0].Got != "old\n" {
		t.Errorf("got %+v, want the two tables", drifts)
	}
	changed, err := Rewrite(dir)
	check.Need(t, err == nil && len(changed) == 2, "got %v, %v", changed, err)
	if drifts, err := Check(dir); err != nil || len(drifts) != 0 {
		t.Errorf("after the update: got %v, %v", drifts, err)
	}
	text, err := os.ReadFile(readme)
	check.Must(t, err)
	doctest.Golden(t, "checked.md", string(text))

	// One digit edited by hand.
	file("README.md", strings.Replace(string(text), "20.0", "19.0", 1))
	if drifts, err := Check(dir); err != nil || len(drifts) != 1 {
		t.Errorf("after an edit: got %v, %v", drifts, err)
	}
}

func TestBadMarkers(t *testing.T) {
	const end = "\n<!-- ipcbench: end -->\n"
	tests := []struct{ name, text, want string }{
		{"no file", "<!-- ipcbench: begin gone.json cells -->" + end, "no such file"},
		{"outside", "<!-- ipcbench: begin ../r.json cells -->" + end, "must lie in the same folder"},
		{"absolute", "<!-- ipcbench: begin /r.json cells -->" + end, "must lie in the same folder"},
		{"no view", "<!-- ipcbench: begin r.json -->" + end, "want FILE.json VIEW"},
		{"unknown view", "<!-- ipcbench: begin r.json tables -->" + end, `unknown view "tables": want all or some of verdict,findings`},
		{"unknown filter", "<!-- ipcbench: begin r.json cells colour=red -->" + end, `"colour=red": want transport=`},
		{"filter without value", "<!-- ipcbench: begin r.json cells model -->" + end, `"model": want transport=`},
		{"nothing left", "<!-- ipcbench: begin r.json cells model=gpt2 -->" + end, `"model=gpt2": no cell is left`},
		{"nothing to show", "<!-- ipcbench: begin r.json crossover -->" + end, "nothing to show"},
		{"no end", "a\n<!-- ipcbench: begin r.json cells -->\n", "README.md:2: want <!-- ipcbench: begin FILE VIEW --> alone in its line"},
		{"no begin", "a\n<!-- ipcbench: end -->\n", "README.md:2: want <!-- ipcbench: begin"},
		{"nested", "<!-- ipcbench: begin r.json cells -->\n<!-- ipcbench: begin r.json cells -->" + end, "README.md:1: want <!-- ipcbench: begin"},
		{"not alone", "<!-- ipcbench: begin r.json cells --> a" + end, "alone in its line"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			check.Must(t, benchtest.Pair(1, 1).WriteFile(filepath.Join(dir, "r.json")))
			path := filepath.Join(dir, "README.md")
			check.Must(t, os.WriteFile(path, []byte(tt.text), 0o644))
			_, err := Check(dir)
			check.That(t, err != nil && strings.Contains(err.Error(), tt.want), "got %v, want %q", err, tt.want)
			if _, err := Rewrite(dir); err == nil {
				t.Error("the update has no error")
			}
			after, _ := os.ReadFile(path)
			check.That(t, string(after) == tt.text, "the file was changed to %q", after)
		})
	}
}
