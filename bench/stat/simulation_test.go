package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ipcbench/internal/test/check"
)

// session returns blocks of a cell whose median is 1. Rounds vary by the factor within, sessions by between.
func session(r *rand.Rand, blocks, rounds int, between, within float64) [][]float64 {
	all := make([][]float64, blocks)
	for i := range all {
		level := between * r.NormFloat64()
		for range rounds {
			all[i] = append(all[i], math.Exp(level+within*r.NormFloat64()))
		}
	}
	return all
}

// bootstrap is the rejected method for intervals: it resamples blocks, and rounds within them.
func bootstrap(r *rand.Rand, blocks [][]float64) (low, high float64) {
	medians := make([]float64, 100)
	for k := range medians {
		drawn := make([]float64, len(blocks))
		for i := range drawn {
			b := blocks[r.IntN(len(blocks))]
			again := make([]float64, len(b))
			for j := range again {
				again[j] = b[r.IntN(len(b))]
			}
			drawn[i] = Median(again)
		}
		medians[k] = Median(drawn)
	}
	slices.Sort(medians)
	return medians[2], medians[97]
}

// TestCoverage: an interval contains the true median as often as it claims, even if sessions differ more than rounds
// (guard 10). An interval from pooled rounds or from a bootstrap does not.
func TestCoverage(t *testing.T) {
	const runs = 300
	for _, blocks := range []int{3, 6, 9} {
		t.Run(fmt.Sprintf("blocks=%d", blocks), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(blocks)))
			held, heldRounds, heldBootstrap := 0, 0, 0
			var confidence float64
			for range runs {
				all := session(r, blocks, 15, 0.03, 0.01)
				i := Of(all)
				confidence = i.Confidence
				held += count(!i.Excludes(1))
				heldRounds += count(!ofMedians(Pool(all)).Excludes(1))
				low, high := bootstrap(r, all)
				heldBootstrap += count(low <= 1 && 1 <= high)
			}
			t.Logf("says %.3f: held %.3f; of pooled rounds %.3f; of a bootstrap %.3f",
				confidence, share(held, runs), share(heldRounds, runs), share(heldBootstrap, runs))
			check.That(t, share(held, runs) >= confidence-0.03, "held in %.3f of runs, says %.3f", share(held, runs), confidence)
			check.That(t, blocks != 3 || share(heldBootstrap, runs) <= 0.9,
				"a bootstrap of three blocks held in %.3f of runs: the package comment is wrong", share(heldBootstrap, runs))
			check.That(t, share(heldRounds, runs) <= 0.75,
				"an interval that ignores sessions held in %.3f of runs: the simulation shows nothing", share(heldRounds, runs))
		})
	}
}

// TestAgainstItself: comparing a build with itself finds a difference in no more runs than claimed (A/A of guard 14),
// with many cells and Holm's correction. An effect of the size that Detectable returns is found in four of five runs.
func TestAgainstItself(t *testing.T) {
	const runs, cells, blocks = 300, 5, 8
	r := rand.New(rand.NewPCG(3, 4))
	claims, found, tried := 0, 0, 0
	for range runs {
		ps := make([]float64, cells)
		for c := range ps {
			a, b := Medians(session(r, blocks, 5, 0.03, 0.02)), Medians(session(r, blocks, 5, 0.03, 0.02))
			ps[c] = Test(a, b)
			if c == 0 {
				effect := Detectable(a, b, 0.05)
				for i := range b {
					b[i] *= effect
				}
				tried++
				found += count(Test(a, b) <= 0.05)
			}
		}
		claims += count(slices.Min(Holm(ps)) <= 0.05)
	}
	t.Logf("claims in %.3f of runs; effects found %.3f", share(claims, runs), share(found, tried))
	check.That(t, share(claims, runs) <= 0.07, "claimed a difference in %.3f of comparisons of a build with itself", share(claims, runs))
	f := share(found, tried)
	check.That(t, f >= 0.7 && f <= 0.95, "found %.3f of the effects that should be found in four of five", f)
}

