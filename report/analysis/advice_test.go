package analysis

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/predict"
)

// Costs of transports whose rounds are sums: ms a client, µs a tensor and ns a byte.
var advised = map[string][3]float64{
	"inproc":      {0.1, 1, 0.3},
	"shm-slab":    {0.15, 1.5, 0.31},
	"http-shm":    {0.15, 1.5, 0.31},
	"http":        {0.4, 6, 0.5},
	"grpc-stream": {0.6, 11, 0.6},
}

// moved is the model of so many MB in so many tensors.
func moved(mb float64, tensors int) bench.Model {
	return bench.Model{Name: fmt.Sprintf("uniform:%vMB/%d", mb, tensors), Tensors: tensors, Bytes: int64(mb * 1e6)}
}

// costly is a cell of the transport whose six blocks vary by ±1 %, and of http-shm from
// shape to shape too.
func costly(transport string, m bench.Model, workers, clients int) bench.Cell {
	k := advised[transport]
	each := k[0] + k[1]*float64(2*m.Tensors)/1e3 + k[2]*float64(2*m.Bytes)/1e6
	if transport == "http-shm" {
		each *= 1 + 0.002*float64(m.Tensors/20%3-1)
	}
	var rounds []float64
	for _, off := range []float64{-0.01, -0.006, -0.002, 0.002, 0.006, 0.01} {
		rounds = append(rounds, (1+off)*each*float64(clients))
	}
	c := benchtest.Cell(transport, m, workers, clients, rounds...)
	if transport == "shm-slab" || transport == "http-shm" {
		benchtest.Count(c, "handle.tensors", 1)
	}
	return c
}

// around is what a calibration round 80 MB in 40 tensors measures of some transports.
func around(transports ...string) *bench.Result {
	r := benchtest.Result()
	for _, m := range []bench.Model{moved(160, 40), moved(40, 40), moved(80, 80), moved(80, 20), moved(40, 20), moved(20, 80)} {
		for _, t := range append(transports, "inproc") {
			r.Cells = append(r.Cells, costly(t, m, 2, 4))
		}
	}
	return r
}

// asking is a cell of each transport that is asked for.
func asking(m bench.Model, workers, clients int, transports ...string) []bench.Cell {
	var all []bench.Cell
	for _, t := range transports {
		c := costly(t, m, workers, clients)
		c.Blocks, c.Launcher, c.Stopped = nil, "", ""
		all = append(all, c)
	}
	return all
}

func advise(t *testing.T, asked []bench.Cell, from ...*bench.Result) *Advice {
	t.Helper()
	var all []*Result
	for _, r := range from {
		all = append(all, New(r))
	}
	a, err := Advise(all, asked)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var four = []string{"grpc-stream", "http", "shm-slab", "http-shm"}

// TestAdvise: transports are ranked by what they cost a model that was not measured, ties
// as ties, and those that move bytes among themselves.
func TestAdvise(t *testing.T) {
	a := advise(t, asking(moved(80, 40), 2, 4, four...), around(four...))
	var order []string
	for _, f := range a.Ranked {
		order = append(order, f.Cell.Variant)
		want := costly(f.Cell.Variant, moved(80, 40), 2, 4)
		control := costly("inproc", moved(80, 40), 2, 4)
		w := New(benchtest.Result(want, control)).Cells[0]
		overhead, round := w.Of("overhead").Center, w.Of("round").Center
		if off := math.Abs(f.Round.Center/round - 1); off > 0.01 {
			t.Errorf("%s: a round of %v s is predicted to take %v s", f.Cell.Variant, round, f.Round.Center)
		}
		if off := math.Abs(f.Overhead.Center - overhead); off > 0.02*max(overhead, 0.05*round) {
			t.Errorf("%s: an overhead of %v s is predicted as %v s", f.Cell.Variant, overhead, f.Overhead.Center)
		}
		if len(f.Extrapolated) > 0 || !(f.Round.Low <= f.Round.Center && f.Round.Center <= f.Round.High) || f.Round.Confidence == 0 {
			t.Errorf("%s: %+v", f.Cell.Variant, f)
		}
	}
	if got := strings.Join(order[2:], " "); got != "http grpc-stream" {
		t.Errorf("ranked: %v", order)
	}
	if best := a.Best(); len(best) != 2 || best[0].Moves || best[1].Moves {
		t.Errorf("best: %d of %v: %+v, %+v", len(best), order, a.Ranked[0].Overhead, a.Ranked[1].Overhead)
	}
	if best := a.BestMoving(); len(best) != 1 || best[0].Cell.Variant != "http" {
		t.Errorf("the best that move bytes: %v", best)
	}
	median, _ := a.Errors()
	if a.Control == nil || a.Control.Measured || a.Cells != 24 || len(a.LeftOut) != 0 || len(a.Refused) != 0 || !(median < 0.05) {
		t.Errorf("control %+v, %d cells, left out %v, refused %v, held out %v", a.Control, a.Cells, a.LeftOut, a.Refused, median)
	}
}

// TestMeasuredControl: that of the very work is taken where it was measured.
func TestMeasuredControl(t *testing.T) {
	r := around("http")
	control := costly("inproc", moved(80, 40), 2, 4)
	for i := range control.Blocks {
		for k := range control.Blocks[i].Round {
			control.Blocks[i].Round[k] *= 2
		}
	}
	r.Cells = append(r.Cells, control)
	a := advise(t, asking(moved(80, 40), 2, 4, "http"), r)
	want := New(benchtest.Result(control)).Cells[0].Of("round")
	if !a.Control.Measured || a.Control.Round != want {
		t.Errorf("%+v, want %+v", a.Control, want)
	}
	if f := a.Ranked[0]; math.Abs(f.Round.Center-want.Center-f.Overhead.Center) > 1e-9 {
		t.Errorf("%+v", f)
	}
}

// TestAdviceWithoutControl: transports are ranked by their overhead where nobody knows
// what the round takes besides.
func TestAdviceWithoutControl(t *testing.T) {
	r := around(four...)
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Transport == "inproc" && i > 10 {
			c.Unproved = "hashes" // which leaves two
		}
	}
	a := advise(t, asking(moved(80, 40), 2, 4, four...), r)
	if a.Control != nil || len(a.Ranked) != 4 || a.Ranked[0].Round.Known() || !a.Ranked[0].Overhead.Known() {
		t.Errorf("%+v", a)
	}
}

