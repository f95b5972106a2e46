package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/result"

	"ipcbench/bench/stat"
	"ipcbench/internal/profile"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// BenchmarkRound is one round of the same session that ipcbench run measures:
// real processes, and the model after the last round compared with the reference
// chain. Its names are key=value, so that benchstat -col /transport works.
func BenchmarkRound(b *testing.B) {
	host := trainer.Host{Transports: all.Transports(), Funcs: Funcs()}
	for _, t := range host.Transports {
		v, err := transports.NewVariant(t, nil)
		check.Must(b, err)
		for _, name := range []string{"cnn", "histology"} {
			model, err := models.Parse(name)
			check.Must(b, err)
			for _, n := range []struct{ workers, clients int }{{1, 1}, {2, 4}} {
				b.Run(fmt.Sprintf("transport=%s/model=%s/workers=%d/clients=%d", v, name, n.workers, n.clients), func(b *testing.B) {
					benchmarkRound(b, host, Spec{
						Variant: v, Model: model, Workers: n.workers, Clients: n.clients, PerProcess: 1, Depth: trainer.DefaultDepth,
					})
				})
			}
		}
	}
}

func benchmarkRound(b *testing.B, host trainer.Host, cell Spec) {
	plan, err := DefaultPlan(Default)
	check.Must(b, err)
	launcher := trainer.NewGoroutines(host)
	if !cell.inside() {
		launcher = trainer.NewProcesses()
	}
	ctx := b.Context()
	chain := &chain{cell: cell, seed: plan.Seed}
	s := &blockRun{cell: cell, plan: plan, chain: chain, block: &Block{}, profiling: benchProfiling(cell)}
	check.Must(b, s.start(ctx, launcher))
	n := 0
	next := func() error {
		w, err := s.round(ctx, n, true, nil)
		s.windows = append(s.windows, w)
		n++
		return err
	}
	err = next() // cold
	if err == nil {
		err = next() // warm
	}
	if err == nil && s.profiling != nil {
		err = s.enter(ctx, trainer.Timed, n)
	}
	for err == nil && b.Loop() {
		err = next()
	}
	b.StopTimer()
	if err == nil {
		err = s.enter(ctx, trainer.Outside, n)
	}
	outside := s.session.Recorder().Outside()
	if err == nil {
		err = chain.extend(ctx, n, 0, nil)
	}
	if err == nil && s.model.Hash() != chain.hashes[n-1] {
		err = errors.New("the last model is not that of the reference chain")
	}
	outside.End()
	s.windows = s.windows[2:]
	check.Must(b, s.finish(err))
	check.Must(b, keepWorkers(b.Name(), s))
	// To benchstat, which reads ns as sec and MB as B, the units are those of report
	// --format benchfmt. There is no MB/s alone: what hands over has a goodput, and no
	// bandwidth (guard 1).
	for unit, ns := range map[string][]int64{"down-ns/op": s.block.Down, "train-ns/op": s.block.Train, "up-ns/op": s.block.Up} {
		b.ReportMetric(stat.Median(seconds(ns))*1e9, unit)
	}
	b.ReportMetric(float64(2*cell.Model.Layout.Payload()*cell.Clients)*float64(b.N)/1e6/b.Elapsed().Seconds(), "goodput-MB/s")
}

// profileDirEnv names the folder for the CPU profiles of workers.
const profileDirEnv = "IPCBENCH_TEST_PROFILE_DIR"

// benchProfiling labels the server's profile if go test -cpuprofile takes one,
// and profiles the workers if a folder for that is given.
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

// keepWorkers writes what the workers of a benchmark have profiled.
func keepWorkers(name string, s *blockRun) error {
	dir := os.Getenv(profileDirEnv)
	if dir == "" || s.cell.inside() {
		return nil
	}
	var parts []profile.Part
	for i, w := range s.report.Processes {
		parts = append(parts, profile.Part{Process: trainer.ProcessName(i), Pieces: w.Profiles})
	}
	p, err := profile.Merge(profile.Meta{
		Kind: capture.CPU, Transport: s.cell.Variant.String(), Model: s.cell.Model.Name, Workers: s.cell.Workers, Clients: s.cell.Clients,
		Blocks: 1, Rounds: len(s.windows), Delivered: int64(2*s.cell.Model.Layout.Payload()*s.cell.Clients) * int64(len(s.windows)),
	}, parts)
	if err != nil {
		return err
	}
	return result.ReplaceFile(filepath.Join(dir, strings.ReplaceAll(name, "/", ",")+".workers.cpu.pb.gz"), p.Write)
}
