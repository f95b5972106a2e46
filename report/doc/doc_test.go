package doc

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

var _ = flag.Bool("update", false, "rewrite the goldens") // doctest.Golden reads it

func interval(center, low, high float64) stat.Interval {
	return stat.Interval{Center: center, Low: low, High: high, Confidence: stat.Confidence, Blocks: 6}
}

// sample returns a document with one of each kind of element.
func sample() Document {
	first := Table{
		Columns: []Column{
			{Name: "transport"}, {Name: "round", Unit: "s", Help: "a round: publishing the model to the new one"}, {Name: "× best", Unit: "1", Bar: true},
			{Name: "bandwidth", Unit: "B/s"}, {Name: "CPU", Unit: "s/GB"}, {Name: "nothing", Unit: "s"}, {Name: "marks"},
		},
		Notes: []string{"d: it drifted."},
	}
	first.Add("shm-slab", interval(0.010, 0.0097, 0.0104), 1, "hand-off", 0.08, nil, "")
	first.Rows[0].Tone = Good
	first.Add("http", interval(0.0289, 0.0278, 0.03), 2.89, 7.01e9, 0.341, stat.None(), "d")
	first.Add("storage", interval(0.264, 0.261, 0.2672), 26.4, 0.52e9, nil, nil, "")
	first.Rows = append(first.Rows, Row{Cells: Cells("py-grpc", interval(0.0912, 0.09, 0.0931), 9.12), Rule: true,
		Heading: "peers"})
	first.Rows = append(first.Rows, Row{Cells: Cells("inproc", interval(0.010, 0.0097, 0.0104)),
		Note: "the same work without leaving the process", Rule: true, Tone: Dim})
	second := Table{
		Caption: "Few blocks, and long words",
		Columns: []Column{{Name: "what"}, {Name: "cold round", Unit: "s"}, {Name: "queued for a processor", Unit: "s/round"}, {Name: "recorder", Unit: "%"},
			{Name: "clients", Unit: "1"}, {Name: "memory", Unit: "B"}, {Name: "faults", Unit: "1/GB"}, {Name: "why", Wrap: true}},
	}
	unsure := interval(-0.00095, -0.0047, 0.00066)
	unsure.Confidence = 0.75
	second.Add("grpc-batch:reports=3", unsure, 0.002, 0.12, 64, 66.6e6, 12345.6,
		"what a reader must know of this row takes more words than one line of a narrow terminal has")
	second.Add("http", 0.0002, 0.0000004, 0.00034, 8, 1e5, 0,
		"github.com/example/a/very/long/word/that/has/no/space/at/all")
	return Document{
		Title: "A document — of ± everything",
		Lead:  []Paragraph{{"error: something cannot be.", Bad}},
		Sections: []Section{
			{Name: "first", Title: "histology, 66.6 MB in 20 tensors", Lead: []Paragraph{{"shm-slab is best, 10.0 ms a round. The worst choice, storage, costs 254 ms (251 to 258) a round more.", Strong}}, Tables: []Table{first}},
			{Name: "none", Title: "Never seen"},
			{Name: "second", Title: "More", Folded: true, Tables: []Table{second}, Tail: Say("The end.")},
		},
	}
}

func text(t *testing.T, d Document, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, d.Text(&b, o))
	return b.String()
}

func markdown(t *testing.T, d Document) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, d.Markdown(&b))
	return b.String()
}

func html(t *testing.T, d Document) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, d.HTML(&b))
	return b.String()
}

// TestGoldens: documents in all formats match the golden files.
func TestGoldens(t *testing.T) {
	for _, width := range []int{40, 80, 100, 120} {
		doctest.Golden(t, fmt.Sprintf("text-%d.txt", width), text(t, sample(), TextOptions{Width: width, Unicode: true}))
	}
	ascii := text(t, sample(), TextOptions{Width: 80})
	doctest.Golden(t, "ascii-80.txt", ascii)
	check.That(t, strings.IndexFunc(ascii, func(r rune) bool { return r > '~' }) < 0, "signs that are not ASCII")
	doctest.Golden(t, "colour-80.txt", strings.ReplaceAll(text(t, sample(), TextOptions{Width: 80, Unicode: true, Colour: true}), "\x1b", "␛"))
	doctest.Golden(t, "document.md", markdown(t, sample()))
	got, want := text(t, sample(), TextOptions{Unicode: true}), text(t, sample(), TextOptions{Width: 100, Unicode: true})
	check.That(t, got == want, "without a width:\n%s", got)
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]+m")

