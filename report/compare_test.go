package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
)

func differenceTexts(c *Comparison) (all []string) {
	for _, d := range c.Differences {
		text := d.String()
		if len(d.Cells) > 0 {
			text += " (" + strings.Join(d.Cells, " and ") + ")"
		}
		all = append(all, text)
	}
	return all
}

// TestCompareSettings: cells with the same name but different effective settings are
// compared, and the difference is reported (guard 17).
func TestCompareSettings(t *testing.T) {
	head := benchtest.Result(eight("a", 20), eight("b", 20))
	base, again := benchtest.Result(eight("a", 20), eight("b", 20)), benchtest.Result(eight("a", 20), eight("b", 20))
	head.Plan.Verify = "all"
	everyCell(head, func(c *result.Cell) { c.Settings, c.Depth = map[string]string{"window": "4MiB"}, 3 })
	head.Cells[1].Launcher, head.Cells[1].PerProcess, head.Cells[1].FileSystem = "goroutines", 2, "ext4"
	const a, b = "a cnn workers=1 clients=1", "b cnn workers=1 clients=1"
	check.Equal(t, differenceTexts(compare(t, base, head, CompareOptions{})), []string{
		"verify: all instead of sample",
		"setting window: 4MiB instead of none (" + a + " and " + b + ")",
		"depth: 3 instead of 2 (" + a + " and " + b + ")",
		"lanes per process: 2 instead of 1 (" + b + ")",
		"launcher: goroutines instead of processes (" + b + ")",
		"file system: ext4 instead of none (" + b + ")",
	})
	again.Plan.OrderSeed++ // every run has its own
	check.Equal(t, differenceTexts(compare(t, base, again, CompareOptions{})), nil, "equal plans")
}

// TestGateRefuses: results that were not interleaved are judged only on request (guard 10),
// and results without common cells never.
func TestGateRefuses(t *testing.T) {
	a, b := benchtest.Result(eight("a", 20)), benchtest.Result(eight("b", 20))
	few := benchtest.Result(cnn("a", 20, 21, 22))
	older := benchtest.Result(eight("a", 20))
	older.Plan.Rules++
	ended := benchtest.Interleaved(1)
	ended.Partial = "interrupted after 3 of 60 blocks"
	for _, tt := range []struct {
		base, head *result.Result
		separate   bool
		unjudged   bool // else the files must not be compared
		want       string
	}{
		{a, a, false, true, "not interleaved"},
		{a, b, true, false, "no cell in common"},
		{few, few, true, true, "comparing 1 cell needs 4 blocks of each"},
		{older, a, true, false, "different rules"},
		{ended, nil, false, true, "a run ended early: interrupted"},
	} {
		err := check.Err(compare(t, tt.base, tt.head, CompareOptions{Separate: tt.separate}).Gate(0.05))
		check.Fails(t, err, tt.want)
		check.Equal(t, errors.As(err, new(UnjudgedError)), tt.unjudged, tt.want)
	}
	g, err := compare(t, a, benchtest.Result(eight("a", 30)), CompareOptions{Separate: true}).Gate(0.05)
	check.That(t, err == nil && g.Failed && len(g.failures) == 1, "got %+v, %v", g, err)
	g, err = compare(t, benchtest.Result(eight("a", 20), eight("b", 20)), a, CompareOptions{Separate: true}).Gate(0.05)
	check.That(t, err == nil && !g.Failed, "got %+v, %v", g, err)
	check.Equal(t, g.limits, []string{"could not judge b cnn workers=1 clients=1, which only base has", "was not tested, because no canary was measured (add --canary)"})
}

func write(t testing.TB, c *Comparison, format string) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, WriteComparison(&b, format, c, ComparisonOptions{Text: doc.TextOptions{Unicode: true}}))
	return b.String()
}

func compare(t testing.TB, base, head *result.Result, o CompareOptions) *Comparison {
	t.Helper()
	return check.Value(Compare(base, head, o))(t)
}

