package contrast

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"ipcbench/phase"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/tensor/pages"
)

// Kinds of marks.
const (
	NotProved = iota // the worst first: a screen has room for few
	Interrupted
	Astray
	SmallPages
	Bimodal
	Drifted
	Scattered
	FewRounds
	Stolen
)

// KindHelp describes the kinds of marks that a cell has by itself, as the beginning of a sentence.
var KindHelp = [...]string{
	Astray:      "Some tensors did not use the transport's own mechanism",
	SmallPages:  "Memory that should be in huge pages is not",
	Bimodal:     "Rounds fall into two groups",
	Drifted:     "Rounds drifted",
	Scattered:   "Over a tenth of rounds are outliers",
	Interrupted: "The measurement was interrupted",
	NotProved:   "The data was not proved",
}

// A Mark is a remark about a cell that a reader must know beside its numbers.
type Mark struct {
	Cell *metrics.Cell
	Kind int
	Text string // without the cell's name
}

// Marks returns the marks of a cell by itself.
func Marks(c *metrics.Cell) (all []Mark) {
	add := func(kind int, holds bool, text string) {
		if holds {
			all = append(all, Mark{c, kind, text})
		}
	}
	attested, reasons, because, sep := c.Of("attested"), c.Tally(phase.Fallback), "", ": "
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		because += fmt.Sprintf("%s%s %d", sep, reason, reasons[reason])
		sep = ", "
	}
	if !attested.Known() {
		attested.Center = 0
	}
	add(Astray, attested.Low < 1 || len(reasons) > 0,
		"only "+doc.Percent(attested.Center)+" of the tensors used the transport's own mechanism"+because)
	share := c.Of("huge_share")
	if !share.Known() {
		share.Center = 0
	}
	add(SmallPages, c.Pages == pages.Huge && share.Center < hugeShare, "only "+doc.Percent(share.Center)+" of the tensors' memory is in huge pages")
	modes, drift := c.Trends()
	if modes != nil {
		low, high := modes[0], modes[1]
		add(Bimodal, true, fmt.Sprintf("rounds fall into two groups: %s (%s) and %s (%s)",
			doc.Quantity("s", low.Center), doc.Percent(low.Share), doc.Quantity("s", high.Center), doc.Percent(high.Share)))
	}
	if drift.Across != 0 {
		add(Drifted, true, "rounds changed by "+doc.Signed(drift.Across)+" % from the first to the last block")
	} else {
		add(Drifted, drift.Within != 0, "rounds changed by "+doc.Signed(drift.Within)+" % within a block")
	}
	outliers := c.Of("round_outliers")
	add(Scattered, outliers.Center*10 > float64(outliers.N),
		fmt.Sprintf("%d of %s far from the median", int(outliers.Center), doc.Plural(c.Rounds(), "round")))
	add(Interrupted, c.Interrupted(), "the measurement was interrupted")
	add(NotProved, !c.Proved() && c.Unproved == "", "the data was not proved") // the name of an unproved peer says so
	return all
}

const (
	hugeShare   = 0.95 // share of memory that must be in huge pages if they were asked for
	fewRounds   = 4    // rounds of a block, fewer of which are marked: one slow round moves their median
	stolenApart = 0.01 // share of the processors' time by which two cells may differ
)

// marks returns what a reader must know beside the contrast of two cells. Outliers are left out,
// because a median tolerates them, and what forbids it is no mark.
func marks(x Contrast) (all []Mark) {
	for _, c := range []*metrics.Cell{x.Cell, x.Against} {
		all = append(all, slices.DeleteFunc(Marks(c), func(m Mark) bool { return m.Kind < Astray || m.Kind >= Scattered })...)
		if least, _ := metrics.RoundsPerBlock(c); least < fewRounds {
			all = append(all, Mark{c, FewRounds, "only " + doc.Plural(least, "round") + " in a block"})
		}
	}
	c, other := x.Cell.Of("stolen").Center, x.Against.Of("stolen").Center
	if math.Abs(c-other) > stolenApart {
		most := x.Cell
		if other > c {
			most = x.Against
		}
		all = append(all, Mark{most, Stolen, fmt.Sprintf("other virtual machines took %s of the processors' time, and %s with the other",
			doc.Percent(max(c, other)), doc.Percent(min(c, other)))})
	}
	return all
}