// TestEmptyTexts: columns without names and rows without cells are tables too.
func TestEmptyTexts(t *testing.T) {
	table := Table{Columns: []Column{{}, {}}, Rows: []Row{{Note: "alone"}, {Cells: Cells("", "b")}, {}}}
	d := Document{Sections: []Section{{Tables: []Table{table}}}}
	check.Equal(t, text(t, d, TextOptions{Width: 80}), "\n  alone\nb\n\n")
	check.Equal(t, text(t, d, TextOptions{Width: 79}), "alone\nb\n")
}

// TestMarkdownLimit: sections that do not fit are left out and named.
func TestMarkdownLimit(t *testing.T) {
	d := sample()
	long := Section{Title: "Long|one", Tail: Say(strings.Repeat("many words ", limit/10))}
	d.Sections = append(d.Sections, long, Section{Title: "Last", Tail: Say("the end")})
	got := markdown(t, d)
	check.That(t, len([]rune(got)) <= limit && strings.Contains(got, "the end") && !strings.Contains(got, "many") && strings.Contains(got, `: Long\|one. The format text`),
		"%d characters: %s", len(got), got[max(0, len(got)-500):])
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Quantity("s", 0.0242738), "24.3 ms"},
		{Quantity("s", 0.09996), "100 ms"},
		{Quantity("s", 0.99961), "1000 ms"},
		{Quantity("s", 12.34), "12.3 s"},
		{Quantity("s", 345e-9), "345 ns"},
		{Quantity("s", 0), "0 s"},
		{Quantity("B", 66.6e6), "66.6 MB"},
		{Quantity("B", 999), "999 B"},
		{Quantity("B/s", 5.3149e9), "5.31 GB/s"},
		{Quantity("s/GB", 0.34), "0.340 s/GB"},
		{Quantity("1", 26.44), "26.4"},
		{Percent(0.05), "5 %"},
		{Percent(1.197), "120 %"},
		{Percent(0.9999), "99.9 %"},
		{Percent(1), "100 %"},
		{Percent(0.0034), "0.34 %"},
		{Bounded("s", interval(0.254, 0.251, 0.258)), "254 ms (251 to 258)"},
		{Bounded("s", stat.Interval{Center: 0.254}), "254 ms"},
		{Bounded("s", stat.None()), "—"},
		{Change(interval(1.042, 1.031, 1.05)), "+4.2 % (+3.1 to +5.0)"},
		{Change(interval(1, 0.99996, 1.00004)), "0.0 % (0.0 to 0.0)"},
		{Change(interval(0.8, 0.7, 0.9)), "−20 % (−30 to −10)"},
		{Times(interval(3.21, 3.1, 3.32)), "3.21× (3.10 to 3.32)"},
		{Plural(1, "block") + ", " + Plural(2, "block"), "1 block, 2 blocks"},
		{List([]string{"a", "b", "c"}) + "; " + List([]string{"a"}) + List(nil), "a, b and c; a"},
	} {
		check.Equal(t, test.got, test.want)
	}
}

// TestColumnUnits: a column has one unit, chosen to make its numbers readable.
func TestColumnUnits(t *testing.T) {
	for _, test := range []struct {
		unit   string
		xs     []float64
		header string
		cells  string
	}{
		{"s", []float64{0.01, 0.0289, 0.264}, "x, ms", " 10.0| 28.9|264  "},
		{"s", []float64{12e-6, 0.005}, "x, µs", "  12.0|5000  "},
		{"s", []float64{2e-3, 1.2}, "x, ms", "   2.00|1200   "},
		{"s", []float64{24274e-6}, "x, ms", "24.3"},
		{"B", []float64{66.6e6, 1e9}, "x, MB", "  66.6|1000  "},
		{"s/round", []float64{0.2, 0.0004}, "x, ms/round", "200    |  0.400"},
		{"1/GB", []float64{12, 1}, "x, per GB", "12| 1"},
		{"1", []float64{64, 8}, "x", "64| 8"},
		{"1", []float64{1, 2.5}, "x", "1.00|2.50"},
		{"1", []float64{2, 3.3e-6}, "x", "2.00  |0.0000"},
		{"%", []float64{0.5, 0.001}, "x, %", "50   | 0.10"},
		{"%", []float64{0.5, 3e-21}, "x, %", "50     |<0.0001"},
		{"", nil, "", ""},
	} {
		table := Table{Columns: []Column{{Name: "x", Unit: test.unit}}}
		for _, x := range test.xs {
			table.Add(x)
		}
		s := table.sheet(Visible)
		if test.xs == nil {
			check.That(t, len(s.columns) <= 0, "an empty column is shown: %+v", s.columns)
			continue
		}
		var cells []string
		for r := range s.rows {
			cells = append(cells, s.columns[0].aligned(r))
		}
		check.Equal(t, s.columns[0].header+": "+strings.Join(cells, "|"), test.header+": "+test.cells)
	}
}

