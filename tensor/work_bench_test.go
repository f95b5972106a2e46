package tensor

import (
	"fmt"
	"ipcbench/internal/test/check"
	"testing"
)

// The benchmarks of a round's work are of models of 64 MiB in 20 tensors, or of 16 MiB
// where nothing else waits for it. Bytes are all that is read and written, sums as well:
// so a rate is beside that of Copy. `make layouts` runs them in several layouts.

const (
	large = 64 << 20
	small = 16 << 20
)

var benched = map[string][]*Package{} // so that each is made once

func benchModels(b *testing.B, d DType, n, size int) []*Package {
	b.Helper()
	key := fmt.Sprint(d, size)
	all := benched[key]
	if all == nil {
		specs := make([]Spec, 20)
		for i := range specs {
			specs[i] = Spec{Name: fmt.Sprint(i), DType: d, Shape: []int{size / 20 / 64 * 64 / d.Size()}}
		}
		all = []*Package{Alloc(mustLayout(b, specs))}
		Fill(all[0], 0)
	}
	for len(all) < n {
		next := Alloc(all[0].Layout())
		Fill(next, uint64(len(all)))
		all = append(all, next)
	}
	benched[key] = all
	return all[:n]
}

// moves says that an iteration reads and writes so many times the bytes of p, and sums of
// as many elements so many times.
func moves(b *testing.B, p *Package, models, sums int) {
	d := p.Layout().Spec(0).DType
	b.SetBytes(int64(models*p.Layout().Payload() + sums*sumSize(d)*p.Elements()))
}

// sumSize returns the bytes of a sum that is not in the model's memory.
func sumSize(d DType) int {
	switch d {
	case F32, F64:
		return 0
	case I32, I64, Bool:
		return 8
	}
	return 4
}

func BenchmarkCopy(b *testing.B) {
	p := benchModels(b, F32, 2, large)
	moves(b, p[0], 2, 0)
	for b.Loop() {
		p[1].CopyFrom(p[0])
	}
}

func BenchmarkFill(b *testing.B) {
	p := benchModels(b, F32, 1, large)
	moves(b, p[0], 1, 0)
	for b.Loop() {
		Fill(p[0], 1)
	}
}

func BenchmarkFillNormal(b *testing.B) {
	p := benchModels(b, F32, 1, small)
	moves(b, p[0], 1, 0)
	for b.Loop() {
		FillNormal(p[0], 1)
	}
}

func BenchmarkTrain(b *testing.B) {
	p := benchModels(b, F32, 2, large)
	moves(b, p[0], 2, 0)
	for b.Loop() {
		check.Must(b, Train(p[1], p[0], Key{}))
	}
}

// Some words change: compare with Copy.
func BenchmarkTrainChange(b *testing.B) {
	for _, d := range []DType{BF16, F32} {
		for _, change := range []string{"1%", "2%", "10%", "2%/rows"} {
			b.Run("dtype="+d.String()+"/change="+change, func(b *testing.B) {
				p := benchModels(b, d, 2, small)
				moves(b, p[0], 2, 0)
				for b.Loop() {
					check.Must(b, Train(p[1], p[0], Key{Change: mustChange(b, change)}))
				}
			})
		}
	}
}

// An update of another layout: Train reads a model for its digest, and writes an
// update of the same size; Advance reads an average, and changes a model.
func BenchmarkTrainUnlike(b *testing.B) {
	model, update := benchUnlike(b)
	for b.Loop() {
		check.Must(b, Train(update, model[0], Key{}))
	}
}

func BenchmarkAdvance(b *testing.B) {
	model, average := benchUnlike(b)
	for b.Loop() {
		check.Must(b, Advance(model[1], model[0], average, Change{}))
	}
}

func benchUnlike(b *testing.B) (models []*Package, update *Package) {
	models = benchModels(b, F32, 2, large)
	moves(b, models[0], 3, 0)
	specs := models[0].Layout().Specs()
	specs[0].Name = "another"
	return models, Alloc(mustLayout(b, specs))
}

func BenchmarkDigest(b *testing.B) {
	p := benchModels(b, F32, 1, large)
	moves(b, p[0], 1, 0)
	for b.Loop() {
		digest(p[0])
	}
}

func BenchmarkProve(b *testing.B) {
	p := benchModels(b, F32, 2, large)
	moves(b, p[0], 2, 0)
	check.Must(b, Train(p[1], p[0], Key{}))
	for b.Loop() {
		check.Must(b, Prove(p[1], p[0], Key{}))
	}
}

func BenchmarkHash(b *testing.B) {
	p := benchModels(b, F32, 1, large)
	moves(b, p[0], 1, 0)
	for b.Loop() {
		p[0].Hash()
	}
}

// Fold sets the sums to the first update, and adds the next ones: that reads two models
// and writes one.
func BenchmarkFold(b *testing.B) {
	for _, d := range DTypes() {
		for i, which := range []string{"first", "next"} {
			b.Run("dtype="+d.String()+"/"+which, func(b *testing.B) {
				p := benchModels(b, d, 2, large)
				if sumSize(d) == 0 {
					moves(b, p[0], 2+i, 0)
				} else {
					moves(b, p[0], 1, 1+i)
				}
				a := averageOf(b, p[1], nil)
				for b.Loop() {
					a.folded = i
					check.Must(b, a.Fold(p[0], 0.1))
				}
			})
		}
	}
}

var averages = map[*Layout]*Average{} // with sums of up to 512 MiB

func averageOf(b *testing.B, next, base *Package) *Average {
	b.Helper()
	a := averages[next.Layout()]
	if a == nil {
		a = NewAverage(next.Layout())
		averages[next.Layout()] = a
	}
	begin := func() error { return a.Begin(next, 1) }
	if base != nil {
		begin = func() error { return a.BeginFrom(next, base, 1) }
	}
	check.Must(b, begin())
	return a
}

// The same where few words differ from the model.
func BenchmarkFoldDifferences(b *testing.B) {
	for _, d := range DTypes() {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			p := benchModels(b, d, 3, small)
			moves(b, p[0], 2, 2)
			check.Must(b, Train(p[1], p[0], Key{Change: mustChange(b, "2%")}))
			a := averageOf(b, p[2], p[0])
			for b.Loop() {
				check.Must(b, a.Fold(p[1], 0.1))
			}
		})
	}
}

// Finish makes a model of sums, or of a model and of sums of differences.
func BenchmarkFinish(b *testing.B) {
	for _, d := range DTypes() {
		if sumSize(d) == 0 {
			continue
		}
		for _, of := range []string{"sums", "differences"} {
			b.Run("dtype="+d.String()+"/"+of, func(b *testing.B) {
				p := benchModels(b, d, 3, small)
				moves(b, p[0], 1, 1)
				var base *Package
				if of == "differences" {
					base = p[2]
					moves(b, p[0], 2, 1)
				}
				a := averageOf(b, p[1], base)
				for b.Loop() {
					a.folded, a.weight = 1, 1
					check.Must(b, a.Finish())
				}
			})
		}
	}
}
