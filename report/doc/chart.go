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
	Name   string      `json:"name"`
	Unit   string      `json:"unit,omitempty"`
	Units  []chartUnit `json:"units,omitempty"`
	Log    bool        `json:"log,omitempty"`
	Change bool        `json:"change,omitempty"`
}

type chartUnit struct {
	Name string  `json:"name"`
	Per  float64 `json:"per"`
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

// scaled chooses the unit of an axis, as tables do. A scale without a name stands
// for all units of the axis.
func (a Axis) scaled(xs []float64) (chartAxis, scale) {
	c, s := chartAxis{Name: Visible(a.Name), Log: a.Log, Change: a.Change}, scaleOf(a.Unit, xs...)
	c.Log = c.Log && len(xs) > 0 && !slices.ContainsFunc(xs, func(x float64) bool { return !(x > 0) })
	if all := scales[a.Unit]; c.Log && len(all) > 1 && slices.Max(xs)/slices.Min(xs) > manyUnits {
		s = all[len(all)-1]
		for _, u := range all {
			c.Units = append(c.Units, chartUnit{u.name, math.Round(u.per / s.per)})
		}
		return c, s
	}
	c.Unit = s.name
	return c, s
}

// says writes a value as the axis shows it, with its bounds.
func (a chartAxis) says(unit string, s scale, i stat.Interval) string {
	switch {
	case a.Units != nil:
		return Bounded(unit, i)
	case a.Change:
		return bounded(i, " "+s.name, Signed)
	}
	return s.bounded(i)
}

// chart makes the chart of a plot.
func (p Plot) chart() chart {
	var ats, values []float64
	for _, s := range p.Series {
		for _, x := range s.Points {
			ats, values = append(ats, x.At), append(values, x.Value.Center)
			for _, bound := range []float64{x.Value.Low, x.Value.High} {
				if x.bounded() && !(p.Value.Log && bound <= 0) { // there is no such place on a logarithmic axis
					values = append(values, bound)
				}
			}
		}
	}
	c := chart{Kind: [...]string{"curves", "dots", "bars"}[p.Kind], Steps: p.Steps, Apart: p.Apart}
	var at, value scale
	c.At, at = p.At.scaled(ats)
	c.Value, value = p.Value.scaled(values)
	if p.Rule != nil {
		x := value.digits(*p.Rule)
		c.Rule = &x
	}
	for _, m := range p.Marks {
		c.Marks = append(c.Marks, chartMark{at.digits(m.At), value.digits(m.Value), Visible(m.Text)})
	}
	for _, s := range p.Series {
		if len(s.Points) > 0 {
			c.Series = append(c.Series, c.series(p, s, at, value))
		}
	}
	return c
}

// series makes a series of the chart, and the rows that its points are the first ones in.
func (c *chart) series(p Plot, s Series, at, value scale) chartSeries {
	made := chartSeries{Name: Visible(s.Name), Dim: s.Dim, Value: each(s.Points, func(x Point) digits { return value.digits(x.Value.Center) })}
	if p.Kind == Curves {
		made.At = each(s.Points, func(x Point) digits { return at.digits(x.At) })
	} else {
		made.Row = each(s.Points, func(x Point) int { return c.row(Visible(x.Name)) })
	}
	bounds := slices.ContainsFunc(s.Points, Point.bounded)
	if bounds {
		made.Low = each(s.Points, func(x Point) digits { return value.bound(x, x.Value.Low) })
		made.High = each(s.Points, func(x Point) digits { return value.bound(x, x.Value.High) })
	}
	if bounds || p.Kind == Dots { // of others are many points: the script writes their numbers
		made.Says = each(s.Points, func(x Point) string { return c.Value.says(p.Value.Unit, value, x.Value) })
	}
	if slices.ContainsFunc(s.Points, func(x Point) bool { return x.Text != "" }) {
		made.Text = each(s.Points, func(x Point) string { return Visible(x.Text) })
	}
	if slices.ContainsFunc(s.Points, func(x Point) bool { return x.Samples != nil }) {
		made.Samples = each(s.Points, func(x Point) []digits { return each(x.Samples, value.digits) })
	}
	return made
}

// row returns where a row is, and adds it if there is none of that name.
func (c *chart) row(name string) int {
	if i := slices.Index(c.Rows, name); i >= 0 {
		return i
	}
	c.Rows = append(c.Rows, name)
	return len(c.Rows) - 1
}

// each makes something of each of all.
func each[T, U any](all []T, of func(T) U) []U {
	var made []U
	for _, x := range all {
		made = append(made, of(x))
	}
	return made
}

func (s scale) digits(x float64) digits { return digits(x / s.per) }

// bound is one of the bounds of a point. What is unknown is not as narrow as can be.
func (s scale) bound(x Point, bound float64) digits {
	if !x.bounded() {
		return digits(math.NaN())
	}
	return s.digits(bound)
}

func (x Point) bounded() bool { return x.Value.Confidence > 0 }
