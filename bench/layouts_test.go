package bench_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/program"
	"ipcbench/internal/test/check"
)

// TestLayouts: block i of each cell runs in layout i of its build, modulo their number. The canary's copies run in
// head's layouts, and the result names the files (guard 28).
func TestLayouts(t *testing.T) {
	o := options(t, short(t, 3, 3), "pickle cnn")
	o.Canary = 0.5
	log := filepath.Join(t.TempDir(), "log")
	layout := func(name string) string { // a layout of this program that logs its starts
		return script(t, "echo "+name+" >>"+log+"\nexec "+self(t)+` "$@"`)
	}
	o.Builds = program.Builds([]string{layout("b0"), layout("b1")}, []string{layout("h1")})
	r := run(t, o)
	cells := append(slices.Clone(r.Cells), r.Canary.Same, r.Canary.Slow)
	for _, c := range cells {
		var got []int
		for _, b := range c.Blocks {
			got = append(got, b.Layout)
		}
		check.That(t, slices.Equal(got, []int{0, 1, 0}), "%s, %s: blocks ran in layouts %v", c.ID(), c.Program, got)
	}
	text := check.Value(os.ReadFile(log))(t)
	started := map[string]int{}
	for name := range strings.FieldsSeq(string(text)) {
		started[name]++
	}
	// Each layout is asked once for its build. Two cells run in base's layouts, four in head's.
	check.That(t, len(cells) == 6 && started["b0"] == 1+2*2 && started["b1"] == 1+2 && started["h1"] == 1+4,
		"%d cells; started: %v", len(cells), started)
	base, head := r.Programs[0].Layouts, r.Programs[1].Layouts
	check.Need(t, len(base) == 2 && len(head) == 2 && base[1].File == "other" && head[0].File == filepath.Base(os.Args[0]) &&
		base[0].SHA256 != base[1].SHA256, "the result has the programs %+v", r.Programs)
	same, _, err := r.Pairs()
	check.Must(t, err)
	check.Must(t, same.Validate())
	check.That(t, same.Programs[0].Layouts[1] == head[1], "a canary's pair has the programs %+v", same.Programs)
}

// TestLayoutsOfOneBuild: files that are not layouts of one build are rejected, and the error names the file, before
// anything is measured (guard 28).
func TestLayoutsOfOneBuild(t *testing.T) {
	exe := self(t)
	like := func(from, to string) string { // this program, posing as another build
		return script(t, exe+` "$@" | sed 's/`+from+"/"+to+"/'")
	}
	again := filepath.Join(t.TempDir(), "again")
	check.Must(t, os.Symlink(exe, again))
	says := func(environment string) string {
		return script(t, `read order; echo '{"version": 2, "rules": 4, "environment": {`+environment+`}, "refused": ["", ""]}'`)
	}
	nothing := says("")
	other := like(`"go":"[^"]*"`, `"go":"go1"`)
	for name, tt := range map[string]struct {
		against, layouts []string
		want             string
	}{
		"the same bytes":      {[]string{exe, again}, nil, "--against " + again + ": the same bytes as " + exe},
		"this program":        {[]string{exe}, []string{again}, "--layouts " + again + ": the same bytes as this program"},
		"an empty entry":      {[]string{exe, ""}, nil, "--against: an entry of the list is empty"},
		"an empty layout":     {[]string{exe}, []string{""}, "--layouts: an entry of the list is empty"},
		"none":                {[]string{exe}, []string{"./none"}, "--layouts: open ./none: no such file"},
		"a folder":            {[]string{t.TempDir()}, nil, "not a regular file"},
		"no build":            {[]string{exe}, []string{"/bin/true"}, "--layouts /bin/true: "},
		"another version":     {[]string{exe}, []string{other}, "--layouts " + other + ": Go version: go1, but this program has go1."},
		"another commit":      {[]string{nothing, says(`"commit": "abc"`)}, nil, ": commit: abc, but " + nothing + " has none"},
		"changes":             {[]string{nothing, says(`"dirty": true`)}, nil, ": changes since the commit: true, but " + nothing + " has false"},
		"the race detector":   {[]string{nothing, says(`"race": true`)}, nil, ": race detector: true, but " + nothing + " has false"},
		"base may be another": {[]string{other, exe}, nil, "--against " + exe + ": Go version: go1."},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, short(t, 0, 1), "pickle cnn")
			o.Builds = program.Builds(tt.against, tt.layouts)
			fails(t, o, tt.want)
		})
	}
}
