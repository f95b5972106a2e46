package bench_test

import (
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// TestNested observes B23 in a real block: over every transport, model and updates travel
// as Go values with tensors and other fields nested in them, and are put together again at
// both ends, which takes a time that is recorded apart. The worker function and the server
// check the fields (B9, B10), and that tensors are views of what has arrived: else a block
// fails. Handing over stays what it is: with shm-slab nobody copies a byte.
func TestNested(t *testing.T) {
	skip.Long(t)
	h := trainer.Host{Transports: all.Transports(), Funcs: bench.Funcs()}
	var cells []bench.Spec
	model := spec(t, h, "pickle", "cnn", 2, 3).Model
	for _, name := range []string{"inproc", "pickle", "storage", "shm-tensor", "shm-slab", "grpc-tensor", "grpc-batch", "grpc-stream", "http", "http-shm"} {
		s := spec(t, h, name, "cnn", 2, 3)
		s.Model, s.Nested = model, true
		cells = append(cells, s)
	}
	coded := spec(t, h, "pickle", "cnn", 1, 2)
	coded.Nested = true
	check.Must(t, coded.Change.UnmarshalText([]byte("10%")))
	var err error
	coded.Variant, err = transports.Parse("pickle:codec=xor+shuffle+zstd", h.Transports)
	check.Must(t, err)
	lora := spec(t, h, "http", "cnn", 1, 2)
	lora.Nested = true
	lora.Up, err = models.Update("lora:1", lora.Model)
	check.Must(t, err)
	p := quick(t)
	p.Rounds, p.Blocks = 3, 1
	for _, respawn := range []bool{false, true} {
		if respawn {
			cells = cells[1:3]
			cells[0].Respawn, cells[1].Respawn = true, true
		} else {
			cells = append(cells, coded, lora)
		}
		for _, c := range measure(t, h, p, cells...).Cells {
			check.That(t, c.Proved(), "%s: not proved", c.ID())
			b := c.Blocks[0]
			for _, name := range []phase.Phase{phase.Attach, phase.Detach, phase.Reconstruct} {
				check.That(t, b.Phases[name.String()] > 0, "%s, respawned %v: no time in phase %s", c.ID(), respawn, name)
			}
			n := b.Counts()[phase.Copied]
			check.That(t, c.Transport != "shm-slab" || n <= 0, "%s: %d bytes of tensors were copied", c.ID(), n)
		}
	}
}

// TestNestedRefused: what has no Go values is refused, by the flag.
func TestNestedRefused(t *testing.T) {
	h := host()
	rows, err := tensor.NewLayout([]tensor.Spec{{Name: "rows", DType: tensor.F32, Shape: []int{4, 2}, Var: true}})
	check.Must(t, err)
	for name, tt := range map[string]struct {
		change func(s *bench.Spec)
		want   string
	}{
		"python": {func(s *bench.Spec) { s.Language = bench.InPython }, "--nested: workers in python"},
		"var":    {func(s *bench.Spec) { s.Model = &models.Model{Name: "mine", Layout: rows} }, "--nested: tensors whose lengths vary"},
	} {
		s := spec(t, h, "pickle", "cnn", 1, 1)
		s.Nested = true
		tt.change(&s)
		check.Fails(t, s.Check(), tt.want, name)
	}
}

// TestControlsDoTheSame: cells that do other work have controls of their own.
func TestControlsDoTheSame(t *testing.T) {
	h := host()
	plain := spec(t, h, "pickle", "cnn", 1, 1)
	nested, trained := plain, plain
	nested.Nested, trained.TrainMS = true, 1
	p := quick(t)
	p.Rounds, p.Blocks = 1, 1
	controls := map[string]bool{}
	for _, c := range measure(t, h, p, plain, nested, trained).Cells {
		if c.Transport == "inproc" {
			controls[c.ID()] = true
		}
	}
	for _, want := range []string{"", " nested=on", " train-ms=1"} {
		id := "inproc cnn workers=1 clients=1" + want
		check.That(t, controls[id], "no control %s, but %v", id, controls)
	}
}

// TestNestedOfTwoBuilds: another build runs such cells too, if it knows them.
func TestNestedOfTwoBuilds(t *testing.T) {
	h := host()
	s := spec(t, h, "shm-slab", "cnn", 1, 2)
	s.Nested = true
	p := quick(t)
	p.Rounds, p.Blocks = 1, 1
	o := options(t, h, p, s)
	o.Against = []string{self(t)}
	r, err := bench.RunWithFloors(t.Context(), o)
	check.Must(t, err)
	check.Must(t, r.Validate())
	for _, c := range r.Cells {
		if !c.Proved() || !c.Nested || c.Blocks[0].Phases[phase.Reconstruct.String()] <= 0 {
			t.Errorf("%s, %s: proved %v, nested %v, phases %v", c.ID(), c.Build, c.Proved(), c.Nested, c.Blocks[0].Phases)
		}
	}
}
