package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/browser"
	"ipcbench/internal/test/skip"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// twoGroups has three transports with two numbers of clients, and other ranks in each.
// The rounds of a cell are those of benchtest.Cell: 30 % of one is down, 50 % is train
// and 15 % is uplink.
func twoGroups() *result.Result {
	r := benchtest.Result()
	for clients, rounds := range map[int][3]float64{1: {5, 20, 40}, 2: {5, 40, 20}} {
		for i, transport := range []string{analysis.Control, "pickle", "http"} {
			x := rounds[i]
			r.Cells = append(r.Cells, benchtest.Cell(transport, benchtest.Models["cnn"], 1, clients, x*0.9, x, x*1.1, x*0.95, x, x*1.05))
		}
	}
	return r
}

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

// TestPlots: pictures have the numbers of the analysis, each where it belongs.
func TestPlots(t *testing.T) {
	r := analysis.New(twoGroups())
	groups := r.Groups()
	for k, p := range tripPlots(r, groups) {
		for i, c := range groups[k] {
			for s, share := range map[string]float64{"down": 0.3, "between": 0, "train": 0.5, "uplink": 0.15} {
				of := p.Series[slices.IndexFunc(p.Series, func(of doc.Series) bool { return of.Name == s })].Points[i]
				if want := share * c.Of("round").Center / float64(c.Clients); of.Name != c.Variant || !near(of.Value.Center, want, want/10+1e-9) {
					t.Errorf("%s of %s: %v s, want about %v", s, c.Name(), of.Value.Center, want)
				}
			}
		}
	}
	for i, of := range spreadPlots(r, groups)[0].Series {
		round := groups[0][i].Of("round").Center
		first, last := of.Points[0], of.Points[len(of.Points)-1]
		if !near(first.At, 0.9*round, 1e-9) || !near(first.Value.Center, 1.0/12, 1e-9) || !near(last.At, 1.1*round, 1e-9) || last.Value.Center != 1 {
			t.Errorf("distribution of %s from %+v to %+v", of.Name, first, last)
		}
	}
	c := compare(t, benchtest.Interleaved(2), nil, analysis.CompareOptions{})
	shown := 0
	made := changePlots(c.Rows, c.Rows)
	for i, row := range c.Rows {
		base, head := made[0].Series[0].Points[i].Value, made[0].Series[1].Points[i].Value
		k := 1
		if row.Significant {
			k, shown = 0, shown+1
		}
		if base != row.Base || head != row.Head || !slices.ContainsFunc(made[1].Series[k].Points, func(p doc.Point) bool { return p.Value.Center == row.Ratio.Center-1 }) {
			t.Errorf("%s: base %v, head %v, change among %+v: want %+v", row.Cell.Name(), base, head, made[1].Series[k].Points, row)
		}
	}
	if shown == 0 || shown == len(c.Rows) {
		t.Errorf("%d of %d changes are shown", shown, len(c.Rows))
	}
}

// TestBlankView: a page of a view that has nothing says so, as the text does.
func TestBlankView(t *testing.T) {
	for _, r := range []*result.Result{twoGroups(), benchtest.Synthetic(6, 10)} {
		for _, write := range []func(io.Writer, *result.Result, Options) error{writeHTML, writeText} {
			var b strings.Builder
			if err := write(&b, r, Options{Views: []string{"profiles", "change"}}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"profiles", "change"} {
				if !strings.Contains(b.String(), name+": this result has nothing to show.") {
					t.Errorf("%.200s… is silent about %s", b.String(), name)
				}
			}
		}
	}
}

// TestPlaces: what is drawn stands where its numbers are on the axis, and a transport
// has one colour on the whole page.
func TestPlaces(t *testing.T) {
	skip.Long(t)
	b, r := browser.Start(t), twoGroups()
	p := opened(t, b, browser.Options{}, []byte(format(t, "html", r)))
	browser.Eval[[]figure](p, drawAll)
	// places are the numbers at which the ends of all marks of a kind stand in a picture.
	places := func(picture int, marks string) [][]float64 {
		return browser.Eval[[][]float64](p, fmt.Sprintf(`{
			const svg = document.querySelectorAll("svg.chart")[%d]
			const ticks = [...svg.querySelectorAll("[aria-label='x-axis tick label'] text")].map((e) => {
				const box = e.getBoundingClientRect()
				return [box.left + box.width / 2, Number(e.textContent)]
			})
			const [x, v] = ticks[0], [y, w] = ticks.at(-1)
			const at = (e, px) => v + (new DOMPoint(px, 0).matrixTransform(e.getScreenCTM()).x - x) * (w - v) / (y - x);
			[...svg.querySelectorAll(%q)].map((e) => ["x1", "x2", "cx", "x", "width"].filter((a) => e.hasAttribute(a)).map((a) =>
				at(e, a === "width" ? Number(e.getAttribute("x")) + Number(e.getAttribute(a)) : Number(e.getAttribute(a)))))
		}`, picture, marks))
	}
	groups := groupsOf(r)
	for k, cells := range groups {
		dots, intervals, bars := places(k, ".values circle"), places(k, ".intervals line"), places(len(groups)+k, ".values rect")
		for i, c := range cells {
			round := c.Of("round").Map(func(s float64) float64 { return s * 1e3 })
			by := 0.01 * cells[len(cells)-2].Of("round").Center * 1e3
			if !near(dots[i][0], round.Center, by) || !near(intervals[i][0], round.Low, by) || !near(intervals[i][1], round.High, by) {
				t.Errorf("%s stands at %v, %v: want %v", c.Name(), dots[i], intervals[i], round)
			}
			trip, _ := c.Trip()
			from := 0.0
			for s, part := range []float64{trip.Down, trip.Between, trip.Train, trip.Uplink} {
				to := from + part*1e3
				if bar := bars[4*i+s]; part > 0 && (!near(bar[0], from, by) || !near(bar[1], to, by)) {
					t.Errorf("part %d of %s is from %v: want %v to %v", s, c.Name(), bar, from, to)
				}
				from = to
			}
		}
	}
	colours := browser.Eval[[]string](p, `["rows", "curves"].flatMap((kind) => JSON.parse(document.getElementById("plots").textContent).flatMap((c, k) => {
		const figure = document.querySelector("figure.plot[data-plot='" + k + "']")
		const marks = [...figure.querySelectorAll(kind === "rows" ? ".values circle" : ".curves path")]
		return (c.kind === "dots") === (kind === "rows") && c.kind !== "bars" ? c.series.map((s, i) => s.name + " " + (marks[i].closest("g").getAttribute("stroke") ?? marks[i].getAttribute("fill"))) : []
	}))`)
	slices.Sort(colours)
	if all := slices.Compact(colours); len(all) != 3 {
		t.Errorf("colours of three transports: %q", all)
	}
	// A distribution goes up where a round is: each piece of its curve is level or upright.
	if n := browser.Eval[int](p, `JSON.parse(document.getElementById("plots").textContent).reduce((n, c, k) => n + (c.steps ? [...document.querySelectorAll("figure.plot[data-plot='" + k + "'] .curves path")]
		.filter((e) => d3.pairs(e.getAttribute("d").slice(1).split("L").map((at) => at.split(","))).some(([a, b]) => a[0] !== b[0] && a[1] !== b[1])).length : 0), 0)`); n > 0 {
		t.Errorf("%d distributions have slopes", n)
	}
}
