package contrast

import (
	"fmt"
	"math"

	"ipcbench/bench/stat"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// Again is what a second run of the same cells gave for one metric: how much all of them moved together, and how much a
// value and a ratio of two cells moved beside that, which the intervals of one run do not show.
type Again struct {
	Cells         []Twice
	Alone, Ratios []Move // of values, and of ratios of two cells of one group
	Elsewhere     string // "on another machine (…)" or "by other rules of measuring (…)", so that the runs give no range; else empty
}

// Twice is a cell that both runs measured, and the second value divided by the first.
type Twice struct {
	First, Second *metrics.Cell
	Ratio         stat.Interval
}

// A Move is the change of a logarithm between two runs, and the deviation that the blocks of both explain.
type Move struct{ By, Blocks float64 }

// typical and nineteen are quantiles of |x| for a normal x: its median, and the bound that 19 of 20 keep.
const typical, nineteen = 0.6745, 1.96

// Between compares a metric in two runs of the same cells. A metric that is computed from others has no moves.
func Between(first, second *metrics.Result, metric string) (r Again) {
	if differ := machine.Diff(first.Environment, second.Environment); differ != nil {
		r.Elsewhere = fmt.Sprintf("on another machine (%s)", differ[0])
	}
	if a, b := first.Plan.Rules, second.Plan.Rules; a != b {
		r.Elsewhere = fmt.Sprintf("by other rules of measuring (version %d instead of %d)", b, a)
	}
	if m, _ := metrics.MetricNamed(metric); !m.Sampled() {
		return r // no block has a value of its own
	}
	for _, a := range first.Cells {
		for _, b := range second.Cells {
			if a.ID() != b.ID() || a.Program != b.Program || Unusable(a) != nil || Unusable(b) != nil {
				continue
			}
			ratio := stat.Ratio(a.Medians(metric), b.Medians(metric))
			if !ratio.Sure() {
				continue
			}
			m := Move{math.Log(ratio.Center), math.Log(ratio.High/ratio.Low) / 2 / nineteen}
			for i, other := range r.Cells {
				if other.First.Group() == a.Group() {
					r.Ratios = append(r.Ratios, Move{m.By - r.Alone[i].By, math.Hypot(m.Blocks, r.Alone[i].Blocks)})
				}
			}
			r.Cells, r.Alone = append(r.Cells, Twice{a, b, ratio}), append(r.Alone, m)
		}
	}
	return r
}

// Shift returns by how much all cells moved together: the median of their ratios.
func (r Again) Shift() float64 {
	return math.Exp(stat.Median(doc.Each(r.Alone, func(m Move) float64 { return m.By })))
}

// Beside returns the moves without the shift.
func (r Again) Beside() []Move {
	shift := math.Log(r.Shift())
	return doc.Each(r.Alone, func(m Move) Move { return Move{m.By - shift, m.Blocks} })
}

// Typically says by how much something changed in half of the cases, and what the blocks of one run lead to expect.
func Typically(what string, moves []Move) string {
	seen := stat.Median(doc.Each(moves, func(m Move) float64 { return math.Abs(m.By) }))
	expected := typical * stat.Median(doc.Each(moves, func(m Move) float64 { return m.Blocks }))
	return fmt.Sprintf("%s changed by %s typically, where blocks alone give %s", what, doc.Percent(math.Expm1(seen)), doc.Percent(math.Expm1(expected)))
}

// Another returns the bound that another run on the machine keeps in 19 of 20, as text: "±7 %". It is 1.96 times the root of
// the mean square of the moves, because a third run is to any of the two as they are to each other.
func Another(moves []Move) string {
	sum := 0.0
	for _, m := range moves {
		sum += m.By * m.By
	}
	return "±" + doc.Percent(math.Expm1(nineteen*math.Sqrt(sum/float64(len(moves)))))
}
