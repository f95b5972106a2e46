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
				if x.Value.Confidence > 0 && !(p.Value.Log && bound <= 0) { // there is no such place on a logarithmic axis
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
		x := digits(*p.Rule / value.per)
		c.Rule = &x
	}
	for _, m := range p.Marks {
		c.Marks = append(c.Marks, chartMark{digits(m.At / at.per), digits(m.Value / value.per), Visible(m.Text)})
	}
	rows := map[string]int{}
	for _, s := range p.Series {
		if len(s.Points) == 0 {
			continue
		}
		made := chartSeries{Name: Visible(s.Name), Dim: s.Dim}
		bounds, texts, samples := false, false, false
		for _, x := range s.Points {
			v := x.Value
			if p.Kind == Curves {
				made.At = append(made.At, digits(x.At/at.per))
			} else {
				row, ok := rows[x.Name]
				if !ok {
					row = len(c.Rows)
					rows[x.Name], c.Rows = row, append(c.Rows, Visible(x.Name))
				}
				made.Row = append(made.Row, row)
			}
			made.Value = append(made.Value, digits(v.Center/value.per))
			low, high := v.Low/value.per, v.High/value.per
			if v.Confidence == 0 { // unknown, and not as narrow as can be
				low, high = math.NaN(), math.NaN()
			}
			made.Low, made.High = append(made.Low, digits(low)), append(made.High, digits(high))
			made.Says = append(made.Says, c.Value.says(p.Value.Unit, value, v))
			made.Text = append(made.Text, Visible(x.Text))
			var of []digits
			for _, y := range x.Samples {
				of = append(of, digits(y/value.per))
			}
			made.Samples = append(made.Samples, of)
			bounds, texts, samples = bounds || v.Confidence > 0, texts || x.Text != "", samples || of != nil
		}
		if !bounds {
			made.Low, made.High = nil, nil
			if p.Kind != Dots { // of many points: the script writes their numbers
				made.Says = nil
			}
		}
		if !texts {
			made.Text = nil
		}
		if !samples {
			made.Samples = nil
		}
		c.Series = append(c.Series, made)
	}
	return c
}
