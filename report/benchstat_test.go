package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
)

// TestBenchstat: benchstat itself puts the results of two commits into one table,
// two builds of an interleaved run beside each other, and so two transports.
func TestBenchstat(t *testing.T) {
	base, head := twoCommits()
	for _, c := range []struct {
		name    string
		flags   []string
		results []*result.Result
		change  string // of the round
	}{
		{"two commits", nil, []*result.Result{base, head}, "~"},
		{"two builds", []string{"-col", "/build"}, []*result.Result{benchtest.Interleaved(1.2)}, "+20.00%"},
		{"two transports", []string{"-col", "/transport"}, []*result.Result{head}, "+100.00%"},
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
			if len(tables) != 1 || !strings.Contains(string(tables[0]), "vs base") || !strings.Contains(string(text), c.change) {
				t.Errorf("got %d tables of sec/op, want one with \"vs base\" and %s:\n%s", len(tables), c.change, text)
			}
		})
	}
}
