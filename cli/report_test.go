package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report"
	"ipcbench/transports/all"
)

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

// TestLostResult: a result that cannot be written to --out is written to TMPDIR, where only
// the user can read it, or the error is about --out alone. The report names the file that
// exists, or none, and the error is printed once.
func TestLostResult(t *testing.T) {
	r := check.Value(result.ReadFile("../report/testdata/result.result"))(t)
	full := filepath.Join(t.TempDir(), "full.json.gz")
	check.Must(t, os.Symlink("/dev/full", full))
	for _, out := range []string{filepath.Join(t.TempDir(), "missing", "x.json"), full} {
		for _, tmp := range []string{t.TempDir(), "/dev/null"} {
			t.Setenv("TMPDIR", tmp)
			var screen, stderr bytes.Buffer
			format, _ := report.FormatNamed("text")
			j := &job{app: newApp(&screen, &stderr, nil), f: &runFlags{}, format: format, out: out, forget: func() {}}
			err := j.present(context.Background(), r, nil)
			check.Need(t, err != nil, "no error")
			check.That(t, strings.Count(err.Error(), "no space left")+strings.Count(err.Error(), "no such file") == 1 &&
				!strings.Contains(err.Error(), "unchanged") && stderr.Len() == 0, "got %v, want one reason; %s", err, &stderr)
			found, _ := filepath.Glob(filepath.Join(tmp, "*"))
			if tmp == "/dev/null" {
				check.That(t, !strings.Contains(screen.String(), "ipcbench report") && !strings.Contains(err.Error(), tmp), "%v\n%s", err, &screen)
				continue
			}
			check.Need(t, len(found) == 1, "got %v, want the result", found)
			info := check.Value(os.Stat(found[0]))(t)
			check.That(t, info.Mode() == 0o600 && strings.Contains(screen.String(), " report "+found[0]+" --view"), "mode %v\n%s", info.Mode(), &screen)
			check.Fails(t, err, "the result is in "+found[0])
			check.OK(t, check.Err(result.ReadFile(found[0])))
		}
	}
}
