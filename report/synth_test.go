package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nrun the test with -update and look at the difference", path, diff)
	}
}

func format(t testing.TB, name string, r *bench.Result) string {
	t.Helper()
	for _, f := range Formats() {
		if f.Name != name {
			continue
		}
		var b bytes.Buffer
		if err := f.Write(&b, r); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	t.Fatalf("no format %s", name)
	return ""
}

// TestSynthetic: the results of this file are such as a run could write.
func TestSynthetic(t *testing.T) {
	for i, r := range []*bench.Result{benchtest.Synthetic(6, 10), benchtest.Result(benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 1, 2))} {
		if err := r.Validate(); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestFormats: every format has a golden of a realistic result, and one for
// pull requests stays below GitHub's limit.
func TestFormats(t *testing.T) {
	r := benchtest.Synthetic(6, 10)
	for _, f := range Formats() {
		t.Run(f.Name, func(t *testing.T) {
			res := r
			if f.Name == "json" || f.Name == "result" { // its numbers are many: one small cell will do
				res = benchtest.Result(benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, 10, 11))
			}
			golden(t, "result."+f.Name, format(t, f.Name, res))
		})
	}
}

func TestViews(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Views() {
		if v.Help == "" || seen[v.Name] {
			t.Errorf("view %q", v.Name)
		}
		seen[v.Name] = true
	}
}
