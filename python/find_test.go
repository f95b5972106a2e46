package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
)

// script writes a shell script to dir, as the executable python3.
func script(t *testing.T, dir, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// TestFind: an interpreter that is too old, is not Python or lacks a module is skipped, and
// the error names the reason.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ text, want string }{
		{`echo '{"version": [2, 7, 18], "lacks": []}'`, "is Python 2.7.18, must be 3.9 or newer"},
		{`echo '{"version": [3, 8, 1], "lacks": []}'`, "is Python 3.8.1, must be 3.9 or newer"},
		{`echo hello`, "is not Python 3"},
		{`exit 1`, "is not Python 3: exit status 1"},
		{`echo '{"version": [3, 11, 2], "lacks": ["torch"]}'`, "no module torch in " + dir + "/python3; Debian: python3-torch"},
		{`echo '{"version": [3, 14, 0], "lacks": ["torch", "swift"]}'`, "no module torch, swift in " + dir + "/python3; Debian: python3-torch; pip install swift"},
		{`echo '{"version": [3, 11, 2], "lacks": ["swift"]}'`, "is Python 3.11.2, must be 3.12 or newer for swift (pip install swift)"},
	} {
		script(t, dir, c.text)
		modules := []python.Module{python.Torch(), {Name: "swift", Least: 12}}[:1+min(1, strings.Count(c.text, "swift"))]
		check.Fails(t, check.Err(python.Find(t.Context(), filepath.Join(dir, "python3"), modules...)), c.want, c.text)
	}
	_, err := python.Find(t.Context(), filepath.Join(dir, "none"))
	check.That(t, err != nil && strings.Contains(err.Error(), "no interpreter "+dir+"/none"), "%v", err)
	script(t, dir, `echo '{"version": [3, 8, 1], "lacks": []}'`)
	t.Setenv("PATH", dir)
	found, err := python.Find(t.Context(), "") // skips the one in PATH
	check.That(t, (err != nil || found.Path == "/usr/bin/python3") && (err == nil || strings.Contains(err.Error(), "must be 3.9")),
		"%v %v", found, err)
}

// TestFindElsewhere: files in the current directory are neither run nor found as modules.
func TestFindElsewhere(t *testing.T) {
	here, err := python.Find(t.Context(), "")
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"json.py", "nothing_has_this.py"} {
		check.Must(t, os.WriteFile(name, []byte("raise SystemExit(3)\n"), 0o600))
	}
	_, err = python.Find(t.Context(), here.Path, python.Module{Name: "nothing_has_this", Debian: "python3-nothing"})
	check.That(t, err != nil && strings.Contains(err.Error(), "no module nothing_has_this"), "%v", err)
}

// TestUnpackWithoutHeaders: it is not an error if the compiler cannot build the kernel.
func TestUnpackWithoutHeaders(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(bin, "cc"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	t.Setenv("PATH", bin)
	check.OK(t, python.Unpack(t.Context(), dir))
}