// TestLeftOut: what is flagged, unproved or has other settings is left out and counted.
func TestLeftOut(t *testing.T) {
	first := func(r *bench.Result) *bench.Cell { return &r.Cells[0] }
	for why, edit := range map[string]func(r *bench.Result){
		"not proved":  func(r *bench.Result) { first(r).Unproved = "no hashes" },
		"interrupted": func(r *bench.Result) { first(r).Stopped = "interrupted" },
		"one block": func(r *bench.Result) {
			first(r).Blocks = first(r).Blocks[:1]
			r.Cells[1].Blocks = r.Cells[1].Blocks[:1]
		},
		"no control": func(r *bench.Result) { r.Cells = slices.Delete(r.Cells, 1, 2) },
		"change":     func(r *bench.Result) { first(r).Change = "2%" },
		"train-ms":   func(r *bench.Result) { first(r).TrainMS = 5 },
		"link":       func(r *bench.Result) { first(r).Link = "1Gbit" },
		"depth":      func(r *bench.Result) { first(r).Depth = 1 },
		"language":   func(r *bench.Result) { first(r).Language = "python" },
		"up":         func(r *bench.Result) { first(r).Model.Up = "lora" },
		"drifts": func(r *bench.Result) {
			c := first(r)
			for i := range c.Blocks {
				b := &c.Blocks[i]
				for k := range 30 {
					b.Round = append(b.Round, b.Round[0]*int64(100+k)/100)
				}
			}
		},
	} {
		r := around("http")
		edit(r)
		a := advise(t, asking(moved(80, 40), 2, 4, "http"), r)
		if len(a.LeftOut) != 1 || a.LeftOut[0].Why != why || a.LeftOut[0].Cells < 1 || a.Cells != 5 || len(a.Ranked) != 1 {
			t.Errorf("%s: left out %v, %d cells, refused %v", why, a.LeftOut, a.Cells, a.Refused)
		}
	}
}

// TestRefusals: a transport that cannot be predicted does not keep others from it.
func TestRefusals(t *testing.T) {
	r := around("http", "grpc-stream")
	few := 0
	r.Cells = slices.DeleteFunc(r.Cells, func(c bench.Cell) bool {
		if c.Transport == "grpc-stream" {
			few++
		}
		return c.Transport == "grpc-stream" && few > 2
	})
	a := advise(t, asking(moved(80, 40), 2, 4, four...), r)
	if len(a.Ranked) != 1 || len(a.Refused) != 3 || !errors.Is(a.Refused[0].Why, predict.ErrFewShapes) || !errors.Is(a.Refused[1].Why, ErrNotMeasured) {
		t.Errorf("ranked %v, refused %v", a.Ranked, a.Refused)
	}
	for _, c := range []bench.Cell{
		asking(moved(80, 4000), 2, 4, "http")[0], asking(moved(80, 40), 2, 400, "http")[0], asking(moved(1, 40), 2, 4, "http")[0],
	} {
		a := advise(t, []bench.Cell{c}, r)
		if beyond := (*predict.Beyond)(nil); len(a.Ranked) != 0 || len(a.Refused) != 1 || !errors.As(a.Refused[0].Why, &beyond) {
			t.Errorf("%s: ranked %v, refused %v", c.ID(), a.Ranked, a.Refused)
		}
	}
	if a := advise(t, asking(moved(80, 40), 4, 4, "http"), r); len(a.Refused) != 1 || !errors.Is(a.Refused[0].Why, ErrNotMeasured) || a.LeftOut[0] != (LeftOut{"load of processors", true, 6}) {
		t.Errorf("more workers than processors: %v, left out %v", a.Refused, a.LeftOut)
	}
	delayed := asking(moved(80, 40), 2, 4, "http")
	delayed[0].Link = "1Gbit/5ms"
	if a := advise(t, delayed, r); len(a.Refused) != 1 || a.Refused[0].Why != ErrDelay {
		t.Errorf("a delay: %+v", a.Refused)
	}
	if a := advise(t, asking(moved(8000, 40), 2, 4, "http"), r); len(a.Ranked) != 1 || !slices.Equal(a.Ranked[0].Extrapolated, []string{"bytes"}) {
		t.Errorf("large: %+v", a)
	}
}

