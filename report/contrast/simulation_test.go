package contrast_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
)

const documents, contrasts = 4000, 20 // contrasts of each document

// document returns the cells of a simulated result, of ten blocks with a spread of 5 %. Cells i and i + contrasts are
// a pair. In the first differ pairs, a round of cell i takes times as long.
func document(r *rand.Rand, differ int, times float64) []*metrics.Cell {
	var cells []result.Cell
	for i := range 2 * contrasts {
		median := 20.0
		if i < differ {
			median *= times
		}
		rounds := make([]float64, 10)
		for k := range rounds {
			rounds[k] = median * math.Exp(0.05*r.NormFloat64())
		}
		cells = append(cells, benchtest.Cell(fmt.Sprint("cell-", i), even, 1, 1, rounds...))
	}
	return metrics.New(benchtest.Result(cells...)).Cells
}

// A tally counts the families with a false difference, and the real differences that were shown.
type tally struct{ wrong, found int }

// add counts the contrasts of a family whose cells differ if real has them.
func (t *tally) add(family []contrast.Judged, real map[*metrics.Cell]bool) {
	wrong := 0
	for _, j := range family {
		switch {
		case j.Shown && real[j.Cell] != real[j.Against]:
			t.found++
		case j.Shown:
			wrong = 1
		}
	}
	t.wrong += wrong
}

// rate returns the share of families with a false difference, and its standard error.
func (t *tally) rate() (share, deviation float64) {
	share = float64(t.wrong) / documents
	return share, math.Sqrt(share * (1 - share) / documents)
}

// TestSoakFamilies: at most 5 % of families show a difference that there is not, whatever share of the others is real.
// A ranking chooses its fastest cell from the same samples, which adds to its rate, so that is only logged.
func TestSoakFamilies(t *testing.T) {
	skip.Soak(t)
	for _, tt := range []struct {
		percent int // of the contrasts that are real
		times   float64
	}{{0, 1}, {50, 1.2}, {90, 1.2}, {50, 1.1}, {90, 1.1}} {
		r, differ := rand.New(rand.NewPCG(11, uint64(tt.percent))), contrasts*tt.percent/100
		var pairs, rankings tally
		for range documents {
			cells := document(r, differ, tt.times)
			real, family := map[*metrics.Cell]bool{}, make([]contrast.Contrast, contrasts)
			for i := range family {
				real[cells[i]], family[i] = i < differ, contrast.New("round", cells[i], cells[contrasts+i])
			}
			pairs.add(contrast.Judge("of this simulation", contrast.Alpha, family), real)
			v, _ := contrast.Decide(cells[:contrasts+1])
			rankings.add(v.Against, real)
		}
		share, deviation := pairs.rate()
		ranked, rankedDeviation := rankings.rate()
		all := float64(max(1, differ) * documents)
		t.Logf("%d %% real, %g times: a false difference in %.4f ± %.4f of pairs' families and %.4f ± %.4f of rankings",
			tt.percent, tt.times, share, deviation, ranked, rankedDeviation)
		t.Logf("found %.4f and %.4f of the real ones", float64(pairs.found)/all, float64(rankings.found)/all)
		check.That(t, share <= contrast.Alpha+3*deviation, "%d %% real: a false difference in %.4f of families", tt.percent, share)
	}
}
