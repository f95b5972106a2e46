package doc

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"ipcbench/internal/test/browser"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report/doc/doctest"
)

func pageFile(t *testing.T, d Document) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	check.Must(t, os.WriteFile(path, []byte(html(t, d)), 0o600))
	return path
}

// explained returns the sample with a glossary, repeated names and a plot.
func explained() Document {
	d := sample()
	d.Terms = []Term{{"round", "one turn of training"}, {"never seen", "a word that is not in the document"}}
	functions := Table{Keys: 2, Columns: []Column{{Name: "transport"}, {Name: "function"}, {Name: "share", Unit: "%"}, {Name: "change"}, {Name: "time", Unit: "s"}}}
	functions.Add("http", "read", 0.2, "−3.1 %", interval(0.2, 0.01, 0.4))
	functions.Add("", "write", 0.5, "+12 %", interval(12.1, 11, 13))
	functions.Rows = append(functions.Rows, Row{Cells: Cells("grpc", "copy", 0.3, "+4 %", 3), Note: "of copy"})
	for i := range 40 {
		functions.Add(fmt.Sprintf("more-%d", i), "", 0.01)
	}
	functions.Add("pickle", "zip", 0.05)
	d.Sections = append(d.Sections, Section{Title: "Functions", Tables: []Table{functions}})
	return d
}

// shown returns the displayed texts of column n of the table that selector matches.
func shown(p *browser.Page, table string, n int) string {
	return browser.Eval[string](p, fmt.Sprintf(`[...document.querySelectorAll("%s tbody:not(.heading) tr")].map(r => r.cells[%d]?.innerText.trim()).slice(0, 5).join("|")`, table, n))
}