// TestSeveralResults: those of one machine are taken together, with their differences
// named; those of two are not.
func TestSeveralResults(t *testing.T) {
	a, b := around("http"), around("grpc-stream")
	b.Plan.Warmup, b.Plan.Seed = 7, 9
	got := advise(t, asking(moved(80, 40), 2, 4, "http", "grpc-stream"), a, b)
	if len(got.Ranked) != 2 || len(got.Mixed) != 1 || got.Mixed[0].What != "warm-up rounds" {
		t.Errorf("%+v", got)
	}
	for i := range b.Cells {
		if b.Cells[i].Transport != "inproc" {
			b.Cells[i].Transport, b.Cells[i].Variant, b.Cells[i].Settings = "http", "http", map[string]string{"network": "unix"}
		}
	}
	if got := advise(t, asking(moved(80, 40), 2, 4, "http"), a, b); len(got.Mixed) != 2 || got.Mixed[1].What != "setting network" {
		t.Errorf("settings that differ: %+v", got.Mixed)
	}
	b.Environment.CPU = "another one"
	if _, err := Advise([]*Result{New(a), New(b)}, asking(moved(80, 40), 2, 4, "http")); err == nil || !strings.Contains(err.Error(), "two machines: CPU model") {
		t.Errorf("two machines: %v", err)
	}
	if _, err := Advise(nil, nil); err == nil {
		t.Error("nothing is no error")
	}
}

// TestOnLink: with a link, cells on links tell, and the rate counts.
func TestOnLink(t *testing.T) {
	slow := func(c bench.Cell, link string) bench.Cell {
		bits, _ := Rate(link)
		c.Link, c.Variant = link, c.Variant+":network=tcp"
		for i := range c.Blocks {
			for k := range c.Blocks[i].Round {
				c.Blocks[i].Round[k] += int64(8 * float64(c.Payload()) / bits * 1e9)
			}
		}
		return c
	}
	r := around("http")
	for _, link := range []string{"1Gbit", "4Gbit"} {
		for _, c := range around("http").Cells {
			if c.Transport == "http" {
				r.Cells = append(r.Cells, slow(c, link))
			}
		}
	}
	asked := slow(asking(moved(80, 40), 2, 4, "http")[0], "2Gbit")
	a := advise(t, []bench.Cell{asked}, r)
	want := New(benchtest.Result(slow(costly("http", moved(80, 40), 2, 4), "2Gbit"))).Cells[0].Of("round").Center
	if len(a.Ranked) != 1 || math.Abs(a.Ranked[0].Round.Center/want-1) > 0.01 || a.Cells != 12 || len(a.Ranked[0].Extrapolated) != 0 {
		t.Errorf("want %v: %+v, refused %v", want, a.Ranked[0], a.Refused)
	}
}

// TestFamilies: each shape of a result is foretold by the others.
func TestFamilies(t *testing.T) {
	r := around("http", "shm-slab")
	r.Cells = append(r.Cells, costly("grpc-stream", moved(80, 40), 2, 4))
	all := New(r).Families()
	if len(all) != 2 {
		t.Fatalf("%d families", len(all))
	}
	for _, f := range all {
		if f.Fit == nil || len(f.Foretold()) != 6 {
			t.Fatalf("%v: %d", f.Why, len(f.Foretold()))
		}
		for _, of := range f.Foretold() {
			if !(of.Error < 0.1) || of.Value != of.Cell.Of("overhead").Center {
				t.Errorf("%s: %v s is foretold as %v s", of.Cell.Name(), of.Value, of.Predicted)
			}
		}
	}
	r.Cells = r.Cells[:6] // two shapes
	if f := New(r).Families()[0]; f.Fit != nil || f.Why == nil || f.Foretold() != nil {
		t.Errorf("two shapes: %+v", f)
	}
}
