package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

func differenceTexts(c *Comparison) []string {
	var all []string
	for _, d := range c.Differences {
		text := d.String()
		if len(d.Cells) > 0 {
			text += " (" + strings.Join(d.Cells, " and ") + ")"
		}
		all = append(all, text)
	}
	return all
}

// TestCompareSettings: cells of one name whose effective settings differ are
// compared, and the difference is told (guard 17).
func TestCompareSettings(t *testing.T) {
	result := func() *result.Result {
		return benchtest.Result(benchtest.Cell("a", benchtest.Models["cnn"], 1, 1, benchtest.Eight(20)...), benchtest.Cell("b", benchtest.Models["cnn"], 1, 1, benchtest.Eight(20)...))
	}
	base, head := result(), result()
	head.Plan.Verify = "all"
	for i := range head.Cells {
		head.Cells[i].Settings = map[string]string{"window": "4MiB"}
		head.Cells[i].Depth = 3
	}
	head.Cells[1].Launcher, head.Cells[1].PerProcess, head.Cells[1].FileSystem = "goroutines", 2, "ext4"
	const a, b = "a cnn workers=1 clients=1", "b cnn workers=1 clients=1"
	want := []string{
		"verify: sample in the first, all in the second",
		"setting window: none in the first, 4MiB in the second (" + a + " and " + b + ")",
		"depth: 2 in the first, 3 in the second (" + a + " and " + b + ")",
		"lanes per process: 1 in the first, 2 in the second (" + b + ")",
		"launcher: processes in the first, goroutines in the second (" + b + ")",
		"file system: none in the first, ext4 in the second (" + b + ")",
	}
	got := differenceTexts(compare(t, base, head, CompareOptions{}))
	check.That(t, slices.Equal(got, want), "got  %q\nwant %q", got, want)
	again := result()
	again.Plan.OrderSeed++ // which every run has of its own
	if got := differenceTexts(compare(t, result(), again, CompareOptions{})); len(got) != 0 {
		t.Errorf("got %q of equal plans", got)
	}
}

// TestGateRefuses: what was not interleaved is judged only by those who ask for
// it (guard 10), and what has nothing in common not at all.
func TestGateRefuses(t *testing.T) {
	m := benchtest.Models["cnn"]
	base, head := benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(20)...)), benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(30)...))
	_, err := compare(t, base, head, CompareOptions{}).Gate(0.05)
	check.That(t, err != nil && strings.Contains(err.Error(), "not interleaved"), "got %v", err)
	if g, err := compare(t, base, head, CompareOptions{Separate: true}).Gate(0.05); err != nil || !g.Failed || len(g.failures) != 1 {
		t.Errorf("got %+v, %v", g, err)
	}
	other := benchtest.Result(benchtest.Cell("b", m, 1, 1, benchtest.Eight(20)...))
	if _, err := compare(t, base, other, CompareOptions{Separate: true}).Gate(0.05); err == nil {
		t.Error("a gate that cannot fail")
	}
	few := benchtest.Result(benchtest.Cell("a", m, 1, 1, 20, 21, 22))
	if _, err := compare(t, few, few, CompareOptions{Separate: true}).Gate(0.05); err == nil || !strings.Contains(err.Error(), "comparing 1 cell takes 4 blocks of each") {
		t.Errorf("too few blocks: got %v", err)
	}
	older := benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(20)...))
	older.Plan.Rules = base.Plan.Rules + 1
	if _, err := compare(t, base, older, CompareOptions{Separate: true}).Gate(0.05); err == nil || !strings.Contains(err.Error(), "different rules") {
		t.Errorf("other rules: got %v", err)
	}
	gone := benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(20)...), benchtest.Cell("b", m, 1, 1, benchtest.Eight(20)...))
	blind := []string{"could not see b cnn workers=1 clients=1, which is not measured any more", "could not see whether it works, as no canary was measured (run --canary)"}
	if g, err := compare(t, gone, base, CompareOptions{Separate: true}).Gate(0.05); err != nil || g.Failed || !slices.Equal(g.limits, blind) {
		t.Errorf("got %+v, %v", g, err)
	}
}

