package metrics

import (
	"math"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/phase"
)

// The floors that cells are compared with, by name.
const (
	FloorCopy  = "copy"      // B/s
	FloorFutex = "futex"     // s, an exchange
	FloorCall  = "rpc-empty" // s, a call on a cell's own connection
	FloorWork  = "work"      // s, a round
)

// Floor returns the floor of that name that belongs to c, or nil.
func (c *Cell) Floor(name string) (found *result.Floor) {
	for i := range c.result.Floors {
		if f := &c.result.Floors[i]; f.Name == name && c.fits(f) && (found == nil || c.nearer(f, found)) {
			found = f
		}
	}
	return found
}

// fits reports whether the floor is of the cell's work, connections and link.
func (c *Cell) fits(f *result.Floor) bool {
	return (f.Model == "" || f.Of(c.Cell)) && (f.Clients == 0 || f.Clients == c.Clients) &&
		(f.Variant == "" || f.Variant == c.Variant && f.Language == c.Language) &&
		(f.Link == c.Link || f.Link == link.Rate{} && f.Bytes == 0) && c.reaches(f)
}

// reaches reports whether the floor is of a way that the cell's tensors may go: that to a
// host of its workers, or what all hosts share.
func (c *Cell) reaches(f *result.Floor) bool {
	if !c.Remote() || f.Host == "" && f.Bytes == 0 {
		return f.Host == ""
	}
	return slices.ContainsFunc(c.timed, func(b result.Block) bool {
		return slices.ContainsFunc(b.Processes, func(p result.Process) bool { return p.Host == f.Host })
	})
}

// nearer reports whether f is of a number of bytes that is nearer to what travels one way:
// caches hold few of them, and a rate has bursts, so that little is faster. Of several hosts
// it is the one with more bandwidth: nothing is faster than the fastest.
func (c *Cell) nearer(f, than *result.Floor) bool {
	off := func(f *result.Floor) float64 { return math.Abs(math.Log(float64(f.Bytes) / max(c.Wire()))) }
	if off(f) == off(than) {
		return f.Host != than.Host && stat.Of(f.Blocks).Center > stat.Of(than.Blocks).Center
	}
	return off(f) < off(than)
}

// Stream is the name of the floor that bounds a cell which moves bytes, by what they go
// over; empty with TLS over a Unix socket, which has no floor.
func (c *Cell) Stream() string {
	switch tcp, encrypted := c.OverTCP(), c.TLS() != NoTLS; {
	case encrypted && tcp:
		return "tls-stream"
	case encrypted:
		return ""
	case tcp:
		return "tcp-stream"
	}
	return "unix-stream"
}

// MovesBytes reports whether tensors' bytes were moved, rather than handed over.
func (c *Cell) MovesBytes() bool { return c.Tally(phase.BodyTensors)[""] > 0 }

// HandsOver reports whether tensors travelled as handles.
func (c *Cell) HandsOver() bool { return c.Tally(phase.HandleTensors)[""] > 0 }

// Bound returns the name of the floor that limits c, and how far c is from it, by
// the medians of the blocks of both:
//
//   - control: its round ÷ the same work called directly, where that is the same
//   - a transport that moves bytes: what travels ÷ one client's transfer, ÷ the
//     bandwidth of a connection like its own
//   - one that hands tensors over: its transfer ÷ two empty calls (a job and a
//     result), or ÷ one exchange of wake-ups (being woken and waking)
//
// Where clients overlap, it is no strict limit: a part of a transfer may hide
// behind another client's work. The name is empty and the interval not Known where
// nothing bounds c.
func (c *Cell) Bound() (string, stat.Interval) {
	ratio := c.Of("floor_ratio") // which is kept
	if !ratio.Known() {
		return "", ratio
	}
	name, _, _ := c.bound()
	return name, ratio
}

// bound returns which floor may limit c, the metric that it limits, and what that
// would be at the limit, from a sample of the floor. The name is empty where none
// does.
func (c *Cell) bound() (name, metric string, limit func(sample float64) float64) {
	same := func(s float64) float64 { return s }
	switch {
	case c.Control == c && c.Workers == 1 && !c.Nested && c.TrainMS == 0:
		// What is called directly makes no values, and no time pass; several workers share it.
		return FloorWork, "round", same
	case c.Transport == Control || c.Respawn || c.Peer != "": // nobody knows what a peer goes over
		return "", "", nil
	case c.HandsOver():
		if c.Floor(FloorCall) != nil {
			return FloorCall, "transfer", func(s float64) float64 { return 2 * s }
		}
		return FloorFutex, "transfer", same
	case c.MovesBytes():
		return c.Stream(), "transfer", func(bandwidth float64) float64 {
			down, up := c.Wire()
			return (down + up) / bandwidth
		}
	}
	return "", "", nil
}

// floorRatio is the metric of that name.
func (c *Cell) floorRatio() stat.Interval {
	name, metric, limit := c.bound()
	f := c.Floor(name)
	if name == "" || f == nil {
		return stat.None()
	}
	limits := stat.Medians(f.Blocks)
	for i := range limits {
		limits[i] = limit(limits[i])
	}
	if name == c.Stream() { // a share of the bandwidth, not a multiple of the time
		return stat.Ratio(c.Medians(metric), limits)
	}
	return stat.Ratio(limits, c.Medians(metric))
}
