package tensor

import (
	"fmt"
	"testing"

	"ipcbench/internal/test/check"
)

// The benchmarks of a round's work use models of 64 MiB in 20 tensors, or of 16 MiB for some steps. The rate counts
// all bytes read and written, sums included, so it can be compared with BenchmarkCopy. `make layouts` runs the
// benchmarks in several layouts of the build.

const (
	large = 64 << 20
	small = 16 << 20
)

var benched = map[string][]*Package{} // so that each is made once

func benchModels(b *testing.B, d DType, n, size int) []*Package {
	b.Helper()
	key := fmt.Sprint(d, size)
	if benched[key] == nil {
		specs := make([]Spec, 20)
		for i := range specs {
			specs[i] = Spec{Name: fmt.Sprint(i), DType: d, Shape: []int{size / 20 / 64 * 64 / d.Size()}}
		}
		benched[key] = []*Package{Alloc(mustLayout(b, specs))}
		Fill(benched[key][0], 0)
	}
	for i := len(benched[key]); i < n; i++ {
		next := Alloc(benched[key][0].Layout())
		Fill(next, uint64(i))
		benched[key] = append(benched[key], next)
	}
	return benched[key][:n]
}

// measure benchmarks work that moves models times the bytes of p, and sums times the bytes of as many sums as p has
// elements.
func measure(b *testing.B, p *Package, models, sums int, work func() error) {
	b.SetBytes(int64(models*p.Layout().Payload() + sums*sumSize(p.Layout().Spec(0).DType)*p.Elements()))
	for b.Loop() {
		check.Must(b, work())
	}
}

// sumSize returns the bytes per element of the sums that are kept outside of the model's memory.
func sumSize(d DType) int {
	switch d {
	case F32, F64:
		return 0
	case I32, I64, Bool:
		return 8
	}
	return 4
}

// BenchmarkCopy is the baseline of the other benchmarks.
func BenchmarkCopy(b *testing.B) {
	p := benchModels(b, F32, 2, large)
	measure(b, p[0], 2, 0, func() error { p[1].CopyFrom(p[0]); return nil })
}

// BenchmarkWork measures the steps of a round. With an update of another layout, Train reads the model for its digest
// and writes the update. Advance reads an average and changes a model.
func BenchmarkWork(b *testing.B) {
	p, few := benchModels(b, F32, 2, large), benchModels(b, F32, 1, small)[0]
	specs := p[0].Layout().Specs()
	specs[0].Name = "another"
	unlike := Alloc(mustLayout(b, specs))
	check.Must(b, Train(p[1], p[0], Key{})) // for Prove, which is measured first
	for _, w := range []struct {
		name   string
		p      *Package
		models int
		f      func() error
	}{
		{"prove", p[0], 2, func() error { return Prove(p[1], p[0], Key{}) }},
		{"digest", p[0], 1, func() error { digest(p[0]); return nil }},
		{"hash", p[0], 1, func() error { p[0].Hash(); return nil }},
		{"train", p[0], 2, func() error { return Train(p[1], p[0], Key{}) }},
		{"train unlike", p[0], 3, func() error { return Train(unlike, p[0], Key{}) }},
		{"advance", p[0], 3, func() error { return Advance(p[1], p[0], unlike, Change{}) }},
		{"fill", p[1], 1, func() error { Fill(p[1], 1); return nil }},
		{"fill normal", few, 1, func() error { FillNormal(few, 1); return nil }},
	} {
		b.Run("act="+w.name, func(b *testing.B) { measure(b, w.p, w.models, 0, w.f) })
	}
}

// BenchmarkTrainChange changes a share of the elements; compare it with BenchmarkCopy.
func BenchmarkTrainChange(b *testing.B) {
	for _, d := range []DType{BF16, F32} {
		for _, change := range []string{"1%", "2%", "10%", "2%/rows"} {
			b.Run("dtype="+d.String()+"/change="+change, func(b *testing.B) {
				p, key := benchModels(b, d, 2, small), Key{Change: mustChange(b, change)}
				measure(b, p[0], 2, 0, func() error { return Train(p[1], p[0], key) })
			})
		}
	}
}

var averages = map[*Layout]*Average{} // with sums of up to 512 MiB

// BenchmarkAverage measures the steps of an average. Fold sets the sums to the first update, and adds later ones, which
// reads two models and writes one. It can also add differences from a base, here with 2 % of the elements changed.
// Finish turns sums, or a base and such sums, into a model.
func BenchmarkAverage(b *testing.B) {
	for _, d := range DTypes() {
		inside := 0 // sums that are in the model's memory
		if sumSize(d) == 0 {
			inside = 1
		}
		for _, step := range []struct {
			name         string
			size         int
			models, sums int
			finish, base bool
		}{
			{"fold first", large, 1 + inside, 1, false, false}, {"fold next", large, 1 + 2*inside, 2, false, false},
			{"fold differences", small, 2, 2, false, true},
			{"finish", small, 1, 1, true, false}, {"finish differences", small, 2, 1, true, true},
		} {
			if step.finish && inside == 1 {
				continue // its Finish does nothing
			}
			b.Run("dtype="+d.String()+"/act="+step.name, func(b *testing.B) {
				p := benchModels(b, d, 3, step.size)
				a := averages[p[0].Layout()]
				if a == nil {
					a = NewAverage(p[0].Layout())
					averages[p[0].Layout()] = a
				}
				begin := a.Begin(p[2], 1)
				if step.base {
					check.Must(b, Train(p[1], p[0], Key{Change: mustChange(b, "2%")}))
					begin = a.BeginFrom(p[2], p[0], 1)
				}
				check.Must(b, begin)
				measure(b, p[0], step.models, step.sums, func() error {
					if step.finish {
						a.folded, a.weight = 1, 1
						return a.Finish()
					}
					a.folded = step.sums - 1
					return a.Fold(p[1], 0.1)
				})
			})
		}
	}
}
