package contrast

import (
	"fmt"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// effects are the words for a larger and a smaller number, by the verb of [metrics.Metric.Noun].
var effects = map[string]struct{ is, more, less, times string }{
	"takes": {"is", "longer", "shorter", "times as long"},
	"is":    {"is", "higher", "lower", "times as high"},
	"are":   {"are", "more", "fewer", "times as many"},
}

// InPercent is the ratio below which differences are written as percent.
const InPercent = 1.5

// slight is the share below which a shown difference is written as less than 0.5 %.
const slight = 0.005

// Effect writes a ratio of a metric with its interval, as a predicate: takes 8.1 % longer (95 %
// interval 5.2 to 11 %), is 4.0 % shorter (…), is 2.31 times as fast (95 % interval 2.13 to 2.60).
func Effect(m metrics.Metric, ratio stat.Interval) string {
	verb, _ := m.Noun()
	words := effects[verb]
	if ratio.Center >= InPercent {
		return verb + " " + doc.Quantity("1", ratio.Center) + " " + words.times + Interval("1", ratio)
	}
	inverse := ratio.Map(func(x float64) float64 { return 1 / x })
	if verb == "takes" && inverse.Center >= InPercent {
		return "is " + doc.Quantity("1", inverse.Center) + " times as fast" + Interval("1", inverse)
	}
	word, share := words.more, ratio.Map(func(x float64) float64 { return x - 1 })
	if ratio.Center < 1 {
		verb, word, share = words.is, words.less, ratio.Map(func(x float64) float64 { return 1 - x })
	}
	size := doc.Quantity("%", share.Center)
	if share.Center < slight {
		size = "less than 0.5 %"
	}
	return verb + " " + size + " " + word + Interval("%", share)
}

// Range writes what remains possible of a ratio, as a predicate: is from 5.1 % shorter to 6.3 % longer.
func Range(m metrics.Metric, ratio stat.Interval) string {
	verb, _ := m.Noun()
	words := effects[verb]
	bound := func(x float64) string {
		switch {
		case x >= InPercent:
			return doc.Quantity("1", x) + " " + words.times
		case x >= 1:
			return doc.Quantity("%", x-1) + " " + words.more
		}
		return doc.Quantity("%", 1-x) + " " + words.less
	}
	return words.is + " from " + bound(ratio.Low) + " to " + bound(ratio.High)
}

// Interval writes the bounds of an estimate in parentheses, with their confidence. It is empty if
// there are none.
func Interval(unit string, i stat.Interval) string {
	_, bounds, ok := strings.Cut(doc.Bounded(unit, i), " (")
	if !ok {
		return ""
	}
	if unit == "%" {
		bounds = strings.Replace(bounds, ")", " %)", 1)
	}
	return " (" + doc.Percent(min(i.Confidence, stat.Confidence)) + " interval " + bounds
}

// Says writes a judged contrast, as a predicate about its first cell: the effect if it is shown,
// else why not and what remains possible.
func (j Judged) Says() string {
	switch {
	case j.Equal:
		j.Ratio.Confidence = 0 // nothing was estimated
		return Effect(j.Metric, j.Ratio)
	case j.Shown:
		return Effect(j.Metric, j.Ratio)
	case j.Doubt() != "":
		return Effect(j.Metric, j.Ratio) + " (" + j.Doubt() + ")"
	case !j.Sure():
		return fmt.Sprintf("%s (too few blocks: use --blocks %d)", Effect(j.Metric, j.Ratio), max(stat.Blocks, j.Needed()))
	}
	return Range(j.Metric, j.Ratio) + " (no difference shown)"
}