// TestPage: a page of HTML works in a browser. Each subtest also checks that it requests
// nothing and writes nothing to its console.
func TestPage(t *testing.T) {
	skip.Long(t)
	b := browser.Start(t)
	path := pageFile(t, explained())
	open := func(t *testing.T, o browser.Options) *browser.Page { return b.Open(t, path, o) }

	t.Run("sorts", func(t *testing.T) {
		p := open(t, browser.Options{})
		const table, round = "section:nth-of-type(1) table", "section:nth-of-type(1) thead th:nth-child(2) button"
		for clicks, want := range []string{
			"shm-slab|http|storage|py-grpc|inproc not", "shm-slab|http|storage|py-grpc|inproc ascending", "storage|http|shm-slab|py-grpc|inproc descending",
			"shm-slab|http|storage|py-grpc|inproc not", "storage|http|shm-slab|py-grpc|inproc descending", // by two keys
		} {
			if clicks == 4 {
				p.Press("\r\r")
			} else if clicks > 0 {
				p.Click(round)
			}
			check.Equal(t, shown(p, table, 0)+" "+browser.Eval[string](p, `document.querySelector("thead th:nth-child(2)").ariaSort ?? "not"`), want, clicks, "clicks")
		}
		p.Press("\t ") // the next column, with the keyboard
		check.Equal(t, shown(p, table, 2), "1.00|2.89|26.4|9.12|the same work without leaving the process")
	})
	t.Run("names that repeat", func(t *testing.T) {
		p := open(t, browser.Options{})
		const table, hidden = "section:nth-of-type(3) table", "rgba(0, 0, 0, 0)"
		look := `getComputedStyle(document.querySelector("` + table + ` .again")).color`
		check.Equal(t, browser.Eval[string](p, look), hidden, "a name that repeats is")
		p.Click(table + " thead th:nth-child(3) button")
		for _, tt := range []struct {
			click, column int
			want          string
		}{
			{3, 0, "http|grpc|of copy|http|pickle"}, // by share
			{4, 3, "−3.1 %|+4 %||+12 %|"},           // by texts that are numbers; rows without one stay last
			{2, 1, "copy||read|write|zip"},          // by function; some rows have none
			{1, 0, "grpc|of copy|http|http|more-0"}, // by name
		} {
			p.Click(fmt.Sprintf("%s thead th:nth-child(%d) button", table, tt.click))
			check.Equal(t, shown(p, table, tt.column), tt.want)
			check.That(t, browser.Eval[string](p, look) != hidden, "a name that does not repeat any more is hidden")
		}
	})
	t.Run("explains", func(t *testing.T) {
		p := open(t, browser.Options{})
		says := func(what, want string) {
			t.Helper()
			got := browser.Eval[string](p, `{const b = document.getElementById("balloon"), r = b.getBoundingClientRect(); b.checkVisibility() && r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight ? b.textContent : "nothing"}`)
			check.Equal(t, got, want, what)
		}
		const round = "thead th:nth-child(2) button"
		p.Hover(round)
		says("mouse on a column", "a round: publishing the model to the new one")
		p.Press(kb.Escape)
		says("escape", "nothing")
		p.Hover("h1")
		says("mouse elsewhere", "nothing")
		browser.Eval[any](p, `document.querySelector("thead th button").focus()`)
		says("focus on a column without help", "nothing")
		p.Press("\t")
		says("focus", "a round: publishing the model to the new one")
		p.Press("\t")
		says("focus moves on", "nothing")
		check.Equal(t, browser.Eval[string](p, `document.querySelector("#glossary dd").textContent`),
			"one turn of training", "the glossary says")
	})
	t.Run("looks", func(t *testing.T) {
		paper := func(p *browser.Page) string {
			return browser.Eval[string](p, `getComputedStyle(document.body).backgroundColor`)
		}
		light, dark := open(t, browser.Options{}), open(t, browser.Options{Dark: true})
		white, black := paper(light), paper(dark)
		check.That(t, white == "rgb(255, 255, 255)" && black != white && !bytes.Equal(light.Screenshot("html"), dark.Screenshot("html")), "light %s, dark %s", white, black)
		light.Click("#theme")
		dark.Click("#theme")
		check.Equal(t, []string{paper(light), paper(dark)}, []string{black, white}, "after a click")
		printed := open(t, browser.Options{Dark: true, Print: true})
		check.Equal(t, paper(printed), white, "print is")
		check.That(t, !browser.Eval[bool](printed, `document.querySelector("nav, #theme, .skip").checkVisibility()`), "what nobody can click is printed")
		for p, want := range map[*browser.Page]bool{light: false, printed: true} { // the text of the folded section
			check.Equal(t, browser.Eval[bool](p, `document.querySelector("details table").checkVisibility({contentVisibilityAuto: true}) && document.querySelector("details table").getBoundingClientRect().height > 0`), want, "the folded section shows")
		}
		check.That(t, len(printed.PDF()) >= 10_000, "a print without contents")
	})
	t.Run("narrow", func(t *testing.T) {
		for _, width := range []int{420, 1280} {
			p := open(t, browser.Options{Width: width})
			browser.Eval[any](p, `document.querySelectorAll("details").forEach(d => d.open = true)`)
			check.That(t, browser.Eval[int](p, `document.documentElement.scrollWidth`) <= width, "the page is wider than %d pixels", width)
			const names = `{const box = document.querySelector("details .scroll"); box.scrollLeft = 1e4; box.scrollLeft > 0 && box.querySelector("tbody th").getBoundingClientRect().left - box.getBoundingClientRect().left}`
			got := browser.Eval[any](p, names)
			check.That(t, width > 420 || got == 1.0, "names of rows are at %v of a box that was scrolled", got)
		}
	})
	t.Run("points stand below each other", func(t *testing.T) {
		p := open(t, browser.Options{})
		wide := browser.Eval[[]float64](p, `[...document.querySelectorAll("table")].flatMap(table => [...table.tHead.rows[0].cells].map((_, c) => {
			const at = [...table.tBodies].flatMap(b => [...b.rows]).flatMap(row => {
				const text = row.cells[c]?.firstChild, number = text?.data?.match(/^−?\d+/), range = document.createRange()
				if (!number || row.cells[c].matches(".words")) return []
				range.setEnd(text, number[0].length)
				range.setStart(text, number[0].length)
				return [range.getBoundingClientRect().left] })
			return at.length > 1 ? Math.max(...at) - Math.min(...at) : -1 })).filter(x => x >= 0)`)
		check.That(t, len(wide) >= 8 && slices.Max(wide) <= 0.5, "points of columns are apart by %v pixels", wide)
	})
	t.Run("without scripts", func(t *testing.T) {
		p := open(t, browser.Options{NoScript: true})
		check.Equal(t, shown(p, "section:nth-of-type(1) table", 1),
			"10.0 ± 0.4|28.9 ± 1.1|264 ± 4|91.2 ± 1.9|10.0 ± 0.4", "numbers are")
		p.Click("details.help summary")
		p.Click("nav li:nth-child(2) a") // also opens the section
		check.That(t, browser.Eval[bool](p, `[...document.querySelectorAll("details.help dl, details table")].slice(0, 2).every(e => e.checkVisibility({contentVisibilityAuto: true}))`),
			"what is folded did not open")
		p = b.Open(t, pageFile(t, hostile()), browser.Options{NoScript: true})
		got := browser.Eval[string](p, `document.querySelector("noscript").innerText`)
		check.That(t, strings.HasPrefix(got, "Without JavaScript"), "instead of pictures stands %q", got)
		check.That(t, !browser.Eval[bool](p, `[...document.querySelectorAll(".plot")].some((e) => e.checkVisibility())`),
			"the caption of a picture stands without it")
	})
	t.Run("hostile texts", func(t *testing.T) {
		p := b.Open(t, pageFile(t, hostile()), browser.Options{})
		check.Equal(t, browser.Eval[any](p, `window.acted`), nil, "a text of a stranger ran")
		check.Equal(t, browser.Eval[int](p, `JSON.parse(document.getElementById("plots").textContent).length`),
			len(hostile().Sections), "plots")
	})
}

