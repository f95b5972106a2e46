package session

import (
	"math"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/internal/profile"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/trainer"
)

// blockOf returns a block of s that has not run yet, and the launcher of its workers.
func blockOf(t testing.TB, s Spec, mode string) (*Run, trainer.Launcher) {
	t.Helper()
	plan := check.Value(DefaultPlan(mode))(t)
	launcher := trainer.NewGoroutines(host)
	if !s.Inside() {
		launcher = trainer.NewProcesses()
	}
	return &Run{Spec: s, Plan: plan, Chain: NewChain(s, plan), Block: &result.Block{}}, launcher
}

// TestClaims: each transport copies a byte as often as its package comment says, and 90 % of the profile samples in
// transport code have a phase.
func TestClaims(t *testing.T) {
	skip.Long(t)
	if machine.Read().Race {
		t.Skip("many sessions")
	}
	var parts []profile.Part
	for _, tt := range []struct {
		variant      string
		ours, kernel float64 // copies per byte, in one direction
	}{
		{"inproc", 0, 0},
		{"pickle", 0, 2},  // gob's two copies are in the library
		{"storage", 0, 2}, // to the page cache and from it
		{"shm-tensor", 0, 0},
		{"shm-slab", 0, 0},
		{"shm-slab:copy=in", 1, 0},
		{"shm-slab:copy=out", 1, 0},
		{"grpc-tensor", 1, 2}, // from frames into the tensor
		{"grpc-batch", 1, 2},
		{"grpc-stream", 1, 2},
		{"http", 0, 2},                    // read directly into the tensor
		{"http:body=json", 1, 2 * 4. / 3}, // base64 text
		{"http-shm", 0, 0},
		{"http-shm:copy=out", 1, 0},
	} {
		s, launcher := blockOf(t, specOf(t, tt.variant+" uniform:4MiB/10"), Quick)
		s.Plan.Rounds, s.Plan.Blocks = 20, 1 // copies per round are the same in every block; the profile still gets over a hundred samples in transport code
		s.Profiling = &trainer.Profiling{Transport: tt.variant, Model: "uniform:4MiB/10", Kinds: []string{capture.CPU}}
		check.Must(t, s.Do(t.Context(), t.Context(), launcher))
		check.Must(t, s.Compare(t.Context()))
		payload := float64(2*s.Spec.Model.Layout.Payload()*s.Spec.Clients) * float64(len(s.windows))
		got := float64(s.Block.Counts()[phase.Copied]) / payload
		check.That(t, math.Abs(got-tt.ours) <= 0.01, "%s: %.3f copies of a byte by our code, want %v", tt.variant, got, tt.ours)
		kernel := int64(0)
		for _, p := range append([]result.Process{s.Block.Server}, s.Block.Processes...) {
			if p.Usage.IO == nil {
				t.Skip("the kernel keeps no I/O accounting")
			}
			kernel += p.Usage.IO.ReadBytes + p.Usage.IO.WrittenBytes
		}
		got = float64(kernel) / payload
		check.That(t, math.Abs(got-tt.kernel) <= 0.02*max(1, tt.kernel),
			"%s: %.3f copies of a byte by the kernel, want %.2f", tt.variant, got, tt.kernel)
		parts = append(parts, profile.Part{Process: phase.ServerProcess, Pieces: s.Report.Server.Profiles})
		for i, w := range s.Report.Processes {
			parts = append(parts, profile.Part{Process: trainer.ProcessName(i), Pieces: w.Profiles})
		}
	}
	p := check.Value(profile.Merge(profile.Meta{Kind: capture.CPU}, parts))(t)
	sum := profile.Summarize(p, 5)
	check.That(t, sum.Transport != 0 && float64(sum.Attributed) >= 0.9*float64(sum.Transport),
		"%d of %d ns in transport code have a phase, want 90 %%", sum.Attributed, sum.Transport)
	t.Logf("%d ms in all, %d ms of it in transport code, %d ms of that with a phase", sum.Total/1e6, sum.Transport/1e6, sum.Attributed/1e6)
}
