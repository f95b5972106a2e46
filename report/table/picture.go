package table

import (
	"cmp"
	"slices"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// tripParts are the parts of a client's round trip, which add up to it. They are the time
// until the worker has the model, until it reserves the memory of its update, the worker
// function, and sending the update with reserving its memory.
var tripParts = [4]string{"down", "between", "train", "uplink"}

// TripOf returns the mean of each part in seconds, over the middle half of all round trips by
// their length. Medians would not add up, and outliers would dominate a mean over all trips.
// ok is false if there are no round trips, or their times are from two clocks.
func TripOf(c *metrics.Cell) (mean [len(tripParts)]float64, ok bool) {
	const down, between, train, uplink = 0, 1, 2, 3
	var trips [][len(tripParts)]int64 // with the whole trip at between
	for i := range c.Timed() {
		b := &c.Timed()[i]
		if !b.OneClock() {
			return mean, false
		}
		for k, whole := range b.RTT {
			trips = append(trips, [len(tripParts)]int64{b.Down[k], whole, b.Train[k], b.Up[k] - b.Train[k]})
		}
	}
	slices.SortFunc(trips, func(a, b [len(tripParts)]int64) int { return cmp.Compare(a[between], b[between]) })
	middle := trips[len(trips)/4 : len(trips)-len(trips)/4]
	for _, t := range middle {
		for k, ns := range t {
			mean[k] += float64(ns) / float64(len(middle)) / float64(time.Second)
		}
	}
	mean[between] = mean[between] - mean[down] - mean[train] - mean[uplink]
	const rounding = 1e-9 // of floating point only: in an edited file, parts may be longer than the whole
	possible := min(mean[down], mean[train], mean[uplink]) >= 0 && mean[between] >= -rounding
	mean[between] = max(mean[between], 0)
	return mean, len(middle) > 0 && possible
}

// distribution returns the empirical distribution of the cell's rounds: the share of rounds
// that took at most a time, for ascending times. It has at most most steps, at even distances,
// with the first and the last.
func distribution(c *metrics.Cell, most int) []doc.Point {
	rounds := stat.Pool(c.Samples("round"))
	slices.Sort(rounds)
	return doc.Each(spread(len(rounds), most), func(i int) doc.Point {
		return doc.Point{At: rounds[i], Value: stat.Interval{Center: float64(i+1) / float64(len(rounds))}}
	})
}

// course returns the medians of the cell's blocks in the order of measurement. If timed, they
// are at seconds since the run began, else at the numbers of blocks. Each has at most most of
// its rounds: the fastest, the slowest, and others at even distances.
func course(c *metrics.Cell, most int, timed bool) []doc.Point {
	var all []doc.Point
	for i, rounds := range c.Samples("round") {
		if len(rounds) == 0 {
			continue
		}
		b := &c.Timed()[i]
		p := doc.Point{At: float64(b.Index + 1), Value: stat.Interval{Center: stat.Median(rounds)}}
		if timed {
			p.At = b.At.Seconds()
		}
		keep := append(spread(len(rounds), max(most-2, 1)), slices.Index(rounds, slices.Min(rounds)), slices.Index(rounds, slices.Max(rounds)))
		slices.Sort(keep)
		for _, k := range slices.Compact(keep) {
			p.Samples = append(p.Samples, rounds[k])
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b doc.Point) int { return cmp.Compare(a.At, b.At) })
	return all
}

// spread returns at most most indices below n, at even distances, with the first and the last.
func spread(n, most int) []int {
	var all []int
	most = min(n, most)
	for k := range most {
		all = append(all, k*(n-1)/max(most-1, 1))
	}
	return all
}
