package cli

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report"
)

// How often the two tests below repeat themselves. The machine should have
// nothing else to do.
var (
	sameRuns = flag.Int("same", 40, "runs of TestSoakSameBuild")
	slowRuns = flag.Int("slow", 10, "runs of TestSoakSlowdown")
)

// soak ends a test that is not to be run by chance.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("a long test: make soak runs it")
	}
}

// built returns a fresh build of the command.
func built(t *testing.T, flags ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "ipcbench")
	args := append([]string{"build", "-o", exe}, flags...)
	out, err := exec.Command("go", append(args, "ipcbench/cmd/ipcbench")...).CombinedOutput()
	check.Need(t, err == nil, "%v\n%s", err, out)
	return exe
}

// output returns what a command writes to stdout.
func output(t *testing.T, exe string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	check.Must(t, err, args)
	return out
}

// TestSoakSameBuild: of 40 reports that compare a build with itself, at most 4
// claim a difference (guards 13 and 14).
func TestSoakSameBuild(t *testing.T) {
	soak(t)
	exe := built(t)
	claims := 0
	for i := range *sameRuns {
		path := filepath.Join(t.TempDir(), "result.json")
		output(t, exe, "run", "-q", "--against", exe, "--transport", "pickle,shm-slab,http", "--model", "cnn",
			"--workers", "1", "--clients", "2", "--time", "1s", "--out", path)
		var c struct {
			Verdict string
			Rows    []struct{ Significant bool }
		}
		check.Must(t, json.Unmarshal(output(t, exe, "compare", "--format", "json", path), &c))
		t.Logf("run %d: %s", i+1, c.Verdict)
		for _, r := range c.Rows {
			if r.Significant {
				claims++
				break
			}
		}
	}
	t.Logf("%d of %d reports claim a difference", claims, *sameRuns)
	check.That(t, claims*10 <= *sameRuns, "more than a tenth")
}

// TestSoakSlowdown: a transport that is slowed down by 10 % is found in at least
// 9 of 10 default runs (guard 14).
func TestSoakSlowdown(t *testing.T) {
	soak(t)
	exe := built(t)
	found := 0
	for i := range *slowRuns {
		path := filepath.Join(t.TempDir(), "result.json")
		output(t, exe, "run", "-q", "--canary=10%", "--transport", "pickle", "--model", "cnn",
			"--workers", "1", "--clients", "2", "--out", path)
		r, err := result.ReadFile(path)
		check.Must(t, err)
		_, slow, err := r.Pairs()
		check.Must(t, err)
		c, err := report.Compare(slow, nil, report.CompareOptions{})
		check.Must(t, err)
		row := c.Rows[0]
		t.Logf("run %d: %.3f times as long (%.3f to %.3f), p %.3g", i+1, row.Ratio.Center, row.Ratio.Low, row.Ratio.High, row.P)
		if row.Significant && row.Ratio.Center > 1 {
			found++
		}
	}
	t.Logf("the slowdown was found in %d of %d runs", found, *slowRuns)
	check.That(t, found*10 >= *slowRuns*9, "fewer than nine tenths")
}
