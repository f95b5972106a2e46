package analysis

import (
	"math"
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

// floor returns the floor of that name that belongs to c, and its median; nil if
// there is none.
func (c *Cell) floor(name string) (*bench.Floor, stat.Interval) {
	for i := range c.result.Floors {
		f := &c.result.Floors[i]
		if f.Name == name && (f.Model == "" || f.Model == c.Model.Name && f.Up == c.Model.Up) && (f.Clients == 0 || f.Clients == c.Clients) &&
			(f.Transport == "" || f.Transport == c.Variant) {
			return f, stat.Of(f.Blocks)
		}
	}
	return nil, stat.None()
}

// MovesBytes reports whether tensors' bytes were moved, rather than handed over.
func (c *Cell) MovesBytes() bool { return c.counts(phase.BodyTensors) }

// HandsOver reports whether tensors travelled as handles.
func (c *Cell) HandsOver() bool { return c.counts(phase.HandleTensors) }

func (c *Cell) counts(name string) bool {
	return slices.ContainsFunc(c.timed, func(b bench.Block) bool { return b.Counts()[name] > 0 })
}

// byteFloor returns the fastest of the floors that move bytes.
func (c *Cell) byteFloor() (*bench.Floor, stat.Interval) {
	f, i := c.floor(FloorStream)
	if g, j := c.floor(FloorCopy); g != nil && (f == nil || j.Center > i.Center) {
		return g, j
	}
	return f, i
}

// Bound returns the name of the floor that limits c, and how far c is from it:
//
//   - control: its round ÷ the same work called directly
//   - a transport that moves bytes: its bandwidth ÷ a socket's
//   - one that hands tensors over: its transfer ÷ two empty calls (a job and a
//     result), or ÷ one exchange of wake-ups (being woken and waking)
//
// The bandwidth is that of the overhead with 1 client on 1 worker, and of one
// client's transfer otherwise. Where clients overlap, it is no strict limit: a
// part of it may hide behind another client's work. The name is empty and the
// interval not Known where nothing bounds c.
func (c *Cell) Bound() (string, stat.Interval) {
	if c.Control == c {
		f, i := c.floor(FloorWork)
		if f == nil || c.Workers > 1 { // workers share the work
			return "", stat.None()
		}
		return f.Name, quotient(c.Of("round"), i)
	}
	if c.Respawn {
		return "", stat.None()
	}
	took := c.Of("transfer")
	handsOver := c.HandsOver()
	if c.Alone() && !handsOver {
		took = c.Of("overhead")
	}
	if !took.Known() || took.Center <= 0 {
		return "", stat.None()
	}
	if handsOver {
		f, i := c.floor(FloorCall)
		exchanges := 2.0
		if f == nil {
			f, i = c.floor(FloorFutex)
			exchanges = 1
		}
		if f == nil {
			return "", stat.None()
		}
		return f.Name, quotient(took, i.Map(func(s float64) float64 { return exchanges * s }))
	}
	f, i := c.floor(FloorStream)
	if f == nil || took.Low <= 0 || !c.MovesBytes() {
		return "", stat.None()
	}
	moved := took.Map(func(s float64) float64 { return float64(c.Model.Payload()) / s })
	return f.Name, quotient(moved, i)
}

// quotient returns a / b. Its bounds hold whenever those of a and b do; b must be
// positive.
func quotient(a, b stat.Interval) stat.Interval {
	q := stat.Interval{
		Center: a.Center / b.Center, Low: a.Low / b.High, High: a.High / b.Low,
		Confidence: math.Max(0, a.Confidence+b.Confidence-1), Blocks: min(a.Blocks, b.Blocks), N: a.N,
	}
	if a.Low < 0 {
		q.Low = a.Low / b.Low
	}
	if a.High < 0 {
		q.High = a.High / b.High
	}
	return q
}
