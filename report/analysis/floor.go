package analysis

import (
	"slices"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// The floors that cells are compared with, by name.
const (
	FloorCopy   = "copy"        // B/s
	FloorStream = "unix-stream" // B/s
	FloorFutex  = "futex"       // s, an exchange
	FloorCall   = "rpc-empty"   // s, a call on a cell's own connection
	FloorWork   = "work"        // s, a round
)

// floor returns the floor of that name that belongs to c, or nil.
func (c *Cell) floor(name string) *bench.Floor {
	for i := range c.result.Floors {
		f := &c.result.Floors[i]
		if f.Name == name && (f.Model == "" || f.Model == c.Model.Name && f.Up == c.Model.Up) && (f.Clients == 0 || f.Clients == c.Clients) &&
			(f.Transport == "" || f.Transport == c.Variant) {
			return f
		}
	}
	return nil
}

// MovesBytes reports whether tensors' bytes were moved, rather than handed over.
func (c *Cell) MovesBytes() bool { return c.counts(phase.BodyTensors) }

// HandsOver reports whether tensors travelled as handles.
func (c *Cell) HandsOver() bool { return c.counts(phase.HandleTensors) }

func (c *Cell) counts(name string) bool {
	return slices.ContainsFunc(c.timed, func(b bench.Block) bool { return b.Counts()[name] > 0 })
}

// Bound returns the name of the floor that limits c, and how far c is from it, by
// the medians of the blocks of both:
//
//   - control: its round ÷ the same work called directly
//   - a transport that moves bytes: the payload ÷ one client's transfer, ÷ a
//     socket's bandwidth
//   - one that hands tensors over: its transfer ÷ two empty calls (a job and a
//     result), or ÷ one exchange of wake-ups (being woken and waking)
//
// Where clients overlap, it is no strict limit: a part of a transfer may hide
// behind another client's work. The name is empty and the interval not Known where
// nothing bounds c.
func (c *Cell) Bound() (string, stat.Interval) {
	name, metric := FloorStream, "transfer"
	limit := func(x float64) float64 { return x }
	switch {
	case c.Control == c && c.Workers == 1: // several workers share the work
		name, metric = FloorWork, "round"
	case c.Control == c || c.Respawn:
		return "", stat.None()
	case c.HandsOver():
		name = FloorFutex
		if f := c.floor(FloorCall); f != nil {
			name, limit = FloorCall, func(s float64) float64 { return 2 * s }
		}
	case c.MovesBytes():
		limit = func(bandwidth float64) float64 { return float64(c.Model.Payload()) / bandwidth }
	default:
		return "", stat.None()
	}
	f := c.floor(name)
	if f == nil {
		return "", stat.None()
	}
	limits := stat.Medians(f.Blocks)
	for i := range limits {
		limits[i] = limit(limits[i])
	}
	ratio := stat.Ratio(limits, c.Medians(metric))
	if name == FloorStream { // a share of the bandwidth, not a multiple of the time
		ratio = stat.Ratio(c.Medians(metric), limits)
	}
	if !ratio.Known() {
		return "", ratio
	}
	return name, ratio
}