// TestUnequalSpread: the interval of a difference still holds in at least 87 % of runs if one cell is far steadier, as
// a control is.
func TestUnequalSpread(t *testing.T) {
	const runs = 2000
	r := rand.New(rand.NewPCG(11, 12))
	for _, blocks := range []int{6, 10, 20} {
		held := 0
		for range runs {
			a, b := Medians(session(r, blocks, 5, 0.001, 0)), Medians(session(r, blocks, 5, 0.1, 0))
			held += count(!Shift(a, b).Excludes(0))
		}
		t.Logf("%d blocks: held %.3f", blocks, share(held, runs))
		check.That(t, share(held, runs) >= 0.87, "%d blocks: held in %.3f of runs", blocks, share(held, runs))
	}
}

// TestStopping: the interval of a median still holds in at least 87 % of runs if a cell stops once it is narrow.
func TestStopping(t *testing.T) {
	const runs, fewest, most, precision = 2000, 10, 60, 0.05
	r := rand.New(rand.NewPCG(13, 14))
	for _, between := range []float64{0.05, 0.1, 0.15} {
		held, ended := 0, 0
		for range runs {
			blocks := session(r, fewest, 3, between, 0)
			i := Of(blocks)
			for i.Relative() > precision && len(blocks) < most {
				blocks = append(blocks, session(r, 1, 3, between, 0)...)
				i = Of(blocks)
			}
			ended += len(blocks)
			held += count(!i.Excludes(1))
		}
		t.Logf("blocks differ by %.2f: %.1f of them, held %.3f", between, float64(ended)/runs, share(held, runs))
		check.That(t, share(held, runs) >= 0.87, "blocks differ by %.2f: held in %.3f of runs", between, share(held, runs))
	}
}

func TestDetectable(t *testing.T) {
	quiet, loud := []float64{100, 101, 99, 100.5, 99.5, 100}, []float64{100, 130, 80, 110, 90, 100}
	q, l := Detectable(quiet, quiet, 0.05), Detectable(loud, loud, 0.05)
	check.That(t, q >= 1.001 && q <= 1.03 && l >= 1.1 && l <= 1.7, "got %v of steady blocks and %v of unsteady ones", q, l)
	got := Detectable(quiet[:3], quiet[:3], 0.05)
	check.That(t, math.IsInf(got, 1), "got %v of three blocks against three, which can show nothing at 5 %%", got)
	got = Detectable(quiet, quiet, 0.05/100)
	check.That(t, math.IsInf(got, 1), "got %v of six blocks against six among 100 cells", got)
	got = Detectable(nil, quiet, 0.05)
	check.That(t, math.IsInf(got, 1), "got %v of nothing", got)
}

