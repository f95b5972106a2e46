package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report/metrics"
)

// A law is a transport whose round is fixed + perByte × bytes, in ms.
type law struct{ fixed, perByte float64 }

func (l law) round(bytes float64) float64 { return l.fixed + l.perByte*bytes }

// sweepOf returns the sweep of transports a, b, … over sizes. vary returns the relative
// deviation of a block.
func sweepOf(sizes []float64, laws []func(bytes float64) float64, blocks int, vary func() float64) *Sweep {
	var cells []result.Cell
	for _, size := range sizes {
		m := result.Model{Name: fmt.Sprintf("uniform:%.0fB/4", size), Tensors: 4, Bytes: int64(size)}
		for i, l := range laws {
			var rounds []float64
			for range blocks {
				rounds = append(rounds, l(size)*math.Exp(vary()))
			}
			cells = append(cells, benchtest.Cell(string(rune('a'+i)), m, 1, 1, rounds...))
		}
	}
	all := SweepsOf(metrics.New(benchtest.Result(cells...)))
	if len(all) != 1 {
		panic(fmt.Sprintf("%d sweeps", len(all)))
	}
	return all[0]
}

func crossings(s *Sweep) (all []crossing) {
	for i := range s.Lines {
		for k := range i {
			if a, b := s.Lines[k], s.Lines[i]; a.Ranked() && b.Ranked() {
				all = append(all, s.cross(a, b)...)
			}
		}
	}
	return all
}

func powers(from, factor float64, n int) []float64 {
	var all []float64
	for range n {
		all = append(all, from)
		from *= factor
	}
	return all
}

// TestCrossings: transports with a fixed and a proportional part cross only at the size
// with equal rounds. Interpolating between two sizes causes a small error.
func TestCrossings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Float64Range(2048, 1e6).Draw(t, "crossing")
		a := law{rapid.Float64Range(100, 1000).Draw(t, "fixed"), rapid.Float64Range(1e-4, 1e-2).Draw(t, "byte")}
		steep := rapid.Float64Range(2, 10).Draw(t, "steep")
		b := law{a.fixed + a.perByte*at*(1-1/steep), a.perByte / steep}
		r := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		s := sweepOf(powers(1024, 2, 12), []func(float64) float64{a.round, b.round}, 6, func() float64 { return 1e-7 * r.NormFloat64() })
		all := crossings(s)
		check.Need(t, len(all) == 1 && all[0].Before.Variant == "a" && all[0].After.Variant == "b",
			"crossings %+v, want one from a to b", all)
		c := all[0]
		check.Need(t, check.Nearly(math.Log(c.At.Center/at), 0, 0.1) && c.At.Low <= c.At.Center && c.At.Center <= c.At.High, "crossing at %+v, want %g", c.At, at)
		check.Need(t, check.Nearly(math.Log(1e3*s.round(c.Before, c.At.Center)/a.round(at)), 0, 0.1), "a round of %g s, want %g ms", s.round(c.Before, c.At.Center), a.round(at))
	})
}

