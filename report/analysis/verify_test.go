package analysis

import (
	"math"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/bench/stat"
)

// TestOutcomes: what was measured afterwards is held against what was predicted, by the
// definition of the error, and the regret is that of the first.
func TestOutcomes(t *testing.T) {
	m := bench.Model{Name: "even", Tensors: 4, Bytes: 1e6}
	a := &Advice{}
	for _, name := range []string{"a", "b", "c"} {
		a.Ranked = append(a.Ranked, &Forecast{
			Cell:     benchtest.Cell(name, m, 1, 1),
			Overhead: stat.Interval{Center: 15e-3}, Round: stat.Interval{Center: 25e-3, Low: 21e-3, High: 27e-3, Confidence: 0.8},
		})
	}
	measured := func(blocks int, rounds map[string]float64) *Result {
		r := benchtest.Result()
		for name, ms := range rounds {
			r.Cells = append(r.Cells, benchtest.Cell(name, m, 1, 1, benchtest.Six(ms)[:blocks]...))
		}
		return New(r)
	}
	for name, tt := range map[string]struct {
		blocks int
		rounds map[string]float64
		errors []float64 // of the outcomes
		inside []bool
		regret float64
	}{
		"the first is the fastest":  {6, map[string]float64{"inproc": 10, "a": 20, "b": 30}, []float64{0.5, 0.25}, []bool{false, false}, 0},
		"it is not":                 {6, map[string]float64{"inproc": 10, "a": 26, "b": 20, "c": 20.2}, []float64{1. / 16, 0.5, 4.8 / 10.2}, []bool{true, false, false}, 0.3},
		"a difference is not shown": {6, map[string]float64{"inproc": 10, "a": 20.1, "b": 20}, []float64{4.9 / 10.1, 0.5}, []bool{false, false}, 0},
		"one alone":                 {6, map[string]float64{"inproc": 10, "a": 20}, []float64{0.5}, []bool{false}, math.NaN()},
		"one block":                 {1, map[string]float64{"inproc": 10, "a": 30, "b": 20}, []float64{math.NaN(), math.NaN()}, []bool{false, false}, math.NaN()},
		"no control":                {6, map[string]float64{"a": 26, "b": 20}, []float64{math.NaN(), math.NaN()}, []bool{true, false}, 0.3},
		"nothing":                   {6, nil, nil, nil, math.NaN()},
	} {
		t.Run(name, func(t *testing.T) {
			all := a.Outcomes(measured(tt.blocks, tt.rounds))
			if len(all) != len(tt.errors) {
				t.Fatalf("%d outcomes, want %d", len(all), len(tt.errors))
			}
			for i, of := range all {
				if !same(of.Error, tt.errors[i]) || of.Meet != tt.inside[i] || of.Cell.Transport != of.Forecast.Cell.Transport {
					t.Errorf("%s: error %v, inside %v, want %v and %v", of.Cell.Transport, of.Error, of.Meet, tt.errors[i], tt.inside[i])
				}
			}
			if got := a.Regret(all); !same(got, tt.regret) {
				t.Errorf("regret %v, want %v", got, tt.regret)
			}
		})
	}
}

// same reports whether two numbers are the same but for how they were computed, or both
// are none.
func same(a, b float64) bool {
	return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b)
}
