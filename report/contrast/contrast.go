// Package contrast compares two cells. A cell and another one, and a metric, enter; what leaves is
// their ratio and difference with intervals, the p of a test, what forbids to call the difference
// shown, and what a reader must know beside it. Claims, rankings, comparisons, the gate, and all
// views get what they say about two cells here, so that they agree.
//
//   - [New] makes a [Contrast] of two cells.
//   - [Judge] decides which contrasts of a family are shown. The family is named by the place
//     that prints them: a ranking, the rows of a comparison, a question.
//   - [Decide] ranks the cells of a group, which is the family of each against the fastest.
//   - [Effect], [Range] and [Marks] write contrasts in words.
package contrast

import (
	"fmt"
	"math"
	"slices"

	"ipcbench/bench/stat"
	"ipcbench/report/metrics"
)

// A Contrast is a sampled metric of one cell beside the same metric of another one.
type Contrast struct {
	Cell, Against *metrics.Cell
	Metric        metrics.Metric
	Ratio         stat.Interval // Cell ÷ Against; not Known unless all blocks of both are above 0
	More          stat.Interval // Cell − Against, in the metric's unit
	P             float64       // of the Mann-Whitney test over blocks, for this pair alone; if ByCycle, of signed ranks
	ByCycle       bool          // made of differences and ratios in each cycle of a spread run
	Equal         bool          // each side has one value in all of its blocks, as counts have: stated, not tested
	Forbids       []string      // why the difference cannot be shown, whatever the test finds
	Marks         []Mark        // what a reader must know beside the numbers
}

// New compares a metric of c with the same metric of another cell. It panics if the metric is not
// sampled. Both intervals are of Hodges and Lehmann, which belong to the test (package stat).
func New(metric string, c, against *metrics.Cell) Contrast {
	m, _ := metrics.MetricNamed(metric)
	a, b := against.Medians(metric), c.Medians(metric)
	x := Contrast{Cell: c, Against: against, Metric: m, Ratio: stat.Ratio(a, b), More: stat.Shift(a, b), P: math.NaN()}
	if len(a) > 0 && len(b) > 0 {
		x.P = stat.Test(a, b)
		x.Equal = x.Sure() && slices.Min(a) == slices.Max(a) && slices.Min(b) == slices.Max(b)
	}
	x.Forbids, x.Marks = forbids(x), marks(x)
	return x
}

// Known reports whether both cells have the metric.
func (x Contrast) Known() bool { return x.More.Known() }

// Excludes reports whether the interval of the difference, at the confidence that the blocks allow,
// excludes no difference. That of the ratio agrees, but for its center, which is a ratio of medians.
func (x Contrast) Excludes() bool {
	return x.More.Excludes(0) && (!x.Ratio.Known() || x.Ratio.Excludes(1))
}

// Sure reports whether the interval is one of 95 %.
func (x Contrast) Sure() bool { return x.More.Sure() }

// Same reports whether two contrasts are about the same cells, in any order, and the same metric.
func (x Contrast) Same(other Contrast) bool {
	return x.Metric.Name == other.Metric.Name && (x.Cell == other.Cell && x.Against == other.Against ||
		x.Cell == other.Against && x.Against == other.Cell)
}

// notInTurn forbids a contrast of two runs: a drift of the machine would look like a difference.
const notInTurn = "the two were not measured in turn"

// Apart returns the contrast of two runs that were not measured in turn, which a user accepts.
func (x Contrast) Apart() Contrast {
	var others []string
	for _, reason := range x.Forbids {
		if reason != notInTurn {
			others = append(others, reason)
		}
	}
	x.Forbids = others
	return x
}

// forbids returns why the difference of two cells cannot be shown, although a test may find one.
func forbids(x Contrast) (all []string) {
	for _, c := range []*metrics.Cell{x.Cell, x.Against} {
		all = append(all, Unusable(c)...)
	}
	if x.Cell.Pages != x.Against.Pages && (x.Cell.IsPeer() || x.Against.IsPeer()) {
		all = append(all, "a peer has pages as the machine is configured, and the other cell does not")
	}
	if !x.Cell.SameRun(x.Against) {
		all = append(all, notInTurn)
	}
	if !x.Sure() && x.Known() {
		all = append(all, fmt.Sprintf("too few blocks: must be at least %d of each, not %d", stat.Needed(1-stat.Confidence), x.More.Blocks))
	}
	return all
}

// Unusable returns why no number of a cell can be shown to differ from another one.
func Unusable(c *metrics.Cell) (all []string) {
	switch {
	case c.Unproved != "":
		all = append(all, c.Name()+" is not proved: "+c.Unproved)
	case c.Lacks() != "":
		all = append(all, c.Name()+" lacks "+c.Lacks()+", which its project needs")
	case !c.Proved():
		all = append(all, c.Name()+" is not proved")
	}
	if c.Interrupted() {
		all = append(all, c.Name()+" was interrupted")
	}
	if c.Extended() {
		all = append(all, c.Name()+" has more blocks than were planned")
	}
	return all
}
