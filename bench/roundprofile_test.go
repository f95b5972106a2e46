package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ipcbench/profile"
)

// TestBenchmarkProfiles: go test -bench -cpuprofile labels the server's profile
// by phase, and the workers write theirs beside it.
func TestBenchmarkProfiles(t *testing.T) {
	if raceDetector {
		t.Skip("histology")
	}
	dir := t.TempDir()
	server := filepath.Join(dir, "server.pb.gz")
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=Round/transport=pickle$/model=histology/workers=1", "-test.benchtime=8x", "-test.cpuprofile="+server)
	cmd.Env = append(os.Environ(), profileDirEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A phase of a millisecond or two a round may get no sample of a clock of 100 Hz, but
	// not each of these.
	for path, any := range map[string][]string{
		server: {"read", "decode", "fold"},
		filepath.Join(dir, "BenchmarkRound,transport=pickle,model=histology,workers=1,clients=1.workers.cpu.pb.gz"): {"train", "read", "decode"},
	} {
		p, err := profile.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, s := range profile.Summarize(p, 1).Phases {
			if !s.Rest && s.Flat > 0 {
				found = append(found, s.Name)
			}
		}
		if !slices.ContainsFunc(any, func(name string) bool { return slices.Contains(found, name) }) {
			t.Errorf("%s: samples of phases %q, of none of %q", filepath.Base(path), found, any)
		}
	}
}
