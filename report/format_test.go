package report

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchproc"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/report/metrics"
)

// TestBenchfmt reads our lines with the reader that benchstat has, and groups
// them as benchstat -col /transport does.
func TestBenchfmt(t *testing.T) {
	r := benchtest.Pair(1, 1)
	r.Cells[1].Variant = "pickle:dir=/tmp/a b:elems=on"
	in := benchfmt.NewReader(strings.NewReader(format(t, "benchfmt", r)), "test")
	var parser benchproc.ProjectionParser
	col, err := parser.Parse("/transport", nil)
	check.Must(t, err)
	lines := map[string][]float64{}
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Errorf("%v", rec)
		case *benchfmt.Result:
			got := string(rec.Name.Base())
			check.That(t, got == "Round", "got name %s", got)
			check.That(t, rec.Iters == 2, "got %d iterations, want the rounds of a block", rec.Iters)
			v, ok := rec.Value("sec/op")
			check.That(t, ok, "%s has no sec/op", rec.Name)
			key := col.Project(rec).String()
			lines[key] = append(lines[key], v)
		}
	}
	check.Must(t, in.Err())
	if len(lines) != 2 || len(lines["/transport:inproc"]) != 6 || len(lines["/transport:pickle:dir=_tmp_a_b:elems=on"]) != 6 {
		t.Errorf("got %v, want a line for each of 6 blocks of 2 transports", lines)
	}
	units := in.Units()
	for unit, want := range map[string]int{"sec/op": -1, "cpu-sec/GB": -1, "goodput-B/s": 1, "train-sec/op": 0} {
		check.Equal(t, units.GetBetter(unit), want, unit, "got better")
	}
}

// TestBenchfmtOfTwoCommits: benchstat compares what has the same configuration, so
// nothing that two builds differ in may be part of it.
func TestBenchfmtOfTwoCommits(t *testing.T) {
	base, head := twoCommits()
	both := benchtest.Interleaved(1)
	both.Against = &base.Environment
	var parser benchproc.ProjectionParser
	config, err := parser.Parse(".config", nil)
	check.Must(t, err)
	configs := map[benchproc.Key]int{}
	for _, r := range []*result.Result{base, head, both} {
		in := benchfmt.NewReader(strings.NewReader(format(t, "benchfmt", r)), "test")
		for in.Scan() {
			switch rec := in.Result().(type) {
			case *benchfmt.SyntaxError:
				t.Errorf("%v", rec)
			case *benchfmt.Result:
				configs[config.Project(rec)]++
			}
		}
		check.Must(t, in.Err())
	}
	check.That(t, len(configs) == 1, "got configurations %v, want one", configs)
	text := format(t, "benchfmt", both)
	for _, want := range []string{"# commit of build=base: fedcba, go1.99\n", "# commit of build=head: 0123456789abcdef, go1.26.8\n"} {
		check.That(t, strings.Contains(text, want), "no line %q in\n%.500s", want, text)
	}
}

// twoCommits returns results of a base and of a head that differ in all that a
// build may change.
func twoCommits() (base, head *result.Result) {
	base, head = benchtest.Pair(1, 1), benchtest.Pair(1, 1)
	base.Environment.Commit, base.Environment.Go, base.Plan.Mode, base.Environment.Kernel = "fedcba", "go1.99", "quick", "5.0"
	return base, head
}

// TestMarkdown: nothing that GitHub strips or that a name could smuggle in, and
// the verdict comes first.
func TestMarkdown(t *testing.T) {
	r := benchtest.Pair(1, 1)
	r.Cells[1].Variant = "evil|<img src=x>`@octocat [a](b)*\\#1"
	r.Command = append(r.Command, "a|b", "<b>", "it's")
	md := format(t, "md", r)
	check.That(t, strings.HasPrefix(md, "### Verdict\n\n**even, 100 MB in 4 tensors, 1 worker, 1 client: evil"),
		"the verdict does not come first: %.80s", md)
	for _, bad := range []string{"<img", "<b>", "|<", "@octocat", "#1", "[a](b)"} {
		check.That(t, !strings.Contains(md, bad), "%q got through", bad)
	}
	tags := regexp.MustCompile(`</?([a-z]+)`)
	for _, tag := range tags.FindAllStringSubmatch(md, -1) {
		check.That(t, strings.Contains("details summary span", tag[1]), "tag %s", tag[0])
	}
	// Every row of a table has as many cells as its header.
	row := regexp.MustCompile(`(?:[^\\]|^)\|`)
	cells := 0
	for line := range strings.Lines(md) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := len(row.FindAllString(strings.ReplaceAll(line, "||", "| |"), -1))
		check.That(t, cells == 0 || n == cells, "a row with %d cells where the header has %d: %s", n, cells, line)
		cells = n
	}
}

// TestCharts: every group has a chart, and its bars are in proportion, since the axis
// begins at 0, and has no labels: they would move its beginning.
func TestCharts(t *testing.T) {
	md := format(t, "md", benchtest.Synthetic(3, 2))
	charts := regexp.MustCompile("(?s)```mermaid\n(.*?)```").FindAllStringSubmatch(md, -1)
	check.That(t, len(charts) == 6, "got %d charts of 6 groups:\n%.3000s", len(charts), md)
	axis := regexp.MustCompile(`(?m)^    y-axis ".*" 0 --> ([0-9.]+)\n    bar \[(.*)\]$`)
	for _, c := range charts {
		m := axis.FindStringSubmatch(c[1])
		if m == nil || !strings.Contains(", "+m[2]+",", ", "+m[1]+",") || !strings.Contains(c[1], `"yAxis": {"showLabel": false`) {
			t.Errorf("the axis does not go from 0 to the longest bar, without labels:\n%s", c[1])
		}
	}
}

