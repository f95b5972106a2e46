package table

import (
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// wide is the ratio of values above which an axis is logarithmic.
const wide = 10

// Logarithmic reports whether the values need a logarithmic axis.
func Logarithmic(values []float64) bool {
	return len(values) > 1 && slices.Min(values) > 0 && slices.Max(values)/slices.Min(values) > wide
}

// dots returns a plot with a row for each cell that has the metric, in the colour of its
// transport. row names a row.
func dots(r *metrics.Result, cells []*metrics.Cell, metric string, row func(c *metrics.Cell) string) doc.Plot {
	m, _ := metrics.MetricNamed(metric)
	p := doc.Plot{Caption: GroupTitle(cells[0].Group()), Kind: doc.Dots, Value: doc.Axis{Name: m.Name, Unit: m.Unit}}
	var values []float64
	for _, c := range cells {
		if i := c.Of(metric); i.Known() {
			values = append(values, i.Center)
			p.Series = append(p.Series, doc.Series{Name: Variant(c), Dim: !c.Ranked(), Points: []doc.Point{{Name: row(c), Value: i, Text: strings.Join(details(c, r.Plan), "; ")}}})
		}
	}
	p.Value.Log = Logarithmic(values)
	return p
}

// plotted draws plots of each group, with notes below the last one.
func plotted(groups [][]*metrics.Cell, notes []string, draw func(cells []*metrics.Cell) []doc.Plot) (all []doc.Plot) {
	for _, cells := range groups {
		all = Drawn(all, draw(cells)...)
	}
	if len(all) > 0 {
		all[len(all)-1].Notes = notes
	}
	return all
}

func RoundPlots(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	return plotted(groups, nil, func(cells []*metrics.Cell) []doc.Plot {
		return []doc.Plot{dots(r, cells, metrics.YardstickOf(cells).By, Variant)}
	})
}

// FloorPlots shows how near the cells of each group are to the floors that bound them.
func FloorPlots(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	return plotted(groups, []string{"The line is the floor. If the floor is a bandwidth (streams), left of the line is slower. If it is a time, " +
		"right of the line is slower."}, func(cells []*metrics.Cell) []doc.Plot {
		p := dots(r, cells, "floor_ratio", func(c *metrics.Cell) string { name, _ := c.Bound(); return Variant(c) + ", " + name })
		p.Rule, p.Value.Name = new(1.0), "× floor"
		return []doc.Plot{p}
	})
}

// Drawn adds the plots that have points.
func Drawn(all []doc.Plot, more ...doc.Plot) []doc.Plot {
	return append(all, Only(more, func(p doc.Plot) bool {
		return slices.ContainsFunc(p.Series, func(s doc.Series) bool { return len(s.Points) > 0 })
	})...)
}

func TripPlots(_ *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	return plotted(groups, []string{"The parts of a bar add up to the round trip: each is the mean over the middle half of all round trips by their length. " +
		"Tables hold medians, which need not add up. between: from when the worker has the model until it reserves the memory of its update. " +
		"No client's round trip includes the server's work before and after, such as folding."},
		func(cells []*metrics.Cell) []doc.Plot {
			p := doc.Plot{Caption: GroupTitle(cells[0].Group()), Kind: doc.Bars,
				Value:  doc.Axis{Name: "a client's round trip", Unit: "s"},
				Series: doc.Each(tripParts[:], func(part string) doc.Series { return doc.Series{Name: part} })}
			for _, c := range cells {
				if trip, ok := TripOf(c); ok {
					for k, x := range trip {
						p.Series[k].Points = append(p.Series[k].Points, doc.Point{Name: Variant(c), Value: stat.Interval{Center: x}})
					}
				}
			}
			return []doc.Plot{p}
		})
}

// Limits of the pictures of rounds: points per page, and per curve or block. More could not be
// distinguished, and would take longer to open.
const (
	mostShares, leastShares   = 6_000, 15
	mostSamples, leastSamples = 6_000, 3
	sharesOfCurve             = 100
	samplesOfBlock            = 24
)

// SpreadPlots shows the distribution of rounds, and the rounds in the course of the run.
func SpreadPlots(r *metrics.Result, groups [][]*metrics.Cell) []doc.Plot {
	blocks := 0
	for _, c := range r.Cells {
		blocks += len(c.Timed())
	}
	shares := max(leastShares, min(sharesOfCurve, mostShares/max(len(r.Cells), 1)))
	samples := max(leastSamples, min(samplesOfBlock, mostSamples/max(blocks, 1)))
	since := doc.Axis{Name: "since the run began", Unit: "s"}
	timed := slices.ContainsFunc(r.Cells, func(c *metrics.Cell) bool {
		return slices.ContainsFunc(c.Timed(), func(b result.Block) bool { return b.At > 0 })
	})
	if !timed { // the file has no times of blocks
		since = doc.Axis{Name: "block", Unit: "1"}
	}
	return plotted(groups, []string{fmt.Sprintf("The curve of a distribution has at most %d steps. A line joins the medians of blocks. Small dots are rounds, "+
		"at most %d per block: the fastest, the slowest, and others at even distances. Each panel has its own scale.",
		shares, samples)},
		func(cells []*metrics.Cell) []doc.Plot {
			title := GroupTitle(cells[0].Group())
			parts := doc.Plot{Caption: "Distribution of rounds, " + title, At: doc.Axis{Name: "round", Unit: "s"},
				Value: doc.Axis{Name: "rounds that took at most that long", Unit: "%"}, Steps: true}
			times := doc.Plot{Caption: "Rounds in the course of the run, " + title, At: since,
				Value: doc.Axis{Name: "round", Unit: "s", Log: true}, Apart: true}
			var rounds []float64
			for _, c := range cells {
				s := doc.Series{Name: Variant(c), Dim: c.IsControl(), Points: distribution(c, shares)}
				rounds = append(rounds, doc.Each(s.Points, func(p doc.Point) float64 { return p.At })...)
				parts.Series = append(parts.Series, s)
				s.Points = course(c, samples, timed)
				times.Series = append(times.Series, s)
			}
			parts.At.Log = Logarithmic(rounds)
			return []doc.Plot{parts, times}
		})
}
