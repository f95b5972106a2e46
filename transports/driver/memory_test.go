package driver_test

import (
	"fmt"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// TestBank: a bank lends as many packages at once as it was made with, each with its own
// memory, and lends a released one again.
func TestBank(t *testing.T) {
	var ledger tensor.Ledger
	b := driver.NewBank(driver.Options{Up: layout(t, 9999), Depth: 2, Out: &ledger})
	first := check.Value(b.Lend())(t)
	second := check.Value(b.Lend())(t)
	tensor.Fill(first, 1)
	tensor.Fill(second, 2)
	check.That(t, first.Hash() != second.Hash(), "two packages share their memory")
	check.Fails(t, check.Err(b.Lend()), "all 2 updates of the lane are out", "third loan")
	check.Equal(t, ledger.Out(), 2, "out")
	first.Release()
	again := check.Value(b.Lend())(t)
	check.That(t, again == first, "the released package was not lent again")
}

// TestPair: the two models alternate, and the receipt and serial published with a model do
// not change afterwards.
func TestPair(t *testing.T) {
	pair := driver.NewPair(driver.Options{Down: layout(t, 9999)})
	if got := pair.Published(nil); len(got.Receipt) > 0 || len(got.Rows) > 0 || got.Serial != 0 {
		t.Errorf("beside no model travels %+v", got)
	}
	var before *tensor.Package
	var hash uint64
	for round := range 4 {
		next := check.Value(pair.Reserve())(t)
		check.That(t, next != before && check.Value(pair.Reserve())(t) == next,
			"round %d: the model that was published last is reserved", round)
		tensor.Fill(next, uint64(round))
		next.Receipt = append(next.Receipt[:0], fmt.Sprint("receipt ", round)...)
		pair.Publish()
		copy(next.Receipt, "altered")
		if got := pair.Published(next); string(got.Receipt) != fmt.Sprint("receipt ", round) ||
			got.Serial != uint64(round+1) {
			t.Errorf("round %d: beside the model travels %+v", round, got)
		}
		if before != nil && (before.Hash() != hash || string(pair.Published(before).Receipt) != fmt.Sprint("receipt ",
			round-1)) {
			t.Errorf("round %d: the model before has changed", round)
		}
		before, hash = next, next.Hash()
	}
}

// TestMemory: memory that a driver brings is renewed when that is due, and freed once, when
// nothing uses it.
func TestMemory(t *testing.T) {
	l, count, freed := layout(t, 9999), 0, []int{}
	renew := func(int) (*tensor.Package, int, error) {
		count++
		return tensor.Alloc(l), count, nil
	}
	var ledger tensor.Ledger
	b := check.Value(driver.BankOf(3, &ledger, renew, func(n int) error { freed = append(freed, n); return nil }))(t)
	check.Equal(t, check.Value(b.Reserve())(t), 1, "reserved")
	first := check.Value(b.Lend())(t)
	second := check.Value(b.Lend())(t)
	second.Release()
	check.Must(t, b.Renew()) // only the second, which is free again
	check.Equal(t, check.Value(b.Reserve())(t), 4, "reserved after the second was renewed")
	check.Must(t, b.Close())
	check.Equal(t, fmt.Sprint(freed), "[4 3]", "freed at the end")
	check.Fails(t, check.Err(b.Lend()), "over", "a loan of memory that is freed")
	first.Release()
	check.Equal(t, fmt.Sprint(freed), "[4 3 1]", "freed after the last release")

	count = 0
	pair := driver.PairOf(renew)
	for round := range 4 {
		model := check.Value(pair.Reserve())(t)
		pair.Publish()
		check.Equal(t, pair.Published(model).Memory, round+1, "memory in round", round)
	}
	check.Equal(t, pair.Memories(), [2]int{3, 4}, "memories at the end")
}

func TestNothingAllocated(t *testing.T) {
	var ledger tensor.Ledger
	b := driver.NewBank(driver.Options{Up: layout(t, 9999), Depth: 1, Out: &ledger})
	got := testing.AllocsPerRun(100, func() {
		check.Must(t, check.Err(b.Reserve()))
		p := check.Value(b.Lend())(t)
		p.Release()
	})
	check.Equal(t, got, 0, "allocations a loan")
}

// layout returns a layout of one U8 tensor with n elements.
func layout(t testing.TB, n int) *tensor.Layout {
	t.Helper()
	return check.Value(tensor.NewLayout([]tensor.Spec{{Name: "a", DType: tensor.U8, Shape: []int{n}}}))(t)
}
