package report

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
)

var _ = flag.Bool("update", false, "rewrite the goldens") // doctest.Golden reads it

// cnn returns a cell with one block per round in ms. six and eight return cells with that
// many blocks around a round.
func cnn(transport string, rounds ...float64) result.Cell {
	return benchtest.Cell(transport, benchtest.Models["cnn"], 1, 1, rounds...)
}

func six(transport string, ms float64) result.Cell { return cnn(transport, benchtest.Six(ms)...) }

func eight(transport string, ms float64) result.Cell { return cnn(transport, benchtest.Eight(ms)...) }

func everyCell(r *result.Result, edit func(c *result.Cell)) *result.Result {
	for i := range r.Cells {
		edit(&r.Cells[i])
	}
	return r
}

// without removes cells from r.
func without(r *result.Result, unwanted func(c *result.Cell) bool) *result.Result {
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return unwanted(&c) })
	return r
}

func format(t testing.TB, name string, r *result.Result) string {
	t.Helper()
	f, ok := FormatNamed(name)
	check.Need(t, ok, "no format %s", name)
	var b bytes.Buffer
	check.Must(t, f.Write(&b, r, Options{File: "r.json", Text: doc.TextOptions{Width: 80, Unicode: true}}))
	check.Need(t, name != "json" || jsontext.Value(b.Bytes()).IsValid(), "this is no JSON:\n%s", &b) // such JSON has no duplicate names
	return b.String()
}

// terminal returns views as text, or the first screen if no view is given. No line may be
// wider than the terminal.
func terminal(t testing.TB, r *result.Result, width int, views ...string) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, writeText(&b, r, Options{Views: views, File: "r.json", Text: doc.TextOptions{Width: width, Unicode: true}}))
	for line := range strings.Lines(b.String()) {
		n := utf8.RuneCountInString(line) - 1
		check.That(t, n <= width, "%d columns of %d: %s", n, width, line)
	}
	return b.String()
}

// shown returns views on a very wide terminal, with repeated spaces removed.
func shown(t testing.TB, r *result.Result, views ...string) string {
	t.Helper()
	return spaces.ReplaceAllString(terminal(t, r, 1e5, views...), "$1")
}

var spaces = regexp.MustCompile(`(?m)^ +| +$| *( ) *`)

// wantLines checks that text has the lines in want. holds checks for parts of lines.
func wantLines(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		check.That(t, strings.Contains("\n"+text+"\n", "\n"+w+"\n"), "no line %q in:\n%s", w, text)
	}
}

func holds(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		check.That(t, strings.Contains(text, w), "no %q in:\n%s", w, text)
	}
}

func lacks(t testing.TB, text, part string) {
	t.Helper()
	check.That(t, !strings.Contains(text, part), "%q in:\n%s", part, text)
}

// twoCells returns two cells of a result like that of a run without flags.
func twoCells() *result.Result {
	r := without(benchtest.Synthetic(6, 10), func(c *result.Cell) bool {
		return c.Model.Name != "histology" || c.Workers > 1 || c.Transport != "inproc" && c.Transport != "http"
	})
	r.Floors = slices.DeleteFunc(r.Floors, func(f result.Floor) bool { return f.Model != "" && f.Model != "histology" || f.Clients > 1 })
	return r
}

// TestFormats: every format has a golden of a small result, and the formats for scripts also one of
// a measured result. Of Markdown, it has what is not folded and the titles of the rest.
func TestFormats(t *testing.T) {
	doctest.Golden(t, "result.benchfmt", format(t, "benchfmt", twoCells())) // TestPage tests pages, and TestTimeline timelines
	open, closed, _ := strings.Cut(format(t, "md", twoCells()), "<details>")
	titles := regexp.MustCompile("<summary>.*</summary>").FindAllString(closed, -1)
	doctest.Golden(t, "result.md", open+strings.Join(titles, "\n")+"\n")
	for _, name := range []string{"json", "result", "csv"} { // these have many numbers, so one small cell is enough
		doctest.Golden(t, "result."+name, format(t, name, benchtest.Result(cnn("pickle", 10, 11))))
	}
	real := check.Value(result.ReadFile("../bench/testdata/result.json.gz"))(t)
	for _, name := range []string{"json", "benchfmt"} {
		doctest.Golden(t, "real."+name, format(t, name, real))
	}
}

// readme returns the cells of README's first screen.
func readme(t *testing.T) *result.Result {
	t.Helper()
	all := check.Value(result.ReadFile("../results/all.json.gz"))(t)
	return check.Value(metrics.Part(all, []string{"model=histology,cnn", "workers=1", "clients=1", "change=100%"}))(t)
}

// TestScreen: the first screens of a run without flags and of a committed result fit terminals of
// two widths, and have goldens.
func TestScreen(t *testing.T) {
	first := without(benchtest.Synthetic(6, 10), func(c *result.Cell) bool { return c.Model.Name == "resnet18" || c.Workers > 1 })
	for name, r := range map[string]*result.Result{"first": first, "readme": readme(t)} {
		terminal(t, r, 45)
		for _, width := range []int{80, 120} {
			text := terminal(t, r, width)
			lines := strings.Count(text, "\n")
			check.That(t, lines <= 41, "%s: %d lines at %d columns", name, lines, width)
			// The largest model's verdict fits a screen of 24 lines, above the prompt.
			_, last, ok := strings.Cut(text, "histology, ")
			check.That(t, ok && strings.Count(last, "\n") <= 23, "%s: %d lines from the last verdict on", name, strings.Count(last, "\n"))
			if name == "first" || width > 80 {
				doctest.Golden(t, fmt.Sprintf("%s-%d.text", name, width), text)
			}
		}
	}
}

// TestViews: each view has a golden of a result that shows it, and fits terminals of 80 columns.
func TestViews(t *testing.T) {
	python := pythonAlone()
	linked := without(benchtest.Linked(threeLinks), func(c *result.Cell) bool { return c.Transport == "grpc-stream" })
	results := map[string]*result.Result{
		"verdict": python, "findings": python, "gain": python, "workers": python, "environment": python,
		"hosts": benchtest.Fleet(), "floors": benchtest.Fleet(), "phases": benchtest.Fleet(), "break-even": linked, "tls": benchtest.Encrypted(encrypted),
		"answers": asked(), "change": benchtest.Interleaved(1.2), "crossover": swept(4, 1), "tensors": counted(), "profiles": profiledResult(), "copies": profiledResult(),
	}
	for _, v := range Views() {
		r := cmp.Or(results[v.Name], twoCells())
		terminal(t, r, 80, v.Name)
		doctest.Golden(t, "views/"+v.Name+".text", terminal(t, r, 300, v.Name))
		check.That(t, v.Help != "", "view %s has no help", v.Name)
	}
}

// TestGoldens: a golden of words is short enough to be read.
func TestGoldens(t *testing.T) {
	check.Must(t, fs.WalkDir(os.DirFS("testdata"), ".", func(path string, _ fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); ext == ".text" || ext == ".md" {
			text := check.Value(os.ReadFile(filepath.Join("testdata", path)))(t)
			check.That(t, bytes.Count(text, []byte("\n")) <= 40, "%s has more than 40 lines", path)
		}
		return err
	}))
}
