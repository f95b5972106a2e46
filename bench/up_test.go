package bench_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

// TestWrongUpdates: where updates are unlike the model, the same is found, and what
// a transport keeps back of an update, or sends twice, too (guards 1, 2, 3).
func TestWrongUpdates(t *testing.T) {
	h := host()
	for _, tt := range []struct{ variant, want string }{
		{"damaged-up", "round 0: the new model's hash"},
		{"damaged-up-least:round=1", "round 1, client 0: tensor 5"}, // proved
		{"damaged-up:round=4", "round 4: the new model's hash"},
		{"damaged-down", "round 0: the new model's hash"},
		{"damaged-down:round=1", "round 1, client 0: tensor 0"}, // every tensor of the update is wrong then
		{"stale-down:round=4", "round 4: the new model's hash"},
		{"stale-up:round=1", "round 1, client 0: tensor 0"},
		{"stale-up:round=4", "round 4: the new model's hash"},
		{"short-up", "round 0: the new model's hash"},
		{"short-up:round=1", "round 1, client 0: tensor 5"},
	} {
		t.Run(tt.variant, func(t *testing.T) {
			p := quick(t)
			p.Rounds, p.Blocks = 6, 1
			s := unlike(t, spec(t, h, tt.variant, "cnn", 1, 2), "lora:1")
			_, err := bench.RunWithFloors(t.Context(), options(t, h, p, s))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.variant+" cnn up=lora:1") {
				t.Errorf("got error %v, want one of %s that holds %q", err, tt.variant, tt.want)
			}
		})
	}
}

// unlike returns the cell with other updates.
func unlike(t testing.TB, s bench.Spec, text string) bench.Spec {
	t.Helper()
	up, err := models.Update(text, s.Model)
	check.Must(t, err)
	s.Up = up
	return s
}

// TestUnlike: cells of one model and different updates are measured apart, each with
// its control, its reference and its floors; the payload is what goes down and
// what comes up (guard 5); a run with what is like the model says nothing of that.
func TestUnlike(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 4, 1
	s := spec(t, h, "pickle", "cnn", 2, 3)
	lora := unlike(t, s, "lora")
	control, err := transports.NewVariant(h.Transports[0], nil)
	check.Must(t, err)
	o := bench.Options{Cells: []bench.Spec{unlike(t, s, "model"), lora, unlike(t, s, "uniform:64KiB/1")}, Plan: p, Control: control, Host: h}
	plan, err := bench.Describe(t.Context(), o)
	check.Must(t, err)
	r, err := bench.Run(t.Context(), o)
	check.Must(t, err)
	check.Must(t, r.Validate())
	bytes := map[string]int64{"": 2 * 248_024, "lora": 248_024 + 26_176, "uniform:64KiB/1": 248_024 + 64<<10}
	if len(r.Cells) != 6 || len(plan.Cells) != 6 {
		t.Fatalf("%d cells, %d planned, want three and their controls", len(r.Cells), len(plan.Cells))
	}
	for i, c := range r.Cells {
		if c.Payload() != 3*bytes[c.Model.Up] || !c.Proved() {
			t.Errorf("%s: payload of %d bytes, want %d; proved %v", c.ID(), c.Payload(), 3*bytes[c.Model.Up], c.Proved())
		}
		if (c.Model.Up != "") != strings.Contains(c.ID(), "cnn up="+c.Model.Up+" workers=2") || c.ID() != plan.Cells[i].Name {
			t.Errorf("a cell of updates %q is %s, planned as %s", c.Model.Up, c.ID(), plan.Cells[i].Name)
		}
		for _, b := range c.Blocks {
			if body := b.Counts()[phase.BodyBytes]; c.Variant == "pickle" && body != c.Payload()*int64(len(b.Round)) {
				t.Errorf("%s: %d bytes of tensors were moved in %d rounds of %d", c.ID(), body, len(b.Round), c.Payload())
			}
		}
	}
	like, less := plan.Cells[1].Memory, plan.Cells[3].Memory
	check.That(t, less < like, "a cell of small updates is said to take %d bytes, one of large ones %d", less, like)
	floors := map[string]int{}
	for _, f := range r.Floors {
		if f.Model != "" {
			floors[f.Name+" "+f.Model+" "+f.Up]++
		}
	}
	for up := range bytes {
		check.That(t, floors["work cnn "+up] == 1 && floors["futex cnn "+up] == 1 && len(floors) == 6,
			"floors of %q: %v", up, floors)
	}
	for _, up := range []bool{false, true} {
		of := *r
		of.Skipped = []bench.Skipped{(&bench.Unfit{Spec: s, Err: context.Canceled}).Skipped()}
		of.Cells, of.Floors = r.Cells[:2], nil
		if up {
			of.Skipped, of.Cells = nil, r.Cells[2:4]
		}
		text, err := json.Marshal(of)
		check.Must(t, err)
		for _, key := range []string{`"up":"lora"`, `"up_tensors":6`, `"up_bytes":26176`} {
			name, _, _ := strings.Cut(key, ":")
			check.That(t, strings.Contains(string(text), key) == up && strings.Contains(string(text), name+":") == up,
				"updates unlike the model %v: the key %s is in it: %v", up, key, !up)
		}
	}
}

