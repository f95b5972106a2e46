package cli

import (
	"encoding/csv"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestSoakCollaborators: O9, O24: runs with 200 collaborators and 1,000 tensors each, and
// with 2,000 at a time and 100 tensors each, finish within 24 GiB. They make exactly the
// calls that they need, and their data is proved.
func TestSoakCollaborators(t *testing.T) {
	skip.Soak(t)
	exe := built(t)
	for _, c := range []struct {
		model                              string
		collaborators, perProcess, tensors int
		transports                         []string
	}{
		{"uniform:4MiB/1000", 200, 50, 1000, []string{"grpc-tensor", "grpc-batch", "grpc-stream"}},
		{"uniform:256KiB/100", 1000, 250, 100, []string{"grpc-tensor", "grpc-batch"}},
		{"uniform:256KiB/100", 2000, 250, 100, []string{"grpc-tensor", "grpc-batch"}},
	} {
		n := strconv.Itoa(c.collaborators)
		t.Run(n, func(t *testing.T) {
			out := output(t, exe, "run", "-q", "--transport", strings.Join(c.transports, ":threads=8,")+":threads=8",
				"--model", c.model, "--workers", n, "--clients", n, "--lanes-per-process", strconv.Itoa(c.perProcess), "--depth", "1",
				"--rounds", "2", "--blocks", "1", "--format", "csv", "--out", filepath.Join(t.TempDir(), "result.json"))
			rows := check.Value(csv.NewReader(strings.NewReader(string(out))).ReadAll())(t)
			all := map[[2]string]float64{}
			for _, row := range rows {
				all[[2]string{row[0], row[5]}], _ = strconv.ParseFloat(row[8], 64)
			}
			for _, name := range c.transports {
				got := func(metric string) float64 { return all[[2]string{name, metric}] }
				fetches := 1
				if name == "grpc-tensor" {
					fetches = c.tensors
				}
				// For each collaborator a task, a result, and the model: one call per
				// tensor, or one in all.
				check.Equal(t, got("rpcs"), float64(c.collaborators*(2+fetches)), name, "calls a round")
				check.Equal(t, got("rpcs_tensors"), float64(c.collaborators*fetches), name, "calls a round for tensors")
				check.That(t, got("in_service_most") >= 1 && got("in_service_most") <= 8,
					"%s: %v requests in service at once, with 8 threads", name, got("in_service_most"))
				check.Equal(t, got("proved"), 1, name, "the rounds are proved")
				check.That(t, got("peak_rss") > 0 && got("peak_rss") <= 24<<30, "%s took %v bytes", name, got("peak_rss"))
				t.Logf("%s: %.1f s a round, %.1f GB in all", name, got("round"), got("peak_rss")/1e9)
			}
		})
	}
}
