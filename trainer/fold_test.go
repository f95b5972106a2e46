package trainer_test

import (
	"context"
	"math"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// TestReferenceChanges: the density of a round is the share of the model that clients or
// the server change (guard 23).
func TestReferenceChanges(t *testing.T) {
	l, answer := layoutOf(t, 1<<18), layoutOf(t, 100)
	change := check.Value(tensor.ParseChange("2%"))(t)
	for _, tt := range []struct {
		up   *tensor.Layout
		sync bool
		down float64
	}{{l, false, 1 - 0.98*0.98*0.98}, {l, true, 0.02}, {answer, true, 0.02}, {answer, false, 0.02}} {
		r := trainer.NewReference(l, tt.up, 3)
		r.Fold.Change, r.Fold.Sync = change, tt.sync
		tensor.FillNormal(r.Model, 3)
		var down, up []float64
		r.See = func(of bool, base, sent, arrived *tensor.Package) {
			check.That(t, sent == arrived, "something is lost, and there is no codec")
			if base == nil {
				return
			}
			list := &down
			if of {
				list = &up
			}
			*list = append(*list, float64(tensor.Differing(sent, base))/float64(sent.Elements()))
		}
		for range 3 {
			check.Must(t, r.Round(t.Context(), trainer.Roster(3)))
		}
		check.Need(t, len(down) == 2 && len(up) > 0 == (tt.up == l), "%d models and %d updates had a base", len(down), len(up))
		for _, got := range down {
			check.That(t, math.Abs(got-tt.down) <= 0.002,
				"updates like the model %v, sync %v: %.4f of the model differ, want %.4f", tt.up == l, tt.sync, got, tt.down)
		}
		for _, got := range up {
			check.That(t, math.Abs(got-0.02) <= 0.0001, "%.4f of an update differ from the model, want 2 %%", got)
		}
	}
}

// TestReference: if updates have the model's layout, the next model is their average.
// Otherwise tensor.Advance derives it from the model and the average. A round ends with its
// context.
func TestReference(t *testing.T) {
	up := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.BF16, Shape: []int{7}}}))(t)
	down := layoutOf(t, 101)
	roster := trainer.Roster(5)
	for _, l := range []*tensor.Layout{down, up} {
		r := trainer.NewReference(down, l, 3)
		tensor.Fill(r.Model, 3)
		for round := range 3 {
			before, average, update := tensor.Alloc(down), tensor.Alloc(l), tensor.Alloc(l)
			before.CopyFrom(r.Model)
			a, total := tensor.NewAverage(l), 0.0
			for _, c := range roster {
				total += c.Weight
			}
			check.Must(t, a.Begin(average, total))
			for _, c := range roster {
				check.Must(t, tensor.Train(update, before, tensor.Key{Seed: 3, Round: round, Client: c.ID}))
				check.Must(t, a.Fold(update, c.Weight))
			}
			check.Must(t, a.Finish())
			want := average
			if l != down {
				want = tensor.Alloc(down)
				check.Must(t, tensor.Advance(want, before, average, tensor.Change{}))
			}
			check.Must(t, r.Round(t.Context(), roster))
			check.That(t, r.Model.Hash() == want.Hash() && want.Hash() != before.Hash(), "round %d of updates of %v: another model", round, l.Spec(0))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Equal(t, r.Round(ctx, roster), context.Canceled, "a round after the end: error")
	}
}
