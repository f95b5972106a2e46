// Package scripts tests the scripts beside it.
package scripts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// A change is a commit of the tree that a pull request would propose.
type change struct{ file, old, new string }

// comment changes nothing that is compiled.
var comment = change{"transports/batched/encode.go", "// encode makes", "// encode, as ever, makes"}

// slower makes gRPC's encoder hash every nth byte of all that it sends. Every ninth adds
// some 15 % to a round, and all of them more than as much again.
func slower(n int) change {
	return change{"transports/batched/encode.go", "\tc.cuts = c.cuts[:0]\n", `	hash := uint32(1)
	for _, p := range c.ready {
		for i := 0; i < len(p.data); i += ` + strconv.Itoa(n) + ` {
			hash = hash*31 + uint32(p.data[i])
		}
	}
	c.cuts = c.cuts[:0]
	if hash == 0 {
		c.cuts = nil
	}
`}
}

// proposed returns a clone of the working tree, committed on the branch main, with
// the change on top of it.
func proposed(t *testing.T, c change) (clone string) {
	t.Helper()
	for _, tool := range []string{"git", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip.Missing(t, "%s (Debian: %[1]s)", tool)
		}
	}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "test")
		t.Setenv("GIT_"+who+"_EMAIL", "test@localhost")
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	dir := t.TempDir()
	store, clone := filepath.Join(dir, "store"), filepath.Join(dir, "clone")
	git := func(args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		check.Need(t, err == nil, "git %v: %v\n%s", args, err, out)
	}
	git("init", "-q", "--bare", "-b", "main", store)
	git("--git-dir", store, "--work-tree", "..", "add", "--all", "..", ":!../results")
	git("--git-dir", store, "--work-tree", "..", "commit", "-q", "-m", "as it is")
	git("clone", "-q", store, clone)
	git("-C", clone, "checkout", "-q", "-b", "change")
	path := filepath.Join(clone, c.file)
	text, err := os.ReadFile(path)
	check.Must(t, err)
	check.Need(t, strings.Count(string(text), c.old) == 1, "%s: want %q once in it", c.file, c.old)
	check.Must(t, os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600))
	git("-C", clone, "commit", "-q", "-a", "-m", "changed")
	return clone
}

// A report is what scripts/pr-report wrote and how it ended.
type report struct{ page, code, log string }

// reported runs a command in the clone, which runs scripts/pr-report.
func reported(t *testing.T, clone, failAbove, cells string, command ...string) (r report, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = clone
	tmp := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "LAYOUTS=2", "BASE=main", "OUT=out", "FAIL_ABOVE="+failAbove, "CELLS=-q --transport grpc-stream,http --model uniform:1MiB/4 --workers 1 --clients 1 "+cells)
	log, err := cmd.CombinedOutput()
	exit := new(exec.ExitError)
	check.Need(t, err == nil || errors.As(err, &exit), "%v", err)
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v; it leaves %v", err, left)
	}
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(clone, "out", name))
		check.That(t, err == nil, "%v\n%s", err, log)
		return string(text)
	}
	return report{file("report.md"), strings.TrimSpace(file("exit-code")), string(log)}, cmd.ProcessState.ExitCode()
}

// TestPullRequest: a slowdown of gRPC's encoder is found: the report names grpc-stream
// and nothing else, and the script exits with 3, where make exits with 2. The long
// version finds 15 % of a round in thirty blocks, which show half of that on a machine
// with nothing else to do.
// A changed comment shows no difference. In one of twenty reports chance alone shows
// one, so there are three tries. What cannot be measured leaves a page that says so.
// Layouts of both are measured in turn (guard 28), and nothing of them is left; two of each,
// as linking takes a second.
func TestPullRequest(t *testing.T) {
	t.Run("slower", func(t *testing.T) {
		every, cells := 1, "--rounds 40 --blocks 10 --canary=60%"
		if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
			every, cells = 9, "--rounds 300 --blocks 30"
		}
		clone := proposed(t, slower(every))
		tries(t, 3, func() error {
			r, code := reported(t, clone, "5%", cells, "make", "pr-report")
			if code != 2 || !strings.Contains(r.log, "Error 3") {
				return fmt.Errorf("make exits with %d, and does not say that the script does with 3:\n%s", code, r.log)
			}
			return r.found()
		})
	})
	t.Run("a comment", func(t *testing.T) {
		clone := proposed(t, comment)
		tries(t, 3, func() error {
			r, code := reported(t, clone, "20%", "--rounds 40 --blocks 10 --canary=60%", "scripts/pr-report")
			if code != 0 {
				return fmt.Errorf("exits with %d:\n%s", code, r.log)
			}
			if page, err := os.ReadFile(filepath.Join(clone, "out", "page.html")); err != nil || !strings.Contains(string(page), "What changed") {
				t.Errorf("%v: no page with what changed, of %d bytes", err, len(page))
			}
			return r.silent()
		})
	})
	t.Run("a mistake", func(t *testing.T) {
		clone := proposed(t, comment)
		r, code := reported(t, clone, "5%", "--model none", "scripts/pr-report")
		if code != 2 || r.code != "2" || r.page != marker+"**Not compared: the measurement failed** with exit code 2. The log says why.\n" || !strings.Contains(r.log, `"none"`) {
			t.Errorf("exits with %d and says\n%s%s", code, r.page, r.log)
		}
	})
}

// marker is how the workflow finds the comment that it updates.
const marker = "<!-- ipcbench -->\n"

// found reports in which way r is not that of a slower grpc-stream.
func (r report) found() error {
	switch {
	case r.code != "3":
		return fmt.Errorf("got code %s, want 3:\n%s", r.code, r.log)
	case !strings.HasPrefix(r.page, marker+"**Of 3 cells: 1 slower: grpc-stream with uniform:1MiB/4, +") || !strings.Contains(r.page, "no difference shown in 2.**\n"):
		return fmt.Errorf("the page does not begin with the verdict:\n%s", r.page)
	case !strings.Contains(beforeTable(r.page), "failed. grpc-stream, ") || !strings.Contains(beforeTable(r.page), "The gate works: "):
		return fmt.Errorf("the gate does not stand above the table:\n%s", r.page)
	case !strings.Contains(beforeTable(r.page), " of a cell share 2 layouts of base and head: "):
		return fmt.Errorf("it was not measured in two layouts:\n%s", r.page)
	}
	return nil
}

// silent reports in which way r is not that of a change without effect.
func (r report) silent() error {
	switch {
	case r.code != "0":
		return fmt.Errorf("got code %s, want 0:\n%s", r.code, r.log)
	case !strings.HasPrefix(r.page, marker+"**No difference shown in 3 cells; "):
		return fmt.Errorf("the page does not begin with the verdict:\n%s", r.page)
	case !strings.Contains(beforeTable(r.page), "passed. ") || !strings.Contains(beforeTable(r.page), "The gate works: "):
		return fmt.Errorf("the gate does not stand above the table:\n%s", r.page)
	}
	return nil
}

func beforeTable(page string) string {
	before, _, _ := strings.Cut(page, "\n|")
	return before
}

// tries fails t if f has failed so often.
func tries(t *testing.T, most int, f func() error) {
	t.Helper()
	for i := range most {
		err := f()
		if err == nil {
			return
		}
		t.Logf("try %d: %v", i+1, err)
	}
	t.Errorf("failed %d times", most)
}
