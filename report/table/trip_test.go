package table

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// TestTrip: the parts add up to the average of the middle half of the round trips, however
// long the slowest ones take. There is no stack if the parts are longer than the whole.
func TestTrip(t *testing.T) {
	r := benchtest.Pair(1, 1)
	for i := range r.Cells[1].Blocks {
		b := &r.Cells[1].Blocks[i]
		b.RTT[0] += benchtest.MS // between down and up
	}
	b := &r.Cells[1].Blocks[0]
	b.RTT[1], b.Down[1] = b.RTT[1]*1000, b.Down[1]*1000
	trip, ok := TripOf(metrics.New(r).Cells[1])
	var lengths []int64
	for _, b := range r.Cells[1].Blocks {
		lengths = append(lengths, b.RTT...)
	}
	slices.Sort(lengths)
	whole := 0.0
	for _, ns := range lengths[3:9] {
		whole += float64(ns) / 6e9
	}
	check.That(t, ok && check.Nearly(trip[0]+trip[1]+trip[2]+trip[3], whole, 1e-12) && trip[2] == 0.01 && trip[1] > 0, "got %+v, %v: want %v", trip, ok, whole)
	tooLong := benchtest.Pair(1, 1)
	for i := range tooLong.Cells[1].Blocks {
		tooLong.Cells[1].Blocks[i].Down[0] *= 9
	}
	for _, r := range []*result.Result{
		tooLong,
		benchtest.Result(r.Cells[0], benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1)),
	} {
		trip, ok := TripOf(metrics.New(r).Cells[1])
		check.That(t, !ok, "got %+v", trip)
	}
}

func TestDistribution(t *testing.T) {
	c := metrics.New(benchtest.Result(benchtest.Rounds(func(block, round int) float64 { return float64(120 - block - 6*round) }))).Cells[0]
	all := distribution(c, 7)
	check.That(t, len(all) == 7 && all[0].At == 0.001 && all[0].Value.Center == 1.0/120 && all[6].At == 0.12 && all[6].Value.Center == 1, "got %v", all)
	check.That(t, slices.IsSortedFunc(all, func(a, b doc.Point) int { return cmp.Compare(a.At, b.At) }), "not in order: %v", all)
	check.Equal(t, len(distribution(c, 1000)), 120, "steps of 120 rounds")
}

// TestCourse: blocks are in order of time, and the fastest and the slowest round of each
// are kept.
func TestCourse(t *testing.T) {
	r := benchtest.Result(benchtest.Rounds(func(block, round int) float64 {
		if of := map[int]float64{7: 1, 11: 99}[round]; of > 0 {
			return of
		}
		return float64(10 + block)
	}))
	blocks := r.Cells[0].Blocks
	for i := range blocks {
		blocks[i].At = time.Duration(len(blocks)-1-i) * time.Second
	}
	all, turns := course(metrics.New(r).Cells[0], 5, true), course(metrics.New(r).Cells[0], 5, false)
	check.Equal(t, len(all), 6, "blocks")
	for i, s := range all {
		check.That(t, s.At == float64(i) && s.Value.Center == float64(15-i)/1e3 && turns[i].At == float64(i+1), "turn %d: %+v", i, s)
		check.That(t, len(s.Samples) <= 5 && slices.Min(s.Samples) == 0.001 && slices.Max(s.Samples) == 0.099, "turn %d has the rounds %v", i, s.Samples)
	}
}
