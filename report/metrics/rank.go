package metrics

import (
	"math"

	"ipcbench/bench/stat"
)

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
