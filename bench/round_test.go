package bench

import (
	"fmt"
	"testing"
	"time"

	"ipcbench/bench/stat"
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
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"cnn", "histology"} {
			model, err := models.Parse(name)
			if err != nil {
				b.Fatal(err)
			}
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
	if err != nil {
		b.Fatal(err)
	}
	launcher := trainer.NewGoroutines(host)
	if !cell.inside() {
		if launcher, err = trainer.NewProcesses(); err != nil {
			b.Fatal(err)
		}
	}
	defer launcher.Close()
	ctx := b.Context()
	chain := &chain{model: cell.Model, clients: cell.Clients, seed: plan.Seed}
	s := &session{cell: cell, plan: plan, chain: chain, roster: roster(cell.Clients), block: &Block{}}
	if err := s.start(ctx, launcher); err != nil {
		b.Fatal(err)
	}
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
	b.SetBytes(int64(2 * cell.Model.Layout.Payload() * cell.Clients))
	for err == nil && b.Loop() {
		err = next()
	}
	b.StopTimer()
	if err == nil {
		err = chain.extend(ctx, time.Hour, 1, n, n)
	}
	if err == nil {
		err = s.check(n - 1)
	}
	s.windows = s.windows[2:]
	if err := s.finish(err); err != nil {
		b.Fatal(err)
	}
	for unit, ns := range map[string][]int64{"down-ns": s.block.Down, "train-ns": s.block.Train, "up-ns": s.block.Up} {
		b.ReportMetric(stat.Median(seconds(ns))*1e9, unit)
	}
}