func write(t testing.TB, c *Comparison, format string) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, WriteComparison(&b, format, c, ComparisonOptions{Text: doc.TextOptions{Unicode: true}}))
	return b.String()
}

// gate returns what a gate decides and says.
func gate(c *Comparison, failAbove float64) (bool, []string, error) {
	g, err := c.Gate(failAbove)
	return g.Failed, g.Reasons, err
}

func canary(c *Comparison, r *result.Result, failAbove float64) error {
	trial, err := c.Canary(r, failAbove)
	if err != nil {
		return err
	}
	return trial.Broken
}

func compare(t testing.TB, base, head *result.Result, o CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare(base, head, o)
	check.Must(t, err)
	return c
}

// TestCompare: ratios with intervals, corrected for their number (guard 13), the
// environment first (guard 17), missing cells by name.
func TestCompare(t *testing.T) {
	m := benchtest.Models["cnn"]
	base := benchtest.Result(benchtest.Cell("inproc", m, 1, 1, benchtest.Eight(5)...), benchtest.Cell("a", m, 1, 1, benchtest.Eight(20)...), benchtest.Cell("b", m, 1, 1, benchtest.Eight(30)...),
		benchtest.Cell("c", m, 1, 1, benchtest.Eight(40)...), benchtest.Cell("gone", m, 2, 4, benchtest.Eight(30)...))
	head := benchtest.Result(benchtest.Cell("inproc", m, 1, 1, benchtest.Eight(5)...), benchtest.Cell("a", m, 1, 1, benchtest.Eight(24)...), benchtest.Cell("b", m, 1, 1, benchtest.Eight(30.03)...),
		benchtest.Cell("c", m, 1, 1, benchtest.Eight(20)...), benchtest.Cell("new", m, 2, 4, benchtest.Eight(30)...))
	head.Environment.Kernel, head.Environment.Commit, head.Environment.Dirty = "6.2.0", "fedcba9876543210", true
	head.Plan.Warmup = base.Plan.Warmup + 1
	c := compare(t, base, head, CompareOptions{})

	if len(c.Rows) != 4 {
		t.Fatalf("got %d rows, want the 4 cells that both have", len(c.Rows))
	}
	a, b := c.Rows[1], c.Rows[2]
	if math.Abs(a.Ratio.Center-1.2) > 1e-9 || !a.Significant || a.Ratio.Low < 1.17 || a.Ratio.High > 1.23 || a.Worse() != a.Ratio.Center {
		t.Errorf("a: got %+v, want 1.2 with bounds near it", a)
	}
	if want := 4 * 2. / 12870; math.Abs(a.P-want) > 1e-6 { // all 8 blocks of one before those of the other, times 4 rows
		t.Errorf("a: got p %v, want %v", a.P, want)
	}
	check.That(t, !b.Significant && b.Ratio.Low <= 1 && b.Ratio.High >= 1 && b.Detectable >= 1.005 && b.Detectable <= 1.05,
		"b: got %+v, want no difference, with an effect of a few percent that would have shown", b)
	got := fmt.Sprint(c.OnlyBase, c.OnlyHead)
	check.That(t, got == "[gone cnn workers=2 clients=4] [new cnn workers=2 clients=4]", "got only in one %s", got)
	if got, want := comparisonSentence(c), "Of 4 cells: 1 slower: a with cnn, +20 % (+19 to +21); 1 faster: c with cnn, −50 % (−51 to −49); no difference shown in 2."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, format := range ComparisonFormats() {
		golden(t, "compare."+format, write(t, c, format))
	}
	c = compare(t, base, head, CompareOptions{Separate: true})
	decided, err := c.Gate(0.05)
	check.Must(t, err)
	c.Decision = &decided
	for _, format := range ComparisonFormats() {
		var b bytes.Buffer
		o := ComparisonOptions{Details: true, Text: doc.TextOptions{Width: 80, Unicode: true}}
		check.Must(t, WriteComparison(&b, format, c, o))
		golden(t, "gate."+format, b.String())
	}
	var decoded map[string]any
	check.OK(t, json.Unmarshal([]byte(write(t, c, "json")), &decoded))
	text := write(t, c, "text")
	if !strings.HasPrefix(text, "Of 4 cells") || strings.Index(text, "kernel (6.1.0, then 6.2.0)") > strings.Index(text, "change, %") {
		t.Error("the verdict and the environment do not come first")
	}
	md := write(t, c, "md")
	check.That(t, strings.HasPrefix(md, "**Of 4 cells"), "the verdict does not come first")
}

