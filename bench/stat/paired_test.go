package stat_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
)

// TestPairedTable: p and critical rank sums are those of published tables (Wilcoxon 1945; n = 6 to 12 at 5 %: 0, 2, 3, 5, 8, 10, 13).
func TestPairedTable(t *testing.T) {
	for n, sum := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8, 11: 10, 12: 13} {
		for _, more := range []int{0, 1} { // the difference of the least significant ranks is reversed
			a, b := make([]float64, n), make([]float64, n)
			left := sum + more
			for k := n; k >= 1; k-- {
				a[k-1], b[k-1] = 1, math.Exp(float64(k))
				if k <= left {
					left -= k
					b[k-1] = math.Exp(-float64(k))
				}
			}
			_, p := stat.PairedRatio(a, b)
			check.That(t, (p <= 0.05) == (more == 0), "n %d, rank sum %d: p %g", n, sum+more, p)
		}
	}
	i, p := stat.PairedRatio([]float64{1, 2, 4}, []float64{2, 4, 8})
	check.That(t, p == 0.25 && math.Abs(i.Center-2) < 1e-12 && !i.Sure(), "%+v, %g", i, p)
	i, p = stat.PairedRatio([]float64{1, 2, 0}, []float64{2, 4, 8})
	check.That(t, !i.Known() && math.IsNaN(p), "%+v, %g", i, p)
}

// TestPairedByHour: an hour that moves all cells takes the power of the unpaired test, and leaves that of ratios by cycle.
// Effects of a cell's own, which last for some cycles, lower the coverage of both; the log has it.
func TestPairedByHour(t *testing.T) {
	const runs, cycles = 2000, 12
	random := rand.New(rand.NewPCG(1, 2))
	simulate := func(hour, own, effect float64) (paired, unpaired, covered, coveredUnpaired float64) {
		for range runs {
			a, b := make([]float64, cycles), make([]float64, cycles)
			level, mine, other := 0.0, random.NormFloat64(), random.NormFloat64()
			for i := range a {
				if i%4 == 0 {
					level = random.NormFloat64()
				}
				mine = 0.75*mine + math.Sqrt(1-0.75*0.75)*random.NormFloat64() // of four cycles an hour
				other = 0.75*other + math.Sqrt(1-0.75*0.75)*random.NormFloat64()
				a[i] = math.Exp(hour*level + own*mine + 0.06*random.NormFloat64())
				b[i] = math.Exp(effect + hour*level + own*other + 0.06*random.NormFloat64())
			}
			i, p := stat.PairedRatio(a, b)
			u := stat.Ratio(a, b)
			hits := func(ok bool) float64 {
				if ok {
					return 1.0 / runs
				}
				return 0
			}
			paired += hits(p <= 0.05)
			unpaired += hits(stat.Test(a, b) <= 0.05)
			covered += hits(i.Low <= math.Exp(effect) && math.Exp(effect) <= i.High)
			coveredUnpaired += hits(u.Low <= math.Exp(effect) && math.Exp(effect) <= u.High)
		}
		return paired, unpaired, covered, coveredUnpaired
	}
	for _, hour := range []float64{0, 0.07, 0.2} {
		paired, unpaired, covered, coveredUnpaired := simulate(hour, 0, 0.1)
		t.Logf("hour %2.0f %%: found 10 %% by %.2f paired, %.2f unpaired; coverage %.3f and %.3f", hour*100, paired, unpaired, covered, coveredUnpaired)
		check.That(t, paired > 0.85 && covered > 0.93, "hour %g: power %g, coverage %g", hour, paired, covered)
		check.That(t, hour < 0.2 || unpaired < paired/2, "hour %g: the unpaired test has power %g", hour, unpaired)
	}
	for _, own := range []float64{0.05, 0.1} {
		paired, unpaired, covered, coveredUnpaired := simulate(0.07, own, 0)
		t.Logf("effects of a cell's own of %2.0f %%: found 0 %% by %.2f paired, %.2f unpaired; coverage %.3f and %.3f", own*100, paired, unpaired, covered, coveredUnpaired)
	}
}
