package predict

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"ipcbench/bench/stat"
	"ipcbench/internal/skip"
)

const (
	mb    = 1e6 // bytes
	cache = 32 * mb
)

// work returns a round of clients of a model of some bytes and tensors, whose updates are
// like it, on lanes.
func work(bytes float64, tensors, clients, lanes int) Work {
	return Work{
		Clients: clients, Lanes: lanes, Processors: 2, Tensors: float64(2 * tensors), Bytes: 2 * bytes, Up: bytes,
		Resident: bytes * float64(1+lanes), Cache: cache,
	}
}

// grid returns works of all combinations.
func grid(sizes []float64, tensors, clients, lanes []int) []Work {
	var all []Work
	for _, b := range sizes {
		for _, n := range tensors {
			for _, k := range clients {
				for _, l := range lanes {
					all = append(all, work(b, n, k, l))
				}
			}
		}
	}
	return all
}

// truth is what units of features cost.
type truth map[string]float64

func (t truth) of(w Work) float64 {
	sum := 0.0
	for _, f := range features {
		sum += t[f.Name] * f.of(w)
	}
	return sum
}

// measured returns points of works with a cost that is off by noise, a share that has a
// normal distribution. Half of a round is cost.
func measured(r *rand.Rand, works []Work, noise float64, cost func(Work) float64) []Point {
	var all []Point
	for _, w := range works {
		y := cost(w)
		all = append(all, Point{
			Shape: fmt.Sprintf("%.0f/%.0f", w.Bytes, w.Tensors), Work: w, Value: y * (1 + noise*r.NormFloat64()), Half: 2 * noise * y / math.Sqrt(6), Round: 2 * y,
		})
	}
	return all
}

func fit(t *testing.T, points []Point) *Fit {
	t.Helper()
	f, err := New(points)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// costs are of the order of those of a transport that copies: 0.2 ms a client, 10 µs a
// tensor, 0.4 ns a byte.
var costs = truth{"client": 200e-6, "tensor": 10e-6, "byte": 0.4e-9}

var sizes = []float64{1 * mb, 4 * mb, 16 * mb, 64 * mb, 256 * mb}

// TestKnown: without noise, the costs are found that the points were made of, and
// nothing else.
func TestKnown(t *testing.T) {
	works := grid(sizes, []int{10, 100, 1000}, []int{1, 4, 8}, []int{1, 2, 4})
	for _, want := range []truth{
		costs,
		{"round": 1e-3, "byte": 1e-9},
		{"client": 300e-6, "turn": 0.7e-9, "byte": 0.2e-9},
		{"tensor": 20e-6},
		{"byte": 0.3e-9, "overflow": 0.5e-9, "client": 100e-6},
		{"round": 1e-3, "client": 200e-6, "tensor": 10e-6, "byte": 0.4e-9, "turn": 0.3e-9, "overflow": 0.2e-9},
	} {
		f := fit(t, measured(rand.New(rand.NewPCG(1, 1)), works, 0, want.of))
		if len(f.Terms()) != len(want) {
			t.Errorf("%v: the terms are %v", want, f.Terms())
		}
		for _, term := range f.Terms() {
			if w := want[term.Feature]; math.Abs(term.Cost-w) > 1e-3*w {
				t.Errorf("%v: %s costs %v", want, term.Feature, term.Cost)
			}
		}
		if _, worst := f.Errors(); worst > 0.01 {
			t.Errorf("%v: held out, a shape is off by %v", want, worst)
		}
	}
}

// TestNoise: with 3 % of noise, predictions of the very costs are right within 1 % in
// the median and 4 % at worst, whatever the noise.
func TestNoise(t *testing.T) {
	works := grid(sizes, []int{10, 100, 1000}, []int{1, 4}, []int{2})
	asked := grid([]float64{2 * mb, 8 * mb, 50 * mb, 100 * mb, 200 * mb}, []int{20, 161, 500}, []int{1, 2, 3, 4}, []int{2})
	var all []float64
	for seed := range uint64(200) {
		f := fit(t, measured(rand.New(rand.NewPCG(seed, 3)), works, 0.03, costs.of))
		for _, w := range asked {
			p, err := f.At(w, costs.of(w))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, math.Abs(p.Center/costs.of(w)-1))
		}
	}
	slices.Sort(all)
	t.Logf("off by %.2f %% in the median, %.2f %% in 99 of 100, %.2f %% at worst", 100*stat.Median(all), 100*all[len(all)*99/100], 100*all[len(all)-1])
	if m := stat.Median(all); m > 0.01 {
		t.Errorf("off by %v in the median", m)
	}
	if worst := all[len(all)-1]; worst > 0.04 {
		t.Errorf("off by %v at worst", worst)
	}
}