// TestCompare: ratios have intervals that are corrected for their number (guard 13).
// Differences of the environment come first (guard 17), and missing cells are named.
func TestCompare(t *testing.T) {
	m := benchtest.Models["cnn"]
	base := benchtest.Result(eight("inproc", 5), eight("a", 20), eight("b", 30), eight("c", 40), benchtest.Cell("gone", m, 2, 4, benchtest.Eight(30)...))
	head := benchtest.Result(eight("inproc", 5), eight("a", 24), eight("b", 30.03), eight("c", 20), benchtest.Cell("new", m, 2, 4, benchtest.Eight(30)...))
	head.Environment.Kernel, head.Environment.Commit, head.Environment.Dirty = "6.2.0", "fedcba9876543210", true
	head.Plan.Warmup = base.Plan.Warmup + 1
	c := compare(t, base, head, CompareOptions{Separate: true})
	check.Need(t, len(c.Rows) == 4, "got %d rows, want the 4 cells that both have", len(c.Rows))
	a, b := c.Rows[1], c.Rows[2]
	check.That(t, check.Nearly(a.Ratio.Center, 1.2, 1e-9) && a.Shown && a.Ratio.Low >= 1.17 && a.Ratio.High <= 1.23 && a.worseBy(0.19) && !a.worseBy(0.21),
		"a: got %+v, want 1.2 with bounds near it", a)
	check.That(t, check.Nearly(a.P, 4*2./12870, 1e-6), "a: got p %v", a.P) // all 8 blocks of one come before all of the other, times 4 rows
	check.That(t, !b.Shown && b.Ratio.Low <= 1 && b.Ratio.High >= 1 && b.Detectable >= 1.005 && b.Detectable <= 1.05,
		"b: got %+v, want no difference, with an effect of a few percent that would have shown", b)
	check.Equal(t, fmt.Sprint(c.OnlyBase, c.OnlyHead), "[gone cnn workers=2 clients=4] [new cnn workers=2 clients=4]")
	doctest.Golden(t, "compare.text", write(t, c, "text"))
	c.Decision = check.Value(c.Gate(0.05))(t)
	for _, format := range []string{"csv", "json"} {
		doctest.Golden(t, "gate."+format, write(t, c, format))
	}
	comparison, details, _ := strings.Cut(write(t, c, "md"), "<details>")
	doctest.Golden(t, "compare.md", comparison)
	doctest.Golden(t, "details.md", details)
	var text bytes.Buffer
	check.Must(t, WriteComparison(&text, "text", c, ComparisonOptions{Details: true, Text: doc.TextOptions{Width: 80, Unicode: true}}))
	comparison, details, _ = strings.Cut(text.String(), "All cells, and other differences")
	holds(t, comparison, "\nGate at 5 %: failed. a, cnn, 1 worker, 1 client: +20 % (+19 to +21), p < 0.001\n(a: only 2 rounds in a block).\n",
		"\nThe gate could not judge gone cnn workers=2 clients=4, which only base has.\n")
	doctest.Golden(t, "details.text", details)
	c = compare(t, base, head, CompareOptions{})
	check.Equal(t, c.Verdict.Text, "No difference is shown in 4 cells: the two were not measured in turn. "+
		"Measure them with run --against, or accept it with --allow-separate.")
	holds(t, write(t, c, "text"), "not shown, +19 to +21")
}

// TestCompareSetup: rows of cells that differ in their link name it, in every format and in
// the gate's reasons.
func TestCompareSetup(t *testing.T) {
	linked := func(round float64) *result.Result {
		r := benchtest.Result()
		for _, on := range []string{"1Gbit", "100Mbit"} {
			c := eight("http", round)
			c.Link = benchtest.Text[link.Rate](on)
			r.Cells = append(r.Cells, c)
		}
		return r
	}
	c := compare(t, linked(20), linked(40), CompareOptions{Separate: true})
	for name, want := range map[string]string{"text": ", link %s", "md": ", link %s", "html": ", link %s", "csv": ",%s,", "json": `"link":"%s"`} {
		holds(t, write(t, c, name), fmt.Sprintf(want, "1Gbit"), fmt.Sprintf(want, "100Mbit"))
	}
	g, err := c.Gate(0.05)
	check.OK(t, err)
	holds(t, fmt.Sprint(g.Reasons), "http, cnn, 1 worker, 1 client, link 1Gbit: +100 %", "link 100Mbit")
}