func written(evil string, x, y float64) Section {
	table := Table{Caption: evil, Columns: []Column{{Name: evil, Help: evil}, {Name: evil, Unit: "s", Bar: true, Help: evil}, {Name: "words" + evil, Wrap: true}}, Notes: []string{evil}}
	table.Rows = []Row{
		{Cells: Cells(evil, Cell{Value: &stat.Interval{Center: x, Low: y, High: x, Confidence: 0.5}}, evil),
			Tone: Good},
		{Cells: Cells("evil", y, As("data", evil)), Note: evil, Rule: true, Heading: evil},
	}
	return Section{Name: evil, Title: evil, Lead: []Paragraph{{evil, Bad}}, Tables: []Table{table}, Tail: Say(evil), Folded: true}
}

// FuzzDocument: no line is wider than the terminal, and no text acts.
func FuzzDocument(f *testing.F) {
	f.Add(doctest.Hostile, 20, true, 0.01, 0.02)
	f.Add("日本語 ::error::x"+strings.Repeat(":", 40), 9, true, -1.0, 1e300)
	f.Add("\U0001f1e9\U0001f1ea 1\u20e3 e\u0301\u0301", 50, false, math.Inf(1), math.NaN())
	for i, s := range doctest.Starts {
		f.Add(s, 10+i, i%2 == 0, 0.0, 1e-12)
	}
	f.Fuzz(func(t *testing.T, evil string, columns int, unicode bool, x, y float64) {
		columns = max(columns%300, -columns%300, 1)
		d := sample()
		d.Title, d.Lead = evil, append(d.Lead, Paragraph{evil, Bad})
		d.Sections = append(d.Sections, written(evil, x, y))
		plain := text(t, d, TextOptions{Width: columns, Unicode: unicode})
		check.Equal(t, doctest.Acts("text", plain), "", "text")
		check.Same(t, cmp.Diff(plain, colours.ReplaceAllString(text(t, d, TextOptions{Width: columns, Colour: true, Unicode: unicode}), "")), "coloured")
		for line := range strings.Lines(plain) {
			w := width(strings.TrimSuffix(line, "\n"))
			check.Need(t, w <= max(columns, leastWidth), "%d columns of %d: %q", w, columns, line)
		}
		why := doctest.Acts("md", markdown(t, d))
		check.That(t, why == "" || !strings.Contains(evil, "evil"), "md %s", why)
		check.Equal(t, doctest.Acts("html", html(t, d)), "", "html")
	})
}

// TestMarkdownCurves: Markdown draws curves that share their positions and have a linear scale, and names their colours.
// What Mermaid cannot draw is left to tables.
func TestMarkdownCurves(t *testing.T) {
	curve := func(name string, at float64, shares ...float64) (s Series) {
		s.Name = name
		for _, x := range shares {
			s.Points, at = append(s.Points, Point{At: at, Value: stat.Interval{Center: x}}), at*10
		}
		return s
	}
	drawn := func(change func(p *Plot)) string {
		p := Plot{Caption: "Part", Kind: Curves, At: Axis{Name: "training", Unit: "s", Log: true}, Value: Axis{Name: "share", Unit: "%"},
			Series: []Series{curve("slow", 0.01, 0.95, 0.5), curve("fast", 0.01, 0.1, 0.015)}}
		change(&p)
		return Section{Plots: []Plot{p}}.Markdown()
	}
	doctest.Golden(t, "curves.md", drawn(func(*Plot) {}))
	for name, change := range map[string]func(p *Plot){
		"logarithm": func(p *Plot) { p.Value.Log = true },
		"dots":      func(p *Plot) { p.Kind = Dots },
		"one":       func(p *Plot) { p.Series = p.Series[:1] },
		"a gap":     func(p *Plot) { p.Series[1].Points = p.Series[1].Points[:1] },
		"elsewhere": func(p *Plot) { p.Series[1] = curve("b", 0.02, 1, 1) },
		"a point":   func(p *Plot) { p.Series = []Series{curve("a", 1, 1), curve("b", 1, 1)} },
		"unknown":   func(p *Plot) { p.Series[0].Points[0].Value = stat.None() },
		"many":      func(p *Plot) { p.Series = append(p.Series, p.Series[0], p.Series[0], p.Series[0], p.Series[0]) },
	} {
		check.Equal(t, drawn(change), "", name)
	}
}
