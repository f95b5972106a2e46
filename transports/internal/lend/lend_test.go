package lend

import (
	"strings"
	"testing"

	"ipcbench/tensor"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func layout(t *testing.T) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{2000}}, {Name: "e", DType: tensor.U8, Shape: []int{0}}})
	check(t, err)
	return l
}

// TestBank: as many packages as it was made with are out at once, each one
// whole, and a released one is lent again.
func TestBank(t *testing.T) {
	var ledger tensor.Ledger
	b := NewBank("updates", layout(t), 2, &ledger)
	first, err := b.Lend()
	check(t, err)
	second, err := b.Lend()
	check(t, err)
	tensor.Fill(first, 1)
	tensor.Fill(second, 2)
	if first.Hash() == second.Hash() {
		t.Error("two packages share their memory")
	}
	if _, err := b.Lend(); err == nil || !strings.Contains(err.Error(), "all 2 updates are out") {
		t.Errorf("third loan: got error %v", err)
	}
	if ledger.Out() != 2 {
		t.Errorf("%d out, want 2", ledger.Out())
	}
	first.Release()
	again, err := b.Lend()
	check(t, err)
	if again != first {
		t.Error("the released package was not lent again")
	}
}

// TestModel: two models, the published one stays whole while the next is
// written.
func TestModel(t *testing.T) {
	m := NewModel(layout(t))
	if _, err := m.Current(); err == nil {
		t.Error("a model before the first publish: got no error")
	}
	if err := m.Publish(nil); err == nil {
		t.Error("publish of nothing: got no error")
	}
	var before uint64
	for round := range 4 {
		next, err := m.Reserve()
		check(t, err)
		tensor.Fill(next, uint64(round))
		if round > 0 {
			current, err := m.Current()
			check(t, err)
			if got := current.Hash(); got != before {
				t.Errorf("round %d: the published model changed while the next was written", round)
			}
		}
		check(t, m.Publish(next))
		before = next.Hash()
	}
	_, err := m.Reserve()
	check(t, err)
	if _, err := m.Reserve(); err == nil {
		t.Error("a third model: got no error")
	}
}

func TestNothingAllocated(t *testing.T) {
	var ledger tensor.Ledger
	b := NewBank("updates", layout(t), 1, &ledger)
	got := testing.AllocsPerRun(100, func() {
		p, err := b.Lend()
		check(t, err)
		p.Release()
	})
	if got != 0 {
		t.Errorf("%v allocations a loan, want 0", got)
	}
}
