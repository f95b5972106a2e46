package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
)

// example runs a section's script of examples/python/README.md, word for word, in a copy of the folder, with few
// rounds. It returns the measured result.
func example(t *testing.T, section string, modules ...python.Module) *result.Result {
	t.Helper()
	found, err := python.Find(t.Context(), "", append(modules, python.Numpy(), python.Xxhash())...)
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	script := part(t, "examples/python/README.md", section, "bash", 0)
	dir, bin := t.TempDir(), t.TempDir()
	env := append(installed(t, bin), "PYTHONDONTWRITEBYTECODE=1", "IPCBENCH_CONFIG=few.yaml")
	err = os.CopyFS(dir, os.DirFS("../../examples/python"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "few.yaml"), []byte("blocks: 1\nrounds: 2\n"), 0o644)
	}
	if err == nil {
		err = os.Symlink(found.Path, filepath.Join(bin, "python3"))
	}
	check.Must(t, err)
	out, err := bash(t, dir, script, env...)
	check.Need(t, err == nil, "%v\n%s", err, out)
	check.That(t, strings.Contains(out, "communication, %"), "no share of communication in\n%s", out)
	files, _ := filepath.Glob(filepath.Join(dir, "ipcbench-*.json")) // the pattern is valid
	check.Need(t, len(files) == 1, "%d results, want 1", len(files))
	r := check.Value(result.ReadFile(files[0]))(t)
	for _, c := range r.Cells {
		check.That(t, c.Proved(), "%s is not proved", c.ID())
	}
	return r
}

// TestNumpyExample: the numpy section of examples/python/README.md works word for word.
func TestNumpyExample(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	r := example(t, "numpy")
	check.That(t, len(r.Cells) == 2 && r.Cells[0].Train == "mlp:train", "got %d cells of %s, want two of mlp:train", len(r.Cells), r.Cells[0].Train)
}

// TestSoakTorchExample: the torch section of examples/python/README.md works word for word.
func TestSoakTorchExample(t *testing.T) {
	skip.Soak(t)
	r := example(t, "torch", python.Torch())
	check.That(t, len(r.Cells) == 2 && r.Cells[0].Software["torch"] != "", "got %d cells on %v, want two on torch", len(r.Cells), r.Cells[0].Software)
}