func TestCompareMetrics(t *testing.T) {
	base := benchtest.Result(eight("a", 20))
	head := edited(benchtest.Result(eight("a", 20)), func(b *result.Block) { b.Server.Usage.User *= 2 })
	c := compare(t, base, head, CompareOptions{Metrics: []string{"round", "cpu_per_gb", "rpcs"}, Separate: true})
	check.That(t, len(c.Rows) == 2 && !c.Rows[0].Shown && c.Rows[1].Shown && c.Rows[1].Metric.Name == "cpu_per_gb",
		"got %+v, want more CPU and no other difference; neither makes requests", c.Rows)
	holds(t, write(t, c, "text"), "Of 2 comparisons: 1 worse", "cpu_per_gb, cnn", "base, s/GB",
		"Left out, because base or head lacks the metric or counts 0: a cnn workers=1 clients=1, rpcs.")
	check.Fails(t, check.Err(c.Gate(0.05)), "it judges rounds alone: compare cpu_per_gb without a gate")
	none := compare(t, base, head, CompareOptions{Metrics: []string{"rpcs"}, Separate: true})
	check.Equal(t, none.Verdict.Text, "Nothing can be compared: base or head lacks the metric, or counts 0, in each cell.")
	for names, want := range map[string]string{"bandwidth": "bandwidth", "nonsense": "nonsense",
		"train": "neither a lower nor a higher number is better", "round,round": "is named twice"} {
		check.Fails(t, check.Err(Compare(base, head, CompareOptions{Metrics: strings.Split(names, ",")})), want)
	}
}

// TestManyRows: of more rows than the table has room for, the first are in it, changed or not.
func TestManyRows(t *testing.T) {
	r := benchtest.Result()
	for i := range mostRows + 2 {
		r.Cells = append(r.Cells, eight(fmt.Sprint("t", i), 20))
	}
	c := compare(t, r, r, CompareOptions{Separate: true})
	s := changeSection(c)
	check.Equal(t, len(s.Tables[0].Rows), mostRows)
	check.Equal(t, s.Tail[0].Text, "2 more cells: see the details.")
}

// TestNoDifference: "no difference shown" is an answer, and states the difference that
// could have been shown (guard 13).
func TestNoDifference(t *testing.T) {
	few, same := benchtest.Result(cnn("a", 10, 11, 12)), benchtest.Result(eight("a", 10))
	for _, tt := range []struct {
		base, head *result.Result
		want       string
	}{
		{few, few, "No difference shown, but there are too few blocks to show one: comparing 1 cell needs 4 blocks of each."},
		{same, same, "No difference shown in 1 cell; a change of 1.6 % would have shown in half of them."},
		{same, benchtest.Result(eight("b", 10)), "Nothing can be compared: base and head have no cell in common."},
	} {
		c := compare(t, tt.base, tt.head, CompareOptions{Separate: true})
		check.That(t, strings.HasPrefix(comparisonSentence(c), tt.want), "got %q, want %q", comparisonSentence(c), tt.want)
		for _, format := range ComparisonFormats() {
			write(t, c, format)
		}
	}
}

// withCanary adds a canary, with two copies of a cell of head, to an interleaved result.
func withCanary(r *result.Result, slowdown float64, unchanged, slow result.Cell) *result.Result {
	unchanged.Program, slow.Program = "head", "head"
	r.Canary = &result.Canary{Slowdown: slowdown, Same: unchanged, Slow: slow}
	return r
}

