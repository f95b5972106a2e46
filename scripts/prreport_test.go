// Package scripts tests the scripts beside it.
package scripts

import (
	"errors"
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

// comment changes no compiled code.
var comment = change{"transports/batched/encode.go", "// encode returns", "// encode always returns"}

// slower makes gRPC's encoder hash every nth byte that it sends. Every ninth byte adds some
// 15 % to a round, and hashing all bytes more than doubles it.
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

// proposed returns a clone of the working tree, committed on branch main, with the change
// on top.
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
	text := check.Value(os.ReadFile(path))(t)
	check.Need(t, strings.Count(string(text), c.old) == 1, "%s: want %q once in it", c.file, c.old)
	check.Must(t, os.WriteFile(path, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600))
	git("-C", clone, "commit", "-q", "-a", "-m", "changed")
	return clone
}

// A report holds the output of scripts/pr-report and its exit code.
type report struct{ page, code, log string }

// reported runs a command, which must run scripts/pr-report, in the clone.
func reported(t *testing.T, clone, failAbove, cells string, command ...string) (r report, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = clone
	tmp := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "LAYOUTS=2", "BASE=main", "OUT=out", "FAIL_ABOVE="+failAbove, "CELLS=-q --transport grpc-stream,http --model uniform:1MiB/4 --workers 1 --clients 1 "+cells)
	log, err := cmd.CombinedOutput()
	exit := new(exec.ExitError)
	check.Need(t, err == nil || errors.As(err, &exit), "%v", err)
	left, err := os.ReadDir(tmp)
	check.That(t, err == nil && len(left) == 0, "%v; it leaves %v", err, left)
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(clone, "out", name))
		check.That(t, err == nil, "%v\n%s", err, log)
		return string(text)
	}
	return report{file("report.md"), strings.TrimSpace(file("exit-code")), string(log)}, cmd.ProcessState.ExitCode()
}

// marker is the first line, by which the workflow finds the comment to update.
const marker = "<!-- ipcbench -->\n"

const few = "--rounds 40 --blocks 10 --canary=60%"

// TestPullRequest: a report has a page that begins with the verdict, and an exit code. Two
// layouts of each build are measured in turn (guard 28), because linking takes a second,
// and none of their files is left. If measuring fails, the page has the error.
func TestPullRequest(t *testing.T) {
	clone := proposed(t, slower(1))
	r, code := reported(t, clone, "5%", few, "make", "pr-report")
	check.That(t, (code == 0) == (r.code == "0") && (code == 0 || code == 2 && strings.Contains(r.log, "Error "+r.code)),
		"make exits with %d, and the script with %s:\n%s", code, r.code, r.log)
	check.That(t, strings.HasPrefix(r.page, marker+"**Of 3 cells: ") || strings.HasPrefix(r.page, marker+"**No difference shown in 3 cells; "),
		"the page does not begin with the verdict:\n%s", r.page)
	check.That(t, strings.Contains(beforeTable(r.page), " of a cell share 2 layouts of base and head, "),
		"it was not measured in two layouts:\n%s", r.page)
	page, err := os.ReadFile(filepath.Join(clone, "out", "page.html"))
	check.That(t, err == nil && strings.Contains(string(page), "What changed"), "%v: no page with what changed, of %d bytes", err, len(page))

	r, code = reported(t, clone, "5%", "--model none", "scripts/pr-report")
	check.That(t, code == 2 && r.code == "2" && r.page == marker+"**Not compared: the measurement failed** with exit code 2. The log says why.\n" &&
		strings.Contains(r.log, `"none"`),
		"exits with %d and says\n%s%s", code, r.page, r.log)
}

// TestSoakPullRequest: thirty blocks show a slowdown of gRPC's encoder by 15 % of a round;
// on an idle machine they could show half of it. The report names only grpc-stream, the
// script exits with 3, and make with 2. A changed comment shows no difference. One of
// twenty reports shows one by chance, so there are three tries.
func TestSoakPullRequest(t *testing.T) {
	skip.Soak(t)
	for _, c := range []struct {
		name                    string
		change                  change
		failAbove, cells        string
		make                    int
		code, begins, gate, log string
	}{
		{"slower", slower(9), "5%", "--rounds 300 --blocks 30", 2, "3", "**Of 3 cells: 1 slower: grpc-stream with uniform:1MiB/4, +", "failed. grpc-stream, ", "Error 3"},
		{"a comment", comment, "20%", few, 0, "0", "**No difference shown in 3 cells; ", "passed. ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			clone := proposed(t, c.change)
			for range 3 {
				r, code := reported(t, clone, c.failAbove, c.cells, "make", "pr-report")
				above := beforeTable(r.page)
				if code == c.make && r.code == c.code && strings.HasPrefix(r.page, marker+c.begins) && strings.Contains(r.log, c.log) &&
					strings.Contains(above, c.gate) && strings.Contains(above, "The gate works: ") {
					return
				}
				t.Logf("make exits with %d, and the script with %s:\n%s\n%s", code, r.code, r.page, r.log)
			}
			t.Error("failed three times")
		})
	}
}

func beforeTable(page string) string {
	before, _, _ := strings.Cut(page, "\n|")
	return before
}
