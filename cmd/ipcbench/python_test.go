package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
)

var block = regexp.MustCompile("(?s)```(bash|python)\n(.*?)```")

// TestPythonPage: docs/python.md has all reference rows, and its commands do what it says,
// one after the other in a clone: word for word with make soak, and else as far as
// --dry-run goes.
func TestPythonPage(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	page, err := os.ReadFile("../../docs/python.md")
	if err != nil {
		t.Fatal(err)
	}
	var modules []python.Module
	for _, row := range python.Rows() {
		if !strings.Contains(string(page), "\n| `"+row.Name+"` | ") {
			t.Errorf("docs/python.md lacks the row %s", row.Name)
		}
		if row.Name != "py-torch-queue" { // which no command takes
			modules = append(modules, row.Modules...)
		}
	}
	if _, err := python.Find(t.Context(), "", modules...); err != nil {
		skip.Missing(t, "%v", err)
	}
	soak := os.Getenv("IPCBENCH_TEST_SOAK") != ""
	dir := t.TempDir()
	env := append(os.Environ(), installed(t, dir)...)
	if err := os.CopyFS(filepath.Join(dir, "python"), os.DirFS("../../python")); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		script := m[2]
		if m[1] == "python" {
			if err := os.WriteFile(filepath.Join(dir, "mymodule.py"), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !soak {
			script = strings.ReplaceAll(script, "ipcbench run ", "ipcbench run --dry-run ")
		}
		c := exec.Command("bash", "-ec", script)
		c.Dir, c.Env = dir, env
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s%v:\n%s", script, err, out)
		}
		runs += strings.Count(m[2], "ipcbench run ")
	}
	if runs < 5 {
		t.Errorf("%d commands", runs)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "ipcbench-*.json"))
	if soak && len(files) != runs {
		t.Errorf("%d results of %d runs", len(files), runs)
	}
	for _, path := range files {
		r, err := result.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Cells {
			if !c.Proved() || c.Unproved != "" {
				t.Errorf("%s: %s is not proved: %s", strings.Join(r.Command, " "), c.ID(), c.Unproved)
			}
		}
	}
}