// TestGate: the gate finds the canary, a slowdown of known size, and passes a build
// compared with itself (guard 14).
func TestGate(t *testing.T) {
	for _, tt := range []struct {
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
		{"too small to be seen", 1, 0.001, false, "could not detect a change of 0.10 % in 3 of 3 rows: inproc, cnn"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := compare(t, withCanary(benchtest.Interleaved(tt.slow), 1, eight("a", 20*tt.slow), eight("a", 40*tt.slow)), nil, CompareOptions{})
			g, err := c.Gate(tt.above)
			reasons := strings.Join(g.Reasons, "\n")
			check.That(t, err == nil && g.Failed == tt.fail && strings.Contains(reasons, tt.want) && (tt.want != "" || reasons == ""),
				"got %v, fail %v because of %q, want %v and %q", err, g.Failed, reasons, tt.fail, tt.want)
		})
	}
}

// TestPeersGate: a gate judges peers against the baseline. Without a slow copy, it cannot pass if
// the copy's slowdown would not have shown (guard 14). It does not judge what is not proved.
func TestPeersGate(t *testing.T) {
	peers := func(slow float64, edit func(r *result.Result)) (*Gate, error) {
		r := benchtest.Result(eight("old", 20), eight("new", 20*slow), eight("http", 1))
		for i := range r.Cells[:2] {
			benchtest.Peer(r, &r.Cells[i], "python3 "+r.Cells[i].Variant+".py", nil)
		}
		r.Plan.Baseline, r.Untried = "old", &result.Untried{Slowdown: 0.2, Why: "old ignores it"}
		edit(r)
		check.Must(t, r.Validate())
		c := compare(t, r, nil, CompareOptions{})
		check.That(t, c.Base.Build == "old (python3 old.py)" && c.Head.Build == "new (python3 new.py)" && len(c.OnlyHead) == 0, "%+v, %+v, %v", c.Base, c.Head, c.OnlyHead)
		return c.Gate(0.05)
	}
	untried := "was not tried on a slow copy: old ignores it"
	for name, tt := range map[string]struct {
		slow          float64
		edit          func(r *result.Result)
		outcome, want string
	}{
		"alike":  {1, func(*result.Result) {}, Passed, untried},
		"slower": {2, func(*result.Result) {}, Slower, "new, cnn, 1 worker, 1 client: +100 %"},
		"blind":  {1, func(r *result.Result) { r.Untried.Slowdown = 0.001 }, Undecided, "new, cnn, 1 worker, 1 client: only changes above"},
	} {
		g := check.Value(peers(tt.slow, tt.edit))(t)
		check.Equal(t, g.Outcome, tt.outcome, name)
		holds(t, strings.Join(g.Reasons, "\n"), tt.want, untried)
	}
	works := func(r *result.Result) { // a peer that has a canary stays a peer in its test
		r.Untried, r.Canary = nil, &result.Canary{Slowdown: 0.2, Same: eight("old", 20), Slow: eight("old", 24)}
		r.Canary.Same.Program, r.Canary.Slow.Program = "old", "old"
	}
	g := check.Value(peers(1, works))(t)
	check.That(t, g.Outcome == Passed && g.Trial != nil && g.Trial.Works, "got %+v", g)
	_, err := peers(2, func(r *result.Result) { r.Cells[1].Unproved = "no hash" })
	check.Fails(t, err, "not all data of new cnn workers=1 clients=1, or of its base, is proved")
	check.That(t, errors.As(err, new(UnjudgedError)), "%T", err)
}

// TestBaselineOfRows: a row with another setting is compared with the row, although both are one program.
func TestBaselineOfRows(t *testing.T) {
	r := benchtest.Result(eight("row", 20), eight("row", 40))
	r.Cells[1].Variant, r.Plan.Baseline = "row:chunk=1MiB", "row"
	for i := range r.Cells {
		benchtest.Peer(r, &r.Cells[i], "row.py", nil)
	}
	c := compare(t, r, nil, CompareOptions{})
	check.That(t, len(c.Rows) == 1 && c.Rows[0].Cell.Variant == "row:chunk=1MiB" && c.Rows[0].Shown, "got %+v", c.Rows)
	check.Equal(t, c.Base.Build+", "+c.Head.Build, "row (row.py), row:chunk=1MiB (row.py)")
}

