package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	pprof "github.com/google/pprof/profile"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
)

// TestBenchmarkProfiles: go test -bench -cpuprofile labels the server's profile
// by phase, and the workers write theirs beside it.
func TestBenchmarkProfiles(t *testing.T) {
	skip.Long(t)
	if raceDetector {
		t.Skip("histology")
	}
	dir := t.TempDir()
	server := filepath.Join(dir, "server.pb.gz")
	// At 100 Hz, a phase of 5 ms a round may get no sample in four rounds; in sixty, each
	// of those below gets 28 or more.
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=Round/transport=pickle$/model=histology/workers=1", "-test.benchtime=60x", "-test.cpuprofile="+server)
	cmd.Env = append(os.Environ(), profileDirEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for path, want := range map[string][]string{
		server: {"fold", "decode"},
		filepath.Join(dir, "BenchmarkRound,transport=pickle,model=histology,workers=1,clients=1.workers.cpu.pb.gz"): {"train", "decode"},
	} {
		data, err := os.ReadFile(path)
		check.Must(t, err)
		p, err := pprof.ParseData(data)
		check.Must(t, err)
		found := map[string]int{}
		for _, s := range p.Sample {
			for _, name := range s.Label[phase.LabelPhase] {
				found[name]++
			}
		}
		for _, name := range want {
			check.That(t, found[name] != 0, "%s: no sample of phase %s, but of %v", filepath.Base(path), name, found)
		}
	}
}
