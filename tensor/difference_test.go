package tensor

import (
	"fmt"
	"ipcbench/internal/test/check"
	"math"
	"testing"
)

// changed does a round of clients that change c of the model, and returns the average
// of their differences.
func changed(t testing.TB, model *Package, c Change, round int, weights []float64, average func(a *Average, next *Package, total float64) error) *Package {
	t.Helper()
	l, total := model.Layout(), 0.0
	for _, w := range weights {
		total += w
	}
	a, next, update := NewAverage(l), Alloc(l), Alloc(l)
	Fill(next, 99) // what was there must not show
	must := func(err error) {
		t.Helper()
		check.Must(t, err)
	}
	must(average(a, next, total))
	for client, w := range weights {
		key := Key{Seed: 3, Round: round, Client: client, Change: c}
		must(Train(update, model, key))
		must(Prove(update, model, key))
		must(a.Fold(update, w))
	}
	must(a.Finish())
	return next
}

// TestDifferencesOfIntegers: for integers and bools, the average of differences is the
// average.
func TestDifferencesOfIntegers(t *testing.T) {
	var specs []Spec
	for _, d := range []DType{I8, I16, U8, Bool, I32, I64} {
		specs = append(specs, Spec{Name: d.String(), DType: d, Shape: []int{1001}})
	}
	l := mustLayout(t, specs)
	model := Alloc(l)
	Fill(model, 1)
	for _, text := range []string{"2%", "30%", "70%", "5%/rows"} {
		c := mustChange(t, text)
		for _, weights := range [][]float64{{1}, {1, 2, 3}, {1, 1}, {7, 7, 7, 7}} {
			got := changed(t, model, c, 0, weights, func(a *Average, next *Package, total float64) error { return a.BeginFrom(next, model, total) })
			want := changed(t, model, c, 0, weights, (*Average).Begin)
			for i, s := range specs {
				exact := string(got.View(i)) == string(want.View(i))
				if s.DType == I64 { // whose first values are beyond what a float64 holds
					continue
				}
				check.That(t, exact, "%s of %s with weights %v: the average of differences is another", text, s.Name, weights)
			}
		}
	}
}

// TestDifferencesKnownAnswers: what few clients change of floats.
func TestDifferencesKnownAnswers(t *testing.T) {
	for _, d := range []DType{F16, BF16, F32, F64} {
		l := vector(t, d, 4)
		model, next, update, a := Alloc(l), Alloc(l), Alloc(l), NewAverage(l)
		setElems(model.View(0), d, []float64{1, 2, -3, 0.5})
		check.Must(t, a.BeginFrom(next, model, 4))
		for i, values := range [][]float64{{1, 6, -3, 0.75}, {3, 2, -3, 0.25}} {
			setElems(update.View(0), d, values)
			check.Must(t, a.Fold(update, []float64{1, 3}[i]))
		}
		check.Must(t, a.Finish())
		got, want := fmt.Sprint(elemsOf(next.View(0), d)), "[2.5 3 -3 0.375]"
		check.That(t, got == want, "%v: %s, want %s", d, got, want)
	}
}

// TestDifferencesKeepBits: whatever a word is, it stays that if no client changes it;
// and of f32, nearly all that some client changes are others afterwards: the density of
// the next version is 1 - (1-P)^K, within 0.2 points (guard 23).
func TestDifferencesKeepBits(t *testing.T) {
	const n = 1 << 18
	special := map[DType][]uint64{
		F16: {0x8000, 1, 0x7c00, 0xfc00, 0x7d01}, BF16: {0x8000, 1, 0x7f80, 0xff80, 0x7f81},
		F32: {1 << 31, 1, 0x7f800000, 0xff800000, 0x7f800001}, F64: {1 << 63, 1, 0x7ff << 52, 0xfff << 52, 0x7ff<<52 | 1},
	}
	for _, d := range DTypes() {
		l := vector(t, d, n)
		model := Alloc(l)
		Fill(model, 1)
		for i, w := range special[d] {
			for at := i; at < n/8; at += 11 {
				copy(model.View(0)[at*d.Size():], littleEndian(w, d.Size()))
			}
		}
		for _, text := range []string{"2%", "10%", "2%/rows"} {
			c := mustChange(t, text)
			for _, clients := range []int{1, 4} {
				weights := []float64{1, 2, 3, 1}[:clients]
				next := changed(t, model, c, clients, weights, func(a *Average, next *Package, total float64) error { return a.BeginFrom(next, model, total) })
				touched := make([]bool, n)
				for client := range clients {
					r := c.runs(n, n, Key{Seed: 3, Round: clients, Client: client}.stream(0))
					for from, to, more := r.next(); more; from, to, more = r.next() {
						for i := from; i < to; i++ {
							touched[i] = true
						}
					}
				}
				differ := 0
				for i := range touched {
					was, is := element(model.View(0), i, d.Size()), element(next.View(0), i, d.Size())
					if was != is {
						differ++
						check.Need(t, touched[i],
							"%s of %v: element %d was %x and is %x, and no client has changed it", text, d, i, was, is)
					}
				}
				want := 1 - math.Pow(1-c.Share(), float64(clients))
				if got := float64(differ) / n; d == F32 && math.Abs(got-want) > 0.002 {
					t.Errorf("%s of %d clients: %.4f of the words differ, want %.4f", text, clients, got, want)
				}
			}
		}
	}
}

// Models whose words change in part are the same on every processor, and in every
// version whose results are compared.
func TestChangedModelsAreTheSameEverywhere(t *testing.T) {
	model := Alloc(mixedLayout(t))
	FillNormal(model, 1)
	var got []uint64
	for round, text := range []string{"2%", "30%", "70%", "10%/rows"} {
		before := model
		model = changed(t, before, mustChange(t, text), round, []float64{600, 601, 3}, func(a *Average, next *Package, total float64) error { return a.BeginFrom(next, before, total) })
		got = append(got, model.Hash())
	}
	want := "[7568661b64ad0167 247328d0fbe3bcb8 d6ceadba814356c9 33bf1ada549e33ad]"
	check.That(t, fmt.Sprintf("%x", got) == want, "%x, want %s", got, want)
}

func TestDifferencesRefuse(t *testing.T) {
	l := vector(t, F32, 2)
	check.That(t, NewAverage(l).BeginFrom(Alloc(l), Alloc(vector(t, F32, 3)), 1) != nil,
		"differences from a model of another layout pass")
}

// After the first round an average of differences allocates nothing.
func TestDifferencesAllocateOnce(t *testing.T) {
	l := mixedLayout(t)
	a, base, next, update := NewAverage(l), Alloc(l), Alloc(l), Alloc(l)
	Fill(base, 1)
	Fill(update, 2)
	check.Equal(t, testing.AllocsPerRun(10, func() {
		if a.BeginFrom(next, base, 2) != nil || a.Fold(update, 1) != nil || a.Fold(update, 1) != nil || a.Finish() != nil {
			t.Fatal("the average failed")
		}
	}), 0, "allocations a round")
}
