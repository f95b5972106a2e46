package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/go-json-experiment/json/jsontext"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// golden compares got with testdata/name. Pages have none: TestPage looks at them as a
// reader does.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if strings.HasSuffix(name, ".html") {
		return
	}
	path := filepath.Join("testdata", name)
	if *update {
		check.Must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	check.Must(t, err)
	diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n"))
	check.That(t, diff == "", "%s (-want +got):\n%s\nrun the test with -update and look at the difference", path, diff)
}

func format(t testing.TB, name string, r *result.Result) string {
	t.Helper()
	for _, f := range Formats() {
		if f.Name != name {
			continue
		}
		var b bytes.Buffer
		check.Must(t, f.Write(&b, r, Options{File: "r.json", Text: doc.TextOptions{Width: 80, Unicode: true}}))
		if name == "json" && !jsontext.Value(b.Bytes()).IsValid() { // which no name twice is, either
			t.Fatalf("this is no JSON:\n%s", b.String())
		}
		return b.String()
	}
	t.Fatalf("no format %s", name)
	return ""
}

// shown returns views as text on a terminal that nothing is too wide for, with spaces
// squeezed; the first screen if there is no name.
func shown(t testing.TB, r *result.Result, views ...string) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, writeText(&b, r, Options{Views: views, File: "r.json", Text: doc.TextOptions{Width: 10000, Unicode: true}}))
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// wantLines wants lines in a text that shown has returned.
func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		check.That(t, strings.Contains("\n"+text+"\n", "\n"+w+"\n"), "no line %q in:\n%s", w, text)
	}
}

// TestSynthetic: the results of this file are such as a run could write.
func TestSynthetic(t *testing.T) {
	for i, r := range []*result.Result{benchtest.Synthetic(6, 10), benchtest.Result(benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 1, 2))} {
		check.OK(t, r.Validate(), i)
	}
}

// twoCells are two of a result like that of a run without flags.
func twoCells() *result.Result {
	r := benchtest.Synthetic(6, 10)
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool {
		return c.Model.Name != "histology" || c.Workers > 1 || c.Transport != "inproc" && c.Transport != "http"
	})
	r.Floors = slices.DeleteFunc(r.Floors, func(f result.Floor) bool { return f.Model != "" && f.Model != "histology" || f.Clients > 1 })
	return r
}

// TestFormats: every format has a golden of a realistic result, and those for
// scripts one of a result that was measured.
func TestFormats(t *testing.T) {
	r := twoCells()
	for _, f := range Formats()[1:] { // TestScreen has text
		if f.Name == "perfetto" { // TestTimeline has it
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			res := r
			if f.Name == "json" || f.Name == "result" || f.Name == "csv" { // its numbers are many: one small cell will do
				res = benchtest.Result(benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 10, 11))
			}
			golden(t, "result."+f.Name, format(t, f.Name, res))
		})
	}
	real, err := result.ReadFile("../bench/testdata/result.json.gz")
	check.Must(t, err)
	for _, name := range []string{"json", "benchfmt"} {
		golden(t, "real."+name, format(t, name, real))
	}
}

// TestScreen: the first screen of what a run without flags measures, and of a
// committed result, at two widths; and all views.
func TestScreen(t *testing.T) {
	real, err := result.ReadFile("../results/readme.json.gz")
	check.Must(t, err)
	first := benchtest.Synthetic(6, 10)
	first.Cells = slices.DeleteFunc(first.Cells, func(c result.Cell) bool { return c.Model.Name == "resnet18" || c.Workers > 1 })
	for name, r := range map[string]*result.Result{"first": first, "readme": real} {
		for _, width := range []int{45, 80, 120} {
			var b bytes.Buffer
			check.Must(t, writeText(&b, r, Options{File: "r.json", Text: doc.TextOptions{Width: width, Unicode: true}}))
			for line := range strings.Lines(b.String()) {
				n := utf8.RuneCountInString(line) - 1
				check.That(t, n <= width, "%s: %d columns of %d: %s", name, n, width, line)
			}
			lines := strings.Count(b.String(), "\n")
			check.That(t, width < 80 || lines <= 40, "%s: %d lines at %d columns", name, lines, width)
			// The largest model's verdict is on a screen of 24 lines, the prompt below it.
			if _, last, ok := strings.Cut(b.String(), "histology, "); width >= 80 && (!ok || strings.Count(last, "\n") > 23) {
				t.Errorf("%s: %d lines from the last verdict on", name, strings.Count(last, "\n"))
			}
			if width >= 80 {
				golden(t, fmt.Sprintf("%s-%d.text", name, width), b.String())
			}
		}
	}
	var b bytes.Buffer
	check.Must(t, writeText(&b, twoCells(), Options{Views: []string{"all"}, Text: doc.TextOptions{Width: 80, Unicode: true}}))
	golden(t, "views.text", b.String())
}

func TestViews(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Views() {
		check.That(t, v.Help != "" && !seen[v.Name], "view %q", v.Name)
		seen[v.Name] = true
	}
}
