package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

func profiled(t *testing.T, dir string, kinds []string, cells ...string) (*result.Result, error) {
	t.Helper()
	o := options(t, short(t, 0, 2), cells...)
	o.Profiling = bench.Profiling{Kinds: kinds, Dir: dir}
	r, err := bench.RunWithFloors(t.Context(), o)
	if err != nil && strings.Contains(err.Error(), "already in use") { // go test is already taking a CPU profile
		t.Skip(err)
	}
	return r, err
}

// TestProfiles: a cell has one set of files per kind, taken in blocks that are not timed, and still has its timed
// blocks. The timeline has no spans that are sums.
func TestProfiles(t *testing.T) {
	skip.Long(t)
	dir := filepath.Join(t.TempDir(), "r.profiles")
	check.Must(t, os.Mkdir(dir, 0o755))
	kinds := []string{"trace", "cpu", "heap", "allocs", "mutex", "block"}
	r := check.Value(profiled(t, dir, kinds, "pickle cnn workers=2 clients=3", "grpc-tensor cnn workers=2 clients=3"))(t)
	check.Must(t, r.Validate())
	for _, c := range r.Cells {
		var got []string
		for _, p := range c.Profiles {
			got = append(got, p.Kind)
			check.That(t, p.Rounds != 0 && p.Blocks != 0, "%s: %s: %+v", c.ID(), p.Kind, p)
			for _, b := range c.Blocks[p.First : p.First+p.Blocks] {
				check.That(t, b.Profiled, "%s: %s: block %d was not profiled", c.ID(), p.Kind, b.Index)
			}
			files := 1
			if p.Kind == capture.Trace && c.Launcher != "goroutines" {
				files = 3
			}
			check.That(t, len(p.Files) == files, "%s: %s: files %v, want %d", c.ID(), p.Kind, p.Files, files)
			for _, f := range p.Files {
				data := check.Value(os.ReadFile(filepath.Join(filepath.Dir(dir), f)))(t)
				if p.Kind == capture.Trace {
					check.That(t, bytes.HasPrefix(data, []byte("go 1.")), "%s: no trace", f)
					continue
				}
				read := check.Value(pprof.ParseData(data))(t)
				meta := fmt.Sprintf(`{"kind":%q,"transport":%q,"model":"cnn","workers":2,"clients":3,"blocks":%d,"rounds":%d,"delivered_bytes":%d}`,
					p.Kind, c.Variant, p.Blocks, p.Rounds, c.Payload()*int64(p.Rounds))
				check.Equal(t, read.Comments, []string{"ipcbench " + meta}, f)
			}
		}
		check.Equal(t, got, []string{"cpu", "heap", "allocs", "mutex", "block", "trace"}, c.ID(), "profiles")
		timelines, drawn := 0, map[string]int{} // of workers, by phase
		for _, b := range c.Blocks {
			if b.Timeline != nil {
				timelines++
				for i, p := range b.Timeline.Process {
					drawn[b.Timeline.Phase[i]] += min(p, 1)
				}
				check.That(t, len(b.Timeline.Start) != 0 && b.Profiled,
					"%s: timeline of %d spans, profiled %v", c.ID(), len(b.Timeline.Start), b.Profiled)
			}
		}
		// A worker of grpc-tensor decodes one tensor at a time and records the sum, which is not drawn.
		check.That(t, c.Transport != "grpc-tensor" || c.Blocks[0].Phases["decode"] != 0 && drawn["receive"] != 0 && drawn["decode"] == 0,
			"workers drew %v", drawn)
		check.That(t, timelines == 1 && len(c.Timed()) >= 2 && len(c.Timed()) < len(c.Blocks),
			"%s: %d timelines, %d blocks, %d of them timed", c.ID(), timelines, len(c.Blocks), len(c.Timed()))
	}
}

// TestProfilesFail: if writing profiles fails, the result is still returned, with the error.
func TestProfilesFail(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	r, err := profiled(t, missing, []string{"allocs"}, "inproc cnn")
	check.Fails(t, err, "write profile: open "+missing)
	check.Need(t, r != nil && len(r.Cells) == 1 && r.Partial == "" && len(r.Cells[0].Timed()) != 0, "the result is lost: %+v", r)
	check.Must(t, r.Validate())
	check.Fails(t, check.Err(profiled(t, missing, []string{"cup"}, "inproc cnn")), `unknown kind of profile "cup"`)
}
