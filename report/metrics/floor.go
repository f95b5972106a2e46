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
	FloorCopy  = "copy"        // B/s
	FloorTouch = "first-touch" // B/s
	FloorFutex = "futex"       // s per exchange
	FloorCall  = "rpc-empty"   // s per call, on a cell's own connection
	FloorWork  = "work"        // s per round
)

// Floor returns the floor of that name that fits c best, or nil if none fits.
func (c *Cell) Floor(name string) (found *result.Floor) {
	for i := range c.result.Floors {
		if f := &c.result.Floors[i]; f.Name == name && c.fits(f) && (found == nil || c.nearer(f, found)) {
			found = f
		}
	}
	return found
}

// FloorValue returns the value of the floor of that name that fits c best, over blocks, or none.
func (c *Cell) FloorValue(name string) stat.Interval {
	if f := c.Floor(name); f != nil {
		return stat.Of(f.Blocks)
	}
	return stat.None()
}

// fits reports whether the floor was measured for the cell's work, connections and link.
func (c *Cell) fits(f *result.Floor) bool {
	memory := f.Name == FloorCopy || f.Name == FloorTouch
	return (f.Model == "" || f.Of(c.Cell)) && (!memory || f.Pages == c.Pages) && (f.Clients == 0 || f.Clients == c.Clients) &&
		(f.Variant == "" || f.Variant == c.Variant && f.Language == c.Language) &&
		(f.Link == c.Link || f.Link == link.Rate{} && f.Bytes == 0) && c.reaches(f)
}

// reaches reports whether the floor was measured on a path that the cell's tensors take: to a
// host of its workers. A floor without host and bytes applies to all hosts.
func (c *Cell) reaches(f *result.Floor) bool {
	if !c.Remote() || f.Host == "" && f.Bytes == 0 {
		return f.Host == ""
	}
	return slices.ContainsFunc(c.timed, func(b result.Block) bool {
		return slices.ContainsFunc(b.Processes, func(p result.Process) bool { return p.Host == f.Host })
	})
}

// nearer reports whether f fits the cell better than another floor: its number of bytes is
// closer to the wire bytes of one direction. The size matters because few bytes stay in caches
// and a rate limit lets bursts through. For equal sizes on several hosts, the larger bandwidth
// counts: it is the limit of the fastest host.
func (c *Cell) nearer(f, than *result.Floor) bool {
	off := func(f *result.Floor) float64 { return math.Abs(math.Log(float64(f.Bytes) / max(c.Wire()))) }
	if off(f) == off(than) {
		return f.Host != than.Host && stat.Of(f.Blocks).Center > stat.Of(than.Blocks).Center
	}
	return off(f) < off(than)
}

// Stream returns the name of the floor that limits a cell which moves bytes, for its kind of
// connection. It is empty for TLS over a Unix socket, which has no floor.
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

// MovesBytes reports whether the bytes of some tensors were moved, instead of handed over.
func (c *Cell) MovesBytes() bool { return c.Tally(phase.BodyTensors)[""] > 0 }

// HandsOver reports whether some tensors were sent as handles.
func (c *Cell) HandsOver() bool { return c.Tally(phase.HandleTensors)[""] > 0 }

// Bound returns the name of the floor that limits c, and the distance of c from it, by
// the medians of the blocks of both:
//
//   - control: its round ÷ the same work called directly
//   - a transport that moves bytes: wire bytes ÷ one client's transfer, as a share of
//     the bandwidth of a connection like its own
//   - a transport that hands tensors over: its transfer ÷ two empty calls (a job and a
//     result), or ÷ one exchange of wake-ups (being woken and waking)
//
// If clients overlap, the limit is not strict, because a part of a transfer may happen
// during another client's work. If no floor limits c, the name is empty and the interval
// is not Known.
func (c *Cell) Bound() (string, stat.Interval) {
	ratio := c.Of("floor_ratio")
	if !ratio.Known() {
		return "", ratio
	}
	name, _, _ := c.bound()
	return name, ratio
}

// bound returns the name of the floor that may limit c, the metric that it limits, and how often: as a
// number of its times or, if the floor is a bandwidth, of bytes. The name is empty if no floor limits c.
func (c *Cell) bound() (name, metric string, times float64) {
	switch {
	case c.Control == c && c.Workers == 1 && !c.Nested && c.TrainMS == 0:
		// The floor has no nested values and no waiting, and several workers would share its work.
		return FloorWork, "round", 1
	case c.Transport == Control || c.Respawn || c.IsPeer(): // the connections of a peer are unknown
		return "", "", 0
	case c.HandsOver():
		if c.Floor(FloorCall) != nil {
			return FloorCall, "transfer", 2
		}
		return FloorFutex, "transfer", 1
	case c.MovesBytes():
		down, up := c.Wire()
		return c.Stream(), "transfer", down + up
	}
	return "", "", 0
}

// floorRatio computes the metric floor_ratio.
func (c *Cell) floorRatio() stat.Interval {
	name, metric, times := c.bound()
	f := c.Floor(name)
	if name == "" || f == nil {
		return stat.None()
	}
	limits, isShare := stat.Medians(f.Blocks), name == c.Stream()
	for i, sample := range limits {
		if limits[i] = sample * times; isShare {
			limits[i] = times / sample
		}
	}
	if isShare { // of the bandwidth, not a multiple of the time
		return stat.Ratio(c.Medians(metric), limits)
	}
	return stat.Ratio(limits, c.Medians(metric))
}