// TestModes: a cell with two modes is distinguished from one whose samples are only widely spread or skewed
// (guard 11). The limit of Ashman's D is the source of Modes's constants.
func TestModes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	families := []struct {
		name string
		most float64 // share of samples in which Modes may find two modes
		draw func() float64
	}{
		{"uniform, 0 to 1", 0.01, r.Float64},
		{"uniform, 1 to 2", 0.01, func() float64 { return 1 + r.Float64() }},
		{"uniform, 1 to 10", 0.01, func() float64 { return 1 + 9*r.Float64() }},
		{"log-uniform, 1 to 2", 0.01, func() float64 { return math.Exp2(r.Float64()) }},
		{"log-uniform, 1 to 4", 0.01, func() float64 { return math.Exp2(2 * r.Float64()) }},
		{"log-uniform, 1 to 10", 0.03, func() float64 { return math.Pow(10, r.Float64()) }},
		{"normal", 0.01, func() float64 { return 10 + r.NormFloat64() }},
		{"lognormal", 0.01, func() float64 { return math.Exp(0.2 * r.NormFloat64()) }},
		{"lognormal, wide", 0.01, func() float64 { return math.Exp(0.5 * r.NormFloat64()) }},
		{"exponential", 0.01, func() float64 { return 1 + r.ExpFloat64() }},
		{"few outliers", 0.016, // the probability that a sixth of 30 samples are outliers
			func() float64 { return 10 + 0.1*r.NormFloat64() + 20*float64(count(r.IntN(20) == 0)) }},
	}
	for _, tt := range families {
		for _, n := range []int{30, 60, 100, 300, 1000} {
			flagged, runs := 0, max(500, min(2000, 100_000/n))
			for range runs {
				xs := make([]float64, n)
				for i := range xs {
					xs[i] = tt.draw()
				}
				flagged += count(Modes(deal(xs, 10)) != nil)
			}
			slack := 2 * math.Sqrt(tt.most/float64(runs)) // two standard errors
			t.Logf("%s, %d samples: flagged in %.4f of tries", tt.name, n, share(flagged, runs))
			check.That(t, share(flagged, runs) <= tt.most+slack,
				"%s, %d samples: flagged in %.4f of tries", tt.name, n, share(flagged, runs))
		}
	}

	// Rounds of cnn over shm-slab, whose median describes neither mode. They spread in proportion.
	var rounds []float64
	for k := range 2000 {
		level := 80.0
		if k%10 < 3 {
			level = 37
		}
		rounds = append(rounds, level*math.Exp(0.2*r.NormFloat64()))
	}
	m := Modes(deal(rounds, 3))
	found := len(m) == 2 && math.Abs(m[0].Center-37) <= 2 && math.Abs(m[1].Center-80) <= 2
	check.That(t, found && math.Abs(m[0].Share-0.3) <= 0.03,
		"got %v, want 37 (0.3) and 80 (0.7)", m)
	slices.Sort(rounds)
	m = modesOn(rounds, rounds, deal(rounds, 3))
	check.That(t, m == nil, "got %v on the line: the samples do not show that Modes needs the logarithm", m)

	// Samples whose mean would be reported as 12.27 ± 6.52 GB/s.
	var xs []float64
	for k := range 50 {
		if k%5 < 2 {
			xs = append(xs, 3.9+0.2*r.NormFloat64())
		} else {
			xs = append(xs, 17.2+0.5*r.NormFloat64())
		}
	}
	m = Modes(deal(xs, 3))
	check.That(t, len(m) == 2 && math.Abs(m[0].Center-3.9) <= 0.2 && math.Abs(m[1].Center-17.2) <= 0.4 && m[0].Share == 0.4 && m[1].Share == 0.6,
		"got %v, want 3.9 (0.4) and 17.2 (0.6)", m)

	m = Modes(deal(make([]float64, 40), 3))
	check.That(t, m == nil, "got %v of samples that are all alike", m)
	close := make([]float64, 40) // two sharp modes, 1 % apart
	for i := range close {
		close[i] = 100 + float64(i%2) + 0.001*r.NormFloat64()
	}
	m = Modes(deal(close, 3))
	check.That(t, m == nil, "got %v, which nobody would act on", m)

	// Sessions of different speeds are two modes only if there are several of each speed.
	sessions := func(levels ...float64) [][]float64 {
		var blocks [][]float64
		for _, level := range levels {
			block := make([]float64, 100)
			for i := range block {
				block[i] = level + r.NormFloat64()
			}
			blocks = append(blocks, block)
		}
		return blocks
	}
	m = Modes(sessions(100, 101, 115))
	check.That(t, m == nil, "got %v of three sessions, one of which is slower", m)
	m = Modes(sessions(100, 115, 100, 115, 100, 115))
	check.That(t, len(m) == 2, "got %v of three sessions of one speed and three of another", m)
}

func deal(xs []float64, blocks int) [][]float64 {
	dealt := make([][]float64, blocks)
	for i, x := range xs {
		dealt[i%blocks] = append(dealt[i%blocks], x)
	}
	return dealt
}

