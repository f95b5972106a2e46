package session

import (
	"math"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// TestPromise: a model or an update that arrives as a codec makes it is still wrong if an element's error is above the
// bound that the cell's codec promises. kc=2 stands for an int8 that is broken in the same way in all processes.
func TestPromise(t *testing.T) {
	for _, through := range []string{"int8", "kc=2"} {
		cells := benchtest.Specs[Spec](t, all.Transports(), "pickle:codec=int8 cnn", "pickle:codec="+through+" cnn")
		l := cells[0].Model.Layout
		p := cells[1].Variant.Codec()
		s := Run{Spec: cells[0], fold: cells[0].fold(), config: trainer.Config{
			Variant: cells[1].Variant, Down: l, Up: l, Workers: 1, PerProcess: 1, Clients: 1, Depth: 1, Func: stockFunc, FuncConfig: []byte("{}"),
			Launcher: trainer.NewGoroutines(host), Samples: 100, Window: trainer.Outside,
		}}
		s.session = check.Value(trainer.Open(t.Context(), s.config))(t)
		t.Cleanup(func() { _, _ = s.session.Close() })
		s.model = check.Value(s.session.Reserve(0))(t)
		check.Must(t, s.initModel())
		down := s.publish(t.Context(), 0, s.model, true)

		s.proof.arrivals = trainer.NewArrivals(p, l)
		sent, key := tensor.Alloc(l), tensor.Key{Seed: 1, Round: 1}
		check.Must(t, tensor.Train(sent, s.trained, key))
		up := s.prove(check.Value(trainer.NewArrivals(p, l).Of(sent, s.trained))(t), key)
		if through == "int8" {
			check.Must(t, down)
			check.Must(t, up)
			continue
		}
		check.Fails(t, down, `round 0: downlink: tensor 0 ("conv1.weight" f32 [6 3 5 5]): element 0 arrived as `)
		check.Fails(t, up, "the bound of codec int8 is 1/253 of the largest of 4096 values")
	}
}

// TestReconstructed: B23: the span of reconstruct covers the work. Of several updates, the one that other processes
// disturbed least decides: putting together a value of thousands of tensors takes nearly all the time of its proof.
func TestReconstructed(t *testing.T) {
	s, launcher := blockOf(t, specOf(t, "inproc uniform:1MiB/4096 nested=on"), Quick)
	check.Must(t, s.start(t.Context(), launcher))
	t.Cleanup(func() { check.Must(t, s.finish(nil)) })
	update, rec := tensor.Alloc(s.config.Up), s.session.Recorder()
	d := check.Value(receipt.Detach(newNestedValue(s.config.Up, aboutOf(1, 0), update.View), receipt.DefaultDepth))(t)
	check.Must(t, d.CopyTo(update))
	rec.From(0)
	rec.Drain()
	least, share := int64(math.MaxInt64), 0.
	for range 20 {
		start := phase.Now()
		check.Must(t, s.reconstructed(1, nil)(trainer.Client{}, update))
		took := phase.Now() - start
		samples, _ := rec.Drain()
		check.Need(t, len(samples) == 1 && samples[0].Phase == phase.Reconstruct, "spans are %+v", samples)
		if took < least {
			least, share = took, float64(samples[0].End-samples[0].Start)/float64(took)
		}
	}
	check.That(t, share >= 0.9, "the span covers %.3f of a proof of %d ns", share, least)
}

// TestUnknownError: an error that has no number, or none that a result can contain, is null, and the other one is kept.
func TestUnknownError(t *testing.T) {
	e := codingError(tensor.Deviation{Max: math.Inf(1)})
	check.That(t, e.Max == nil && e.RMS != nil && *e.RMS == 0, "%+v", e)
	check.Must(t, result.Check(result.Coding{ErrorUp: e}))
}
