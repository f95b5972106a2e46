package metrics

import (
	"cmp"
	"math"
	"slices"

	"ipcbench/bench/stat"
)

// A Verdict is what a group of cells says about which transport to use.
type Verdict struct {
	Yardstick
	Group    Group
	Ranked   []*Cell // without the control, the fastest first; never empty
	Tied     []*Cell // those of the others that may be as fast as the first
	Unproved bool    // some of the others are slower by all that their blocks show, but there are too few blocks to prove it
}

// A Cost is what a cell takes more than the fastest: of what they are ranked by, of a
// round, and CPU time of a round. All are seconds, and below zero where the cell takes
// less.
type Cost struct {
	Cell             *Cell
	More, Round, CPU stat.Interval
}

// Decide ranks the transports of a group by the median of their yardstick, see
// [YardstickOf]. Transports that the Mann-Whitney test (Holm-corrected) cannot
// distinguish from the fastest are tied with it. Picking the fastest by the same samples is not corrected for: of
// many transports that are all alike, one may now and then seem slower. Where so
// few blocks could not pass that test however far they lay apart, their interval
// decides instead, and the verdict counts as unproved. A peer takes part if it has
// proved its rounds. There is none of the control alone.
func Decide(cells []*Cell) (Verdict, bool) { return DecideBy(cells, YardstickOf(cells)) }

// DecideBy does what Decide says by a yardstick.
func DecideBy(cells []*Cell, by Yardstick) (Verdict, bool) {
	v := Verdict{Yardstick: by, Group: cells[0].Group()}
	for _, c := range cells {
		if c.TakesPart() && c.Of(v.By).Known() {
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
		hopeless := more.Blocks < stat.Needed(alpha/float64(len(others)))
		switch {
		case p <= alpha:
		case hopeless && more.Excludes(0) && more.Low > 0:
			v.Unproved = true
		default:
			v.Tied = append(v.Tied, others[i])
		}
	}
	return v, true
}

// Among returns the verdict on those of the ranked cells alone whose workers are in a
// language. There is none of less than two, or where the best of all is one of them.
func (v Verdict) Among(language string) (Verdict, bool) {
	cells := slices.DeleteFunc(slices.Clone(v.Ranked), func(c *Cell) bool { return c.Language != language || c.Peer != "" })
	if len(cells) < 2 || cells[0] == v.Best() {
		return Verdict{}, false
	}
	return DecideBy(cells, v.Yardstick)
}

// Verdicts returns a verdict for each group that has any transport besides the
// control, in the order of the result.
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

// Fastest returns the best cell and those that are tied with it.
func (v Verdict) Fastest() []*Cell { return append([]*Cell{v.Best()}, v.Tied...) }

// Worst returns the slowest cell.
func (v Verdict) Worst() *Cell { return v.Ranked[len(v.Ranked)-1] }

// TooClose reports whether others may be as fast as the fastest.
func (v Verdict) TooClose() bool { return len(v.Tied) > 0 }

// near is by how much the medians of two transports differ at most, as a share,
// if either one will do.
const near = 0.1

// Unclear reports whether the medians of the fastest and of another one, which may be
// as fast, differ by more than a tenth, or nothing is known of how blocks vary.
func (v Verdict) Unclear() bool {
	return slices.ContainsFunc(v.Tied, func(c *Cell) bool {
		return c.Of(v.By).Confidence == 0 || c.Of(v.By).Center > (1+near)*v.Best().Of(v.By).Center
	})
}

// Proved reports whether the fastest is shown to be faster than all others, of
// which there is one at least.
func (v Verdict) Proved() bool { return len(v.Ranked) > 1 && !v.TooClose() && !v.Unproved }

// Cost returns what choosing c costs rather than the fastest.
func (v Verdict) Cost(c *Cell) Cost {
	if none := Exactly(0, len(c.timed), len(c.timed)); c == v.Best() {
		return Cost{c, none, none, none}
	}
	more := func(metric string) stat.Interval { return c.More(metric, v.Best()) }
	return Cost{c, more(v.By), more("round"), more("cpu_per_round")}
}

// agents is the launcher of a cell whose worker processes were started on other hosts.
const agents = "agents"

// Remote reports whether agents started the cell's workers on their hosts.
func (c *Cell) Remote() bool { return c.Launcher == agents }

// likeTraining is the share by which training may differ from the control's.
const likeTraining = 0.1

// Elsewhere reports whether the cell trains by other means than the control: on other
// hosts, in another language, by a user's own function or in a program of its own.
func (c *Cell) Elsewhere() bool {
	return c.Remote() || c.Language != "" || c.Train != "" || c.Peer != ""
}

// TrainsLike returns by which factor the training of the cell differs from the
// control's, above 1 whichever is longer, and whether their rounds can be compared:
// elsewhere training takes another time, which is no cost of the transport.
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

// Training returns that of the cell and that of its control.
func (c *Cell) Training() (own, control stat.Interval) {
	control = stat.None()
	if c.Control != nil {
		control = c.Control.Of("train")
	}
	return c.Of("train"), control
}

// A Yardstick is the metric by which transports are ranked and drawn that did the
// same work.
type Yardstick struct {
	By string // round, which orders cells with one control as overhead does; or transfer

	// Then: the cell whose training is the furthest from its control's, and both. The
	// control's is not Known where there is none.
	Off          *Cell
	Own, Control stat.Interval
}

// YardstickOf returns that of cells. It is transfer where the training of some does not
// agree with the control's: their rounds tell of hosts or languages, and not of transports.
// What a peer says that could not prove its rounds changes nothing for others.
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