// TestCompareSetup: rows of cells that differ in their link name it, in every format and in
// what a gate says.
func TestCompareSetup(t *testing.T) {
	linked := func(round float64) *result.Result {
		r := benchtest.Result()
		for _, on := range []string{"1Gbit", "100Mbit"} {
			c := benchtest.Cell("http", benchtest.Models["cnn"], 1, 1, benchtest.Eight(round)...)
			c.Link = benchtest.Text[link.Rate](on)
			r.Cells = append(r.Cells, c)
		}
		return r
	}
	c := compare(t, linked(20), linked(40), CompareOptions{Separate: true})
	for name, want := range map[string]string{"text": ", link %s", "md": ", link %s", "html": ", link %s", "csv": ",%s,", "json": `"link":"%s"`} {
		for _, on := range []string{"1Gbit", "100Mbit"} {
			if text, want := write(t, c, name), fmt.Sprintf(want, on); !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	if _, reasons, err := gate(c, 0.05); err != nil || !strings.Contains(fmt.Sprint(reasons), "http, cnn, 1 worker, 1 client, link 1Gbit: +100 %") || !strings.Contains(fmt.Sprint(reasons), "link 100Mbit") {
		t.Errorf("the gate says %q, %v", reasons, err)
	}
}

func TestCompareMetrics(t *testing.T) {
	m := benchtest.Models["cnn"]
	base, head := benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(20)...)), benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(20)...))
	for i := range head.Cells[0].Blocks {
		head.Cells[0].Blocks[i].Server.Usage.User *= 2
	}
	c := compare(t, base, head, CompareOptions{Metrics: []string{"round", "cpu_per_gb", "rpcs"}})
	if len(c.Rows) != 2 || c.Rows[0].Significant || !c.Rows[1].Significant || c.Rows[1].Metric.Name != "cpu_per_gb" {
		t.Errorf("got %+v, want more CPU and no other difference; neither makes requests", c.Rows)
	}
	if text := write(t, c, "text"); !strings.Contains(text, "Of 2 comparisons: 1 worse") || !strings.Contains(text, "cpu_per_gb, cnn") || !strings.Contains(text, "base, s/GB") {
		t.Errorf("the metrics have no table of their own:\n%s", text)
	}
	for _, name := range []string{"bandwidth", "nonsense"} {
		_, err := Compare(base, head, CompareOptions{Metrics: []string{name}})
		check.That(t, err != nil && strings.Contains(err.Error(), name), "%s: got %v", name, err)
	}
}

// TestNoDifference: "no difference shown" is an answer, and comes with what could
// have been seen (guard 13).
func TestNoDifference(t *testing.T) {
	m := benchtest.Models["cnn"]
	few := func() *result.Result { return benchtest.Result(benchtest.Cell("a", m, 1, 1, 10, 11, 12)) }
	c := compare(t, few(), few(), CompareOptions{})
	if got, want := comparisonSentence(c), "No difference shown, and there are too few blocks to show one: to compare 1 cell takes 4 blocks of each."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	same := func() *result.Result { return benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Eight(10)...)) }
	if got := comparisonSentence(compare(t, same(), same(), CompareOptions{})); !strings.HasPrefix(got, "No difference shown in 1 cell; half of them would have shown a change of ") {
		t.Errorf("got %q", got)
	}
	other := benchtest.Result(benchtest.Cell("b", m, 1, 1, benchtest.Eight(10)...))
	c = compare(t, same(), other, CompareOptions{})
	check.Equal(t, comparisonSentence(c), "Nothing can be compared: the two have no cell in common.")
	for _, format := range ComparisonFormats() {
		write(t, c, format)
	}
}

