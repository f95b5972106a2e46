package tensor

import (
	"fmt"
	"testing"
)

// The benchmarks of a round's work move the 64 MiB of a model in 20 tensors. In
// each, bytes are those of the model, counted once: compare with Copy, which
// reads and writes as much as Train does.

func benchModels(b *testing.B, d DType, n int) []*Package {
	b.Helper()
	specs := make([]Spec, 20)
	for i := range specs {
		specs[i] = Spec{Name: fmt.Sprint(i), DType: d, Shape: []int{64 << 20 / 20 / 64 * 64 / d.Size()}}
	}
	l := mustLayout(b, specs)
	all := make([]*Package, n)
	for i := range all {
		all[i] = Alloc(l)
		Fill(all[i], uint64(i))
	}
	b.SetBytes(int64(l.Payload()))
	return all
}

func BenchmarkCopy(b *testing.B) {
	p := benchModels(b, F32, 2)
	for b.Loop() {
		p[1].CopyFrom(p[0])
	}
}

func BenchmarkFill(b *testing.B) {
	p := benchModels(b, F32, 1)
	for b.Loop() {
		Fill(p[0], 1)
	}
}

func BenchmarkFillNormal(b *testing.B) {
	p := benchModels(b, F32, 1)
	for b.Loop() {
		FillNormal(p[0], 1)
	}
}

func BenchmarkTrain(b *testing.B) {
	p := benchModels(b, F32, 2)
	for b.Loop() {
		if err := Train(p[1], p[0], Key{}); err != nil {
			b.Fatal(err)
		}
	}
}

// Some words change: compare with Copy.
func BenchmarkTrainChange(b *testing.B) {
	for _, d := range []DType{BF16, F32} {
		for _, change := range []string{"1%", "2%", "10%", "2%/rows"} {
			b.Run("dtype="+d.String()+"/change="+change, func(b *testing.B) {
				p := benchModels(b, d, 2)
				for b.Loop() {
					if err := Train(p[1], p[0], Key{Change: mustChange(b, change)}); err != nil {
						b.Fatal(err)
					}
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
		if err := Train(update, model[0], Key{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAdvance(b *testing.B) {
	model, average := benchUnlike(b)
	for b.Loop() {
		if err := Advance(model[1], model[0], average, Change{}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchUnlike(b *testing.B) (models []*Package, update *Package) {
	models = benchModels(b, F32, 2)
	specs := models[0].Layout().Specs()
	specs[0].Name = "another"
	return models, Alloc(mustLayout(b, specs))
}

func BenchmarkDigest(b *testing.B) {
	p := benchModels(b, F32, 1)
	for b.Loop() {
		digest(p[0])
	}
}

func BenchmarkProve(b *testing.B) {
	p := benchModels(b, F32, 2)
	if err := Train(p[1], p[0], Key{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Prove(p[1], p[0], Key{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	p := benchModels(b, F32, 1)
	for b.Loop() {
		p[0].Hash()
	}
}

// Fold adds the second of many updates: it reads two models and writes one.
func BenchmarkFold(b *testing.B) {
	for _, d := range DTypes() {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			p := benchModels(b, d, 2)
			a := NewAverage(p[0].Layout())
			if err := a.Begin(p[1], 1); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := a.Fold(p[0], 0.1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The same where few words differ from the model.
func BenchmarkFoldDifferences(b *testing.B) {
	for _, d := range DTypes() {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			p := benchModels(b, d, 3)
			if err := Train(p[1], p[0], Key{Change: mustChange(b, "2%")}); err != nil {
				b.Fatal(err)
			}
			a := NewAverage(p[0].Layout())
			if err := a.BeginFrom(p[2], p[0], 1); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := a.Fold(p[1], 0.1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFinish(b *testing.B) {
	for _, d := range DTypes() {
		b.Run("dtype="+d.String(), func(b *testing.B) {
			p := benchModels(b, d, 2)
			a := NewAverage(p[0].Layout())
			for b.Loop() {
				if err := a.Begin(p[1], 1); err != nil {
					b.Fatal(err)
				}
				a.folded, a.weight = 1, 1
				if err := a.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