// TestBuilds: results of one and of two builds are distinguished, and each build has its
// own control.
func TestBuilds(t *testing.T) {
	both, one := benchtest.Interleaved(1), benchtest.Result(eight("a", 20))
	check.Must(t, both.Validate())
	check.Fails(t, check.Err(Compare(one, nil, CompareOptions{})), "one build only")
	check.Fails(t, check.Err(Compare(both, one, CompareOptions{})), "compare it without a second result")
	check.That(t, hasLine(format(t, "csv", both), "metrics a cnn head round"), "CSV does not tell the builds apart")
	apart := benchtest.Interleaved(1)
	everyCell(apart, func(c *result.Cell) { c.Model.Name += " of " + c.Program })
	for _, name := range []string{"md", "html", "csv", "json"} {
		format(t, name, apart)
	}
	wantLines(t, shown(t, apart, "change"), "Nothing can be compared: base and head have no cell in common.")
	o := metrics.New(both).Cells[4].Of("overhead")
	check.That(t, check.Nearly(o.Center, 15.015e-3, 1e-9), "got overhead %v", o.Center)
}

// TestCanary: a gate that fails the unchanged copy is broken, and so is one that passes the
// slow copy although its blocks rule out that it is slow (guard 14). Blocks that vary too much
// to show the slow copy cannot judge, but a regression that they show stays.
func TestCanary(t *testing.T) {
	noisy, few := cnn("a", 10, 14, 18, 22, 26, 30, 34, 38), cnn("a", 20, 21)
	chance := cnn("a", 19.65, 22, 22.1, 22.2, 22.05, 22.15, 21.9, 21.95)
	copies := func(same, slow float64) [2]result.Cell {
		return [2]result.Cell{eight("a", 20*same), eight("a", 20*slow)}
	}
	for _, tt := range []struct {
		name    string
		change  float64
		copies  [2]result.Cell
		outcome string
		want    string
	}{
		{"works", 1, copies(1, 1.10), Passed, ""},
		{"works, and the change is a regression", 1.3, copies(1.3, 1.43), Slower, "+30 %"},
		{"cannot fail", 1, copies(1, 1.001), Contradicts, "the gate is broken: it passed a copy slowed down by 10 %: No difference shown"},
		{"cannot fail, but did", 1.3, copies(1.3, 1.301), Contradicts, "the gate is broken: it passed a copy"},
		{"fails for nothing", 1, copies(1.2, 1.10), Contradicts, "the gate is broken: it failed an unchanged copy of a cell: Of 1 cell: 1 slower"},
		{"fails by chance", 1, [2]result.Cell{chance, eight("a", 22)}, Undecided, "an unchanged copy seems slower, perhaps by chance (+10 %"},
		{"cannot see it", 1, [2]result.Cell{noisy, noisy}, Undecided, "a copy slowed down by 10 % was not seen, as only changes above "},
		{"cannot see it, but the change", 1.3, [2]result.Cell{noisy, noisy}, Slower, "+30 %"},
		{"too few blocks", 1, [2]result.Cell{few, few}, Undecided, "too few blocks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := withCanary(benchtest.Interleaved(tt.change), 0.10, tt.copies[0], tt.copies[1])
			g := check.Value(compare(t, r, nil, CompareOptions{}).Gate(0.05))(t)
			check.Equal(t, g.Outcome, tt.outcome)
			check.Equal(t, g.Failed, tt.outcome == Slower || tt.outcome == Contradicts, "failed")
			reasons := strings.Join(g.Reasons, "\n")
			check.That(t, strings.Contains(reasons, tt.want) && (tt.want != "" || reasons == ""), "got %q, want %q", reasons, tt.want)
			check.That(t, strings.Contains(g.paragraphs()[0].Text, map[string]string{Passed: ": passed. ", Undecided: ": cannot judge. "}[tt.outcome]),
				"says %q", g.paragraphs()[0].Text)
		})
	}
	r := withCanary(benchtest.Interleaved(1), 0.10, eight("a", 20), eight("a", 22))
	check.Fails(t, check.Err(compare(t, r, nil, CompareOptions{}).Gate(0.15)), "canary: its slowdown must be above the gate's 15 %, not 10 %")
}
