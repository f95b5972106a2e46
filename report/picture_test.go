package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/browser"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// twoGroups has three transports with two numbers of clients, ranked differently in each. A
// round has the parts of benchtest.Cell: 30 % down, 50 % train and 15 % uplink.
func twoGroups() *result.Result {
	r := benchtest.Result()
	for clients, rounds := range map[int][3]float64{1: {5, 20, 40}, 2: {5, 40, 20}} {
		for i, transport := range []string{metrics.Control, "pickle", "http"} {
			x := rounds[i]
			r.Cells = append(r.Cells, benchtest.Cell(transport, benchtest.Models["cnn"], 1, clients, x*0.9, x, x*1.1, x*0.95, x, x*1.05))
		}
	}
	return r
}

// TestChangePlots: the pictures of a comparison have the numbers of its rows. TestPlaces tests the pictures
// of cells.
func TestChangePlots(t *testing.T) {
	c := compare(t, benchtest.Interleaved(2), nil, CompareOptions{})
	shown := map[bool]int{}
	made := changePlots(c.naming(), c.Rows)
	for i, row := range c.Rows {
		shown[row.Shown]++
		k := map[bool]int{true: 0, false: 1}[row.Shown]
		check.That(t, made[0].Series[0].Points[i].Value == row.Base && made[0].Series[1].Points[i].Value == row.Head &&
			slices.ContainsFunc(made[1].Series[k].Points, func(p doc.Point) bool { return p.Value.Center == row.Ratio.Center-1 }), "%s: %+v, want %+v", row.Cell.Name(), made, row)
	}
	check.Equal(t, len(shown), 2, "changes that are shown, and others")
}

// TestBlankView: a page of an empty view says so, as the text does.
func TestBlankView(t *testing.T) {
	for _, write := range []func(io.Writer, *result.Result, Options) error{writeHTML, writeText} {
		var b strings.Builder
		check.Must(t, write(&b, twoGroups(), Options{Views: []string{"profiles", "change"}}))
		holds(t, b.String(), "profiles: this result has nothing to show.", "change: this result has nothing to show.")
	}
}

// TestPlaces: marks are drawn at their numbers on the axis, and a transport has one colour
// on the whole page.
func TestPlaces(t *testing.T) {
	skip.Long(t)
	r := twoGroups()
	p, _ := opened(t, browser.Start(t), browser.Options{}, format(t, "html", r))
	// places returns the numbers on the axis at the ends of all marks of a kind in a
	// picture.
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
	groups := inSight(metrics.New(r)).Groups()
	for k, cells := range groups {
		dots, intervals, bars := places(k, ".values circle"), places(k, ".intervals line"), places(len(groups)+k, ".values rect")
		for i, c := range cells {
			round := c.Of("round").Map(func(s float64) float64 { return s * 1e3 })
			by := 0.01 * cells[len(cells)-2].Of("round").Center * 1e3
			check.That(t, check.Nearly(dots[i][0], round.Center, by) && check.Nearly(intervals[i][0], round.Low, by) && check.Nearly(intervals[i][1], round.High, by),
				"%s stands at %v, %v: want %v", c.Name(), dots[i], intervals[i], round)
			trip, _ := table.TripOf(c)
			from := 0.0
			for s, part := range trip {
				to := from + part*1e3
				bar := bars[4*i+s]
				check.That(t, part == 0 || check.Nearly(bar[0], from, by) && check.Nearly(bar[1], to, by), "part %d of %s is from %v: want %v to %v", s, c.Name(), bar, from, to)
				from = to
			}
		}
	}
	colours := browser.Eval[[]string](p, `["rows", "curves"].flatMap((kind) => JSON.parse(document.getElementById("plots").textContent).flatMap((c, k) => {
		const figure = document.querySelectorAll("figure.plot")[k]
		const marks = [...figure.querySelectorAll(kind === "rows" ? ".values circle" : ".curves path")]
		return (c.kind === "dots") === (kind === "rows") && c.kind !== "bars" ? c.series.map((s, i) => s.name + " " + (marks[i].closest("g").getAttribute("stroke") ?? marks[i].getAttribute("fill"))) : []
	}))`)
	slices.Sort(colours)
	all := slices.Compact(colours)
	check.That(t, len(all) == 3, "colours of three transports: %q", all)
	// A distribution is a step function: each piece of its curve is horizontal or vertical.
	check.Equal(t, browser.Eval[int](p, `JSON.parse(document.getElementById("plots").textContent).reduce((n, c, k) => n + (c.steps ? [...document.querySelectorAll("figure.plot")[k].querySelectorAll(".curves path")]
		.filter((e) => d3.pairs(e.getAttribute("d").slice(1).split("L").map((at) => at.split(","))).some(([a, b]) => a[0] !== b[0] && a[1] !== b[1])).length : 0), 0)`), 0, "distributions that have slopes")
}
