package cli

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report"
)

// The number of runs of TestSoakSameBuild, and the first one: in parts, each with other layouts and order seeds.
// Nothing else should run on the machine.
var (
	sameRuns  = flag.Int("same", 40, "runs of TestSoakSameBuild")
	sameFirst = flag.Int("first", 0, "number of the first run of TestSoakSameBuild")
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

// counted is how often something was found.
type counted struct{ found, of int }

func (c *counted) add(is bool) {
	c.of++
	if is {
		c.found++
	}
}

// bounds returns the 95 % interval of Clopper and Pearson (1934) for the probability.
func (c counted) bounds() (low, high float64) {
	atMost := func(k int, p float64) (sum float64) { // the chance of at most k
		for i := range k + 1 {
			term := 1.0
			for j := range i {
				term *= float64(c.of-j) / float64(i-j) * p
			}
			sum += term * math.Pow(1-p, float64(c.of-i))
		}
		return sum
	}
	root := func(k int, tail float64) float64 {
		return float64(sort.Search(1e5, func(n int) bool { return atMost(k, float64(n)/1e5) <= tail })) / 1e5
	}
	if high = 1; c.found < c.of {
		high = root(c.found, 0.025)
	}
	if c.found > 0 {
		low = root(c.found-1, 0.975)
	}
	return low, high
}

func (c counted) String() string {
	low, high := c.bounds()
	return fmt.Sprintf("%d of %d, %.1f %% (%.1f to %.1f)", c.found, c.of, 100*float64(c.found)/float64(c.of), 100*low, 100*high)
}

// TestBounds: the interval of a count is that of the published tables.
func TestBounds(t *testing.T) {
	for c, want := range map[counted][2]float64{{0, 10}: {0, 0.3085}, {1, 20}: {0.0013, 0.2487}, {10, 10}: {0.6915, 1}, {2, 40}: {0.0061, 0.1692}} {
		low, high := c.bounds()
		check.That(t, math.Abs(low-want[0]) < 1e-4 && math.Abs(high-want[1]) < 1e-4, "%v: %v to %v, want %v", c, low, high, want)
	}
}

// TestSoakSameBuild: how often reports that compare a commit with itself claim a difference, and find a copy that is
// slowed down by 10 or 20 % (guards 13 and 14). Each run links anew, with two layouts a side; in each fourth run a
// processor gets busy half way through. It fails if more than one of twenty reports is shown to alarm, or if fewer than
// nine of ten copies that are slower by 20 % are shown to be found.
func TestSoakSameBuild(t *testing.T) {
	skip.Soak(t)
	runs, busy, rows := new(counted), new(counted), new(counted)
	found := map[int]*counted{10: {}, 20: {}}
	for n := *sameFirst; n < *sameFirst+*sameRuns; n++ {
		var exes []string
		for i := range 4 {
			exes = append(exes, built(t, fmt.Sprintf("-ldflags=-randlayout=%d", 4*n+i+1)))
		}
		slower := 10 + 10*(n%2)
		if n%4 == 3 {
			half := time.AfterFunc(14*time.Second, func() { _ = exec.CommandContext(t.Context(), "timeout", "20", "sh", "-c", "while :; do :; done").Run() })
			defer half.Stop()
		}
		r := rerun(t, exes[0], filepath.Join(t.TempDir(), "r.json"), few("pickle,shm-slab,http", "--against", exes[1]+","+exes[2], "--layouts", exes[3],
			"--time", "1s", "--order-seed", strconv.Itoa(n+1), fmt.Sprintf("--canary=%d%%", slower))...)
		c := compared(t, r)
		claims := len(c.Worse()) + len(c.Better())
		runs.add(claims > 0)
		if n%4 == 3 {
			busy.add(claims > 0)
		}
		for i := range len(c.Rows) {
			rows.add(i < claims)
		}
		_, slow, err := r.Pairs()
		check.Must(t, err)
		found[slower].add(len(compared(t, slow).Worse()) > 0)
		t.Logf("run %d, %v: alarms %d, slower by %d %% found %d", n, r.Elapsed.Round(time.Second), claims, slower, found[slower].found)
	}
	t.Logf("alarms per run: %v; with a busy processor: %v; per comparison: %v; found +10 %%: %v, +20 %%: %v", runs, busy, rows, found[10], found[20])
	low, _ := runs.bounds()
	_, high := found[20].bounds()
	check.That(t, low <= 0.05 && high >= 0.9, "alarms in %v, and +20 %% found in %v", runs, found[20])
}
