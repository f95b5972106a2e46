package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestBenchstat: benchstat itself puts the results of two commits into one table,
// two builds of an interleaved run beside each other, and so two transports.
func TestBenchstat(t *testing.T) {
	base, head := benchtest.Pair(1, 1), benchtest.Pair(1, 1) // that differ in all that a build may change
	base.Environment.Commit, base.Environment.Go, base.Plan.Mode, base.Environment.Kernel = "fedcba", "go1.99", "quick", "5.0"
	base.Cells[1].Variant, head.Cells[1].Variant = "pickle:dir=/tmp/a b", "pickle:dir=/tmp/a b"
	both := benchtest.Interleaved(1.2)
	both.Against = &base.Environment
	holds(t, format(t, "benchfmt", both), "# commit of build=base: fedcba, go1.99\n", "# commit of build=head: 0123456789abcdef, go1.26.8\n")
	for _, c := range []struct {
		name    string
		flags   []string
		results []*result.Result
		want    string
	}{
		{"two commits", nil, []*result.Result{base, head}, "transport=pickle:dir=_tmp_a_b"},
		{"two builds", []string{"-col", "/build"}, []*result.Result{both}, "+20.00%"},
		{"two transports", []string{"-col", "/transport"}, []*result.Result{head}, "+100.00% (p=0.002 n=6)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"tool", "-modfile=../tools.mod", "benchstat"}, c.flags...)
			for i, r := range c.results {
				file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.txt", i))
				check.Must(t, os.WriteFile(file, []byte(format(t, "benchfmt", r)), 0o600))
				args = append(args, file)
			}
			text, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
			check.Need(t, err == nil, "%v\n%s", err, text)
			tables := regexp.MustCompile(`(?m)^.*│ +sec/op .*$`).FindAll(text, -1)
			check.Need(t, len(tables) == 1, "got %d tables of sec/op, want one:\n%s", len(tables), text)
			holds(t, string(tables[0]), "vs base")
			holds(t, string(text), c.want)
		})
	}
}
