package bench_test

import (
	"errors"
	"path/filepath"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestSave: after a cycle, the result so far can be saved; it is marked as partial. If saving fails, the run goes on
// and returns the complete result.
func TestSave(t *testing.T) {
	o := options(t, short(t, 6, 2), "pickle cnn")
	path := filepath.Join(t.TempDir(), "r.json")
	var saved []*result.Result
	o.Save = func(r *result.Result) error {
		check.Must(t, r.WriteFile(path))
		read := check.Value(result.ReadFile(path))(t)
		saved = append(saved, read)
		return errors.New("no room")
	}
	r := run(t, o)
	check.Need(t, len(saved) != 0, "nothing was saved")
	first := saved[0]
	check.That(t, first.Partial != "" && len(first.Cells) == 2 && len(first.Cells[0].Blocks) == 1 && first.Cells[0].Stopped == "interrupted",
		"first saved: partial %q, %d cells: want a block of each cell", first.Partial, len(first.Cells))
	check.That(t, r.Partial == "" && len(r.Cells[0].Blocks) == 2 && r.Cells[0].Stopped == "rounds",
		"in the end: partial %q, %d blocks, stopped by %q", r.Partial, len(r.Cells[0].Blocks), r.Cells[0].Stopped)
}
