package trainer_test

import (
	"context"
	"testing"

	"ipcbench/tensor"
	"ipcbench/trainer"
)

// TestReference: the next model is the average of updates of its own layout, and one
// that every bit of the average of others decides; and a round ends with its context.
func TestReference(t *testing.T) {
	layout := func(d tensor.DType, n int) *tensor.Layout {
		l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: d, Shape: []int{n}}})
		check(t, err)
		return l
	}
	down, up := layout(tensor.F32, 101), layout(tensor.BF16, 7)
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
			check(t, a.Begin(average, total))
			for _, c := range roster {
				check(t, tensor.Train(update, before, tensor.Key{Seed: 3, Round: round, Client: c.ID}))
				check(t, a.Fold(update, c.Weight))
			}
			check(t, a.Finish())
			want := average
			if l != down {
				want = tensor.Alloc(down)
				check(t, tensor.Advance(want, before, average))
			}
			check(t, r.Round(t.Context(), roster))
			if r.Model.Hash() != want.Hash() || want.Hash() == before.Hash() {
				t.Errorf("round %d of updates of %v: another model", round, l.Spec(0))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Round(ctx, roster); err != context.Canceled {
			t.Errorf("a round after the end: error %v", err)
		}
	}
}
