package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
)

var block = regexp.MustCompile("(?s)```(bash|python)\n(.*?)```")

// TestPythonPage: docs/python.md lists all reference rows, and its commands succeed one after the other. With
// IPCBENCH_TEST_SOAK they run word for word, and otherwise with --dry-run.
func TestPythonPage(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	page := check.Value(os.ReadFile("../../docs/python.md"))(t)
	var modules []python.Module
	for _, row := range python.Rows() {
		check.That(t, strings.Contains(string(page), "\n| `"+row.Name+"` | "), "docs/python.md lacks the row %s", row.Name)
		other := func(m python.Module) bool { return m.Debian == "" || m == python.Torch() }
		if !slices.ContainsFunc(row.Modules, other) { // no command on the page needs the others
			modules = append(modules, row.Modules...)
		}
	}
	if _, err := python.Find(t.Context(), "", modules...); err != nil {
		skip.Missing(t, "%v", err)
	}
	soak := os.Getenv("IPCBENCH_TEST_SOAK") != ""
	dir := t.TempDir()
	env := installed(t, dir)
	check.Must(t, os.CopyFS(filepath.Join(dir, "python"), os.DirFS("../../python")))
	runs := 0
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		script := m[2]
		if m[1] == "python" {
			check.Must(t, os.WriteFile(filepath.Join(dir, "mymodule.py"), []byte(script), 0o600))
			continue
		}
		if !soak {
			script = strings.ReplaceAll(script, "ipcbench run ", "ipcbench run --dry-run ")
		}
		out, err := bash(t, dir, script, env...)
		check.That(t, err == nil, "%s%v:\n%s", script, err, out)
		runs += strings.Count(m[2], "ipcbench run ")
	}
	check.That(t, runs >= 5, "%d commands", runs)
	files, _ := filepath.Glob(filepath.Join(dir, "ipcbench-*.json"))
	check.That(t, !soak || len(files) == runs, "%d results of %d runs", len(files), runs)
	for _, path := range files {
		r := check.Value(result.ReadFile(path))(t)
		for _, c := range r.Cells {
			check.That(t, c.Proved() && c.Unproved == "",
				"%s: %s is not proved: %s", strings.Join(r.Command, " "), c.ID(), c.Unproved)
		}
	}
}
