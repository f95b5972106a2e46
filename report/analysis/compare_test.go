package analysis

import (
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
)

func compare(t testing.TB, base, head *result.Result, o CompareOptions) *Comparison {
	t.Helper()
	c, err := Compare(base, head, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

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
	if got := differenceTexts(compare(t, base, head, CompareOptions{})); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
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
	if _, err := compare(t, base, head, CompareOptions{}).Gate(0.05); err == nil || !strings.Contains(err.Error(), "not interleaved") {
		t.Errorf("got %v", err)
	}
	if g, err := compare(t, base, head, CompareOptions{Separate: true}).Gate(0.05); err != nil || !g.Failed || len(g.Worse) != 1 {
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
	if g, err := compare(t, gone, base, CompareOptions{Separate: true}).Gate(0.05); err != nil || g.Failed || g.Tried || !slices.Equal(g.Unmeasured, []string{"b cnn workers=1 clients=1"}) {
		t.Errorf("got %+v, %v", g, err)
	}
}
