package analysis

import (
	"math"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
)

// TestClocks: what the clocks of two hosts leave open is joined to the intervals of
// what both have timed, and of more than a tenth nothing is left (guard 22).
func TestClocks(t *testing.T) {
	with := func(width time.Duration) *Cell {
		c := benchtest.Cell("pickle", benchtest.Models["cnn"], 1, 1, benchtest.Six(20)...) // down 6 ms, up 13 ms, uplink 3 ms, unattributed 0.2 ms
		for i := range c.Blocks {
			c.Blocks[i].Clocks = []bench.Clock{{Host: "h1", Same: true}, {Host: "h2", Offset: 1e14, Width: int64(width), Same: width == 0}}
		}
		return New(benchtest.Result(c)).Cells[0]
	}
	one := with(0)
	for _, tt := range []struct {
		width time.Duration
		wider map[string]float64 // by how much each end of the intervals is, in seconds; what is missing is not known
	}{
		{0, map[string]float64{"down": 0, "up": 0, "uplink": 0, "unattributed": 0}},
		{8 * time.Microsecond, map[string]float64{"down": 8e-6, "up": 8e-6, "uplink": 8e-6, "unattributed": 16e-6}}, // two ways of a round
		{11 * time.Microsecond, map[string]float64{"down": 11e-6, "up": 11e-6, "uplink": 11e-6}},
		{500 * time.Microsecond, map[string]float64{"down": 500e-6, "up": 500e-6}},
		{time.Millisecond, map[string]float64{"up": 1e-3}},
		{time.Second, nil},
	} {
		c := with(tt.width)
		for _, name := range []string{"down", "up", "uplink", "unattributed"} {
			wider, known := tt.wider[name]
			got, want := c.Of(name), one.Of(name)
			if got.Known() != known || (len(c.Medians(name)) > 0) != known {
				t.Errorf("±%v: got %s %+v, %d medians", tt.width, name, got, len(c.Medians(name)))
			}
			if known && (got.Center != want.Center || math.Abs(want.Low-got.Low-wider) > 1e-9 || math.Abs(got.High-want.High-wider) > 1e-9) {
				t.Errorf("±%v: got %s %+v, want %+v and %v more at either end", tt.width, name, got, want, wider)
			}
		}
		for _, name := range []string{"rtt", "round", "train", "transfer", "goodput"} { // one clock each
			if c.Of(name) != one.Of(name) {
				t.Errorf("±%v: got %s %+v, want %+v", tt.width, name, c.Of(name), one.Of(name))
			}
		}
		_, uplink := tt.wider["uplink"]
		if _, ok := c.Trip(); ok != uplink {
			t.Errorf("±%v: there is a round trip in parts: %v", tt.width, ok)
		}
	}
}
