package report

import (
	"cmp"
	"slices"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// tripParts are the parts of a client's round trip, which add up to it: until the worker
// has the model, from then until it reserves the memory of its update, the worker
// function, and the update's way with the reserving of its memory.
var tripParts = [4]string{"down", "between", "train", "uplink"}

// tripOf returns the mean of each part, in seconds, over the middle half of all round
// trips by their length, and whether there are any, all on one clock. Medians would not
// add up, and a mean over all would be that of the outliers.
func tripOf(c *metrics.Cell) (mean [len(tripParts)]float64, ok bool) {
	const down, between, train, uplink = 0, 1, 2, 3
	var trips [][len(tripParts)]int64 // with the whole in the place of between
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
	const rounding = 1e-9 // of floating point, and no more: an edited file may hold parts that are longer than the whole
	possible := min(mean[down], mean[train], mean[uplink]) >= 0 && mean[between] >= -rounding
	mean[between] = max(mean[between], 0)
	return mean, len(middle) > 0 && possible
}

// distribution returns the empirical distribution of the cell's rounds, the shortest
// first: which part of them took at most so long. It has at most that many steps, at even
// distances, the first and the last among them.
func distribution(c *metrics.Cell, most int) []doc.Point {
	rounds := stat.Pool(c.Samples("round"))
	slices.Sort(rounds)
	var all []doc.Point
	for _, i := range spread(len(rounds), most) {
		all = append(all, doc.Point{At: rounds[i], Value: stat.Interval{Center: float64(i+1) / float64(len(rounds))}})
	}
	return all
}

// course returns the medians of the cell's blocks in the order in which they were
// measured, at the seconds since the run began or, if those are not known, at their
// numbers. Each has at most that many of its rounds: the fastest, the slowest, and of the
// others some at even distances.
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

// spread returns at most that many of the indices below n, at even distances, the
// first and the last among them.
func spread(n, most int) []int {
	var all []int
	most = min(n, most)
	for k := range most {
		all = append(all, k*(n-1)/max(most-1, 1))
	}
	return all
}