// TestPowers: if rounds are powers of the size, a crossing is exact.
func TestPowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := powers(1000, rapid.Float64Range(1.5, 8).Draw(t, "factor"), 8)
		last := sizes[len(sizes)-1]
		at := 1000 * math.Pow(last/1000, rapid.Float64Range(0.05, 0.95).Draw(t, "crossing"))
		rise := rapid.Float64Range(0.3, 2).Draw(t, "rise")
		met := make([]meeting, len(sizes))
		half := rapid.Float64Range(0.001, 0.02).Draw(t, "half")
		for i, x := range sizes {
			y := rise * math.Log(x/at)
			met[i] = meeting{step: i, x: math.Log(x), ratio: [3]float64{y - half, y, y + half}}
			met[i].Ratio, met[i].Shown = stat.Interval{Confidence: 0.99 - float64(i)/1e3, Blocks: 20 - i}, math.Abs(y) > half
		}
		var from, to = -1, len(sizes)
		for i, m := range met {
			switch {
			case m.winner() < 0:
				from = i
			case m.winner() > 0:
				to = min(to, i)
			}
		}
		got, ok := crossed(met, from, to)
		check.Need(t, ok, "no crossing")
		off := func(x float64) float64 { return math.Log(x / at) }
		check.That(t, check.Nearly(off(got.Center), 0, 1e-9) && (from < 0 || check.Nearly(off(got.Low), -half/rise, 1e-9)) && (to == len(met) || check.Nearly(off(got.High), half/rise, 1e-9)),
			"got %g (%g to %g), want %g ± %g in logarithms", got.Center, got.Low, got.High, at, half/rise)
		worst := met[min(to, len(met)-1)]
		check.That(t, got.Confidence == worst.Ratio.Confidence && got.Blocks == worst.Ratio.Blocks, "sure to %v by %d blocks", got.Confidence, got.Blocks)
	})
}

// TestSeveralCrossings: a pair that changes ranks twice has two crossings. A transport that
// was measured at some sizes only is compared there. The control crosses no transport.
func TestSeveralCrossings(t *testing.T) {
	var cells []result.Cell
	for i, rounds := range [][3]float64{{1, 2, 3}, {4, 2, 3}, {1, 2, 0}, {1, 2, 1}} {
		size := result.Model{Name: "uniform:x/2", Tensors: 2, Bytes: 1 << (10 + i)}
		cells = append(cells, benchtest.Cell(metrics.Control, size, 1, 1, benchtest.Six(float64(1+i))...))
		for k, x := range rounds {
			if x > 0 {
				cells = append(cells, benchtest.Cell(string(rune('a'+k)), size, 1, 1, benchtest.Six(x)...))
			}
		}
	}
	s := SweepsOf(metrics.New(benchtest.Result(cells...)))[0]
	got := map[string]int{}
	for _, c := range crossings(s) {
		got[c.Before.Variant+c.After.Variant]++
	}
	check.Equal(t, got, map[string]int{"ab": 1, "ba": 1, "ac": 1, "bc": 1})
	e := s.Envelope()
	check.That(t, len(e) == 3 && e[1].Best[0].Variant == "b" && e[1].Since != nil && e[1].Since.Before.Variant == "a" && e[2].Best[0].Variant == "a" && e[2].To == 3, "envelope %+v", e)
	// Single blocks show no crossing, whatever the rounds.
	all := crossings(sweepOf(powers(1024, 4, 5), []func(float64) float64{law{1, 1e-3}.round, law{2, 1e-6}.round}, 1, func() float64 { return 0 }))
	check.That(t, len(all) == 0, "%d crossings of single blocks", len(all))
}

// TestNearest: the next transport is the fastest of the others.
func TestNearest(t *testing.T) {
	power := func(factor, exponent float64) func(float64) float64 {
		return func(bytes float64) float64 { return factor * math.Pow(bytes/16384, exponent) }
	}
	s := sweepOf(powers(1024, 4, 5), []func(float64) float64{power(90, 0.5), power(90, 0), power(7, 0.1), power(3, 0), power(3, -0.1)}, 6, func() float64 { return 0 })
	e := s.Envelope()
	last := e[len(e)-1]
	check.That(t, last.Best[0].Variant == "e" && last.Next != nil && last.Next.Variant == "d" && last.NextLow >= 1 && last.NextLow < last.NextHigh, "envelope %+v", last)
}

