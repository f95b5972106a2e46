package bench

import (
	"math"
	"testing"

	"ipcbench/internal/profile"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// profiledSession runs one profiled block of a variant.
func profiledSession(t *testing.T, h trainer.Host, variant string) *blockRun {
	t.Helper()
	v, err := transports.Parse(variant, h.Transports)
	check.Must(t, err)
	m, err := models.Parse("uniform:4MiB/10")
	check.Must(t, err)
	plan, err := DefaultPlan(Quick)
	check.Must(t, err)
	cell := Spec{Variant: v, Model: m, Workers: 1, Clients: 1, PerProcess: 1, Depth: trainer.DefaultDepth}
	launcher := trainer.NewGoroutines(h)
	if !cell.inside() {
		launcher = trainer.NewProcesses()
	}
	const rounds = 20 // what is counted is the same in each; a hundred samples of the profile and more are in transport code
	plan.Rounds, plan.Blocks = rounds, 1
	s := &blockRun{
		cell: cell, plan: plan, chain: &chain{cell: cell, seed: plan.Seed}, block: &Block{},
		profiling: &trainer.Profiling{Transport: v.String(), Model: m.Name, Kinds: []string{capture.CPU}},
	}
	check.Must(t, s.run(t.Context(), t.Context(), launcher))
	check.Must(t, s.compare(t.Context()))
	return s
}

// TestClaims: each transport copies a byte as often as its package comment says,
// and nine tenths of the samples in transport code have a phase.
func TestClaims(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("many sessions")
	}
	h := trainer.Host{Transports: all.Transports(), Funcs: Funcs()}
	var parts []profile.Part
	for _, tt := range []struct {
		variant      string
		ours, kernel float64 // copies of a byte, one way
	}{
		{"inproc", 0, 0},
		{"pickle", 0, 2},  // gob's own two are in the library
		{"storage", 0, 2}, // to the page cache, and from it
		{"shm-tensor", 0, 0},
		{"shm-slab", 0, 0},
		{"shm-slab:copy=in", 1, 0},
		{"shm-slab:copy=out", 1, 0},
		{"grpc-tensor", 1, 2}, // from frames into place
		{"grpc-batch", 1, 2},
		{"grpc-stream", 1, 2},
		{"http", 0, 2},                    // read into place
		{"http:body=json", 1, 2 * 4. / 3}, // base64 of it
		{"http-shm", 0, 0},
		{"http-shm:copy=out", 1, 0},
	} {
		s := profiledSession(t, h, tt.variant)
		payload := float64(2*s.cell.Model.Layout.Payload()*s.cell.Clients) * float64(len(s.windows))
		got := float64(s.block.Counts()[phase.Copied]) / payload
		check.That(t, math.Abs(got-tt.ours) <= 0.01, "%s: %.3f copies of a byte by our code, want %v", tt.variant, got, tt.ours)
		kernel := int64(0)
		for _, p := range append([]Process{s.block.Server}, s.block.Processes...) {
			if p.Usage.IO == nil {
				t.Skip("the kernel keeps no I/O accounting")
			}
			kernel += p.Usage.IO.ReadBytes + p.Usage.IO.WrittenBytes
		}
		if got := float64(kernel) / payload; math.Abs(got-tt.kernel) > 0.02*max(1, tt.kernel) {
			t.Errorf("%s: %.3f copies of a byte by the kernel, want %.2f", tt.variant, got, tt.kernel)
		}
		parts = append(parts, profile.Part{Process: phase.ServerProcess, Pieces: s.report.Server.Profiles})
		for i, w := range s.report.Processes {
			parts = append(parts, profile.Part{Process: trainer.ProcessName(i), Pieces: w.Profiles})
		}
	}
	p, err := profile.Merge(profile.Meta{Kind: capture.CPU}, parts)
	check.Must(t, err)
	sum := profile.Summarize(p, 5)
	check.That(t, sum.Transport != 0 && float64(sum.Attributed) >= 0.9*float64(sum.Transport),
		"%d of %d ns in transport code have a phase, want 90 %%", sum.Attributed, sum.Transport)
	t.Logf("%d ms in all, %d ms of it in transport code, %d ms of that with a phase", sum.Total/1e6, sum.Transport/1e6, sum.Attributed/1e6)
}
