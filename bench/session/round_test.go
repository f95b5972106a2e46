package session

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/profile"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/trainer"
)

// BenchmarkRound measures one round of the same session that ipcbench run measures. Processes are real, and the last
// model is compared with the reference chain. Its names are key=value, so that benchstat -col /transport works.
func BenchmarkRound(b *testing.B) {
	for _, t := range host.Transports {
		for _, model := range []string{"cnn", "histology"} {
			for _, size := range []string{"workers=1 clients=1", "workers=2 clients=4"} {
				b.Run("transport="+t.Name()+"/model="+model+"/"+strings.ReplaceAll(size, " ", "/"), func(b *testing.B) {
					benchmarkRound(b, specOf(b, t.Name()+" "+model+" "+size))
				})
			}
		}
	}
}

func benchmarkRound(b *testing.B, cell Spec) {
	s, launcher := blockOf(b, cell, Default)
	s.Profiling = benchProfiling(cell)
	ctx, chain := b.Context(), s.Chain
	check.Must(b, s.start(ctx, launcher))
	n := 0
	next := func() error {
		w, err := s.round(ctx, n, true, nil)
		s.windows = append(s.windows, w)
		n++
		return err
	}
	check.Must(b, next(), "cold")
	check.Must(b, next(), "warm")
	if s.Profiling != nil {
		check.Must(b, s.enter(ctx, trainer.Timed, n))
	}
	for b.Loop() {
		check.Must(b, next())
	}
	b.StopTimer()
	check.Must(b, s.enter(ctx, trainer.Outside, n))
	outside := s.session.Recorder().Outside()
	check.Must(b, chain.extend(ctx, n, nil))
	check.Equal(b, s.model.Hash(), chain.hashes[n-1], "hashes of the last model and of the reference chain's")
	outside.End()
	s.windows = s.windows[2:]
	check.Must(b, s.finish(nil))
	check.Must(b, keepWorkers(b.Name(), s))
	// benchstat reads ns as sec and MB as B, so the units are the same as with report --format benchfmt. There is no
	// MB/s alone, because a hand-off has a goodput but no bandwidth (guard 1).
	for unit, ns := range map[string][]int64{"down-ns/op": s.Block.Down, "train-ns/op": s.Block.Train, "up-ns/op": s.Block.Up} {
		b.ReportMetric(stat.Median(Seconds(ns))*1e9, unit)
	}
	b.ReportMetric(float64(2*cell.Model.Layout.Payload()*cell.Clients)*float64(b.N)/1e6/b.Elapsed().Seconds(), "goodput-MB/s")
}

// profileDirEnv is the environment variable with the folder for the workers' CPU profiles.
const profileDirEnv = "IPCBENCH_TEST_PROFILE_DIR"

// benchProfiling labels the server's profile if go test -cpuprofile takes one, and profiles the workers if
// profileDirEnv is set.
func benchProfiling(cell Spec) *trainer.Profiling {
	p := &trainer.Profiling{Transport: cell.Variant.String(), Model: cell.Model.Name, Workers: true}
	switch f := flag.Lookup("test.cpuprofile"); {
	case os.Getenv(profileDirEnv) != "":
		p.Kinds = []string{capture.CPU}
	case f == nil || f.Value.String() == "":
		return nil
	}
	return p
}

// keepWorkers writes the workers' merged CPU profile to the folder of profileDirEnv.
func keepWorkers(name string, s *Run) error {
	dir := os.Getenv(profileDirEnv)
	if dir == "" || s.Spec.Inside() {
		return nil
	}
	var parts []profile.Part
	for i, w := range s.Report.Processes {
		parts = append(parts, profile.Part{Process: trainer.ProcessName(i), Pieces: w.Profiles})
	}
	p, err := profile.Merge(profile.Meta{
		Kind: capture.CPU, Transport: s.Spec.Variant.String(), Model: s.Spec.Model.Name, Workers: s.Spec.Workers, Clients: s.Spec.Clients,
		Blocks: 1, Rounds: len(s.windows), Delivered: int64(2*s.Spec.Model.Layout.Payload()*s.Spec.Clients) * int64(len(s.windows)),
	}, parts)
	if err != nil {
		return err
	}
	return result.ReplaceFile(filepath.Join(dir, strings.ReplaceAll(name, "/", ",")+".workers.cpu.pb.gz"), p.Write)
}
