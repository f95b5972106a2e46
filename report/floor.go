package report

import (
	"math"
	"slices"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/phase"
)

// The floors that bound cells, by name.
const (
	floorCopy   = "copy"        // B/s
	floorStream = "unix-stream" // B/s
	floorFutex  = "futex"       // s, an exchange
	floorCall   = "rpc-empty"   // s, a call on a cell's own connection
	floorWork   = "work"        // s, a round
)

// floor returns the floor of that name that bounds c, and its median; nil if
// there is none.
func (c *cell) floor(name string) (*bench.Floor, stat.Interval) {
	for i := range c.view.Floors {
		f := &c.view.Floors[i]
		if f.Name == name && (f.Model == "" || f.Model == c.Model.Name && f.Up == c.Model.Up) && (f.Clients == 0 || f.Clients == c.Clients) &&
			(f.Transport == "" || f.Transport == c.Variant) {
			return f, stat.Of(f.Blocks)
		}
	}
	return nil, stat.None()
}

// movesBytes reports whether tensors' bytes were moved, rather than handed over.
func (c *cell) movesBytes() bool {
	return slices.ContainsFunc(c.timed, func(b bench.Block) bool { return b.Counts()[phase.BodyTensors] > 0 })
}

// handsOver reports whether tensors travelled as handles.
func (c *cell) handsOver() bool {
	return slices.ContainsFunc(c.timed, func(b bench.Block) bool { return b.Counts()[phase.HandleTensors] > 0 })
}

// byteFloor returns the fastest of the floors that move bytes.
func (c *cell) byteFloor() (*bench.Floor, stat.Interval) {
	f, i := c.floor(floorStream)
	if g, j := c.floor(floorCopy); g != nil && (f == nil || j.Center > i.Center) {
		return g, j
	}
	return f, i
}

// bound returns the floor that bounds c and how far c is from it: the control's
// round as a multiple of the same work called directly, the bandwidth of what
// moves bytes as a share of a socket's, and the transfer of what hands them over
// as a multiple of the exchanges that it consists of: two empty calls, for a job
// and a result, or being woken and waking, which is one exchange of wake-ups.
// The bandwidth is that of the overhead, or of one client's transfer where clients
// overlap: then it is no limit in the strict sense, since part of it may hide in
// another client's work.
func (c *cell) bound() (string, stat.Interval) {
	if c.control == c {
		f, i := c.floor(floorWork)
		if f == nil || c.Workers > 1 { // workers share the work
			return "", stat.None()
		}
		return f.Name, quotient(c.of("round"), i)
	}
	if c.Respawn {
		return "", stat.None()
	}
	took := c.of("transfer")
	handsOver := c.handsOver()
	if c.alone() && !handsOver {
		took = c.of("overhead")
	}
	if !took.Known() || took.Center <= 0 {
		return "", stat.None()
	}
	if handsOver {
		f, i := c.floor(floorCall)
		exchanges := 2.0
		if f == nil {
			f, i = c.floor(floorFutex)
			exchanges = 1
		}
		if f == nil {
			return "", stat.None()
		}
		return f.Name, quotient(took, i.Map(func(s float64) float64 { return exchanges * s }))
	}
	f, i := c.floor(floorStream)
	if f == nil || took.Low <= 0 || !c.movesBytes() {
		return "", stat.None()
	}
	moved := took.Map(func(s float64) float64 { return float64(c.Model.Payload()) / s })
	return f.Name, quotient(moved, i)
}

func floorRatio(c *cell) stat.Interval {
	_, i := c.bound()
	return i
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
