package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"ipcbench/bench"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/transports"
)

// profiled runs the variants with profiles of all kinds given.
func profiled(t *testing.T, dir string, kinds []string, model string, variants ...string) (*bench.Result, error) {
	t.Helper()
	h := host()
	control, err := transports.NewVariant(h.Transports[0], nil)
	check.Must(t, err)
	o := bench.Options{Plan: quick(t), Control: control, Host: h, Profiling: bench.Profiling{Kinds: kinds, Dir: dir}}
	for _, v := range variants {
		o.Cells = append(o.Cells, spec(t, h, v, model, 2, 3))
	}
	return bench.RunWithFloors(t.Context(), o)
}

// skipIfProfiled skips a test that cannot take a CPU profile: go test takes one.
func skipIfProfiled(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "already in use") {
		t.Skip(err)
	}
}

// TestProfiles: a cell has one file a kind, of blocks that do not count, and its
// timed blocks are what they are without.
func TestProfiles(t *testing.T) {
	skip.Long(t)
	dir := filepath.Join(t.TempDir(), "r.profiles")
	check.Must(t, os.Mkdir(dir, 0o755))
	kinds := []string{"trace", "cpu", "heap", "allocs", "mutex", "block"}
	r, err := profiled(t, dir, kinds, "cnn", "pickle")
	skipIfProfiled(t, err)
	check.Must(t, err)
	var data bytes.Buffer
	check.Must(t, r.Write(&data))
	for _, c := range r.Cells {
		var got []string
		for _, p := range c.Profiles {
			got = append(got, p.Kind)
			check.That(t, p.Rounds != 0 && p.Blocks != 0, "%s: %s: %+v", c.ID(), p.Kind, p)
			for _, b := range c.Blocks[p.First : p.First+p.Blocks] {
				check.That(t, b.Profiled, "%s: %s: block %d was not profiled", c.ID(), p.Kind, b.Index)
			}
			files := 1
			if p.Kind == capture.Trace {
				if files = 3; c.Launcher == "goroutines" {
					files = 1
				}
			}
			check.That(t, len(p.Files) == files, "%s: %s: files %v, want %d", c.ID(), p.Kind, p.Files, files)
			for _, f := range p.Files {
				path := filepath.Join(filepath.Dir(dir), f)
				if p.Kind == capture.Trace {
					if head, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(head, []byte("go 1.")) {
						t.Errorf("%s: no trace: %v", f, err)
					}
					continue
				}
				data, err := os.ReadFile(path)
				check.Must(t, err)
				read, err := pprof.ParseData(data)
				check.Must(t, err)
				meta := fmt.Sprintf(`{"kind":%q,"transport":%q,"model":"cnn","workers":2,"clients":3,"blocks":%d,"rounds":%d,"delivered_bytes":%d}`,
					p.Kind, c.Variant, p.Blocks, p.Rounds, c.Payload()*int64(p.Rounds))
				check.That(t, slices.Equal(read.Comments, []string{"ipcbench " + meta}),
					"%s is of %q, want %s", f, read.Comments, meta)
			}
		}
		want := []string{"cpu", "heap", "allocs", "mutex", "block", "trace"}
		check.That(t, slices.Equal(got, want), "%s: profiles %v, want %v", c.ID(), got, want)
		timelines := 0
		for _, b := range c.Blocks {
			if b.Timeline != nil {
				timelines++
				if len(b.Timeline.Start) == 0 || !b.Profiled {
					t.Errorf("%s: timeline of %d spans, profiled %v", c.ID(), len(b.Timeline.Start), b.Profiled)
				}
			}
		}
		if timelines != 1 || len(c.Timed()) < 2 || len(c.Timed()) == len(c.Blocks) {
			t.Errorf("%s: %d timelines, %d blocks, %d of them timed", c.ID(), timelines, len(c.Blocks), len(c.Timed()))
		}
	}
}

// TestProfilesFail: whatever goes wrong with profiles, the result is there.
func TestProfilesFail(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	r, err := profiled(t, missing, []string{"allocs"}, "cnn", "inproc")
	check.Fails(t, err, "keep profile: open "+missing)
	check.Need(t, r != nil && len(r.Cells) == 1 && r.Partial == "" && len(r.Cells[0].Timed()) != 0, "the result is lost: %+v", r)
	check.Must(t, r.Validate())
	o := bench.Options{Plan: quick(t), Profiling: bench.Profiling{Kinds: []string{"cup"}}}
	if _, err := bench.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `unknown kind of profile "cup"`) {
		t.Errorf("got error %v", err)
	}
}

// TestTimelineHasNoSums: a worker of grpc-tensor decodes a tensor at a time and
// records the sum, which counts and is not drawn.
func TestTimelineHasNoSums(t *testing.T) {
	skip.Long(t)
	dir := t.TempDir()
	r, err := profiled(t, dir, []string{"heap"}, "cnn", "grpc-tensor")
	check.Must(t, err)
	c := r.Cells[slices.IndexFunc(r.Cells, func(c bench.Cell) bool { return c.Transport == "grpc-tensor" })]
	for _, b := range c.Blocks {
		if b.Timeline == nil {
			continue
		}
		drawn := map[string]int{}
		for i, p := range b.Timeline.Process {
			if p > 0 {
				drawn[b.Timeline.Phase[i]]++
			}
		}
		check.That(t, b.Phases["decode"] != 0 && drawn["receive"] != 0 && drawn["decode"] == 0,
			"workers drew %v; decode took %v", drawn, b.Phases["decode"])
		return
	}
	t.Error("no block has a timeline")
}