// TestKendall: the normal approximation finds a trend at 1 % only where the exact test does, even in a single block.
func TestKendall(t *testing.T) {
	for n := 2; n <= 30; n++ {
		// ways[k] is the number of orders of n with k falling pairs.
		ways, all := []float64{1}, 1.0
		xs := []float64{1}
		for m := 2; m <= n; m++ {
			next := make([]float64, len(ways)+m-1)
			for k, w := range ways {
				for more := range m {
					next[k+more] += w
				}
			}
			ways, all, xs = next, all*float64(m), append(xs, float64(m))
		}
		falling, below := 0, ways[0]
		for end := n - 1; end > 0; end-- { // a bubble sort, in which each step adds a falling pair
			for i := range end {
				_, p := trend([][]float64{xs}, 1)
				exact := 2 * min(below, all-below+ways[falling]) / all
				check.That(t, p > 0.01 || exact <= 0.01,
					"n %d, %d falling pairs: got p %v, the exact test %v", n, falling, p, exact)
				xs[i], xs[i+1] = xs[i+1], xs[i]
				falling++
				below += ways[falling]
			}
		}
	}
}

// TestDriftPower: a drift across blocks is found as often as the table in docs/measuring.md says. At most 5 % of runs
// without drift are false alarms.
func TestDriftPower(t *testing.T) {
	const runs, spread = 2000, 0.08
	r := rand.New(rand.NewPCG(15, 16))
	for _, tt := range []struct {
		blocks int
		drift  float64
		found  float64 // share of runs, from 30,000 of them
	}{
		{6, 0, 0.04}, {6, 0.1, 0.11}, {6, 0.3, 0.5}, {6, 0.5, 0.83},
		{10, 0, 0.05}, {10, 0.1, 0.18}, {10, 0.3, 0.81}, {10, 0.5, 0.99},
		{12, 0, 0.05}, {12, 0.1, 0.21}, {12, 0.3, 0.87}, {12, 0.5, 1},
	} {
		found := 0
		for range runs {
			medians := session(r, tt.blocks, 1, spread, 0)
			for i, block := range medians {
				block[0] *= 1 + tt.drift*float64(i)/float64(tt.blocks-1)
			}
			found += count(Drift(medians).Across != 0)
		}
		t.Logf("%d blocks, a drift of %.0f %%: found in %.3f of runs", tt.blocks, 100*tt.drift, share(found, runs))
		check.That(t, math.Abs(share(found, runs)-tt.found) <= 0.03,
			"%d blocks, a drift of %.0f %%: found in %.3f of runs", tt.blocks, 100*tt.drift, share(found, runs))
		falseAlarms := 0.05 + 2*math.Sqrt(0.05*0.95/runs) // with two standard errors
		check.That(t, tt.drift > 0 || share(found, runs) <= falseAlarms,
			"%d blocks without drift: found one in %.3f of runs", tt.blocks, share(found, runs))
	}
}

// TestDrift: a trend is found and measured (guard 11). Levels that differ at random between blocks are not a trend.
func TestDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	within, across := 0, 0
	for range 500 {
		d := Drift(session(r, 6, 40, 0.05, 0.05))
		within += count(d.Within != 0)
		across += count(d.Across != 0)
	}
	check.That(t, share(within, 500) <= 0.02, "found in %.3f of runs without drift within blocks", share(within, 500))
	check.That(t, share(across, 500) <= 0.07, "found in %.3f of runs without drift across blocks", share(across, 500))

	rising := session(r, 6, 100, 0.03, 0.01)
	for _, b := range rising {
		for k := range b {
			b[k] *= 1 + 0.2*float64(k)/99
		}
	}
	d := Drift(rising)
	check.That(t, math.Abs(d.Within-0.18) <= 0.03 && d.Across == 0, "got %+v, want some 0.18 within blocks", d)

	falling := session(r, 8, 20, 0.001, 0.01)
	for i, b := range falling {
		for k := range b {
			b[k] *= 1 - 0.3*float64(i)/7
		}
	}
	d = Drift(falling)
	check.That(t, d.Within == 0 && math.Abs(d.Across+0.35) <= 0.05, "got %+v, want some -0.35 across blocks", d)

	slight := session(r, 6, 100, 0, 0.001)
	for _, b := range slight {
		for k := range b {
			b[k] *= 1 + 0.02*float64(k)/99
		}
	}
	d = Drift(slight)
	check.That(t, d == (Trend{}), "got %+v of a trend of 2 %%", d)
	check.Equal(t, Drift(nil), (Trend{}), "of nothing")
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func share(n, of int) float64 { return float64(n) / float64(of) }