var twoColours = regexp.MustCompile(`--([a-z0-9-]+): light-dark\(#(\w{6}), #(\w{6})\)`)

// TestContrast: texts and series have the contrast to the paper that WCAG 2 requires, in
// both themes: 4.5 for texts and 3 for series.
func TestContrast(t *testing.T) {
	css := check.Value(pageFiles.ReadFile("page/page.css"))(t)
	light := func(hex string) (y float64) { // relative luminance
		n, _ := strconv.ParseUint(hex, 16, 32)
		for i, weight := range []float64{0.0722, 0.7152, 0.2126} {
			c := float64(n>>(8*i)&0xff) / 255
			if c > 0.04045 {
				c = math.Pow((c+0.055)/1.055, 2.4)
			} else {
				c /= 12.92
			}
			y += weight * c
		}
		return y
	}
	colours := map[string][]string{}
	for _, m := range twoColours.FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = m[2:]
	}
	check.Equal(t, len(colours), 19)
	for name, themes := range colours {
		for theme, colour := range themes {
			for _, behind := range []string{"paper", "shade"} {
				a, b := light(colour), light(colours[behind][theme])
				got, want := (max(a, b)+0.05)/(min(a, b)+0.05), 4.5
				switch {
				case name == "paper", name == "shade", name == "grid", name == "bar": // these carry no information on their own
					want = 0
				case strings.HasPrefix(name, "series-"):
					want = map[string]float64{"paper": 3}[behind]
				}
				check.That(t, got >= want, "%s on %s, theme %d: contrast %.1f, want %.1f", name, behind, theme, got, want)
			}
		}
	}
}

func hostile() Document {
	d := Document{Title: "</title><script>acted=1</script>"}
	for i, evil := range slices.Concat(doctest.Starts, doctest.Scripts, []string{doctest.Hostile}) {
		p := Paragraph{evil, Bad}
		plot := Plot{Caption: evil, Kind: Dots, Value: Axis{Name: evil, Unit: "s"},
			Series: []Series{{Name: evil, Points: []Point{{Name: evil, Value: interval(1, 1, 1), Text: evil}}}},
			Notes:  []string{evil}}
		d.Lead = append(d.Lead, p)
		of := written(evil, 1, 2)
		of.Plots, of.Folded = []Plot{plot}, i%2 == 0
		d.Sections = append(d.Sections, of)
		d.Terms = append(d.Terms, Term{evil, evil})
	}
	return d
}

// TestPageTexts: a page has no markup from its texts, and no characters that hide or move
// the text around them.
func TestPageTexts(t *testing.T) {
	d := hostile()
	for i := range d.Sections {
		d.Sections[i].Plots = nil // plots bring scripts, in which a tab is harmless
	}
	check.Equal(t, doctest.Acts("html", html(t, explained())), "")
	check.Equal(t, doctest.Acts("html", html(t, d)), "")
}