// TestAbsent: a feature that costs nothing adds less than 2 % to any prediction.
func TestAbsent(t *testing.T) {
	skip.Long(t)
	works := grid(sizes, []int{10, 100, 1000}, []int{1, 4, 16}, []int{1, 2, 4})
	for _, without := range []string{"round", "client", "tensor", "byte", "turn", "overflow"} {
		want := truth{"round": 0.5e-3, "client": 200e-6, "tensor": 10e-6, "byte": 0.4e-9, "turn": 0.3e-9, "overflow": 0.2e-9}
		delete(want, without)
		most := 0.0
		for seed := range uint64(100) {
			f := fit(t, measured(rand.New(rand.NewPCG(seed, 5)), works, 0.03, want.of))
			for _, term := range f.Terms() {
				if term.Feature != without {
					continue
				}
				for _, w := range works {
					most = max(most, term.Cost*features[place(without)].of(w)/f.best.at(w))
				}
			}
		}
		t.Logf("%s adds %.2f %% at most", without, 100*most)
		if most > 0.02 {
			t.Errorf("%s costs nothing, and adds %v to a prediction", without, most)
		}
	}
}

// TestCliff: where the cost of a tensor is four times as large from 32 KiB + 1 on, which
// is no feature, the error held out says that the fit is not to be believed.
func TestCliff(t *testing.T) {
	var works []Work
	for _, n := range []int{10, 40, 160, 640} {
		for _, each := range []float64{8 << 10, 16 << 10, 32 << 10, 32<<10 + 1, 64 << 10, 128 << 10} {
			works = append(works, work(each*float64(n), n, 2, 2))
		}
	}
	cliff := func(w Work) float64 {
		y := costs.of(w)
		if w.Bytes/w.Tensors > 32<<10 {
			y *= 4
		}
		return y
	}
	for seed := range uint64(20) {
		f := fit(t, measured(rand.New(rand.NewPCG(seed, 7)), works, 0.03, cliff))
		median, worst := f.Errors()
		if worst <= 0.5 {
			t.Errorf("the error held out is %v in the median and %v at worst", median, worst)
		}
	}
	f := fit(t, measured(rand.New(rand.NewPCG(1, 7)), works, 0.03, costs.of))
	if _, worst := f.Errors(); worst > 0.2 {
		t.Errorf("without a cliff, the worst error is %v", worst)
	}
}

// TestIntervals: the interval of a prediction holds what is then measured at least as
// often as its confidence says.
func TestIntervals(t *testing.T) {
	skip.Long(t)
	for _, of := range []struct {
		name  string
		works []Work
		asked Work
	}{
		{"six shapes", []Work{
			work(80*mb, 160, 2, 2), work(20*mb, 160, 2, 2), work(40*mb, 320, 2, 2), work(40*mb, 80, 2, 2), work(20*mb, 80, 2, 2), work(10*mb, 320, 2, 2),
		}, work(40*mb, 160, 2, 2)},
		{"forty shapes", grid([]float64{1 * mb, 2 * mb, 4 * mb, 8 * mb, 16 * mb, 32 * mb, 64 * mb, 128 * mb}, []int{10, 40, 160, 640, 1000}, []int{2}, []int{2}), work(40*mb, 161, 2, 2)},
	} {
		const times = 2000
		r := rand.New(rand.NewPCG(11, 11))
		held, confidence := 0, 0.0
		for range times {
			f := fit(t, measured(r, of.works, 0.1, costs.of))
			p, err := f.At(of.asked, costs.of(of.asked))
			if err != nil {
				t.Fatal(err)
			}
			confidence = p.Confidence
			if y := measured(r, []Work{of.asked}, 0.1, costs.of)[0].Value; y >= p.Low && y <= p.High {
				held++
			}
		}
		t.Logf("%s: %d of %d lie in intervals of %.3g %%", of.name, held, times, 100*confidence)
		if got := float64(held) / times; got < confidence-0.02 {
			t.Errorf("%s: %.3g of what is measured lies in intervals of %.3g", of.name, got, confidence)
		}
	}
}

