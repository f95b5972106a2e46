package doc

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/stat"
)

// A chart is the data of a plot for the page's script: numbers are in the units that
// readers see, and in columns, because a page may have many of them.
type chart struct {
	Kind   string        `json:"kind"`
	Steps  bool          `json:"steps,omitempty"`
	Apart  bool          `json:"apart,omitempty"`
	At     chartAxis     `json:"at"`
	Value  chartAxis     `json:"value"`
	Rule   *digits       `json:"rule,omitempty"`
	Rows   []string      `json:"rows,omitempty"` // of dots and bars: names of rows
	Series []chartSeries `json:"series"`
	Marks  []chartMark   `json:"marks,omitempty"`
}

// A chartAxis has one unit, or several if its numbers are too far apart for one. Numbers are
// then in the smallest unit, and Units has all of them, the largest first.
type chartAxis struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit,omitempty"`
	Units  []scale `json:"units,omitempty"`
	Log    bool    `json:"log,omitempty"`
	Change bool    `json:"change,omitempty"`
	scale  scale   // unit of its numbers
	kept   string  // unit in which the plot keeps them
}

// A chartSeries has one entry per point in each of its columns. A column is empty if no point
// has data for it.
type chartSeries struct {
	Name    string     `json:"name"`
	Dim     bool       `json:"dim,omitempty"`
	Row     []int      `json:"row,omitempty"` // of dots and bars: indices in chart.Rows
	At      []digits   `json:"at,omitempty"`  // of curves
	Value   []digits   `json:"value"`
	Low     []digits   `json:"low,omitempty"`
	High    []digits   `json:"high,omitempty"`
	Says    []string   `json:"says,omitempty"` // values with their bounds, as in tables
	Text    []string   `json:"text,omitempty"`
	Samples [][]digits `json:"samples,omitempty"`
}

type chartMark struct {
	At    digits `json:"at"`
	Value digits `json:"value"`
	Text  string `json:"text"`
}

// digits is a number that is written with four digits, which suffice for a picture.
type digits float64

// MarshalJSON writes null for NaN and infinity, which a picture cannot show.
func (d digits) MarshalJSON() ([]byte, error) {
	if number(d).unknown() {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(d), 'g', 4, 64), nil
}

// manyUnits is the ratio of the largest and the smallest number above which a logarithmic
// axis has several units.
const manyUnits = 1e4

// scaled returns the axis with the unit that tables would choose for xs.
func (a Axis) scaled(xs []float64) chartAxis {
	s := scaleOf(a.Unit, xs...)
	c := chartAxis{Name: Visible(a.Name), Unit: s.Name, Change: a.Change, scale: s, kept: a.Unit}
	c.Log = a.Log && len(xs) > 0 && !slices.ContainsFunc(xs, func(x float64) bool { return !(x > 0) })
	if all := scales[a.Unit]; c.Log && len(all) > 1 && slices.Max(xs)/slices.Min(xs) > manyUnits {
		c.scale, c.Unit = all[len(all)-1], ""
		c.Units = Each(all, func(u scale) scale { return scale{u.Name, math.Round(u.Per / c.scale.Per)} })
	}
	return c
}

// digits returns x in the unit of the axis.
func (a chartAxis) digits(x float64) digits { return digits(x / a.scale.Per) }

// says formats a value as the axis shows it, with its bounds.
func (a chartAxis) says(i stat.Interval) string {
	switch {
	case a.Units != nil:
		return Bounded(a.kept, i)
	case a.Change:
		return bounded(i, " "+a.Unit, Signed)
	}
	return a.scale.bounded(i)
}

// chart returns the chart of a plot.
func (p Plot) chart() chart {
	var ats, values []float64
	for _, s := range p.Series {
		for _, x := range s.Points {
			ats, values = append(ats, x.At), append(values, x.Value.Center)
			for _, bound := range []float64{x.Value.Low, x.Value.High} {
				if x.Value.Confidence > 0 && !(p.Value.Log && bound <= 0) { // a logarithmic axis cannot show it
					values = append(values, bound)
				}
			}
		}
	}
	c := chart{Kind: [...]string{"curves", "dots", "bars"}[p.Kind], Steps: p.Steps, Apart: p.Apart}
	c.At, c.Value = p.At.scaled(ats), p.Value.scaled(values)
	if p.Rule != nil {
		c.Rule = new(c.Value.digits(*p.Rule))
	}
	c.Marks = Each(p.Marks, func(m Mark) chartMark { return chartMark{c.At.digits(m.At), c.Value.digits(m.Value), Visible(m.Text)} })
	for _, s := range p.Series {
		if len(s.Points) > 0 {
			c.Series = append(c.Series, c.series(p.Kind, s))
		}
	}
	return c
}

// series returns a series for the chart. It adds the rows of its points to the chart.
func (c *chart) series(kind Kind, s Series) chartSeries {
	made := chartSeries{Name: Visible(s.Name), Dim: s.Dim}
	bounds := slices.ContainsFunc(s.Points, func(x Point) bool { return x.Value.Confidence > 0 })
	samples := slices.ContainsFunc(s.Points, func(x Point) bool { return x.Samples != nil })
	for _, x := range s.Points {
		made.Value = append(made.Value, c.Value.digits(x.Value.Center))
		if kind == Curves {
			made.At = append(made.At, c.At.digits(x.At))
		} else {
			made.Row = append(made.Row, c.row(Visible(x.Name)))
		}
		if bounds {
			low, high := x.Value.Low, x.Value.High
			if x.Value.Confidence == 0 { // the bounds are unknown, not equal to the value
				low, high = math.NaN(), math.NaN()
			}
			made.Low, made.High = append(made.Low, c.Value.digits(low)), append(made.High, c.Value.digits(high))
		}
		if bounds || kind == Dots { // others have many points: the script formats their numbers
			made.Says = append(made.Says, c.Value.says(x.Value))
		}
		made.Text = append(made.Text, Visible(x.Text))
		if samples {
			made.Samples = append(made.Samples, Each(x.Samples, c.Value.digits))
		}
	}
	if strings.Join(made.Text, "") == "" {
		made.Text = nil
	}
	return made
}

// row returns the index of the row with that name, which it adds if there is none.
func (c *chart) row(name string) int {
	if !slices.Contains(c.Rows, name) {
		c.Rows = append(c.Rows, name)
	}
	return slices.Index(c.Rows, name)
}
