package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/browser"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

var picture = flag.Bool("picture", false, "make the picture of a page that README shows anew")

// most is the size limit of a page, in bytes.
const most = 1_500_000

func shownPage(t *testing.T, b *browser.Browser, o browser.Options, html string) *browser.Page {
	t.Helper()
	check.That(t, len(html) <= most, "the page has %d bytes", len(html))
	path := filepath.Join(t.TempDir(), "page.html")
	check.Must(t, os.WriteFile(path, []byte(html), 0o600))
	return b.Open(t, path, o)
}

// opened opens a page and draws all its pictures, none of which may be clipped.
func opened(t *testing.T, b *browser.Browser, o browser.Options, html string) (*browser.Page, []figure) {
	t.Helper()
	p := shownPage(t, b, o, html)
	figures := browser.Eval[[]figure](p, drawAll)
	for _, f := range figures {
		check.That(t, len(f.Outside) == 0, "%s: clipped: %v", f.Caption, f.Outside)
	}
	if o.Width > 0 {
		wide := browser.Eval[int](p, "document.documentElement.scrollWidth")
		check.That(t, wide <= o.Width, "the page is %d wide", wide)
	}
	return p, figures
}

// drawAll draws all pictures of a page, including folded ones, as printing does.
const drawAll = `(() => {
	document.querySelectorAll("details").forEach((d) => (d.open = true))
	dispatchEvent(new Event("beforeprint"))
	const charts = JSON.parse(document.getElementById("plots")?.textContent ?? "[]"), count = (f, what) => f.querySelectorAll(what).length
	return [...document.querySelectorAll("figure.plot")].map((f, k) => ({
		Caption: f.querySelector("figcaption").textContent, Pictures: count(f, "svg.chart"), Labelled: count(f, "svg.chart[role=img][aria-label]"),
		Drawn: [count(f, ".values circle"), count(f, ".values rect"), count(f, ".intervals line"), count(f, ".curves path"), count(f, ".marks path")],
		Want: ((c, known, curves) => [
			c.steps ? count(f, ".values circle") : c.kind !== "bars" ? known.length : 0, c.kind === "bars" ? known.length : 0,
			c.kind !== "dots" ? count(f, ".intervals line") : known.filter(([s, i]) => s.low && s.low[i] !== null && s.low[i] < s.high[i]).length,
			curves, c.marks?.length ?? 0,
		])(charts[k], charts[k].series.flatMap((s) => s.value.map((v, i) => [s, i])).filter(([s, i]) => s.value[i] !== null), charts[k].kind === "curves" ? charts[k].series.length : 0),
		Logarithmic: [charts[k].at, charts[k].value].filter((axis) => axis.log).length,
		SaidSo: [...(f.querySelector("svg.chart")?.querySelectorAll("[aria-label$='axis label']") ?? [])].filter((e) => e.textContent.endsWith("logarithmic")).length,
		Samples: count(f, ".samples circle"), Styles: count(f, "style"), Numbers: count(f, "a.numbers"),
		Outside: [...f.querySelectorAll(".values circle, .values rect, text")].filter((e) => {
			const box = e.getBoundingClientRect(), all = e.closest("svg").getBoundingClientRect()
			return box.left < all.left - 1 || box.right > all.right + 1 || box.top < all.top - 1 || box.bottom > all.bottom + 1
		}).map((e) => e.outerHTML.slice(0, 200)),
	}))
})()`

type figure struct {
	Caption                             string
	Pictures, Labelled, Styles, Numbers int
	Drawn, Want                         [5]int // circles, bars, intervals, curves and marks
	Samples, Logarithmic, SaidSo        int
	Outside                             []string
}