// calibrated are works as a calibration chooses them: models round one of some bytes and
// 160 tensors, as shares of both.
func calibrated(bytes float64, clients int) (all []Work) {
	for _, by := range [][2]float64{{2, 1}, {1, .5}, {1, 2}, {.5, 1}, {.5, .5}, {.25, 2}} {
		all = append(all, work(by[0]*bytes, int(160*by[1]), clients, 2))
	}
	return all
}

// TestCalibrated: from six shapes with 3 % of noise, predictions are right within 1 % in
// the median; what costs nothing is rarely said to cost anything; and the cache counts,
// even if most shapes fit into it.
func TestCalibrated(t *testing.T) {
	const times = 600
	over := truth{"client": 200e-6, "tensor": 2e-6, "byte": 0.1e-9, "overflow": 0.4e-9}
	for _, of := range []struct {
		name                string
		works               []Work
		truth               truth
		asked               Work
		median, most, added float64 // at most
	}{
		{"above the cache", calibrated(40*mb, 4), costs, work(40*mb, 160, 4, 2), 0.01, 0.05, 0.05},
		{"within the cache", calibrated(2*mb, 4), costs, work(2*mb, 160, 4, 2), 0.01, 0.05, 0.05},
		{"larger than calibrated", calibrated(25*mb, 4), costs, work(200*mb, 160, 4, 2), 0.02, 0.12, 0.05},
		{"mostly within the cache", calibrated(10*mb, 4), over, work(80*mb, 160, 4, 2), 0.06, 0.5, 0.2},
	} {
		r := rand.New(rand.NewPCG(1, 13))
		var off, added []float64
		held := 0
		for range times {
			f := fit(t, measured(r, of.works, 0.03, of.truth.of))
			p, err := f.At(of.asked, 0.1)
			if err != nil {
				t.Fatal(err)
			}
			want := of.truth.of(of.asked)
			if want >= p.Low && want <= p.High {
				held++
			}
			extra := 0.0
			for _, term := range f.Terms() {
				if of.truth[term.Feature] == 0 {
					extra += term.Cost * features[place(term.Feature)].of(of.asked) / p.Center
				}
			}
			off, added = append(off, math.Abs(p.Center/want-1)), append(added, extra)
		}
		slices.Sort(off)
		slices.Sort(added)
		odd := len(added) - sort.SearchFloat64s(added, 0.02)
		t.Logf("%s: off by %.2f %% in the median, %.2f %% at worst, %d of %d in the interval, more than 2 %% of nothing in %d, %.2f %% at most",
			of.name, 100*stat.Median(off), 100*off[times-1], held, times, odd, 100*added[times-1])
		if stat.Median(off) > of.median || off[times-1] > of.most || float64(odd) > of.added*times {
			t.Errorf("%s: off by %.3g in the median, %.3g at worst; more than 2 %% of nothing in %d of %d", of.name, stat.Median(off), off[times-1], odd, times)
		}
	}
}

