package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/doctor"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestExitCodes: the table in docs/ci.md, help and scripts/pr-report give the same meanings.
func TestExitCodes(t *testing.T) {
	read := func(path string) string {
		text := string(check.Value(os.ReadFile(path))(t))
		return strings.Join(strings.Fields(strings.NewReplacer("\n#", " ", "| --- | --- |", "", "|", " ", ";", "").Replace(text)), " ")
	}
	table := regexp.MustCompile(`exit code meaning (0 success .* Ctrl-C)`).FindStringSubmatch(read("../docs/ci.md"))
	check.Need(t, table != nil, "docs/ci.md has no table of exit codes")
	for _, code := range []int{exitFailed, exitUsage, exitGate, exitUnjudged} {
		check.That(t, strings.Contains(table[1], fmt.Sprintf(" %d ", code)), "docs/ci.md has no exit code %d", code)
	}
	for _, path := range []string{"help/ipcbench.txt", "../scripts/pr-report"} {
		check.That(t, strings.Contains(read(path), table[1]), "%s does not have the table of docs/ci.md: %s", path, table[1])
	}
}

// TestExitCode: a signal wins, then the smallest code of all errors that a command joins.
func TestExitCode(t *testing.T) {
	failed, usage, slower, unjudged := errors.New("failed"), usagef("usage"), codeError{errors.New("slower"), exitGate}, codeError{errors.New("unjudged"), exitUnjudged}
	a := newApp(new(bytes.Buffer), new(bytes.Buffer), all.Transports())
	for i, test := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{failed, 1},
		{fmt.Errorf("at: %w", hinted{usage, "try"}), 2},
		{fmt.Errorf("at: %w", slower), 3},
		{hinted{unjudged, "try"}, 4},
		{errors.Join(unjudged, slower), 3},
		{errors.Join(slower, fmt.Errorf("at: %w", usage)), 2},
		{errors.Join(usage, slower, failed), 1},
		{fmt.Errorf("%w: %w", unjudged, errors.Join(usage)), 2},
		{errors.Join(failed, interrupted{syscall.SIGTERM}), 128 + 15},
	} {
		check.Equal(t, a.code(test.err), test.code, "case", i)
	}
}

// TestContradiction: a report of a result that contradicts itself is shown and exits with 1, and so
// does a comparison, with a gate and without one, also if a cell is slower (guard 21).
func TestContradiction(t *testing.T) {
	r := benchtest.Interleaved(1.3)
	path := filepath.Join(t.TempDir(), "r.json")
	for _, contradictory := range []bool{false, true} {
		if contradictory {
			for i := range r.Cells {
				r.Cells[i].Blocks[0].Train[0] = 10 * r.Cells[i].Blocks[0].Round[0]
			}
		}
		check.Must(t, r.WriteFile(path))
		for args, want := range map[string]int{"report": 0, "compare": 0, "compare --fail-above 5%": exitGate} {
			var out, stderr bytes.Buffer
			code := newApp(&out, &stderr, all.Transports()).main(append(strings.Fields(args), path))
			if contradictory {
				want = exitFailed
			}
			check.That(t, code == want && contradictory == strings.Contains(stderr.String(), "trained for"),
				"contradictory %v, %q: exits with %d: %s", contradictory, args, code, &stderr)
			check.That(t, args != "report" || strings.Contains(out.String(), "--view"), "the report was not shown")
		}
	}
	check.Must(t, check.Err(result.ReadFile(path)))
}

// TestRanOut: where the Go runtime would end the process for lack of threads or addresses, run
// fails with one line. Limits that suffice change nothing.
func TestRanOut(t *testing.T) {
	most := machine.Limits{Addresses: math.MaxInt64, Threads: math.MaxInt64}
	check.Must(t, doctor.Bearable(most))
	for _, limits := range []machine.Limits{{Addresses: 1_000_000 << 10, Threads: 1000}, {Addresses: most.Addresses, Threads: 8, ThreadsBy: "the cgroup's pids.max"}} {
		err := doctor.Bearable(limits)
		check.That(t, err != nil && !strings.Contains(err.Error(), "\n") && codeOf(err) == exitFailed, "%+v: %v", limits, err)
	}
}
