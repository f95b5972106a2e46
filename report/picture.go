package report

import (
	"cmp"
	"slices"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/report/metrics"
)

// A Trip is a client's round trip in parts that add up to it, in seconds.
type Trip struct {
	Down    float64 // until the worker has the model
	Between float64 // from then until it reserves the memory of its update
	Train   float64 // the worker function
	Uplink  float64 // the update's way, with the reserving of its memory
}

// tripOf returns the mean of each part over the middle half of all round trips by
// their length, and whether there are any, all on one clock. Medians would not add up,
// and a mean over all would be that of the outliers.
func tripOf(c *metrics.Cell) (Trip, bool) {
	var trips [][4]int64 // the length, down, train and uplink
	for i := range c.Timed() {
		b := &c.Timed()[i]
		if !b.OneClock() {
			return Trip{}, false
		}
		for k, whole := range b.RTT {
			trips = append(trips, [4]int64{whole, b.Down[k], b.Train[k], b.Up[k] - b.Train[k]})
		}
	}
	slices.SortFunc(trips, func(a, b [4]int64) int { return cmp.Compare(a[0], b[0]) })
	middle := trips[len(trips)/4 : len(trips)-len(trips)/4]
	var sum [4]float64
	for _, t := range middle {
		for k := range sum {
			sum[k] += float64(t[k]) / float64(len(middle)) / float64(time.Second)
		}
	}
	t := Trip{Down: sum[1], Train: sum[2], Uplink: sum[3], Between: sum[0] - sum[1] - sum[2] - sum[3]}
	const rounding = 1e-9 // of floating point, and no more: an edited file may hold parts that are longer than the whole
	possible := min(t.Down, t.Train, t.Uplink) >= 0 && t.Between >= -rounding
	t.Between = max(t.Between, 0)
	return t, len(middle) > 0 && possible
}

// A Share is which part of the rounds took at most Round, in seconds.
type Share struct{ Round, Part float64 }

// distribution returns the empirical distribution of the cell's rounds, the shortest
// first: at most that many of its steps, at even distances, the first and the last
// among them.
func distribution(c *metrics.Cell, most int) []Share {
	rounds := stat.Pool(c.Samples("round"))
	slices.Sort(rounds)
	var all []Share
	for _, i := range spread(len(rounds), most) {
		all = append(all, Share{rounds[i], float64(i+1) / float64(len(rounds))})
	}
	return all
}

// A CourseBlock is a block in the course of a run. Times are seconds.
type CourseBlock struct {
	Index  int
	At     float64 // since the run began
	Median float64
	Rounds []float64 // in order, thinned
}

// course returns the cell's blocks in the order in which they were measured, each with
// at most that many of its rounds: the fastest, the slowest, and of the others some
// at even distances.
func course(c *metrics.Cell, most int) []CourseBlock {
	var all []CourseBlock
	for i, rounds := range c.Samples("round") {
		if len(rounds) == 0 {
			continue
		}
		b := &c.Timed()[i]
		s := CourseBlock{Index: b.Index, At: b.At.Seconds(), Median: stat.Median(rounds)}
		keep := append(spread(len(rounds), max(most-2, 1)), slices.Index(rounds, slices.Min(rounds)), slices.Index(rounds, slices.Max(rounds)))
		slices.Sort(keep)
		for _, k := range slices.Compact(keep) {
			s.Rounds = append(s.Rounds, rounds[k])
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b CourseBlock) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Index, b.Index)) })
	return all
}

// spread returns at most that many of the indices below n, at even distances, the
// first and the last among them.
func spread(n, most int) []int {
	var all []int
	for k := range min(n, most) {
		if n <= most {
			all = append(all, k)
		} else {
			all = append(all, k*(n-1)/max(most-1, 1))
		}
	}
	return all
}