// TestSweeps: sweeps are found, with the quantity in which their cells differ.
func TestSweeps(t *testing.T) {
	uniform := func(size int64) result.Model {
		return result.Model{Name: fmt.Sprintf("uniform:%dB/3", size), Tensors: 3, Bytes: size}
	}
	updates := func(up int64) result.Model {
		m := uniform(64)
		m.Up, m.UpTensors, m.UpBytes = fmt.Sprintf("uniform:%dB/3", up), 3, up
		return m
	}
	cell := func(m result.Model, workers, clients int) result.Cell {
		return benchtest.Cell("http", m, workers, clients, 1, 2)
	}
	small, large := benchtest.Models["cnn"], benchtest.Models["histology"]
	other := uniform(2048)
	other.Tensors = 4
	for name, test := range map[string]struct {
		cells []result.Cell
		want  string
	}{
		"sizes":             {[]result.Cell{cell(uniform(4096), 1, 1), cell(uniform(1024), 1, 1), cell(uniform(2048), 1, 1)}, "size [1024 2048 4096];"},
		"other tensors":     {[]result.Cell{cell(uniform(4096), 1, 1), cell(uniform(1024), 1, 1), cell(other, 1, 1)}, ""},
		"updates":           {[]result.Cell{cell(updates(4), 1, 1), cell(updates(16), 1, 1), cell(updates(8), 1, 1)}, "update size [4 8 16];"},
		"clients":           {[]result.Cell{cell(small, 1, 1), cell(small, 1, 4), cell(small, 1, 16)}, "clients [1 4 16];"},
		"workers":           {[]result.Cell{cell(small, 1, 4), cell(small, 2, 4), cell(small, 3, 4)}, "workers [1 2 3];"},
		"two is too few":    {[]result.Cell{cell(small, 1, 4), cell(small, 2, 4)}, ""},
		"two models":        {[]result.Cell{cell(small, 1, 1), cell(large, 1, 1)}, ""},
		"two things differ": {[]result.Cell{cell(small, 1, 1), cell(small, 2, 2), cell(small, 4, 4)}, ""},
		"sizes and clients": {[]result.Cell{
			cell(uniform(1024), 1, 1), cell(uniform(2048), 1, 1), cell(uniform(4096), 1, 1), cell(uniform(8192), 1, 1),
			cell(uniform(1024), 1, 2), cell(uniform(1024), 1, 3), cell(small, 1, 1),
		}, "size [1024 2048 4096 8192];clients [1 2 3];"},
		"the control alone": {[]result.Cell{benchtest.Cell(metrics.Control, small, 1, 1, 1), benchtest.Cell(metrics.Control, small, 2, 1, 1), benchtest.Cell(metrics.Control, small, 4, 1, 1)}, ""},
	} {
		got := ""
		for _, s := range SweepsOf(metrics.New(benchtest.Result(test.cells...))) {
			got += s.Over.Name + " " + fmt.Sprint(s.At) + ";"
		}
		check.Equal(t, got, test.want, name)
	}
}

// TestCrossingCoverage: if rounds are powers of the size, the interval holds the true
// crossing a little more often than its confidence. The reason is that each bound comes
// from two sizes. docs/measuring.md has the number.
func TestCrossingCoverage(t *testing.T) {
	skip.Long(t)
	const runs = 1000
	r := rand.New(rand.NewPCG(3, 4))
	held, found := 0, 0
	for range runs {
		at := 4096 * math.Exp(r.Float64()*5)
		a := func(bytes float64) float64 { return 10 * math.Pow(bytes/at, 0.8) }
		b := func(bytes float64) float64 { return 10 * math.Pow(bytes/at, 0.6) }
		s := sweepOf(powers(1024, 4, 8), []func(float64) float64{a, b}, 6, func() float64 { return 0.05 * r.NormFloat64() })
		for _, c := range crossings(s) {
			found++
			if !c.At.Excludes(at) {
				held++
			}
		}
	}
	share := float64(held) / float64(found)
	t.Logf("%d crossings in %d sweeps: %.1f %% hold the true one", found, runs, 100*share)
	check.That(t, found >= runs*99/100 && found <= runs*102/100 && share >= 0.95 && share <= 0.995,
		"%d crossings in %d sweeps, of which %.1f %% hold the true one; want 98 %%", found, runs, 100*share)
}