// TestAgainstUnlike: another build learns what updates are like, and makes the same
// models of them.
func TestAgainstUnlike(t *testing.T) {
	h := host()
	p := quick(t)
	p.Rounds, p.Blocks = 3, 1
	o := options(t, h, p, unlike(t, spec(t, h, "pickle", "cnn", 1, 2), "lora:2"))
	o.Against = []string{self(t)}
	r, err := bench.RunWithFloors(t.Context(), o)
	check.Must(t, err)
	for _, c := range r.Cells {
		if c.Model.Up != "lora:2" || !c.Proved() {
			t.Errorf("%s, %s: proved %v", c.ID(), c.Build, c.Proved())
		}
		for _, b := range c.Blocks {
			if body := b.Counts()[phase.BodyBytes]; c.Variant == "pickle" && body != c.Payload()*int64(len(b.Round)) {
				t.Errorf("%s, %s: %d bytes of tensors were moved in %d rounds of %d", c.ID(), c.Build, body, len(b.Round), c.Payload())
			}
		}
	}
}

// TestEveryTransportUnlike: updates that are much smaller than the model, or much
// larger, are proved over every transport, and no byte of them goes an unknown way
// (guard 15); so they are where every round has its own workers.
func TestEveryTransportUnlike(t *testing.T) {
	skip.Long(t)
	h := trainer.Host{Transports: all.Transports(), Funcs: bench.Funcs()}
	for _, respawn := range []bool{false, true} {
		p := quick(t)
		p.Rounds, p.Blocks = 3, 1
		var cells []bench.Spec
		model := spec(t, h, "pickle", "cnn", 2, 3).Model
		for _, up := range []string{"lora:1", "uniform:1MiB/3"} {
			like, err := models.Update(up, model)
			check.Must(t, err)
			for _, tr := range h.Transports {
				s := spec(t, h, tr.Name(), "cnn", 2, 3)
				s.Model, s.Up, s.Respawn = model, like, respawn
				cells = append(cells, s)
			}
			if respawn {
				break
			}
		}
		r := measure(t, h, p, cells...)
		for _, c := range r.Cells {
			check.That(t, c.Proved(), "%s: not proved", c.ID())
			counts := c.Blocks[0].Counts()
			// In 3 rounds of 3 clients; a file of the model is written once for all of them.
			ways, want := counts[phase.HandleTensors]+counts[phase.BodyTensors], int64(3*10+3*3*c.Model.UpTensors)
			if moved := counts[phase.BodyBytes]; ways < want || moved > c.Payload()*3 {
				t.Errorf("%s: %d tensors, want at least %d; %d bytes of %d", c.ID(), ways, want, moved, c.Payload()*3)
			}
		}
	}
}
