package report

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/bench/stat"
	"ipcbench/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
	"ipcbench/report/doc/doctest"
)

type cost struct {
	transport            string
	client, tensor, byte float64
	counts               string
}

// costs are what a client, a tensor and a byte cost with each transport, in seconds.
var costs = []cost{
	{"http", 200e-6, 3e-6, 0.35e-9, "body.tensors"},
	{"grpc-stream", 300e-6, 8e-6, 0.5e-9, "body.tensors"},
	{"shm-slab", 60e-6, 0.5e-6, 0.02e-9, "handle.tensors"},
	{"http-shm", 80e-6, 0.6e-6, 0.02e-9, "handle.tensors"},
}

// ragged are shapes, each with the factor by which what it costs is off a sum of features.
var ragged = []struct {
	mb      float64
	tensors int
	factor  float64
}{
	{1, 10, 1.03}, {1, 300, 0.95}, {4, 40, 1}, {4, 161, 1.06}, {12, 20, 0.97}, {60, 60, 1.02}, {60, 400, 0.94}, {120, 148, 1.05}, {240, 30, 1}, {240, 300, 0.96},
}

// ms returns how long a round takes with cost k, and the control with -1.
func ms(k int, m bench.Model, workers, clients int, factor float64) float64 {
	turns := math.Ceil(float64(clients) / float64(min(workers, 2)))
	round := 30e-6*float64(clients) + 0.6e-9*float64(m.Bytes)*turns
	if k >= 0 {
		c, n := costs[k], float64(clients)
		round += factor * (c.client*n + c.tensor*n*2*float64(m.Tensors) + c.byte*n*2*float64(m.Bytes))
	}
	return 1e3 * round
}

// cellOf is a cell of cost k, or of the control with -1, whose rounds take some seconds more.
func cellOf(k int, m bench.Model, workers, clients int, factor, more float64) bench.Cell {
	name, counts := "inproc", "handle.tensors"
	if k >= 0 {
		name, counts = costs[k].transport, costs[k].counts
	}
	return benchtest.Count(benchtest.Cell(name, m, workers, clients, benchtest.Six(ms(k, m, workers, clients, factor)+1e3*more)...), counts, int64(m.Tensors))
}

// calibrated returns a result with cells of all costs and shapes.
func calibrated() *bench.Result {
	r := benchtest.Result()
	for _, s := range ragged {
		m := bench.Model{Name: fmt.Sprintf("uniform:%vMB/%d", s.mb, s.tensors), Tensors: s.tensors, Bytes: int64(s.mb * 1e6)}
		for _, clients := range []int{1, 2, 8} {
			for k := range len(costs) + 1 {
				r.Cells = append(r.Cells, cellOf(k-1, m, 2, clients, s.factor, 0))
			}
		}
	}
	return r
}

var resnet50 = bench.Model{Name: "resnet50", Tensors: 320, Bytes: 102548352}

// askedFor returns the cells of all costs for a model.
func askedFor(m bench.Model, workers, clients int) []bench.Cell {
	var all []bench.Cell
	for k := range costs {
		c := cellOf(k, m, workers, clients, 1, 0)
		c.Blocks = nil
		all = append(all, c)
	}
	return all
}

// advice asks for cells, and fails the test without an answer.
func advice(t testing.TB, r *bench.Result, asked ...bench.Cell) *analysis.Advice {
	t.Helper()
	a, err := analysis.Advise([]*analysis.Result{analysis.New(r)}, asked)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// adviceText is what a terminal of 80 columns shows.
func adviceText(t testing.TB, a *analysis.Advice, o AdviceOptions) string {
	t.Helper()
	var b bytes.Buffer
	o.Text = doc.TextOptions{Width: 80, Unicode: true}
	if err := WriteAdvice(&b, a, o); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		one := !strings.Contains(strings.TrimSpace(strings.TrimSuffix(line, " \\\n")), " ") // word of a command, which cannot be broken
		if n := utf8.RuneCountInString(line) - 1; n > 80 && n < 300 && !one {               // numbers of 300 digits are wider
			t.Errorf("%d columns: %s", n, line)
		}
	}
	return b.String()
}

