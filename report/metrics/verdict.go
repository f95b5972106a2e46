package metrics

import (
	"cmp"
	"math"
	"slices"

	"ipcbench/bench/stat"
)

// A Verdict ranks the transports of a group, to show which one to use.
type Verdict struct {
	Yardstick
	Group   Group
	Ranked  []*Cell // the cells without the control, fastest first; never empty
	Tied    []*Cell // the other cells that may be as fast as the first
	Unshown bool    // intervals show that some others are slower, but there are too few blocks to show it
}

// A Cost is the extra time of a cell over the fastest one, in seconds: by the metric of the
// ranking (More), per round, and CPU time per round. Values are negative if the cell needs less.
type Cost struct {
	Cell             *Cell
	More, Round, CPU stat.Interval
}

// Decide ranks the cells of a group by the median of their [YardstickOf]. Cells that the
// Mann-Whitney test (Holm-corrected) cannot distinguish from the fastest are tied with it. If
// there are too few blocks for that test to succeed, intervals decide and the verdict is
// Unshown. Choosing the fastest by the same samples is not corrected for, so among many equal
// transports one may occasionally seem slower. Controls and unproved peers are not ranked. ok
// is false if no cell is left.
func Decide(cells []*Cell) (v Verdict, ok bool) { return DecideBy(cells, YardstickOf(cells)) }

// DecideBy is [Decide] with a given yardstick.
func DecideBy(cells []*Cell, by Yardstick) (Verdict, bool) {
	v := Verdict{Yardstick: by, Group: cells[0].Group()}
	for _, c := range cells {
		if c.Ranked() && c.Of(v.By).Known() {
			v.Ranked = append(v.Ranked, c)
		}
	}
	if len(v.Ranked) == 0 {
		return v, false
	}
	slices.SortStableFunc(v.Ranked, func(a, b *Cell) int { return cmp.Compare(a.Of(v.By).Center, b.Of(v.By).Center) })
	best, others := v.Ranked[0], v.Ranked[1:]
	ps := make([]float64, len(others))
	for i, c := range others {
		ps[i] = stat.Test(best.Medians(v.By), c.Medians(v.By))
	}
	const alpha = 1 - stat.Confidence
	for i, p := range stat.Holm(ps) {
		more := others[i].More(v.By, best)
		tooFew := more.Blocks < stat.Needed(alpha/float64(len(others)))
		switch {
		case p <= alpha:
		case tooFew && more.Excludes(0) && more.Low > 0:
			v.Unshown = true
		default:
			v.Tied = append(v.Tied, others[i])
		}
	}
	return v, true
}

// Among returns the verdict on only the ranked cells whose workers are in a language, without
// peers. The result is false if there are fewer than two, or the fastest of all is one of them.
func (v Verdict) Among(language string) (Verdict, bool) {
	cells := slices.DeleteFunc(slices.Clone(v.Ranked), func(c *Cell) bool { return c.Language != language || c.IsPeer() })
	if len(cells) < 2 || cells[0] == v.Best() {
		return Verdict{}, false
	}
	return DecideBy(cells, v.Yardstick)
}

// Verdicts returns a verdict for each group that has a ranked cell, in the order of the result.
func (r *Result) Verdicts() []Verdict {
	var all []Verdict
	for _, cells := range r.Groups() {
		if v, ok := Decide(cells); ok {
			all = append(all, v)
		}
	}
	return all
}

// Best returns the fastest cell. Others may be tied with it.
func (v Verdict) Best() *Cell { return v.Ranked[0] }

// Fastest returns the best cell and the cells that are tied with it.
func (v Verdict) Fastest() []*Cell { return append([]*Cell{v.Best()}, v.Tied...) }

// Worst returns the slowest cell.
func (v Verdict) Worst() *Cell { return v.Ranked[len(v.Ranked)-1] }

// TooClose reports whether others may be as fast as the fastest.
func (v Verdict) TooClose() bool { return len(v.Tied) > 0 }

// near is the largest relative difference of two medians at which either transport will do.
const near = 0.1

// Unclear reports whether a cell is tied with the fastest although its median is more than a
// tenth larger, or although it has too few blocks for an interval.
func (v Verdict) Unclear() bool {
	return slices.ContainsFunc(v.Tied, func(c *Cell) bool {
		return c.Of(v.By).Confidence == 0 || c.Of(v.By).Center > (1+near)*v.Best().Of(v.By).Center
	})
}

// Shown reports whether the fastest is shown to be faster than all others, and there is at
// least one other.
func (v Verdict) Shown() bool { return len(v.Ranked) > 1 && !v.TooClose() && !v.Unshown }

// Cost returns the cost of choosing c instead of the fastest.
func (v Verdict) Cost(c *Cell) Cost {
	if none := Exactly(0, len(c.timed), len(c.timed)); c == v.Best() {
		return Cost{c, none, none, none}
	}
	more := func(metric string) stat.Interval { return c.More(metric, v.Best()) }
	return Cost{c, more(v.By), more("round"), more("cpu_per_round")}
}

// agents is the launcher of cells whose worker processes were started by agents.
const agents = "agents"

// Remote reports whether agents started the cell's workers, on their hosts.
func (c *Cell) Remote() bool { return c.Launcher == agents }

// likeTraining is the largest relative difference of training times at which rounds can be
// compared.
const likeTraining = 0.1

// Elsewhere reports whether the cell trains in other conditions than its control: on other
// hosts, in another language, with a user's worker function or in a peer.
func (c *Cell) Elsewhere() bool {
	return c.Remote() || c.Language != "" || c.Train != "" || c.IsPeer()
}

// TrainsLike returns the ratio of the training times of the cell and its control, or its
// inverse if that is larger, and whether their rounds can be compared. Training elsewhere may
// need another time, which is not a cost of the transport; see [Cell.Elsewhere]. The factor is
// +Inf if the control's time is not known.
func (c *Cell) TrainsLike() (factor float64, ok bool) {
	own, control := c.Training()
	switch {
	case !c.Elsewhere() || !own.Known():
		return 1, true
	case !control.Known():
		return math.Inf(1), false
	}
	ratio := own.Center / control.Center
	return max(ratio, 1/ratio), math.Abs(ratio-1) <= likeTraining
}

// Training returns the training time of the cell and of its control. The latter is not Known
// if there is no control.
func (c *Cell) Training() (own, control stat.Interval) {
	control = stat.None()
	if c.Control != nil {
		control = c.Control.Of("train")
	}
	return c.Of("train"), control
}

// A Yardstick is the metric used to rank and plot transports that did the same work.
type Yardstick struct {
	By string // round, which ranks cells with one control in the order of their overhead; or transfer

	// With transfer: the cell whose training time differs most from its control's, and
	// both times. Control is not Known if there is no control.
	Off          *Cell
	Own, Control stat.Interval
}

// YardstickOf returns the metric to rank cells by: round, or transfer if the training time of
// some cell differs from its control's (see [Cell.TrainsLike]). Rounds would then compare hosts
// or languages instead of transports. Unproved peers are ignored.
func YardstickOf(cells []*Cell) Yardstick {
	y, furthest := Yardstick{By: "round"}, 0.0
	for _, c := range cells {
		if factor, ok := c.TrainsLike(); !ok && c.Unproved == "" && factor > furthest {
			y.By, y.Off, furthest = "transfer", c, factor
			y.Own, y.Control = c.Training()
		}
	}
	return y
}
