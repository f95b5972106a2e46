package bench_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// changing returns the cell where a part of the model changes.
func changing(t testing.TB, s bench.Spec, change string) bench.Spec {
	t.Helper()
	var err error
	s.Change, err = tensor.ParseChange(change)
	check.Must(t, err)
	return s
}

// TestWorkloads: whatever part of a model changes, by whomever, cells of processes are
// proved against a reference of their own, and what differs from the version before is
// 1 - (1-P)^K of f32 words, within 0.2 points, and stands in the result (guards 3, 23).
func TestWorkloads(t *testing.T) {
	h := trainer.Host{Transports: all.Transports(), Funcs: bench.Funcs()}
	p := quick(t)
	p.Rounds, p.Blocks = 6, 1
	var cells []bench.Spec
	model, err := models.Parse("uniform:1MiB/3")
	check.Must(t, err)
	small, err := models.Update("uniform:64KiB/1", model)
	check.Must(t, err)
	for _, variant := range []string{"pickle", "shm-slab"} {
		s := spec(t, h, variant, "cnn", 2, 4)
		s.Model, s.Up = model, model
		sync, normal := changing(t, s, "2%"), changing(t, s, "10%")
		sync.Up, sync.Scenario, normal.Values = small, bench.Sync, bench.Normal
		cells = append(cells, s, changing(t, s, "2%"), changing(t, s, "2%/rows"), sync, normal)
	}
	r, err := bench.RunWithFloors(t.Context(), options(t, h, p, cells...), "futex")
	check.Must(t, err)
	check.Must(t, r.Validate())
	if len(r.Cells) != 15 {
		t.Fatalf("%d cells, want ten and five controls", len(r.Cells))
	}
	for _, c := range r.Cells {
		check.That(t, c.Proved(), "%s: not proved", c.ID())
		down, up := 1.0, 1.0
		switch {
		case c.Scenario == bench.Sync:
			down, up = 0.02, 0
		case strings.HasPrefix(c.Change.String(), "2%"):
			down, up = 1-math.Pow(0.98, 4), 0.02
		case c.Change.String() == "10%":
			down, up = 1-math.Pow(0.9, 4), 0.1
		case c.Coding != nil:
			t.Errorf("%s: all words change, and a result says how many: %+v", c.ID(), c.Coding)
		}
		if c.Change != (tensor.Change{}) && (math.Abs(c.Coding.DensityDown-down) > 0.002 || math.Abs(c.Coding.DensityUp-up) > 0.0005) {
			t.Errorf("%s: %.4f of the model and %.4f of updates differ, want %.4f and %.4f", c.ID(), c.Coding.DensityDown, c.Coding.DensityUp, down, up)
		}
		bounded := 0
		for _, f := range r.Floors {
			if f.Model != "" && f.Of(&c) {
				bounded++
			}
		}
		check.That(t, bounded == 2, "%s: %d floors of its work, want futex and work", c.ID(), bounded)
	}
	for _, end := range []string{"clients=4", "clients=4 change=2%", "clients=4 change=2%/rows", "clients=4 change=2% scenario=sync", "clients=4 change=10% values=normal"} {
		if !slices.ContainsFunc(r.Cells, func(c bench.Cell) bool { return c.Variant == "pickle" && strings.HasSuffix(c.ID(), end) }) {
			t.Errorf("no cell of pickle ends in %q", end)
		}
	}
}

