package metrics

import (
	"math"

	"ipcbench/bench/stat"
)

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
	By  string // round, which ranks cells with one control in the order of their overhead; or transfer
	Off *Cell  // with transfer: the cell whose training time differs most from its control's
}

// YardstickOf returns the metric to rank cells by: round, or transfer if the training time of
// some cell differs from its control's (see [Cell.TrainsLike]). Rounds would then compare hosts
// or languages instead of transports. Unproved peers are ignored.
func YardstickOf(cells []*Cell) Yardstick {
	y, furthest := Yardstick{By: "round"}, 0.0
	for _, c := range cells {
		if factor, ok := c.TrainsLike(); !ok && c.Unproved == "" && factor > furthest {
			y, furthest = Yardstick{"transfer", c}, factor
		}
	}
	return y
}
