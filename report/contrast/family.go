package contrast

import (
	"fmt"
	"math"
	"slices"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
)

// Alpha is the probability of any false difference that a family accepts, unless the user chose
// another one.
const Alpha = 1 - stat.Confidence

// A Judged contrast has been tested together with the others of its family.
type Judged struct {
	Contrast
	Place string  // names the family, after its size: "of the ranking"
	Among int     // number of contrasts that were tested together; 0 if this one was not tested
	P     float64 // corrected by Holm's method for the family
	Level float64 // at which Holm's method tests the smallest p of the family
	Shown bool    // a difference is shown: in the family, by the interval, and nothing forbids it
}

// Judge tests contrasts as one family: the probability that any of them is falsely shown is at
// most alpha (Holm 1979). Those with equal values are stated, and neither tested nor counted.
func Judge(place string, alpha float64, family []Contrast) []Judged {
	ps := make([]float64, len(family))
	among := 0
	for i, x := range family {
		ps[i] = x.P
		if x.Equal {
			ps[i] = math.NaN()
		} else if x.Known() {
			among++
		}
	}
	level := alpha / float64(max(among, 1))
	family = slices.Clone(family)
	for i, x := range family {
		if !math.IsNaN(ps[i]) {
			family[i] = x.byCycle(level)
			ps[i] = family[i].P
		}
	}
	judged := make([]Judged, len(family))
	for i, p := range stat.Holm(ps) {
		x := family[i]
		j := Judged{Contrast: x, Place: place, Among: among, P: p, Level: level}
		j.Shown = x.Forbids == nil && p <= alpha && x.Excludes()
		if x.Equal {
			j.Among, j.Shown = 0, x.Forbids == nil && x.More.Center != 0
		}
		judged[i] = j
	}
	return judged
}

// Ratios in each cycle are used if a run was spread, so that what an hour does to all cells is not in a contrast, and if
// cycles are enough for the signed ranks to be small beside the family's level.
const (
	leastSpread = time.Hour
	leastCycles = 10
	leastShare  = 5
)

// byCycle returns the contrast made of differences and ratios in each cycle, or as it is if the run does not allow that.
func (x Contrast) byCycle(level float64) Contrast {
	a, b := x.Against.Medians(x.Metric.Name), x.Cell.Medians(x.Metric.Name)
	if n := len(a); n != len(b) || n < leastCycles || x.Cell.Spread() < leastSpread || !x.Cell.SameRun(x.Against) || stat.LeastPaired(n)*leastShare > level {
		return x
	}
	x.ByCycle = true
	x.More, x.P = stat.PairedShift(a, b)
	if x.Ratio.Known() {
		x.Ratio, x.P = stat.PairedRatio(a, b)
	}
	return x
}

// Inverse returns the contrast with its cells exchanged.
func (j Judged) Inverse() Judged {
	j.Cell, j.Against = j.Against, j.Cell
	j.Ratio = j.Ratio.Map(func(ratio float64) float64 { return 1 / ratio })
	j.More = j.More.Map(func(more float64) float64 { return -more })
	return j
}

// Blind reports whether so few blocks can show no difference in a family of that size.
func (j Judged) Blind() bool {
	return j.Among > 0 && !j.ByCycle && stat.Least(len(j.Cell.Medians(j.Metric.Name)), len(j.Against.Medians(j.Metric.Name))) > j.Level
}

// Needed returns the number of blocks of each cell that can show a difference in the family.
func (j Judged) Needed() int { return stat.Needed(j.Level) }

// WouldShow returns the smallest ratio above 1 that the family would show in four of five
// repetitions; it is infinite if it can show none.
func (j Judged) WouldShow() float64 {
	if j.ByCycle {
		return stat.DetectablePaired(j.Against.Medians(j.Metric.Name), j.Cell.Medians(j.Metric.Name), j.Level)
	}
	return stat.Detectable(j.Cell.Medians(j.Metric.Name), j.Against.Medians(j.Metric.Name), j.Level)
}

// Family names the family with its size: "among the 3 of its question". It is empty if the contrast
// was not tested.
func (j Judged) Family() string {
	switch j.Among {
	case 0:
		return ""
	case 1:
		return "where it is the only one " + j.Place + j.by()
	}
	return fmt.Sprintf("among the %d %s", j.Among, j.Place) + j.by()
}

func (j Judged) by() string {
	if j.ByCycle {
		return ", by cycle"
	}
	return ""
}

// Word says whether a difference is shown, and in which family.
func (j Judged) Word() string {
	if j.Shown {
		return "shown " + j.Family()
	}
	return "not shown " + j.Family()
}

// Doubt says why a difference is not shown although its 95 % interval has one; else it is empty.
func (j Judged) Doubt() string {
	switch {
	case j.Shown || !j.Excludes() || !j.Sure():
		return ""
	case len(j.Forbids) > 0:
		return "not shown, because " + doc.List(j.Forbids)
	case j.Blind():
		return fmt.Sprintf("%s, for which there are too few blocks (use --blocks %d)", j.Word(), j.Needed())
	}
	return j.Word()
}
