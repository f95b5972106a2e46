package report

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
)

// hourly returns a run over hours with two cells, of which the second takes a tenth longer in each of n cycles. Hours
// move both by much more.
func hourly(n int, spread time.Duration) *result.Result {
	cell := func(transport string, ms float64, every int) result.Cell {
		c := benchtest.Rounds(func(int, int) float64 { return 0 })
		c.Transport, c.Variant = transport, transport
		for i := range n {
			b := c.Blocks[0]
			b.Index, b.Round = i, slices.Clone(b.Round)
			for k := range b.Round {
				b.Round[k] = int64(ms * (1 + 0.4*math.Sin(float64(i))) * (1 + 0.002*float64(i%every)) * float64(benchtest.MS))
			}
			c.Blocks = append(c.Blocks, b)
		}
		c.Blocks = c.Blocks[len(c.Blocks)-n:]
		return c
	}
	r := benchtest.Result(cell("http", 100, 3), cell("pickle", 110, 2))
	r.Plan.Spread, r.Plan.Precision = spread, 0
	return r
}

// TestByCycle: contrasts of a run that was spread over an hour or more, with ten cycles or more, are made in each cycle, and
// say so. Then an hour that moves all cells hides nothing, is no drift and no mode, and the environment has its course.
func TestByCycle(t *testing.T) {
	const words = "round transport=http against transport=pickle"
	apart := sentence(t, hourly(10, 0), words)
	holds(t, apart, "Not shown: ")
	together := sentence(t, hourly(10, 3*time.Hour), words)
	holds(t, together, "% longer", "10 blocks of ", ", over 3h on 2026-11-21, compared in each cycle.")
	lacks(t, together, "Not shown")
	lacks(t, together, "drifted")
	for _, few := range []string{sentence(t, hourly(10, 59*time.Minute), words), sentence(t, hourly(9, 3*time.Hour), words)} {
		holds(t, few, "Not shown: ")
		lacks(t, few, "cycle")
	}
	text := shown(t, hourly(10, 3*time.Hour), "environment")
	check.That(t, strings.Contains(strings.Join(strings.Fields(text), " "), "spread over 3h0m0s, in whose cycles all cells took 0.899, 1.2, "), "%s", text)
	lacks(t, shown(t, hourly(10, 3*time.Hour), "verdict"), "drifted")

	// A cell's remarks are the same on each page, whatever other cells that shows.
	all, one := metrics.New(hourly(10, 3*time.Hour)), metrics.New(hourly(10, 3*time.Hour))
	check.Must(t, one.Narrow([]string{"transport=http"}))
	check.Equal(t, one.Level(), all.Level())
}
