package doc

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mostCurves is how many are drawn: more cannot be told apart.
const mostCurves = 6

// A sketch is what can be drawn of curves in few signs: the series with the lowest
// values, the one that ends highest first.
type sketch struct {
	Plot
	left []string  // names of the other series
	at   []float64 // of all points, in order
	low  float64   // place of the lowest value
}

// place is where a number stands on an axis.
func (a Axis) place(x float64) float64 {
	if a.Log {
		return math.Log(x)
	}
	return x
}

// sketch returns what can be drawn of p; ok is false if that is nothing.
func (p Plot) sketch() (s sketch, ok bool) {
	if p.Kind != Curves {
		return s, false
	}
	s.Plot, s.Series = p, nil
	least := map[float64]float64{}                              // the lowest value by At
	sane := func(x float64) bool { return math.Abs(x) < 1e100 } // so that differences are numbers too
	for _, of := range p.Series {
		of.Points = slices.DeleteFunc(slices.Clone(of.Points), func(q Point) bool {
			return !sane(p.At.place(q.At)) || !sane(p.Value.place(q.Value.Center))
		})
		if len(of.Points) == 0 {
			continue
		}
		for _, q := range of.Points {
			if y, ok := least[q.At]; !ok || q.Value.Center < y {
				least[q.At] = q.Value.Center
			}
		}
		s.Series = append(s.Series, of)
	}
	level := func(of Series) float64 {
		sum := 0.0
		for _, q := range of.Points {
			sum += p.Value.place(q.Value.Center) - p.Value.place(least[q.At])
		}
		return sum / float64(len(of.Points))
	}
	slices.SortStableFunc(s.Series, func(a, b Series) int { return cmp.Compare(level(a), level(b)) })
	for len(s.Series) > mostCurves {
		last := len(s.Series) - 1
		s.left, s.Series = append(s.left, s.Series[last].Name), s.Series[:last]
	}
	end := func(of Series) float64 { return of.Points[len(of.Points)-1].Value.Center }
	slices.SortStableFunc(s.Series, func(a, b Series) int { return cmp.Compare(end(b), end(a)) })
	s.low = math.Inf(1)
	places := map[float64]bool{}
	for _, of := range s.Series {
		for _, q := range of.Points {
			places[q.At] = true
			s.low = min(s.low, p.Value.place(q.Value.Center))
		}
	}
	s.at = slices.Sorted(maps.Keys(places))
	return s, len(s.at) > 1 && p.At.place(s.at[0]) < p.At.place(s.at[len(s.at)-1])
}

// notes are the paragraphs below the picture.
func (s sketch) notes() []string {
	var notes []string
	for _, m := range s.Marks {
		if m.Text != "" {
			notes = append(notes, m.Text)
		}
	}
	if len(s.left) > 0 {
		notes = append(notes, "Not drawn: "+List(s.left)+".")
	}
	return append(notes, s.Notes...)
}

// Tick writes a number of an axis, without zeros that say nothing.
func (a Axis) Tick(x float64) string {
	number, unit, _ := strings.Cut(Quantity(a.Unit, x), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return strings.TrimSpace(number + " " + unit)
}

// squares are the colours of lines in Markdown, where Mermaid draws no legend, and
// signs of the same colours.
var squares = []struct{ sign, colour string }{
	{"🟦", "#3b82c4"}, {"🟧", "#e8871e"}, {"🟩", "#5aa040"}, {"🟥", "#d83a40"}, {"🟪", "#9061b8"}, {"🟫", "#a0673f"},
}

// mostNames is how many steps Mermaid can name below a chart.
const mostNames = 12

// curves draws the plot for GitHub, in Mermaid's notation. Its axes are linear: what
// stands on a logarithmic one is given as logarithms, in a unit in which they are
// positive. A line has a value at each step, so that a series which lacks some is left
// out.
func (p Plot) curves(b *strings.Builder) {
	s, ok := p.sketch()
	if !ok {
		return
	}
	s.Series = slices.DeleteFunc(s.Series, func(of Series) bool {
		if len(of.Points) < len(s.at) {
			s.left = append(s.left, of.Name)
		}
		return len(of.Points) < len(s.at)
	})
	if len(s.Series) == 0 {
		return
	}
	every := (len(s.at) + mostNames - 1) / mostNames
	var steps []int // that are drawn: Mermaid takes two of one name for one
	var names, palette, legend, lines []string
	for i := 0; i < len(s.at); i += every {
		if name := label(p.At.Tick(s.at[i])); !slices.Contains(names, name) {
			steps, names = append(steps, i), append(names, name)
		}
	}
	least := s.low
	if p.Value.Log {
		least = math.Exp(s.low)
	}
	unit := scaleOf(p.Value.Unit, least)
	value := func(x float64) float64 {
		if p.Value.Log {
			return math.Log10(x / unit.per)
		}
		return x / unit.per
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, of := range s.Series {
		palette, legend = append(palette, squares[i].colour), append(legend, squares[i].sign+" "+of.Name)
		var values []string
		for _, k := range steps {
			y := value(of.Points[k].Value.Center)
			low, high = min(low, y), max(high, y)
			values = append(values, strconv.FormatFloat(y, 'f', 3, 64))
		}
		lines = append(lines, "    line ["+strings.Join(values, ", ")+"]\n")
	}
	axis := p.Value.Name + ", " + unit.name
	if p.Value.Log {
		low, high = math.Floor(low), max(math.Ceil(high), math.Floor(low)+1)
		axis = "log10 of " + axis
		var means []string
		for e := max(low, 0); e <= high && len(means) < 9; e++ {
			means = append(means, fmt.Sprintf("%.0f is %s", e, p.Value.Tick(math.Pow(10, e)*unit.per)))
		}
		s.Notes = append([]string{"The axis of " + p.Value.Name + " is logarithmic: " + List(means) + "."}, s.Notes...)
	}
	const look = `%%{init: {"xyChart": {"width": 800, "height": 400}, "themeVariables": {"xyChart": {"plotColorPalette": "COLOURS"}}}}%%`
	title := ""
	if p.Caption != "" {
		title = "    title " + label(p.Caption) + "\n"
	}
	fmt.Fprintf(b, "\n```mermaid\n%s\nxychart-beta\n%s    x-axis %s [%s]\n    y-axis %s %s --> %s\n%s```\n",
		strings.Replace(look, "COLOURS", strings.Join(palette, ", "), 1), title, label(p.At.Name), strings.Join(names, ", "),
		label(axis), strconv.FormatFloat(low, 'f', -1, 64), strconv.FormatFloat(max(high, math.Nextafter(low, math.Inf(1))), 'f', -1, 64), strings.Join(lines, ""))
	paragraphs(b, Say(strings.Join(legend, " ")))
	paragraphs(b, Say(s.notes()...))
}