func adviceJSON(t testing.TB, a *analysis.Advice, o AdviceOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteAdviceJSON(&b, a, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAdvice: what a terminal and a script get: of all shapes, with what was left out, and
// after it was verified.
func TestAdvice(t *testing.T) {
	r := calibrated()
	for i := range r.Cells[5:8] {
		r.Cells[5+i].Stopped = "interrupted"
	}
	asked := askedFor(resnet50, 2, 8)
	asked = append(asked, asked[0])
	asked[4].Transport, asked[4].Variant = "storage", "storage"
	a := advice(t, r, asked...)
	o := AdviceOptions{Verify: "ipcbench run --transport shm-slab,http-shm --model resnet50 --workers 2 --clients 8", Sources: []string{"calibrated.json"}}
	measured := benchtest.Result()
	for k := range len(costs) + 1 {
		measured.Cells = append(measured.Cells, cellOf(k-1, resnet50, 2, 8, 1.1, 0))
	}
	before := adviceText(t, a, o)
	o.Verified = analysis.New(measured)
	golden(t, "advice.text", before+"\n"+strings.Repeat("=", 20)+"\n\n"+adviceText(t, a, o))
	golden(t, "advice.json", adviceJSON(t, a, o))
}

// TestPredictedView: what a terminal, a pull request and a page show of predictions of what
// was measured; and that filters choose what is shown, while predictions are made of all
// (guard 26).
func TestPredictedView(t *testing.T) {
	r := calibrated()
	few := cellOf(0, plain("few", 1), 2, 1, 1, 0)
	few.Transport, few.Variant = "storage", "storage"
	other := few
	other.Model = plain("more", 2)
	r.Cells = append(r.Cells, few, other)
	shows(t, r, "predicted.text", [][]string{{"predicted"}}, nil)
	v := analysis.New(r)
	all := predictions(v)
	if err := v.Narrow([]string{"model=" + r.Cells[0].Model.Name, "transport=http"}); err != nil {
		t.Fatal(err)
	}
	s := predictions(v)
	if len(s.Tables) != 2 || len(s.Tables[0].Rows) != 1 || len(s.Tables[1].Rows) != 3 {
		t.Fatalf("%d tables", len(s.Tables))
	}
	for i, row := range s.Tables[1].Rows {
		if got, want := row.Cells[4].Value.Center, all.Tables[1].Rows[i].Cells[4].Value.Center; got != want {
			t.Errorf("row %d: predicted %v, and %v of all cells", i, got, want)
		}
	}
	var md, page bytes.Buffer
	o := Options{Views: []string{"predicted"}}
	if err := errors.Join(writeMarkdown(&md, r, o), writeHTML(&page, r, o)); err != nil {
		t.Fatal(err)
	}
	golden(t, "predicted.md", md.String())
	for _, want := range []string{"Overhead of grpc-stream", `"name":"predicted"`, "held out"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if text := shown(t, benchtest.Pair(1, 1), "predicted"); !strings.Contains(text, "predicted: this result has nothing to show.") {
		t.Errorf("of one shape:\n%s", text)
	}
}

func plain(name string, mb int64) bench.Model {
	return bench.Model{Name: name, Tensors: 1, Bytes: mb * 1e6}
}

// overLinks returns what transports over TCP took on two links, beside the control and what
// needs no network, with 8 clients everywhere.
func overLinks() (r *bench.Result, asked []bench.Cell) {
	r = calibrated()
	r.Cells = slices.DeleteFunc(r.Cells, func(c bench.Cell) bool { return c.Clients != 8 || c.Model.Bytes < 60e6 })
	for _, c := range r.Cells {
		for link, rate := range map[string]float64{"100Mbit": 100e6, "1Gbit": 1e9} {
			k := slices.IndexFunc(costs, func(of cost) bool { return of.transport == c.Transport && of.counts == "body.tensors" })
			if k < 0 {
				continue
			}
			c.Link, c.Variant, c.Settings = link, c.Transport+":network=tcp", map[string]string{"network": "tcp"}
			slow := cellOf(k, c.Model, 2, 8, 1, 8*8*2*float64(c.Model.Bytes)/rate)
			c.Blocks = slow.Blocks
			r.Cells = append(r.Cells, c)
		}
	}
	gpt2 := bench.Model{Name: "gpt2", Tensors: 148, Bytes: 497759232}
	asked = askedFor(gpt2, 2, 8)
	for i := range asked {
		if costs[i].counts == "body.tensors" {
			asked[i].Link, asked[i].Variant, asked[i].Settings = "1Gbit", asked[i].Transport+":network=tcp", map[string]string{"network": "tcp"}
		}
	}
	return r, asked
}

// TestAdviceOverLinks: what is extrapolated, dropped, mixed and foreign is said.
func TestAdviceOverLinks(t *testing.T) {
	r, asked := overLinks()
	slices.SortStableFunc(r.Cells, func(a, b bench.Cell) int { return strings.Compare(a.ID(), b.ID()) })
	asked = append(asked, asked[0])
	asked[4].Variant, asked[4].Settings = "http:network=tcp:codec=sparse", map[string]string{"network": "tcp", "codec": "sparse"}
	other := *r
	other.Plan.Pin = true
	a, err := analysis.Advise([]*analysis.Result{analysis.New(r), analysis.New(&other)}, asked)
	if err != nil {
		t.Fatal(err)
	}
	o := AdviceOptions{Sources: []string{"a.json", "b.json"}, Foreign: []string{"processors: 2, here 4"}}
	golden(t, "advice-links.text", adviceText(t, a, o))
}

// TestHostileAdvice: whatever stands in any string of an advice, and whatever its numbers
// are, nothing acts, and JSON is JSON.
func TestHostileAdvice(t *testing.T) {
	a := func() (*analysis.Advice, AdviceOptions) {
		r, asked := overLinks()
		made := advice(t, r, asked...)
		made.Refused = []analysis.Refusal{{Cell: asked[0], Why: errors.New("evil\x1b[2J\n::error::x")}}
		made.LeftOut, made.Mixed = []analysis.LeftOut{{Why: "drifts", Cells: 2}}, []machine.Difference{{What: "seed", Base: "1", Head: "2"}}
		measured := benchtest.Result(cellOf(-1, made.Asked.Model, 2, 8, 1, 0))
		for _, f := range made.Ranked {
			c := cellOf(0, f.Cell.Model, 2, 8, 1, 0)
			c.Variant, c.Link = f.Cell.Variant, f.Cell.Link
			measured.Cells = append(measured.Cells, c)
		}
		return made, AdviceOptions{Verify: "ipcbench run", Verified: analysis.New(measured), Sources: []string{"a"}, Foreign: []string{"b"}}
	}
	try := func(what string, edit func(a *analysis.Advice, o *AdviceOptions)) {
		made, o := a()
		edit(made, &o)
		for name, out := range map[string]string{"text": adviceText(t, made, o), "json": adviceJSON(t, made, o)} {
			if why := doctest.Acts(name, out); why != "" {
				t.Errorf("%s: %s %s", what, name, why)
			}
			if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
				t.Errorf("%s: %s has no number:\n%s", what, name, out)
			}
		}
	}
	ways := map[string]bool{}
	made, o := a()
	all := func(a *analysis.Advice, o *AdviceOptions) []reflect.Value { // of what is measured, nothing is shown but numbers
		return []reflect.Value{reflect.ValueOf(a), reflect.ValueOf(&o.Verify), reflect.ValueOf(&o.Sources), reflect.ValueOf(&o.Foreign)}
	}
	for k, v := range all(made, &o) {
		texts(v, strconv.Itoa(k), func(way string, _ func(func(string) string)) { ways[way] = true })
	}
	if len(ways) < 30 {
		t.Fatalf("found only %d strings: %v", len(ways), ways)
	}
	set := func(way, text string) func(a *analysis.Advice, o *AdviceOptions) {
		return func(a *analysis.Advice, o *AdviceOptions) {
			for k, v := range all(a, o) {
				texts(v, strconv.Itoa(k), func(at string, set func(func(string) string)) {
					if way == "" || way == at {
						set(func(string) string { return text })
					}
				})
			}
		}
	}
	for way := range ways {
		try(way, set(way, doctest.Hostile))
	}
	for _, text := range append([]string{""}, doctest.Starts...) {
		try("all "+text, set("", text))
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, 5e-324, -1, 0} {
		i := stat.Interval{Center: x, Low: -x, High: 2 * x, Confidence: 0.9}
		try(fmt.Sprint(x), func(a *analysis.Advice, o *AdviceOptions) {
			a.Control.Round = i
			for k, f := range a.Ranked {
				f.Round, f.Overhead = i, i
				if k%2 == 0 {
					f.Fit = nil
				}
			}
		})
	}
	try("nothing", func(a *analysis.Advice, o *AdviceOptions) { *a, *o = analysis.Advice{}, AdviceOptions{} })
	try("nothing measured", func(a *analysis.Advice, o *AdviceOptions) { o.Verified = analysis.New(benchtest.Result()) })
	try("no control", func(a *analysis.Advice, o *AdviceOptions) {
		a.Control = nil
		for _, f := range a.Ranked {
			f.Round = stat.None()
		}
	})
}
