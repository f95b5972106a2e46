package doc

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"ipcbench/bench/stat"
	"ipcbench/report/doc/doctest"
)

// steep is a plot of sizes and times, of which each series begins higher and rises
// less than the one before.
func steep(series int) Plot {
	p := Plot{
		Caption: "by size", At: Axis{Name: "size", Unit: "iB", Log: true}, Value: Axis{Name: "round", Unit: "s", Log: true},
		Marks: []Mark{{At: 1 << 20, Value: 1e-3, Text: "one overtakes another at 1 MiB"}}, Notes: []string{"a note"},
	}
	for i := range series {
		of := Series{Name: fmt.Sprintf("transport-%d", i)}
		for x := 1024.0; x <= 1<<30; x *= 8 {
			y := 1e-3 * math.Pow(2, float64(i)) * math.Pow(x/(1<<20), 1/(1+float64(i)))
			of.Points = append(of.Points, Point{At: x, Value: interval(y, y, y)})
		}
		p.Series = append(p.Series, of)
	}
	return p
}

func TestCurves(t *testing.T) {
	few := steep(3)
	few.Series[1].Points = few.Series[1].Points[:4]
	few.Series = append(few.Series, Series{Name: "nothing"}, Series{Name: "not a number", Points: []Point{{At: 1024, Value: stat.None()}, {At: 0, Value: interval(1, 1, 1)}}})
	clients := Plot{Caption: "by clients", At: Axis{Name: "clients", Unit: "1"}, Value: Axis{Name: "share", Unit: "%"}}
	var points []Point
	for n := range 30 {
		points = append(points, Point{At: float64(n + 1), Value: interval(0.5+float64(n%7)/20, 0, 0)})
	}
	clients.Series = []Series{{Name: "a name that is longer than a line of a narrow terminal has room for", Points: points}}
	flat := steep(1)
	for i := range flat.Series[0].Points {
		flat.Series[0].Points[i].Value = interval(2, 2, 2)
	}
	d := Document{Sections: []Section{{Title: "Curves", Lead: Say("These are curves."), Plots: []Plot{few, steep(9), clients, flat}}}}
	golden(t, "curves.md", markdown(t, d))
	if got := text(t, d, TextOptions{Width: 80}); got != "Curves\n  These are curves.\n" {
		t.Errorf("a terminal shows %q", got)
	}
	for _, p := range []Plot{{}, {Kind: Bars, Series: steep(2).Series}, {Series: []Series{{Name: "one point", Points: points[:1]}}}} {
		d := Document{Sections: []Section{{Plots: []Plot{p}}}}
		if got := text(t, d, TextOptions{Width: 80}) + markdown(t, d); got != "" {
			t.Errorf("of nothing: %q", got)
		}
	}
}

// FuzzCurves: no number breaks a picture, and no text acts.
func FuzzCurves(f *testing.F) {
	f.Add(doctest.Hostile, true, 0.01, 0.02, 1.0)
	f.Add(doctest.Starts[0], false, math.Inf(1), math.NaN(), -1.0)
	f.Add("日本語日本語日本語日本語", false, 1e-320, 1e308, 5e-324)
	f.Add("x", false, -1e308, 1e308, math.MaxFloat64)
	f.Add("x", true, 1e10, 1e10, 1e10)
	f.Fuzz(func(t *testing.T, evil string, logs bool, x, y, z float64) {
		point := func(at, y float64) Point { return Point{Name: evil, At: at, Value: interval(y, y, y), Text: evil} }
		p := Plot{
			Caption: evil, Notes: []string{evil}, At: Axis{Name: evil, Unit: "iB", Log: logs}, Value: Axis{Name: evil, Unit: "s", Log: logs}, Marks: []Mark{{x, y, evil}, {z, x, evil}},
			Series: []Series{{Name: evil, Points: []Point{point(1, x), point(2, y), point(3, z)}}, {Name: "evil" + evil, Points: []Point{point(x, 1), point(y, 2), point(z, 3)}}},
		}
		for i := range 8 {
			p.Series = append(p.Series, Series{Name: evil, Points: []Point{point(1, float64(i)), point(x, y)}})
		}
		d := Document{Sections: []Section{{Title: evil, Plots: []Plot{p}}}}
		if why := doctest.Acts("md", markdown(t, d)); why != "" && strings.Contains(evil, "evil") {
			t.Errorf("md %s", why)
		}
	})
}
