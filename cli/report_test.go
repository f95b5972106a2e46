package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestImplausible: an impossible result is shown with its errors, and the command fails
// (guard 21).
func TestImplausible(t *testing.T) {
	r := check.Value(result.ReadFile("../report/testdata/result.result"))(t)
	for _, b := range r.Cells[0].Blocks {
		b.Train[0] = 10 * b.Round[0]
	}
	path := filepath.Join(t.TempDir(), "r.json")
	check.Must(t, r.WriteFile(path))
	var out, stderr bytes.Buffer
	a := newApp(&out, &stderr, all.Transports())
	err := a.report(printing{format: "text", formats: formatNames()}, []string{path})
	check.Fails(t, err, "trained for")
	check.That(t, strings.Contains(out.String(), "--view"), "the report was not shown")
}

// TestHostileNames: escape sequences and CI commands in a file's name have no effect,
// whichever error contains the name.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	name := "a\n::error::evil\x1b]0;evil\x07\u202e"
	page := "<!-- ipcbench: begin evil\x1b[2J.json cells -->\n<!-- ipcbench: end -->\n"
	check.Must(t, os.WriteFile(filepath.Join(dir, name+".md"), []byte(page), 0o600))
	for _, args := range [][]string{
		{"report", "--check", dir}, {"report", filepath.Join(dir, name)}, {"compare", filepath.Join(dir, name)},
		{"pprof", "-top", filepath.Join(dir, name)}, {"run", "--model", filepath.Join(dir, "evil\x1b[2J.safetensors")}, {name},
	} {
		var out, stderr bytes.Buffer
		check.That(t, newApp(&out, &stderr, all.Transports()).main(args) != 0 && strings.Contains(stderr.String(), "evil"),
			"%q: got %q, want an error", args, &stderr)
		for line := range strings.Lines(out.String() + stderr.String()) {
			check.That(t, !strings.HasPrefix(strings.TrimSpace(line), "::") && !strings.ContainsAny(line, "\x1b\x07\u202e"),
				"%q writes %q", args, line)
		}
	}
}
