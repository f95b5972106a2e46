package tensor

import (
	"fmt"
	"testing"

	"ipcbench/internal/test/check"
)

// The benchmarks of a round's work use models of 64 MiB in 20 tensors, or of 16 MiB for some steps. The rate
// counts the bytes of models read and written, but no sums, so it can be compared with BenchmarkCopy. `make
// layouts` runs the benchmarks in several layouts of the build.

const (
	large = 64 << 20
	small = 16 << 20
)

// benchModels returns n models of about size bytes, in 20 tensors of type d.
func benchModels(b *testing.B, d DType, n, size int) (all []*Package) {
	b.Helper()
	specs := make([]Spec, 20)
	for i := range specs {
		specs[i] = Spec{Name: fmt.Sprint(i), DType: d, Shape: []int{size / 20 / 64 * 64 / d.Size()}}
	}
	l := mustLayout(b, specs)
	for i := range n {
		p := Alloc(l)
		Fill(p, uint64(i))
		all = append(all, p)
	}
	return all
}

// measure benchmarks work that moves models times the bytes of p.
func measure(b *testing.B, p *Package, models int, work func() error) {
	b.SetBytes(int64(models * p.Layout().Payload()))
	check.Must(b, work()) // touches all memory
	for b.Loop() {
		check.Must(b, work())
	}
}

// BenchmarkCopy is the baseline of the other benchmarks.
func BenchmarkCopy(b *testing.B) {
	p := benchModels(b, F32, 2, large)
	measure(b, p[0], 2, func() error { p[1].CopyFrom(p[0]); return nil })
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
		b.Run("act="+w.name, func(b *testing.B) { measure(b, w.p, w.models, w.f) })
	}
}

// BenchmarkTrainChange changes a share of the elements; compare it with BenchmarkCopy.
func BenchmarkTrainChange(b *testing.B) {
	for _, d := range []DType{BF16, F32} {
		for _, change := range []string{"1%", "2%", "10%", "2%/rows"} {
			b.Run("dtype="+d.String()+"/change="+change, func(b *testing.B) {
				p, key := benchModels(b, d, 2, small), Key{Change: mustChange(b, change)}
				measure(b, p[0], 2, func() error { return Train(p[1], p[0], key) })
			})
		}
	}
}

// BenchmarkAverage measures the steps of an average. Fold sets the sums to the first update, and adds later ones.
// It can also add differences from a base, here with 2 % of the elements changed. Finish turns sums, or a base and
// such sums, into a model.
func BenchmarkAverage(b *testing.B) {
	for _, d := range DTypes() {
		for _, step := range []struct {
			name                 string
			size, models, folded int
			finish, base         bool
		}{
			{"fold first", large, 1, 0, false, false}, {"fold next", large, 1, 1, false, false},
			{"fold differences", small, 2, 1, false, true},
			{"finish", small, 1, 1, true, false}, {"finish differences", small, 2, 1, true, true},
		} {
			if step.finish && (d == F32 || d == F64) {
				continue // their Finish does nothing
			}
			b.Run("dtype="+d.String()+"/act="+step.name, func(b *testing.B) {
				p := benchModels(b, d, 3, step.size)
				a := NewAverage(p[0].Layout()) // with sums of up to 512 MiB
				begin := a.Begin(p[2], 1)
				if step.base {
					check.Must(b, Train(p[1], p[0], Key{Change: mustChange(b, "2%")}))
					begin = a.BeginFrom(p[2], p[0], 1)
				}
				check.Must(b, begin)
				measure(b, p[0], step.models, func() error {
					if a.folded = step.folded; step.finish {
						a.weight = 1
						return a.Finish()
					}
					return a.Fold(p[1], 0.1)
				})
			})
		}
	}
}
