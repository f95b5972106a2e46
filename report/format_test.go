package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase/usage"
	"ipcbench/report/answer"
	"ipcbench/report/metrics"
)

// TestBenchstat: benchstat puts the results of two commits into one table, and shows two
// builds of an interleaved run, or two transports, side by side.
func TestBenchstat(t *testing.T) {
	base, head := benchtest.Pair(1, 1), benchtest.Pair(1, 1) // they differ in everything that a build may change
	base.Environment.Commit, base.Environment.Go, base.Plan.Mode, base.Environment.Kernel = "fedcba", "go1.99", "quick", "5.0"
	base.Cells[1].Variant, head.Cells[1].Variant = "pickle:dir=/tmp/a b", "pickle:dir=/tmp/a b"
	both := benchtest.Interleaved(1.2)
	both.Programs[0].Environment = &base.Environment
	holds(t, format(t, "benchfmt", both), "# commit of program=base: fedcba, go1.99\n", "# commit of program=head: 0123456789abcdef, go1.26.8\n")
	for _, c := range []struct {
		name    string
		flags   []string
		results []*result.Result
		want    string
	}{
		{"two commits", nil, []*result.Result{base, head}, "transport=pickle:dir=_tmp_a_b"},
		{"two builds", []string{"-col", "/program"}, []*result.Result{both}, "+20.00%"},
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

// TestFewBlocks: if intervals have less than 95 % confidence, or do not exist, the screen
// says so and how to get them.
func TestFewBlocks(t *testing.T) {
	wantLines(t, shown(t, benchtest.Result(cnn("a", 9, 10, 11))), "transport round, ms (75 % sure) × best total CPU, s/GB",
		"±: confidence interval over the blocks (fresh processes) of this run, which are too few for 95 %: use --blocks 6.")
	wantLines(t, shown(t, benchtest.Result(cnn("a", 9))), "transport round, ms (no interval) × best total CPU, s/GB",
		"There is no ±: one block (a session of fresh processes) does not show how much blocks vary. Use --blocks 6 for 95 % confidence.")
	none := benchtest.Result()
	none.Partial = "interrupted"
	lacks(t, shown(t, none), "±")
	holds(t, format(t, "html", none), "<title>ipcbench: 0 models</title>")
}

// TestMarkdownLimit: a result of any size becomes a comment that GitHub accepts, which
// names the parts left out.
func TestMarkdownLimit(t *testing.T) {
	check.Equal(t, strings.Count(format(t, "md", benchtest.Synthetic(3, 2)), "```mermaid"), 6, "charts of 6 groups")
	for _, n := range []int{1, 10, 100, 1000} {
		md := format(t, "md", manyCells(n, 6, 2))
		got, left := utf8.RuneCountInString(md), strings.Contains(md, "Left out, to stay below")
		check.That(t, got <= 65536, "%d cells: %d characters", n, got)
		check.That(t, (n != 1 || !left) && (n != 1000 || left), "of %d cells something is missing: %v", n, left)
		check.Equal(t, strings.Count(md, "<details"), strings.Count(md, "</details>"), n, "cells: details that close")
	}
	many := manyCells(1000, 4, 2)
	got := utf8.RuneCountInString(write(t, compare(t, many, many, CompareOptions{}), "md"))
	check.That(t, got <= 65536, "comparison: %d characters", got)
}

func manyCells(n, blocks, rounds int) *result.Result {
	r := benchtest.Result()
	for i := range n {
		name := []string{"inproc", "pickle", "storage", "shm-tensor", "shm-slab", "grpc-tensor", "grpc-batch", "grpc-stream", "http", "http-shm"}[i%10]
		m := benchtest.Models["histology"]
		m.Name = fmt.Sprintf("model%d", i/10)
		times := make([]float64, blocks)
		for k := range times {
			times[k] = float64(10+i%10) * (1 + 0.001*float64((k*7+i)%13))
		}
		c := benchtest.Cell(name, m, 2, 4, times...)
		for k := range c.Blocks { // each block has two rounds
			b := &c.Blocks[k]
			for _, s := range []*[]int64{&b.Round, &b.Train, &b.RTT, &b.Down, &b.Up} {
				*s = slices.Repeat(*s, rounds/2)
			}
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

// childFile is the environment variable that names the result file for a child of
// TestThousandCells.
const childFile = "IPCBENCH_TEST_REPORT"

// TestThousandCells: a separate process reads 1,000 cells from a file and reports on them
// in under 2 s of CPU time and 200 MB.
func TestThousandCells(t *testing.T) {
	if path := os.Getenv(childFile); path != "" {
		r := check.Value(result.ReadFile(path))(t)
		text := format(t, "text", r)
		check.That(t, len(text) >= 1e5, "only %d bytes of text", len(text))
		// The peak that getrusage returns is inherited from the parent.
		m := check.Value(usage.ReadMemory())(t)
		check.That(t, m.Peak <= 200e6, "took %d MB", m.Peak/1e6)
		return
	}
	skip.Soak(t)
	path := filepath.Join(t.TempDir(), "r.json")
	check.Must(t, manyCells(1000, 6, 20).WriteFile(path))
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestThousandCells$", "-test.v")
	child.Env = append(os.Environ(), childFile+"="+path)
	out, err := child.CombinedOutput()
	t.Logf("%s", out)
	check.Must(t, err)
	cpu := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	check.That(t, cpu <= 2*time.Second, "took %v of CPU time", cpu)
}

// FuzzReport: every result that the reader accepts can be written in every format.
func FuzzReport(f *testing.F) {
	f.Add([]byte(format(f, "result", benchtest.Pair(1, 1))))
	f.Add([]byte(format(f, "result", benchtest.Interleaved(2))))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "r.json")
		check.Must(t, os.WriteFile(path, data, 0o600))
		r, err := result.ReadFile(path)
		if err != nil {
			return
		}
		for _, name := range []string{"text", "md", "html", "csv", "json", "benchfmt"} {
			format(t, name, r)
		}
		answer.Findings(metrics.New(r))
		for _, head := range []*result.Result{r, nil} {
			c, err := Compare(r, head, CompareOptions{Separate: true})
			if err != nil {
				continue
			}
			for _, format := range ComparisonFormats() {
				write(t, c, format)
			}
			_, _ = c.Gate(0.05)
		}
	})
}
