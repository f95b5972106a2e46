package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
)

// TestFunction: a user's function gets views of the tensors, and a wrong function causes an
// error that describes the mistake.
func TestFunction(t *testing.T) {
	found, err := python.Find(t.Context(), "", python.Numpy(), python.Xxhash())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	cases := [][2]string{
		{"trainings:good", "sent True"},
		{"trainings:one_missing", "lane 1: trainings:one_missing has not written element 139999 of tensor w: "},
		{"trainings:half", "has not written element 0 of tensor f16"},
		{"trainings:no_number", "has written nothing of tensor steps"},
		{"trainings:adds", "has computed with element 0 of tensor w: write all of update"},
		{"trainings:nothing", "has not written element 0 of tensor w"},
		{"trainings:returns", "trainings:returns returned a dict: it must return None and write all of update"},
		{"trainings:raises", `lane 1: trainings:raises: ValueError: no data for client 2\n  File "`},
		{"trainings:raises", "in raises\\n    inner(job)\\n"},
		{"trainings:leaves", "trainings:leaves: SystemExit"},
		{"trainings:writes_model", "ValueError: assignment destination is read-only"},
		{"trainings:misspells", `no tensor \'W\': must be one of w, bf16, f16, f64, empty, flags, steps`},
		{"trainings:two", "trainings:two cannot be called as two(model, update, job): too many positional arguments"},
		{"trainings:NO_FUNCTION", "trainings:NO_FUNCTION must be a function, not of type int"},
		{"trainings:missing", "trainings:missing: no missing in "},
		{"nowhere:train", "nowhere:train: no module nowhere in "},
		{"broken:train", `broken.py, line 1)`},
	}
	from := check.Value(filepath.Abs("."))(t)
	c := exec.CommandContext(t.Context(), found.Path, filepath.Join(from, "testdata", "trainings.py"))
	for _, of := range cases {
		c.Args = append(c.Args, of[0])
	}
	c.Env = append(os.Environ(), "PYTHONPATH="+from, "PYTHONDONTWRITEBYTECODE=1")
	c.Dir = filepath.Join(from, "testdata")
	out, err := c.CombinedOutput() // functions print to stderr, even with print
	check.Need(t, err == nil, "%v\n%s", err, out)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	check.Need(t, len(lines) == len(cases), "%d lines of %d functions:\n%s", len(lines), len(cases), out)
	for i, of := range cases {
		check.That(t, strings.Contains(lines[i], of[1]), "%s: got %s, want %q in it", of[0], lines[i], of[1])
	}
}
