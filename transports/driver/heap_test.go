package driver_test

import (
	"strings"
	"testing"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBank: as many packages as it was made with are out at once, each one
// whole, and a released one is lent again.
func TestBank(t *testing.T) {
	var ledger tensor.Ledger
	b := driver.NewBank(layout(t, 9999), 2, &ledger)
	first, err := b.Lend()
	check(t, err)
	second, err := b.Lend()
	check(t, err)
	tensor.Fill(first, 1)
	tensor.Fill(second, 2)
	if first.Hash() == second.Hash() {
		t.Error("two packages share their memory")
	}
	if _, err := b.Lend(); err == nil || !strings.Contains(err.Error(), "all 2 updates of the lane are out") {
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

// TestPair: the published model stays whole while the next one is written.
func TestPair(t *testing.T) {
	pair := driver.NewPair(layout(t, 9999))
	if m, _ := pair.Current(); m != nil {
		t.Error("there is a model before the first publish")
	}
	var before uint64
	for round := range 4 {
		next := pair.Reserve()
		tensor.Fill(next, uint64(round))
		next.Receipt = []byte("receipt")
		if m, receipt := pair.Current(); round > 0 && (m.Hash() != before || string(receipt) != "receipt") {
			t.Errorf("round %d: the published model changed while the next was written", round)
		}
		pair.Publish()
		copy(next.Receipt, "altered")
		if m, _ := pair.Current(); m != next {
			t.Errorf("round %d: another model is published", round)
		}
		before = next.Hash()
	}
}

func TestNothingAllocated(t *testing.T) {
	var ledger tensor.Ledger
	b := driver.NewBank(layout(t, 9999), 1, &ledger)
	got := testing.AllocsPerRun(100, func() {
		p, err := b.Lend()
		check(t, err)
		p.Release()
	})
	if got != 0 {
		t.Errorf("%v allocations a loan, want 0", got)
	}
}