// TestRefused: what the points do not tell of is refused by name, and what lies a little
// beyond them is marked.
func TestRefused(t *testing.T) {
	large := grid([]float64{40 * mb, 80 * mb, 160 * mb}, []int{10, 40, 160}, []int{2, 4}, []int{2})
	small := grid([]float64{1 * mb, 2 * mb, 4 * mb}, []int{10, 40, 160}, []int{2, 4}, []int{2})
	alone := grid([]float64{40 * mb, 80 * mb, 160 * mb}, []int{10, 40, 160}, []int{2}, []int{2})
	with := func(w Work, set func(*Work)) Work { set(&w); return w }
	linked := func(works []Work) (all []Work) {
		for _, w := range works {
			for _, rate := range []float64{12.5e6, 125e6} {
				all = append(all, with(w, func(w *Work) { w.Link = rate }))
			}
		}
		return all
	}
	uncached := linked(small)
	for i := range uncached {
		uncached[i].Cache = 0
	}
	for _, of := range []struct {
		name   string
		points []Work
		asked  Work
		marks  string // what is extrapolated
		error  string
	}{
		{"within", large, work(100*mb, 100, 4, 2), "", ""},
		{"an idle processor", large, work(100*mb, 100, 3, 2), "what a turn costs", ""},
		{"bytes above the cache", large, work(3000*mb, 100, 4, 2), "bytes", ""},
		{"bytes below", large, work(20*mb, 100, 4, 2), "bytes", ""},
		{"bytes below the cache", large, work(4*mb, 100, 3, 2), "", "cache: the tensors fit into it, and nothing that was measured does"},
		{"bytes beyond the cache", small, work(40*mb, 100, 3, 2), "", "cache: the tensors are more than it holds"},
		{"bytes within the cache", small, work(0.2*mb, 100, 3, 2), "", "bytes: 0.4 MB, more than 4 times beyond what was measured: 2 MB to 8 MB"},
		{"tensors", large, work(100*mb, 500, 4, 2), "tensors", ""},
		{"many tensors", large, work(100*mb, 1000, 3, 2), "", "tensors: 2000, more than 4 times beyond"},
		{"clients", large, work(100*mb, 100, 16, 2), "clients", ""},
		{"many clients", large, work(100*mb, 100, 17, 2), "", "clients: 17, more than 4 times"},
		{"twice as many clients as the only ones", alone, work(100*mb, 100, 4, 2), "clients, what a round costs", ""},
		{"other clients than the only ones", alone, work(100*mb, 100, 7, 2), "", "feature round: what was measured does not tell it from others"},
		{"more workers than processors", large, work(100*mb, 100, 4, 4), "", "workers: there are more than processors"},
		{"a link", large, with(work(100*mb, 100, 4, 2), func(w *Work) { w.Link = 1e6 }), "", "link: 8 Mbit/s, more than 4 times beyond what was measured: no rate"},
		{"another way up", large, with(work(100*mb, 100, 4, 2), func(w *Work) { w.Up = w.Bytes / 10 }), "", "share of the way up: 10 %, more than 4 times beyond what was measured: 50 %"},
		{"bytes over a link, whatever the cache", uncached, with(work(3000*mb, 100, 4, 2), func(w *Work) { w.Link, w.Cache = 125e6, 0 }), "bytes", ""},
		{"no rate", linked(large), work(100*mb, 100, 4, 2), "", "link: no rate, more than"},
		{"a faster link", linked(large), with(work(100*mb, 100, 4, 2), func(w *Work) { w.Link = 250e6 }), "link", ""},
		{"a much faster link", linked(large), with(work(100*mb, 100, 4, 2), func(w *Work) { w.Link = 1250e6 }), "", "link: 1e+04 Mbit/s, more than 4 times"},
		{"no clients", large, work(100*mb, 100, 0, 2), "", "at least one client"},
		{"no amount", large, work(math.Inf(1), 100, 1, 2), "", "no amount"},
		{"nothing known", large, work(math.NaN(), 100, 1, 2), "", "no amount"},
	} {
		f := fit(t, measured(rand.New(rand.NewPCG(1, 1)), of.points, 0, costs.of))
		p, err := f.At(of.asked, 0.1)
		switch {
		case of.error == "" && err != nil, of.error != "" && (err == nil || !strings.Contains(err.Error(), of.error)):
			t.Errorf("%s: the error is %v, want %q", of.name, err, of.error)
		case strings.Join(p.Extrapolated, ", ") != of.marks:
			t.Errorf("%s: extrapolated in %v, want %q", of.name, p.Extrapolated, of.marks)
		}
	}
}

// TestFewShapes: features are dropped, by name, for want of shapes; fewer than three
// shapes are refused.
func TestFewShapes(t *testing.T) {
	works := []Work{work(40*mb, 10, 2, 2), work(80*mb, 40, 2, 2), work(160*mb, 20, 2, 2)}
	points := measured(rand.New(rand.NewPCG(1, 1)), works, 0, costs.of)
	f := fit(t, points)
	if got := strings.Join(f.Dropped(), " "); got != "tensor client round overflow" {
		t.Errorf("dropped: %s", got)
	}
	if _, err := New(points[:2]); !errors.Is(err, ErrFewShapes) {
		t.Errorf("two shapes: %v", err)
	}
	if _, err := New(nil); !errors.Is(err, ErrFewShapes) {
		t.Errorf("no shape: %v", err)
	}
}

