package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Work is what a round does, as far as its cost depends on it.
type Work struct {
	Clients, Lanes, Processors int
	Tensors                    float64 // that a client gets and sends
	Bytes                      float64 // of payload, likewise
	Up                         float64 // bytes of these that a client sends
	Resident                   float64 // bytes of all tensors that a round touches
	Cache                      float64 // bytes of the processor's last-level cache; 0 if that is not known, or makes no difference
	Link                       float64 // rate of the network, bytes/s each way; 0 without one
}

// mostAmount is more than any machine holds, and far from what a float64 cannot square.
const mostAmount = 1e18

func (w Work) check() error {
	for _, x := range []float64{float64(w.Clients), float64(w.Lanes), float64(w.Processors)} {
		if x < 1 {
			return errors.New("a round has at least one client, lane and processor")
		}
	}
	for _, x := range []float64{w.Tensors, w.Bytes, w.Up, w.Resident, w.Cache, w.Link} {
		if !(x >= 0 && x <= mostAmount) {
			return fmt.Errorf("%v tensors, bytes or bytes/s are no amount", x)
		}
	}
	return nil
}

// turns is how often each processor has its turn: clients that are trained at the same
// time share one.
func (w Work) turns() float64 {
	atOnce := min(w.Lanes, w.Processors)
	return float64((w.Clients + atOnce - 1) / atOnce)
}

// crowded reports whether lanes have to wait for processors.
func (w Work) crowded() bool { return w.Lanes > w.Processors }

// overflows reports whether the tensors are more than the cache holds.
func (w Work) overflows() bool { return w.Cache > 0 && w.Resident > w.Cache }

// A feature is an amount that cost may be in proportion to.
type feature struct {
	Name string
	of   func(w Work) float64
}

// features in the order in which points that tell few of them tell them: what comes
// first explains most.
var features = [...]feature{
	// bytes that all clients get and send
	{"byte", func(w Work) float64 { return float64(w.Clients) * w.Bytes }},
	// seconds that these bytes take over the link, one after the other
	{"link", func(w Work) float64 {
		if w.Link == 0 {
			return 0
		}
		return float64(w.Clients) * w.Bytes / w.Link
	}},
	// tensors that all clients get and send
	{"tensor", func(w Work) float64 { return float64(w.Clients) * w.Tensors }},
	{"client", func(w Work) float64 { return float64(w.Clients) }},
	// bytes of one client, times the turns that workers take at the processors
	{"turn", func(w Work) float64 { return w.turns() * w.Bytes }},
	{"round", func(Work) float64 { return 1 }},
	// bytes of all clients that the cache does not hold
	{"overflow", func(w Work) float64 {
		if !w.overflows() {
			return 0
		}
		return float64(w.Clients) * w.Bytes * (1 - w.Cache/w.Resident)
	}},
}

// place returns where a feature stands among all.
func place(name string) int {
	return slices.IndexFunc(features[:], func(f feature) bool { return f.Name == name })
}

// farthest is how many times a work may lie beyond all points.
const farthest = 4

// A Beyond is the error of a work that the points do not tell of.
type Beyond struct {
	What string // a quantity, such as tensors, or a condition
	Why  string // with what was measured
}

func (b *Beyond) Error() string { return b.What + ": " + b.Why }

// plain is a number of an error.
func plain(x float64) string { return fmt.Sprintf("%.4g", x) }

// perByte is how many seconds a byte takes over the link, one way.
func (w Work) perByte() float64 {
	if w.Link == 0 {
		return 0
	}
	return 1 / w.Link
}

// rate is a link of so many seconds a byte.
func rate(perByte float64) string {
	if perByte == 0 {
		return "no rate"
	}
	return plain(8e-6/perByte) + " Mbit/s"
}

// beyond returns in what w lies outside of all points. It returns a [Beyond] if that is
// too far, or if the points were measured under other conditions alone.
func (f *Fit) beyond(w Work) (in []string, err error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	has := func(is func(Work) bool) bool {
		return slices.ContainsFunc(f.points, func(p Point) bool { return is(p.Work) == is(w) })
	}
	switch {
	case !has(Work.overflows) && w.overflows():
		return nil, &Beyond{"cache", "the tensors are more than it holds, and everything that was measured fits into it"}
	case !has(Work.overflows):
		return nil, &Beyond{"cache", "the tensors fit into it, and nothing that was measured does"}
	case !has(Work.crowded) && w.crowded():
		return nil, &Beyond{"workers", "there are more than processors, and nothing was measured so"}
	case !has(Work.crowded):
		return nil, &Beyond{"workers", "there are no more than processors, and all that was measured has more"}
	}
	for _, q := range []struct {
		name string
		of   func(Work) float64
		text func(x float64) string // in an error
		bulk bool                   // what is beyond the largest costs in proportion
	}{
		{"bytes", func(w Work) float64 { return w.Bytes }, func(x float64) string { return plain(x/1e6) + " MB" }, w.overflows() || w.Link > 0 && w.Cache == 0},
		{"tensors", func(w Work) float64 { return w.Tensors }, plain, false},
		{"clients", func(w Work) float64 { return float64(w.Clients) }, plain, false},
		{"workers", func(w Work) float64 { return float64(w.Lanes) }, plain, false},
		{"link", Work.perByte, rate, false},
		{"share of the way up", func(w Work) float64 { return w.Up / max(1, w.Bytes) }, func(x float64) string { return plain(100*x) + " %" }, false},
	} {
		x, low, high := q.of(w), math.Inf(1), 0.0
		for _, p := range f.points {
			low, high = min(low, q.of(p.Work)), max(high, q.of(p.Work))
		}
		switch {
		case x >= low && x <= high:
			continue
		case x > farthest*high && !q.bulk, x < low/farthest:
			measured := q.text(low)
			if high > low {
				measured += " to " + q.text(high)
			}
			return nil, &Beyond{q.name, fmt.Sprintf("%s, more than %d times beyond what was measured: %s", q.text(x), farthest, measured)}
		}
		in = append(in, q.name)
	}
	name, off := f.best.off(w)
	if slices.Contains(f.best.short, place("overflow")) && has(func(v Work) bool { return v.overflows() != w.overflows() }) && w.overflows() {
		name, off = "overflow", 1
	}
	switch {
	case off > unlike:
		return nil, &Beyond{"feature " + name, "what was measured does not tell it from others, which makes a difference here: measure with more sizes and numbers"}
	case name != "":
		in = append(in, "what a "+name+" costs")
	}
	return in, nil
}
