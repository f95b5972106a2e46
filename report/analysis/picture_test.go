package analysis

import (
	"math"
	"slices"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
)

// TestTrip: the parts add up to the round trips of the middle half, whatever the
// slowest ones took, and no stack is made of parts that are longer than the whole.
func TestTrip(t *testing.T) {
	r := benchtest.Pair(1, 1)
	for i := range r.Cells[1].Blocks {
		b := &r.Cells[1].Blocks[i]
		b.RTT[0] += benchtest.MS // between down and up
	}
	b := &r.Cells[1].Blocks[0]
	b.RTT[1], b.Down[1] = b.RTT[1]*1000, b.Down[1]*1000
	trip, ok := New(r).Cells[1].Trip()
	var lengths []int64
	for _, b := range r.Cells[1].Blocks {
		lengths = append(lengths, b.RTT...)
	}
	slices.Sort(lengths)
	sum := int64(0)
	for _, ns := range lengths[3:9] {
		sum += ns
	}
	if whole := trip.Down + trip.Between + trip.Train + trip.Uplink; !ok || math.Abs(whole-float64(sum)/6e9) > 1e-12 || trip.Train != 0.01 || trip.Between == 0 {
		t.Errorf("got %+v, %v, which is %v: want %v", trip, ok, whole, float64(sum)/6e9)
	}
	for i := range r.Cells[1].Blocks {
		r.Cells[1].Blocks[i].Down[0] *= 9
	}
	if trip, ok := New(r).Cells[1].Trip(); ok {
		t.Errorf("got %+v of parts that are too long", trip)
	}
	if trip, ok := New(benchtest.Result(benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1))).Cells[0].Trip(); ok {
		t.Errorf("got %+v of nothing", trip)
	}
}

func TestDistribution(t *testing.T) {
	c := New(benchtest.Result(benchtest.Rounds(func(block, round int) float64 { return float64(120 - block - 6*round) }))).Cells[0]
	all := c.Distribution(7)
	if len(all) != 7 || all[0] != (Share{0.001, 1.0 / 120}) || all[6] != (Share{0.12, 1}) {
		t.Errorf("got %v", all)
	}
	if n := len(c.Distribution(1000)); n != 120 {
		t.Errorf("got %d steps of 120 rounds", n)
	}
	if !slices.IsSortedFunc(all, func(a, b Share) int { return int(math.Copysign(1, a.Round-b.Round)) }) {
		t.Errorf("not in order: %v", all)
	}
}

// TestCourse: blocks are in the order of time, and the fastest and the slowest round
// of each are kept.
func TestCourse(t *testing.T) {
	r := benchtest.Result(benchtest.Rounds(func(block, round int) float64 {
		switch round {
		case 7:
			return 1
		case 11:
			return 99
		}
		return float64(10 + block)
	}))
	blocks := r.Cells[0].Blocks
	for i := range blocks {
		blocks[i].At = time.Duration(len(blocks)-1-i) * time.Second
	}
	all := New(r).Cells[0].Course(5)
	for i, s := range all {
		if s.At != float64(i) || s.Index != 5-i || s.Median != float64(15-i)/1e3 {
			t.Errorf("turn %d: %+v", i, s)
		}
		if len(s.Rounds) > 5 || slices.Min(s.Rounds) != 0.001 || slices.Max(s.Rounds) != 0.099 {
			t.Errorf("turn %d has the rounds %v", i, s.Rounds)
		}
	}
	if len(all) != 6 {
		t.Errorf("got %d blocks", len(all))
	}
}