// TestOneShapeHeldOutTogether: other numbers of clients of one shape do not predict it.
func TestOneShapeHeldOutTogether(t *testing.T) {
	works := grid([]float64{40 * mb, 80 * mb, 120 * mb, 160 * mb}, []int{10}, []int{1, 2, 4}, []int{2})
	odd := func(w Work) float64 {
		if w.Bytes == 2*80*mb {
			return 3 * costs.of(w)
		}
		return costs.of(w)
	}
	for _, h := range fit(t, measured(rand.New(rand.NewPCG(1, 1)), works, 0, odd)).HeldOut() {
		if h.Work.Bytes == 2*80*mb && (h.Error < 0.6 || h.Error > 0.7) {
			t.Errorf("%s with %d clients, three times as dear as others, is off by %v", h.Shape, h.Work.Clients, h.Error)
		}
	}
}

// TestNoMeasurement: what cannot have been measured is refused.
func TestNoMeasurement(t *testing.T) {
	for _, set := range []func(*Point){
		func(p *Point) { p.Value = math.NaN() },
		func(p *Point) { p.Value = math.Inf(-1) },
		func(p *Point) { p.Round = 0 },
		func(p *Point) { p.Round = math.NaN() },
		func(p *Point) { p.Work.Clients = 0 },
		func(p *Point) { p.Work.Bytes = -1 },
	} {
		points := measured(rand.New(rand.NewPCG(1, 1)), grid(sizes, []int{10, 100}, []int{1}, []int{1}), 0, costs.of)
		set(&points[3])
		if _, err := New(points); err == nil {
			t.Errorf("%+v is taken", points[3])
		}
	}
	points := measured(rand.New(rand.NewPCG(1, 1)), grid(sizes, []int{10, 100}, []int{1}, []int{1}), 0, costs.of)
	points[3].Half, points[4].Half = math.Inf(1), math.NaN() // of one block
	points[5].Value = -1e-9
	f := fit(t, points)
	if p, err := f.At(points[3].Work, 0); err != nil || !(p.Center > 0) || !(p.Low <= p.Center && p.Center <= p.High) {
		t.Errorf("%+v, %v", p, err)
	}
}

// FuzzNew: whatever the points are, no cost is below zero, and all that is said is a number.
func FuzzNew(f *testing.F) {
	f.Add(uint64(1), 8, 1e-3)
	f.Add(uint64(2), 3, 1e9)
	f.Add(uint64(3), 40, 1e-300)
	f.Fuzz(func(t *testing.T, seed uint64, n int, size float64) {
		if n < 0 || n > 60 || !(size > 0) || size > 1e100 {
			return
		}
		r := rand.New(rand.NewPCG(seed, seed))
		var points []Point
		for i := range n {
			points = append(points, Point{
				Shape: fmt.Sprint(i % (1 + r.IntN(n))),
				Work: Work{Clients: 1 + r.IntN(5), Lanes: 1 + r.IntN(4), Processors: 1 + r.IntN(3), Tensors: float64(r.IntN(4)), Bytes: float64(r.IntN(3)) * size,
					Resident: r.Float64() * size, Cache: float64(r.IntN(2)) * size, Link: float64(r.IntN(2)) * size},
				Value: (r.Float64() - 0.3) * size, Half: r.Float64() * size, Round: (0.1 + r.Float64()) * size,
			})
		}
		fit, err := New(points)
		if err != nil {
			return
		}
		for _, term := range fit.Terms() {
			if !(term.Cost >= 0) || math.IsInf(term.Cost, 0) {
				t.Errorf("%s costs %v", term.Feature, term.Cost)
			}
		}
		for _, p := range points {
			got, err := fit.At(p.Work, p.Round*float64(seed%2))
			if err == nil && !(got.Low >= 0 && got.Low <= got.Center && got.Center <= got.High) {
				t.Errorf("%+v", got)
			}
		}
	})
}