// TestPage: the page of each result opens without a message on the console or a request,
// and its pictures have one mark per number.
func TestPage(t *testing.T) {
	b := browser.Start(t)
	results := map[string]*result.Result{
		"one cell":  benchtest.Result(cnn("pickle", 10, 11, 12)),
		"one block": benchtest.Result(cnn("pickle", 10)),
		"no block":  benchtest.Result(cnn("pickle"), cnn("http", 10)),
		"synthetic": benchtest.Synthetic(6, 10),
		"two":       benchtest.Interleaved(2),
		"over TLS":  benchtest.Encrypted(encrypted),
		"agents":    benchtest.Fleet(),
		"python":    benchtest.Python(),
	}
	partial := rich()
	partial.Cells[1].Stopped = "interrupted"
	partial.Cells[1].Blocks[0].Proof = result.Proof{}
	files, err := filepath.Glob("../results/*.json.gz")
	check.Need(t, err == nil && len(files) != 0, "%v %v", files, err)
	for _, path := range files {
		results[filepath.Base(path)] = check.Value(result.ReadFile(path))(t)
	}
	results["300 cells"] = manyCells(300, 6, 10)
	if testing.Short() {
		clear(results)
	}
	results["partial"] = partial // has nearly every element
	for name, r := range results {
		t.Run(name, func(t *testing.T) {
			p, figures := opened(t, b, browser.Options{}, format(t, "html", r))
			captions := map[string]int{} // number of samples by caption
			for _, f := range figures {
				captions[f.Caption] += f.Samples
				check.Equal(t, f.Drawn, f.Want, f.Caption)
				check.That(t, f.Drawn != [5]int{} && f.Pictures > 0 && f.Pictures == f.Labelled && f.Styles == 0 && f.Numbers == 1 && f.SaidSo == f.Logarithmic, "%+v", f)
			}
			a := metrics.New(r)
			for _, cells := range a.Groups() {
				known, blocks := 0, 0
				for _, c := range cells {
					if c.Of("round").Known() {
						known++
						blocks += len(c.Timed())
					}
				}
				title := table.GroupTitle(cells[0].Group())
				for _, want := range []string{title, "Distribution of rounds, " + title, "Rounds in the course of the run, " + title} {
					_, ok := captions[want]
					check.That(t, ok || known == 0, "no figure %s", want)
				}
				check.That(t, captions["Rounds in the course of the run, "+title] >= blocks, "%d blocks have fewer samples", blocks)
			}
			swept := table.SweepsOf(a)
			for _, sweep := range swept {
				_, ok := captions[table.SweepTitle(sweep)]
				check.That(t, ok, "no figure %s", table.SweepTitle(sweep))
			}
			if len(swept) > 0 && len(a.Groups()) > mostOpen {
				holds(t, browser.Eval[string](p, `document.querySelector("section").innerText`), table.EnvelopeLines(swept[0])[0].Text)
			}
			if c, err := Compare(r, nil, CompareOptions{}); err == nil {
				rows := min(len(c.Rows), mostRows)
				i := slices.IndexFunc(figures, func(f figure) bool { return strings.HasPrefix(f.Caption, "Change of round") && f.Drawn[0] == rows })
				check.That(t, i >= 1 && figures[i-1].Drawn[0] == 2*rows, "no figures of %d changes", rows)
			}
		})
	}
}

// TestPageNarrow: in a narrow window no part of a page is cut off, and the page does not
// scroll sideways.
func TestPageNarrow(t *testing.T) {
	skip.Long(t)
	b := browser.Start(t)
	r := check.Value(metrics.Part(check.Value(result.ReadFile("../results/all.json.gz"))(t), []string{"workers=8"}))(t) // has long names
	longer := benchtest.Synthetic(6, 10)
	longer.Cells[1].Variant = strings.Repeat("W", 4000)
	for _, r := range []*result.Result{r, longer} {
		opened(t, b, browser.Options{Width: 420, Dark: true}, format(t, "html", r))
	}
}

// TestExplore: pointing at a dot, or moving with the keys, shows the numbers of the table.
// A series can be hidden.
func TestExplore(t *testing.T) {
	skip.Long(t)
	r := benchtest.Synthetic(6, 10)
	p := shownPage(t, browser.Start(t), browser.Options{}, format(t, "html", r))
	first := inSight(metrics.New(r)).Groups()[0]
	browser.Eval[bool](p, `(async () => { while (!document.querySelector("svg.chart")) await new Promise(requestAnimationFrame); return true })()`)
	// Only pictures near the window are drawn.
	some := browser.Eval[[]int](p, `[document.querySelectorAll("svg.chart").length, document.querySelectorAll("figure.plot").length]`)
	check.That(t, some[0] > 0 && some[0] <= some[1]/2, "%d pictures were drawn for %d figures", some[0], some[1])
	said := func() string {
		return browser.Eval[string](p, `[...document.querySelectorAll(".tip:not([hidden])")].map((t) => t.innerText).join("|")`)
	}
	for i, c := range first[:3] {
		p.Hover(fmt.Sprintf(".picture .values:nth-of-type(n) circle:nth-child(%d)", i+1))
		table := browser.Eval[string](p, fmt.Sprintf(`document.querySelector(document.querySelector("a.numbers").getAttribute("href")).querySelector("tbody").rows[%d].cells[1].innerText.split(" ")[0]`, i))
		check.That(t, strings.HasPrefix(said(), c.Variant+"\n"+table+" ") && strings.Contains(said(), "(") && table != "",
			"pointing at %s, %v, says %q: the table says %s", c.Variant, c.Of("round"), said(), table)
	}
	browser.Eval[bool](p, `document.querySelector(".picture").focus(), true`)
	p.Press("\x1b") // otherwise the keys would continue from the mouse's position
	for i, c := range append(first[:3:3], first[1]) {
		p.Press([]string{kb.ArrowDown, kb.ArrowRight, kb.ArrowDown, kb.ArrowUp}[i])
		got := browser.Eval[string](p, `document.querySelector("[aria-live]").textContent`)
		check.That(t, strings.HasPrefix(got, c.Variant+": ") && strings.HasPrefix(said(), c.Variant+"\n"), "key %d says %q and shows %q: want %s", i, got, said(), c.Variant)
	}
	p.Press("\x1b")
	check.Equal(t, said(), "", "after escape the page says")
	// The legend hides one of four parts, and shows it again.
	for parts := 3; parts <= 4; parts++ {
		p.Click(".legend button")
		check.Equal(t, browser.Eval[int](p, `document.querySelector(".legend").closest("figure").querySelectorAll(".values rect").length`), parts*len(first), "bars")
	}
	// Printing draws all pictures, including those that were never scrolled into view.
	p.PDF()
	check.Equal(t, browser.Eval[int](p, `[...document.querySelectorAll("figure.plot")].filter((f) => !f.querySelector("svg.chart")).length`), 0, "figures that were not drawn to be printed")
}