// TestGate: a gate that can fail and can pass (guard 14): the canary, a slowdown
// of known size, is found; a build against itself is not.
func TestGate(t *testing.T) {
	tests := []struct {
		name  string
		slow  float64
		above float64
		fail  bool
		want  string // in the reasons
	}{
		{"canary", 1.10, 0.05, true, "a, cnn, 1 worker, 1 client: +10 % (+"},
		{"A/A", 1, 0.05, false, ""},
		{"slower, but not by so much", 1.10, 0.25, false, ""},
		{"faster", 0.5, 0.05, false, ""},
		{"too small to be seen", 1, 0.001, false, "could not see a change of 0.10 % in 3 of 3: inproc, cnn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := benchtest.Interleaved(tt.slow)
			r.Canary = &result.Canary{}
			c := compare(t, r, nil, CompareOptions{})
			fail, reasons, err := gate(c, tt.above)
			check.Must(t, err)
			if fail != tt.fail || !strings.Contains(strings.Join(reasons, "\n"), tt.want) || tt.want == "" && len(reasons) > 0 {
				t.Errorf("got fail %v because of %q, want %v and %q", fail, reasons, tt.fail, tt.want)
			}
		})
	}
}

// TestBuilds: which result holds what.
func TestBuilds(t *testing.T) {
	both := benchtest.Interleaved(1)
	check.Must(t, both.Validate())
	one := benchtest.Result(benchtest.Cell("a", benchtest.Models["cnn"], 1, 1, benchtest.Eight(20)...))
	_, err := Compare(one, nil, CompareOptions{})
	check.That(t, err != nil && strings.Contains(err.Error(), "one build only"), "got %v", err)
	if _, err := Compare(both, one, CompareOptions{}); err == nil || !strings.Contains(err.Error(), "compare it alone") {
		t.Errorf("got %v", err)
	}
	csv := format(t, "csv", both)
	check.That(t, hasLine(csv, "metrics a cnn head round"), "CSV does not tell the builds apart")
	apart := benchtest.Interleaved(1)
	for i := range apart.Cells {
		apart.Cells[i].Model.Name += " of " + apart.Cells[i].Build
	}
	for _, name := range []string{"md", "html", "csv", "json"} {
		format(t, name, apart)
	}
	wantLines(t, shown(t, apart, "change"), "Nothing can be compared: the two have no cell in common.")
	// Each build has its own control.
	o := metrics.New(both).Cells[4].Of("overhead")
	check.That(t, math.Abs(o.Center-15.015e-3) <= 1e-9, "got overhead %v", o.Center)
}

// TestCanary: a gate that passes the slow copy, or fails for the same one, is
// broken (guard 14).
func TestCanary(t *testing.T) {
	m := benchtest.Models["cnn"]
	with := func(same, slow float64) *result.Result {
		r := benchtest.Interleaved(1)
		r.Canary = &result.Canary{Slowdown: 0.10, Same: benchtest.Cell("a", m, 1, 1, benchtest.Eight(20*same)...), Slow: benchtest.Cell("a", m, 1, 1, benchtest.Eight(20*slow)...)}
		r.Canary.Same.Build, r.Canary.Slow.Build = "head", "head"
		return r
	}
	tests := []struct {
		name       string
		same, slow float64
		above      float64
		want       string
	}{
		{"works", 1, 1.10, 0.05, ""},
		{"cannot fail", 1, 1.001, 0.05, "gate is broken: it passes a slowdown of 10 %: No difference shown"},
		{"fails for nothing", 1.2, 1.10, 0.05, "gate is broken: it fails for a cell that is the same again: Of 1 cell: 1 slower"},
		{"too small a canary", 1, 1.10, 0.15, "canary: a slowdown of 10 % is not above the 15 % at which the gate fails"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := with(tt.same, tt.slow)
			err := canary(compare(t, r, nil, CompareOptions{}), r, tt.above)
			check.That(t, (err != nil || tt.want == "") && (err == nil || tt.want != "" && strings.HasPrefix(err.Error(), tt.want)),
				"got %v, want %q", err, tt.want)
		})
	}
	r := benchtest.Interleaved(1)
	check.Fails(t, canary(compare(t, r, nil, CompareOptions{}), r, 0.05), "no canary")
}
