package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report"
)

// Numbers of runs of the two tests below. Nothing else should run on the machine.
var (
	sameRuns = flag.Int("same", 40, "runs of TestSoakSameBuild")
	slowRuns = flag.Int("slow", 10, "runs of TestSoakSlowdown")
)

// built returns a fresh build of the command.
func built(t *testing.T, flags ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "ipcbench")
	args := append([]string{"build", "-o", exe}, flags...)
	out, err := exec.Command("go", append(args, "ipcbench/cmd/ipcbench")...).CombinedOutput()
	check.Need(t, err == nil, "%v\n%s", err, out)
	return exe
}

func output(t *testing.T, exe string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	check.Must(t, err, args)
	return out
}

func rerun(t *testing.T, exe, path string, args ...string) *result.Result {
	t.Helper()
	output(t, exe, append([]string{"run", "-q", "--out", path}, args...)...)
	return check.Value(result.ReadFile(path))(t)
}

func compared(t *testing.T, r *result.Result) *report.Comparison {
	t.Helper()
	return check.Value(report.Compare(r, nil, report.CompareOptions{}))(t)
}

// few returns the arguments of a run with few cells.
func few(transports string, more ...string) []string {
	return append([]string{"--transport", transports, "--model", "cnn", "--workers", "1", "--clients", "2"}, more...)
}

// TestSoakSameBuild: of 40 reports that compare a build with itself, at most 4 claim a
// difference (guards 13 and 14).
func TestSoakSameBuild(t *testing.T) {
	skip.Soak(t)
	exe, claims := built(t), 0
	for range *sameRuns {
		c := compared(t, rerun(t, exe, filepath.Join(t.TempDir(), "r.json"), few("pickle,shm-slab,http", "--against", exe, "--time", "1s")...))
		if len(c.Worse())+len(c.Better()) > 0 {
			claims++
		}
	}
	check.That(t, claims*10 <= *sameRuns, "%d of %d reports claim a difference, which is more than a tenth", claims, *sameRuns)
}

// TestSoakSlowdown: at least 9 of 10 default runs find a transport that is slowed down by
// 10 % (guard 14).
func TestSoakSlowdown(t *testing.T) {
	skip.Soak(t)
	exe, found := built(t), 0
	for range *slowRuns {
		_, slow, err := rerun(t, exe, filepath.Join(t.TempDir(), "r.json"), few("pickle", "--canary=10%")...).Pairs()
		check.Must(t, err)
		found += len(compared(t, slow).Worse())
	}
	check.That(t, found*10 >= *slowRuns*9, "the slowdown was found in %d of %d runs, which is fewer than nine tenths", found, *slowRuns)
}
