package contrast

import (
	"cmp"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/report/metrics"
)

// A Verdict ranks the transports of a group, to show which one to use.
type Verdict struct {
	metrics.Yardstick
	Group   metrics.Group
	Ranked  []*metrics.Cell // the cells without the control, fastest first; never empty
	Against []Judged        // the others of Ranked, each against the first: the family of the ranking
	Tied    []Judged        // some of Against: they may be as fast as the first
	Slower  []Judged        // the other ones
	Unshown bool            // intervals show that some of Slower are slower, but blocks are too few, or something forbids it
}

// Decide ranks the cells of a group by the median of their [metrics.YardstickOf]. Cells that are not
// shown to be slower than the fastest are tied with it. If there are too few blocks to show
// anything, intervals decide and the verdict is Unshown. Choosing the fastest by the same samples
// is not corrected for, so among many equal transports one may occasionally seem slower. Controls
// and unproved peers are not ranked. ok is false if no cell is left.
func Decide(cells []*metrics.Cell) (v Verdict, ok bool) {
	return DecideBy(cells, metrics.YardstickOf(cells))
}

// DecideBy is [Decide] with a given yardstick.
func DecideBy(cells []*metrics.Cell, by metrics.Yardstick) (Verdict, bool) {
	v := Verdict{Yardstick: by, Group: cells[0].Group()}
	for _, c := range cells {
		if c.Ranked() && c.Of(v.By).Known() {
			v.Ranked = append(v.Ranked, c)
		}
	}
	if len(v.Ranked) == 0 {
		return v, false
	}
	slices.SortStableFunc(v.Ranked, func(a, b *metrics.Cell) int {
		return cmp.Compare(a.Of(v.By).Center, b.Of(v.By).Center)
	})
	var family []Contrast
	for _, c := range v.Ranked[1:] {
		family = append(family, New(v.By, c, v.Best()))
	}
	v.Against = Judge("of the ranking", Alpha, family)
	for _, j := range v.Against {
		if excluded := j.Excludes() && (j.Blind() || j.Forbids != nil); j.Shown || excluded {
			v.Slower, v.Unshown = append(v.Slower, j), v.Unshown || !j.Shown
		} else {
			v.Tied = append(v.Tied, j)
		}
	}
	return v, true
}

// Among returns the verdict on only the ranked cells whose workers are in a language, without
// peers. The result is false if there are fewer than two, or the fastest of all is one of them.
func (v Verdict) Among(language string) (Verdict, bool) {
	cells := slices.DeleteFunc(slices.Clone(v.Ranked), func(c *metrics.Cell) bool {
		return c.Language != language || c.IsPeer()
	})
	if len(cells) < 2 || cells[0] == v.Best() {
		return Verdict{}, false
	}
	return DecideBy(cells, v.Yardstick)
}

// Verdicts returns a verdict for each group of the result that has a ranked cell, in its order.
func Verdicts(r *metrics.Result) []Verdict {
	return metrics.Keep(r, "verdicts", func() (all []Verdict) {
		for _, cells := range r.Groups() {
			if v, ok := Decide(cells); ok {
				all = append(all, v)
			}
		}
		return all
	})
}

// Best returns the fastest cell. Others may be tied with it.
func (v Verdict) Best() *metrics.Cell { return v.Ranked[0] }

// Fastest returns the best cell and the cells that are tied with it.
func (v Verdict) Fastest() []*metrics.Cell {
	all := []*metrics.Cell{v.Best()}
	for _, j := range v.Tied {
		all = append(all, j.Cell)
	}
	return all
}

// Worst returns the slowest cell.
func (v Verdict) Worst() *metrics.Cell { return v.Ranked[len(v.Ranked)-1] }

// TooClose reports whether others may be as fast as the fastest.
func (v Verdict) TooClose() bool { return len(v.Tied) > 0 }

// near is the largest relative difference of two medians at which either transport will do.
const near = 0.1

// Unclear reports whether a cell is tied with the fastest although its median is more than a
// tenth larger, or although it has too few blocks for an interval.
func (v Verdict) Unclear() bool {
	return slices.ContainsFunc(v.Tied, func(j Judged) bool {
		median := j.Cell.Of(v.By)
		return median.Confidence == 0 || median.Center > (1+near)*v.Best().Of(v.By).Center
	})
}

// Shown reports whether the fastest is shown to be faster than all others, and there is at
// least one other.
func (v Verdict) Shown() bool { return len(v.Ranked) > 1 && !v.TooClose() && !v.Unshown }

// Rest returns the range of the times of all tied cells as multiples of the fastest one's.
func (v Verdict) Rest() stat.Interval {
	rest := stat.None()
	for _, j := range v.Tied {
		if i := j.Ratio; i.Confidence > 0 {
			if !rest.Known() {
				rest = i
			}
			rest.Low, rest.High, rest.Confidence = min(rest.Low, i.Low), max(rest.High, i.High), min(rest.Confidence, i.Confidence)
		}
	}
	return rest
}

// More returns how much more of a metric c takes than the fastest; it is negative if c takes less.
func (v Verdict) More(metric string, c *metrics.Cell) stat.Interval {
	if n := len(c.Timed()); c == v.Best() {
		return metrics.Exactly(0, n, n)
	}
	return stat.Shift(v.Best().Medians(metric), c.Medians(metric))
}
