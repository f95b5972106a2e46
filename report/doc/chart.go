package doc

import (
	"math"
	"slices"
	"strconv"

	"ipcbench/bench/stat"
)

// A chart is a plot as the page's script draws it: numbers in the units that
// readers see, in columns, since a page may hold many of them.
type chart struct {
	Kind   string        `json:"kind"`
	Steps  bool          `json:"steps,omitempty"`
	Apart  bool          `json:"apart,omitempty"`
	At     chartAxis     `json:"at"`
	Value  chartAxis     `json:"value"`
	Rule   *digits       `json:"rule,omitempty"`
	Rows   []string      `json:"rows,omitempty"` // of dots and bars
	Series []chartSeries `json:"series"`
	Marks  []chartMark   `json:"marks,omitempty"`
}

// A chartAxis has one unit, or several if its numbers are too far apart for one:
// then they are in the smallest, and Units has all, the largest first.
type chartAxis struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit,omitempty"`
	Units  []scale `json:"units,omitempty"`
	Log    bool    `json:"log,omitempty"`
	Change bool    `json:"change,omitempty"`
	scale  scale   // of its numbers
	kept   string  // the unit that they are kept in
}

// A chartSeries has an entry a point in each of its columns, or none in those that no
// point has anything for.
type chartSeries struct {
	Name    string     `json:"name"`
	Dim     bool       `json:"dim,omitempty"`
	Row     []int      `json:"row,omitempty"` // of dots and bars
	At      []digits   `json:"at,omitempty"`  // of curves
	Value   []digits   `json:"value"`
	Low     []digits   `json:"low,omitempty"`
	High    []digits   `json:"high,omitempty"`
	Says    []string   `json:"says,omitempty"` // the value with its bounds, as tables write it
	Text    []string   `json:"text,omitempty"`
	Samples [][]digits `json:"samples,omitempty"`
}

type chartMark struct {
	At    digits `json:"at"`
	Value digits `json:"value"`
	Text  string `json:"text"`
}

// digits are a number of which a picture shows no more than four digits.
type digits float64

// MarshalJSON writes null for what no picture can show.
func (d digits) MarshalJSON() ([]byte, error) {
	if x := float64(d); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(d), 'g', 4, 64), nil
}

// manyUnits is from which ratio on the numbers of a logarithmic axis have several
// units.
const manyUnits = 1e4

// scaled chooses the unit of an axis, as tables do.
func (a Axis) scaled(xs []float64) chartAxis {
	s := scaleOf(a.Unit, xs...)
	c := chartAxis{Name: Visible(a.Name), Unit: s.Name, Change: a.Change, scale: s, kept: a.Unit}
	c.Log = a.Log && len(xs) > 0 && !slices.ContainsFunc(xs, func(x float64) bool { return !(x > 0) })
	if all := scales[a.Unit]; c.Log && len(all) > 1 && slices.Max(xs)/slices.Min(xs) > manyUnits {
		c.scale, c.Unit = all[len(all)-1], ""
		c.Units = each(all, func(u scale) scale { return scale{u.Name, math.Round(u.Per / c.scale.Per)} })
	}
	return c
}

// digits is a number in the unit of the axis.
func (a chartAxis) digits(x float64) digits { return digits(x / a.scale.Per) }

// says writes a value as the axis shows it, with its bounds.
func (a chartAxis) says(i stat.Interval) string {
	switch {
	case a.Units != nil:
		return Bounded(a.kept, i)
	case a.Change:
		return bounded(i, " "+a.Unit, Signed)
	}
	return a.scale.bounded(i)
}

// chart makes the chart of a plot.
func (p Plot) chart() chart {
	var ats, values []float64
	for _, s := range p.Series {
		for _, x := range s.Points {
			ats, values = append(ats, x.At), append(values, x.Value.Center)
			for _, bound := range []float64{x.Value.Low, x.Value.High} {
				if x.Value.Confidence > 0 && !(p.Value.Log && bound <= 0) { // there is no such place on a logarithmic axis
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
	c.Marks = each(p.Marks, func(m Mark) chartMark { return chartMark{c.At.digits(m.At), c.Value.digits(m.Value), Visible(m.Text)} })
	for _, s := range p.Series {
		if len(s.Points) > 0 {
			c.Series = append(c.Series, c.series(p.Kind, s))
		}
	}
	return c
}

// series makes a series of the chart, and the rows that its points are the first ones in.
func (c *chart) series(kind Kind, s Series) chartSeries {
	made := chartSeries{Name: Visible(s.Name), Dim: s.Dim}
	bounds := slices.ContainsFunc(s.Points, func(x Point) bool { return x.Value.Confidence > 0 })
	texts := slices.ContainsFunc(s.Points, func(x Point) bool { return x.Text != "" })
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
			if x.Value.Confidence == 0 { // unknown, and not as narrow as can be
				low, high = math.NaN(), math.NaN()
			}
			made.Low, made.High = append(made.Low, c.Value.digits(low)), append(made.High, c.Value.digits(high))
		}
		if bounds || kind == Dots { // of others are many points: the script writes their numbers
			made.Says = append(made.Says, c.Value.says(x.Value))
		}
		if texts {
			made.Text = append(made.Text, Visible(x.Text))
		}
		if samples {
			made.Samples = append(made.Samples, each(x.Samples, c.Value.digits))
		}
	}
	return made
}

// row returns where a row is, and adds it if there is none of that name.
func (c *chart) row(name string) int {
	if !slices.Contains(c.Rows, name) {
		c.Rows = append(c.Rows, name)
	}
	return slices.Index(c.Rows, name)
}

// each makes something of each of all.
func each[T, U any](all []T, of func(T) U) []U {
	var made []U
	for _, x := range all {
		made = append(made, of(x))
	}
	return made
}