// TestCodecsAreProved: what a codec loses, each way, is part of the reference: cells are
// proved bit for bit, and the errors stand in the result, within what the codec promises
// (guards 3, 23; O17). A codec that loses nothing has the reference of none. So it is
// where another build runs the blocks, and where every round has its own workers.
func TestCodecsAreProved(t *testing.T) {
	skip.Long(t)
	h := host()
	codecs := []string{"none", "sparse", "bf16", "int8", "topk=1%", "kc=8", "stc=1%", "skc", "bf16+sparse"}
	lossy := func(c bench.Cell) bool {
		return c.Variant != "inproc" && c.Variant != "pickle" && !strings.HasSuffix(c.Variant, "=sparse")
	}
	for _, scenario := range []string{"", bench.Sync} {
		for _, how := range []string{"", "against", "respawn"} {
			if how != "" && scenario != "" {
				continue
			}
			p := quick(t)
			p.Rounds, p.Blocks = 5, 1
			var cells []bench.Spec
			s := changing(t, spec(t, h, "pickle", "cnn", 2, 3), "2%")
			s.Values, s.Scenario, s.Respawn = bench.Normal, scenario, how == "respawn"
			some := codecs
			if how != "" {
				some = []string{"none", "int8", "topk=1%"} // from no version before, and from one
			}
			for _, c := range some {
				s.Variant = spec(t, h, "pickle:codec="+c, "cnn", 1, 1).Variant
				cells = append(cells, s)
			}
			o := options(t, h, p, cells...)
			if how == "against" {
				o.Against = []string{self(t)}
			}
			r, err := bench.RunWithFloors(t.Context(), o)
			check.Must(t, err)
			check.Must(t, r.Validate())
			works := 0
			for _, f := range r.Floors {
				if f.Name == "work" {
					works++
				}
			}
			check.That(t, works == 1, "%d floors of work, want one: what codecs take is no part of it", works)
			for _, c := range r.Cells {
				check.That(t, c.Proved(), "%s: not proved", c.ID())
				k := c.Coding
				if (k.ErrorDown != nil) != lossy(c) || (k.ErrorUp != nil) != lossy(c) {
					t.Errorf("%s: errors %+v and %+v", c.ID(), k.ErrorDown, k.ErrorUp)
				}
				if k.ErrorDown == nil {
					continue
				}
				promises := strings.Contains(c.Variant, "bf16") || strings.Contains(c.Variant, "int8")
				if promises != (k.Bound > 0) || promises && (k.ErrorDown.Max > k.Bound || k.ErrorUp.Max > k.Bound || k.ErrorUp.RMS == 0) {
					t.Errorf("%s: errors %+v and %+v, bound %v", c.ID(), *k.ErrorDown, *k.ErrorUp, k.Bound)
				}
			}
		}
	}
}

// TestWrongChanges: where few words change, a word that is damaged, stale or kept back
// is found all the same (guards 1, 2, 3).
func TestWrongChanges(t *testing.T) {
	h := host()
	for _, tt := range []struct{ variant, want string }{
		{"damaged-up:round=1", "round 1, client 0: tensor"},
		{"damaged-down:round=1", "round 1, client 0: tensor"},
		{"stale-up:round=1", "round 1, client 0: tensor 0"},
		{"stale-down:round=4", "round 4: the new model's hash"},
		{"stale-up:round=4", "round 4: the new model's hash"},
	} {
		p := quick(t)
		p.Rounds, p.Blocks = 6, 1
		_, err := bench.RunWithFloors(t.Context(), options(t, h, p, changing(t, spec(t, h, tt.variant, "cnn", 1, 2), "2%")))
		check.That(t, err != nil && strings.Contains(err.Error(), tt.want) && strings.Contains(err.Error(), "change=2%"),
			"%s: got error %v, want %q in it", tt.variant, err, tt.want)
	}
}

// TestAgainstWorkload: another build learns what changes and what the values are.
func TestAgainstWorkload(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 3, 1
	s := changing(t, spec(t, h, "pickle", "cnn", 1, 2), "5%/rows")
	s.Values, s.Scenario = bench.Normal, bench.Sync
	o := options(t, h, p, s)
	o.Against = []string{self(t)}
	r, err := bench.RunWithFloors(t.Context(), o)
	check.Must(t, err)
	for _, c := range r.Cells {
		if c.Change.String() != "5%/rows" || c.Values != bench.Normal || c.Scenario != bench.Sync || !c.Proved() {
			t.Errorf("%s, %s: proved %v", c.ID(), c.Build, c.Proved())
		}
		got := c.Blocks[0].Counts()[phase.BodyBytes]
		check.That(t, c.Variant != "pickle" || got != 0, "%s, %s: nothing was moved", c.ID(), c.Build)
	}
}

// TestMoreWorkersThanClients: a codec that sends what is new wants a client for every
// worker, and a cell without is refused by name.
func TestMoreWorkersThanClients(t *testing.T) {
	h := host()
	for text, fits := range map[string]bool{"pickle": true, "pickle:codec=int8": true, "pickle:codec=sparse": false} {
		err := spec(t, h, text, "cnn", 2, 1).Check()
		check.That(t, (err == nil) == fits && (fits || strings.Contains(err.Error(), "choose --workers 1 or --clients 2")),
			"%s: %v", text, err)
	}
}

// TestValuesOf: what a user asks for is what a spec holds, the same for the same.
func TestValuesOf(t *testing.T) {
	cnn, err := models.Parse("cnn")
	check.Must(t, err)
	for name, want := range map[string]string{"": "", "uniform": "", "normal": "normal"} {
		if got, err := bench.ValuesOf(cnn, name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"file": "model cnn comes from no file", "zeros": "want uniform, normal or file"} {
		if _, err := bench.ValuesOf(cnn, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
