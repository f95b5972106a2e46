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

const (
	mostCurves  = 6  // more cannot be told apart
	curveHeight = 15 // lines of a terminal
	leastCurve  = 24 // columns
	mostCurve   = 72
	mostTicks   = 4
)

// A sketch is what can be drawn of curves in few signs: the series with the lowest
// values, the one that ends highest first.
type sketch struct {
	Plot
	left []string  // names of the other series
	at   []float64 // of all points, in order
	low  float64   // places of the lowest and the highest value
	high float64
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
	s.low, s.high = math.Inf(1), math.Inf(-1)
	places := map[float64]bool{}
	for _, of := range s.Series {
		for _, q := range of.Points {
			places[q.At] = true
			y := p.Value.place(q.Value.Center)
			s.low, s.high = min(s.low, y), max(s.high, y)
		}
	}
	s.at = slices.Sorted(maps.Keys(places))
	return s, len(s.at) > 1 && p.At.place(s.at[0]) < p.At.place(s.at[len(s.at)-1])
}

// notes are the paragraphs below the picture; cross is the sign of a mark.
func (s sketch) notes(cross string) []string {
	var notes []string
	for _, m := range s.Marks {
		if m.Text != "" {
			notes = append(notes, cross+m.Text)
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

// ticks returns round numbers between two places of an axis.
func (a Axis) ticks(low, high float64) []float64 {
	var all []float64
	if a.Log {
		for _, digits := range [][]float64{{1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9}} {
			all = nil
			for e := math.Floor(low / math.Ln10); e <= high/math.Ln10; e++ {
				for _, d := range digits {
					if x := d * math.Pow(10, e); math.Log(x) >= low-1e-9 && math.Log(x) <= high+1e-9 {
						all = append(all, x)
					}
				}
			}
			if len(all) >= 2 {
				break
			}
		}
	} else {
		step := math.Pow(10, math.Floor(math.Log10(high-low)))
		for n := math.Ceil(low / step); n*step <= high && len(all) < 20; n++ {
			all = append(all, n*step)
		}
	}
	every := (len(all) + mostTicks - 1) / mostTicks
	var some []float64
	for i := 0; i < len(all); i += max(every, 1) {
		some = append(some, all[i])
	}
	return some
}

// curves draws the plot with characters: a letter at each point of a series, dots
// between them, and its name at its end.
func (t *textWriter) curves(s sketch) {
	names, wide := make([]string, len(s.Series)), 0
	for i, of := range s.Series {
		names[i] = string(rune('A'+i)) + " " + t.cut(of.Name, t.left/4)
		wide = max(wide, width(names[i]))
	}
	labels, margin := map[int]string{}, width(t.written(s.Value.Name))
	row := func(y float64) int {
		if s.high == s.low {
			return curveHeight / 2
		}
		share := (s.high - y) / (s.high - s.low)
		return int(math.Round(max(0, min(share, 1)) * (curveHeight - 1)))
	}
	for _, x := range s.Value.ticks(s.low, s.high) {
		text := t.written(s.Value.Tick(x))
		labels[row(s.Value.place(x))] = text
		margin = max(margin, width(text))
	}
	columns := min(t.left-margin-2-between-max(wide, width(t.written(s.At.Name))), mostCurve)
	if columns < leastCurve {
		return
	}
	first, last := s.At.place(s.at[0]), s.At.place(s.at[len(s.at)-1])
	column := func(x float64) int { return int(math.Round((x - first) / (last - first) * float64(columns-1))) }

	var grid [curveHeight][]rune
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", columns))
	}
	dot, cross := '.', 'x'
	if t.Unicode {
		dot, cross = '·', '×'
	}
	rows := make([]int, len(s.Series)) // of the names
	for i, of := range s.Series {
		for k := range len(of.Points) - 1 {
			a, b := of.Points[k], of.Points[k+1]
			x, y, dx, dy := s.At.place(a.At), s.Value.place(a.Value.Center), s.At.place(b.At)-s.At.place(a.At), s.Value.place(b.Value.Center)-s.Value.place(a.Value.Center)
			for c := column(x) + 1; c < column(x+dx); c++ {
				at := first + float64(c)/float64(columns-1)*(last-first)
				grid[row(y+(at-x)/dx*dy)][c] = dot
			}
		}
		rows[i] = row(s.Value.place(of.Points[len(of.Points)-1].Value.Center))
		if i > 0 {
			rows[i] = max(rows[i], rows[i-1]+1)
		}
	}
	lowest := map[[2]int]float64{} // of the points that share a place: its letter is seen
	for i, of := range s.Series {
		for _, q := range of.Points {
			y := s.Value.place(q.Value.Center)
			at := [2]int{row(y), column(s.At.place(q.At))}
			if low, taken := lowest[at]; !taken || y <= low {
				lowest[at], grid[at[0]][at[1]] = y, 'A'+rune(i)
			}
		}
	}
	for _, m := range s.Marks {
		x, y := s.At.place(m.At), s.Value.place(m.Value)
		if x >= first && x <= last && y >= s.low && y <= s.high {
			grid[row(y)][column(x)] = cross
		}
	}
	behind := map[int]string{}
	for i := len(rows) - 1; i >= 0; i-- {
		rows[i] = min(rows[i], curveHeight-len(rows)+i)
		behind[rows[i]] = names[i]
	}
	t.paragraphs(Say(s.Caption))
	t.line(padded(margin-width(t.written(s.Value.Name)))+t.written(s.Value.Name), Dim)
	for i, line := range grid {
		axis := t.sign("│", "|")
		if labels[i] != "" {
			axis = t.sign("┤", "+")
		}
		t.line(padded(margin-width(labels[i]))+labels[i]+" "+axis+string(line)+padded(between)+behind[i], Plain)
	}
	t.line(padded(margin)+" "+t.sign("└", "+")+strings.Repeat(t.sign("─", "-"), columns), Plain)
	text := ""
	for k := range mostTicks { // at steps of the curves
		x := s.at[k*(len(s.at)-1)/(mostTicks-1)]
		label := t.written(s.At.Tick(x))
		at := margin + 2 + min(column(s.At.place(x))-width(label)/2, columns+between-1-width(label))
		if gap := at - width(text); gap > 0 {
			text += padded(gap) + label
		}
	}
	t.line(text+padded(max(margin+2+columns+between-width(text), 1))+t.written(s.At.Name), Plain)
	t.paragraphs(Say(s.notes("×: ")...))
}

// cut shortens a name.
func (t *textWriter) cut(name string, columns int) string {
	name = t.written(name)
	if width(name) <= columns {
		return name
	}
	r := []rune(name)
	for len(r) > 0 && width(string(r)) >= columns {
		r = r[:len(r)-1]
	}
	return string(r) + t.sign("…", "~")
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
	paragraphs(b, Say(s.notes("")...))
}