// TestPaper: on paper, without backgrounds, pictures keep their numbers and the colours of
// their legends. No table is so wide that the whole page shrinks.
func TestPaper(t *testing.T) {
	skip.Long(t)
	b := browser.Start(t)
	r := readme(t)
	p, _ := opened(t, b, browser.Options{Width: 1000, Print: true}, format(t, "html", r))
	check.Equal(t, browser.Eval[int](p, `[...document.querySelectorAll("svg .numbers")].filter((e) => !e.checkVisibility()).length`), 0, "pictures without numbers")
	for _, property := range []string{"print-color-adjust", "forced-color-adjust"} {
		got := browser.Eval[string](p, fmt.Sprintf(`getComputedStyle(document.querySelector(".legend button"), "::before").getPropertyValue(%q)`, property))
		check.That(t, got == "exact" || got == "none", "%s of a legend is %s", property, got)
	}
}

// TestHostilePage: with hostile text in the strings of a result, its page executes nothing,
// and draws its pictures.
func TestHostilePage(t *testing.T) {
	skip.Long(t)
	b := browser.Start(t)
	r, all := rich(), slices.Concat(doctest.Scripts, doctest.Starts, []string{doctest.Hostile})
	cells := r.Cells
	r.Cells = nil
	for i, evil := range all {
		for _, c := range cells {
			if c.Variant != metrics.Control {
				c.Variant, c.Model.Name = evil, all[i%3]
			}
			r.Cells = append(r.Cells, c)
		}
	}
	r.Environment.CPU, r.Partial, r.Command = doctest.Hostile, all[0], all
	p, figures := opened(t, b, browser.Options{}, format(t, "html", r))
	check.That(t, len(figures) >= 2*3*4 && figures[0].Drawn[0] != 0, "%+v", figures)
	browser.Eval[bool](p, `document.querySelectorAll(".picture").forEach((e) => e.onkeydown({ key: "End", preventDefault() {} })), true`)
	everywhere := rich()
	texts(reflect.ValueOf(everywhere), "", func(_ string, set func(func(string) string)) {
		set(func(s string) string { return s + doctest.Hostile + all[0] })
	})
	opened(t, b, browser.Options{}, format(t, "html", everywhere))
}

// TestComparisonPage: a comparison of two files can be a page.
func TestComparisonPage(t *testing.T) {
	skip.Long(t)
	c := compare(t, benchtest.Synthetic(6, 10), benchtest.Synthetic(7, 10), CompareOptions{})
	_, figures := opened(t, browser.Start(t), browser.Options{}, write(t, c, "html"))
	check.That(t, len(figures) == 2 && figures[0].Drawn[0] == 2*mostRows && figures[1].Drawn[0] == mostRows, "%+v", figures)
}

// TestPagePicture makes README's picture if the flag is set, and checks that its size suits
// a repository.
func TestPagePicture(t *testing.T) {
	const path = "../docs/page.png"
	if *picture {
		r := readme(t)
		p := shownPage(t, browser.Start(t), browser.Options{Width: 1280, Height: 1000}, format(t, "html", r))
		browser.Eval[bool](p, `(async () => {
			document.body.style.cssText = "height: 960px; overflow: hidden"
			while (!document.querySelector("svg.chart")) await new Promise(requestAnimationFrame)
			return true
		})()`)
		check.Must(t, os.WriteFile(path, p.Screenshot("body"), 0o644))
	}
	data, err := os.ReadFile(path)
	check.That(t, err == nil && bytes.HasPrefix(data, []byte("\x89PNG")) && len(data) <= 200_000,
		"%d bytes, %v: go test ./report -run TestPagePicture -picture makes it", len(data), err)
}