// TestFewBlocks: where intervals have less than 95 % confidence, or there are none,
// the screen says so and how to get them.
func TestFewBlocks(t *testing.T) {
	m := benchtest.Models["cnn"]
	wantLines(t, shown(t, benchtest.Result(benchtest.Cell("a", m, 1, 1, 9, 10, 11))), "transport round, ms (75 % sure) × best CPU, s/GB",
		"±: confidence interval over blocks (each a session of fresh processes), too few of them for 95 %: run with --blocks 6.")
	wantLines(t, shown(t, benchtest.Result(benchtest.Cell("a", m, 1, 1, 9))),
		"transport round, ms (no interval) × best CPU, s/GB",
		"There is no ±: one block (a session of fresh processes) says nothing about the next. Run with --blocks 6 for 95 % confidence.")
}

// TestMarkdownLimit: a result of any size becomes a comment that GitHub takes,
// and says what it lacks.
func TestMarkdownLimit(t *testing.T) {
	for _, n := range []int{1, 10, 100, 1000} {
		r := manyCells(n, 6, 2)
		md := format(t, "md", r)
		got := utf8.RuneCountInString(md)
		check.That(t, got <= 65536, "%d cells: %d characters", n, got)
		check.That(t, n != 1000 || strings.Contains(md, "Left out, to stay below"), "nothing is said of what is missing")
		check.That(t, n != 1 || !strings.Contains(md, "Left out"), "something is missing in a small report")
		check.That(t, strings.Count(md, "<details") == strings.Count(md, "</details>"), "%d cells: details do not close", n)
	}
	base, head := manyCells(1000, 4, 2), manyCells(1000, 4, 2)
	md := write(t, compare(t, base, head, CompareOptions{}), "md")
	got := utf8.RuneCountInString(md)
	check.That(t, got <= 65536, "comparison: %d characters", got)
}

// manyCells returns a result of n cells.
func manyCells(n, blocks, rounds int) *result.Result {
	r := benchtest.Result()
	for i := range n {
		name := []string{"inproc", "pickle", "storage", "shm-tensor", "shm-slab", "grpc-tensor", "grpc-batch", "grpc-stream", "http", "http-shm"}[i%10]
		m := benchtest.Models["histology"]
		m.Name = fmt.Sprintf("model%d", i/10)
		times := make([]float64, blocks*rounds/2)
		for k := range times {
			times[k] = float64(10+i%10) * (1 + 0.001*float64((k*7+i)%13))
		}
		c := benchtest.Cell(name, m, 2, 4, times...)
		// Blocks of two rounds are put together to blocks of more.
		for len(c.Blocks) > blocks {
			last := c.Blocks[len(c.Blocks)-1]
			c.Blocks = c.Blocks[:len(c.Blocks)-1]
			b := &c.Blocks[len(c.Blocks)%blocks]
			b.Round, b.Unattributed = append(b.Round, last.Round...), b.Unattributed+last.Unattributed
			b.Train, b.RTT = append(b.Train, last.Train...), append(b.RTT, last.RTT...)
			b.Down, b.Up = append(b.Down, last.Down...), append(b.Up, last.Up...)
			for p, ns := range last.Phases {
				b.Phases[p] += ns
			}
		}
		r.Cells = append(r.Cells, c)
	}
	return r
}

// childFile names the result that a child of TestThousandCells reports on.
const childFile = "IPCBENCH_TEST_REPORT"

// TestThousandCells: a report on 1,000 cells, read from a file by a process of
// its own, takes under 2 s of CPU time and 200 MB.
func TestThousandCells(t *testing.T) {
	if path := os.Getenv(childFile); path != "" {
		r, err := result.ReadFile(path)
		check.Must(t, err)
		text := format(t, "text", r)
		check.That(t, len(text) >= 1e5, "only %d bytes of text", len(text))
		// What getrusage calls the peak is inherited from the parent.
		m, err := usage.ReadMemory()
		check.Must(t, err)
		t.Logf("%d MB at the peak", m.Peak/1e6)
		check.That(t, m.Peak <= 200e6, "took %d MB", m.Peak/1e6)
		return
	}
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("a measurement: set IPCBENCH_TEST_SOAK=1")
	}
	path := filepath.Join(t.TempDir(), "r.json")
	check.Must(t, manyCells(1000, 6, 20).WriteFile(path))
	info, err := os.Stat(path)
	check.Must(t, err)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestThousandCells$", "-test.v")
	child.Env = append(os.Environ(), childFile+"="+path)
	start := time.Now()
	out, err := child.CombinedOutput()
	t.Logf("%s", out)
	check.Must(t, err)
	wall := time.Since(start)
	cpu := child.ProcessState.UserTime() + child.ProcessState.SystemTime()
	t.Logf("%d MB of JSON: %v of CPU time, %v on the clock", info.Size()/1e6, cpu, wall)
	check.That(t, cpu <= 2*time.Second, "took %v of CPU time", cpu)
}

func BenchmarkReport(b *testing.B) {
	r := manyCells(1000, 6, 20)
	for _, f := range Formats() {
		if f.Name == "perfetto" { // these cells have no timeline
			continue
		}
		b.Run("format="+f.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				format(b, f.Name, r)
			}
		})
	}
	b.Run("compare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			compare(b, r, r, CompareOptions{})
		}
	})
}

// FuzzReport: whatever a reader accepts can be written in every format.
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
		Findings(metrics.New(r))
		for _, head := range []*result.Result{r, nil} {
			if c, err := Compare(r, head, CompareOptions{Separate: true}); err == nil {
				for _, format := range ComparisonFormats() {
					write(t, c, format)
				}
				_, _, _ = gate(c, 0.05)
			}
		}
	})
}
