package session

import (
	"math"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
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

// TestUnknownError: an error that has no number, or none that a result can contain, is null, and the other one is kept.
func TestUnknownError(t *testing.T) {
	e := codingError(tensor.Deviation{Max: math.Inf(1)})
	check.That(t, e.Max == nil && e.RMS != nil && *e.RMS == 0, "%+v", e)
	check.Must(t, result.Check(result.Coding{ErrorUp: e}))
}
