package analysis

import (
	"math"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/tensor"
)

// even is a codec over TCP without a rate, and none: what it leaves of 100 MB each
// way, and how many ms longer its rounds take.
func even(ratio float64, plain, coded []float64) *result.Result {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	cell := func(codec string, rounds []float64) result.Cell {
		c := benchtest.Cell("http", m, 1, 1, rounds...)
		c.Settings = map[string]string{"network": "tcp", "codec": codec}
		c.Variant, c.Link = "http:network=tcp:codec="+codec, link.Unshaped
		return c
	}
	c := cell("xor", coded)
	for _, way := range []string{"down", "up"} {
		benchtest.Count(c, "codec."+way+".payload", 200*benchtest.MB) // two rounds a block
		benchtest.Count(c, "codec."+way+".wire", int64(ratio*200*float64(benchtest.MB)))
	}
	return benchtest.Result(cell("none", plain), c)
}

// TestBreakEven: bits saved ÷ seconds added, with an interval; nothing saved never
// pays, nothing added always does (guard 23).
func TestBreakEven(t *testing.T) {
	six, wide := benchtest.Six, []float64{90, 95, 100, 101, 105, 110}
	for name, tt := range map[string]struct {
		ratio        float64
		plain, coded []float64
		pays         Pays
		at, low      float64
		high         float64
	}{
		// 100 MB saved; the sixth of 36 differences from either end.
		"50 ms more":      {0.5, six(100), six(150), Below, 800e6 / 50e-3, 800e6 / (151.5e-3 - 99e-3), 800e6 / (148.5e-3 - 101e-3)},
		"a little more":   {0.5, wide, six(101.5), Below, 800e6 / 1e-3, 800e6 / 9.47e-3, math.Inf(1)},
		"perhaps no more": {0.5, wide, six(100), Below, math.Inf(1), 800e6 / 8e-3, math.Inf(1)},
		"faster":          {0.5, six(150), six(100), AnyLink, math.Inf(1), math.Inf(1), math.Inf(1)},
		"nothing saved":   {1.0001, six(100), six(150), Never, 0, 0, 0},
		"not worth it":    {0.9999, six(100), six(1000), Never, 160e3 / 0.9, 0, 0},
		"one block":       {0.5, []float64{100}, []float64{150}, Below, 16e9, 16e9, 16e9},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(even(tt.ratio, tt.plain, tt.coded)).Paths()
			if len(p) != 1 || len(p[0].BreakEvens()) != 1 {
				t.Fatalf("%d paths", len(p))
			}
			b := p[0].BreakEvens()[0]
			same := func(got, want float64) bool { return got == want || want != 0 && math.Abs(got/want-1) < 1e-3 }
			if b.Pays != tt.pays || tt.at > 0 && !same(b.At.Center, tt.at) || tt.low > 0 && (!same(b.At.Low, tt.low) || !same(b.At.High, tt.high)) {
				t.Errorf("pays %q, %+v", b.Pays, b.At)
			}
		})
	}
}

// TestNoBreakEven: nothing is said where clients overlap, over Unix sockets, or of a
// codec whose transport was not measured without.
func TestNoBreakEven(t *testing.T) {
	for name, edit := range map[string]func(r *result.Result){
		"clients": func(r *result.Result) {
			for i := range r.Cells {
				r.Cells[i].Workers = 2
			}
		},
		"no plain one": func(r *result.Result) { r.Cells = r.Cells[1:] },
		"other change": func(r *result.Result) { r.Cells[0].Change = benchtest.Text[tensor.Change]("2%") },
		"other link":   func(r *result.Result) { r.Cells[0].Link = link.Rate{} },
		"respawn":      func(r *result.Result) { r.Cells[0].Respawn, r.Cells[1].Respawn = true, true },
	} {
		r := even(0.5, benchtest.Six(100), benchtest.Six(150))
		edit(r)
		for _, p := range New(r).Paths() {
			for _, b := range p.BreakEvens() {
				if b.Pays != "" || b.At.Known() {
					t.Errorf("%s: pays %q, %+v", name, b.Pays, b.At)
				}
			}
		}
	}
	r := even(0.5, benchtest.Six(100), benchtest.Six(150))
	for i := range r.Cells {
		r.Cells[i].Link, r.Cells[i].Settings["network"] = link.Rate{}, "unix"
	}
	if p := New(r).Paths(); len(p) != 0 {
		t.Errorf("%d paths over Unix sockets", len(p))
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{"100Mbit": 100e6, "1Gbit": 1e9, "2500kbit": 2.5e6, "none": 0, "unshaped": 0, "1Gbit/10ms": 0} {
		if got, ok := Rate(benchtest.Text[link.Rate](text)); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

// TestLinkedControl: a cell on a link is compared with the control outside of it, one
// for all, and only with that of the same change; inproc with a codec is none.
func TestLinkedControl(t *testing.T) {
	r := benchtest.Linked(map[string]float64{"unshaped": 0, "1Gbit": 1e9})
	coded := benchtest.Cell("inproc", r.Cells[0].Model, 1, 1, benchtest.Six(70)...)
	coded.Variant, coded.Change, coded.Settings["codec"] = "inproc:codec=sparse", r.Cells[0].Change, "sparse"
	other := benchtest.Cell("inproc", r.Cells[0].Model, 1, 1, benchtest.Six(80)...)
	r.Cells = append(r.Cells, coded, other)
	for _, c := range New(r).Cells {
		want := r.Cells[0].ID()
		if c.Change == (tensor.Change{}) {
			want = other.ID()
		}
		if c.Control.ID() != want {
			t.Errorf("%s has the control %s", c.Name(), c.Control.ID())
		}
		if c.Link != (link.Rate{}) && !strings.HasSuffix(c.Name(), " link="+c.Link.String()) {
			t.Errorf("%s does not name its link", c.Name())
		}
	}
}
