package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// TestResume: a spread run that is killed twice is completed by --resume alone, with the flags of its file, and every view
// can be made of it. A file whose flags could run a program is not obeyed, and a complete one is refused.
func TestResume(t *testing.T) {
	skip.Long(t)
	path := filepath.Join(t.TempDir(), "r.json")
	args := []string{"run", "--quiet", "--blocks", "6", "--spread", "6s", "--model", "uniform:4KiB/3", "--transport", "shm-slab,pickle",
		"--workers", "1", "--clients", "1", "--out", path}
	for kills := 1; kills <= 2; kills++ {
		c := child.Start(t, command(t, args...))
		c.Until("another cycle", func() bool {
			r, err := result.ReadFile(path)
			return err == nil && len(r.Cells) > 0 && len(r.Cells[0].Blocks) >= 2*kills-1
		})
		c.Send(syscall.SIGKILL)
		c.Ends(waiting.Limit, -1, "")
		args = []string{"run", "--quiet", "--resume", path}
	}
	c := child.Start(t, command(t, args...))
	c.Ends(waiting.Limit, 0, "")
	r := check.Value(result.ReadFile(path))(t)
	resumed := 0
	for _, p := range r.Pauses {
		if p.Resumed {
			resumed++
		}
	}
	check.That(t, r.Partial == "" && resumed == 2 && len(r.Cells) == 3, "%q, %d cells, pauses %+v", r.Partial, len(r.Cells), r.Pauses)
	for _, cell := range r.Cells {
		for i, b := range cell.Blocks {
			check.That(t, len(cell.Blocks) == 6 && b.Index == i && b.Position/3 == i, "%s: %d blocks, block %d: %+v", cell.ID(), len(cell.Blocks), i, b)
		}
	}
	child.Start(t, command(t, "report", "--view", "all", path)).Ends(waiting.Limit, 0, "")
	child.Start(t, command(t, args...)).Ends(waiting.Limit, 2, "the run is complete")

	r.Partial, r.Command = "killed", append(r.Command, "--peer", "p=touch "+path+".ran")
	check.Must(t, r.WriteFile(path))
	child.Start(t, command(t, args...)).Ends(waiting.Limit, 2, "--peer runs a program")
	check.That(t, check.Err(os.Stat(path+".ran")) != nil, "the peer of a file was run")
	r.Command = r.Command[:len(r.Command)-2]
	check.Must(t, r.WriteFile(path))
	child.Start(t, command(t, "run", "--resume", path, "--blocks", "7")).Ends(waiting.Limit, 2, "the file's plan has blocks 6, and this run 7: give the same flags")
}
