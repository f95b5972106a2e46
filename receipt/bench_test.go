package receipt

import (
	"fmt"
	"testing"

	"ipcbench/internal/test/check"
)

// BenchmarkNested measures detaching and attaching a state dictionary of 437 small tensors, as many as GPT-2 large has,
// and copying the tensors.
func BenchmarkNested(b *testing.B) {
	type result struct {
		Loss   float64
		Params map[string]*Tensor
		Extra  map[string]any
	}
	v := result{Params: map[string]*Tensor{}, Extra: map[string]any{"samples": 600, "history": make([]float64, 100)}}
	for i := range 437 {
		v.Params[fmt.Sprintf("transformer.h.%d.weight", i)] = numbers(8, byte(i))
	}
	d := mustDetach(b, v, DefaultDepth)
	p := packed(b, d)
	b.Run("act=detach", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := Detach(v, DefaultDepth)
			check.Must(b, err)
		}
	})
	b.Run("act=copy", func(b *testing.B) {
		for b.Loop() {
			check.Must(b, d.CopyTo(p))
		}
	})
	b.Run("act=attach", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var out result
			check.Must(b, Attach(p.Receipt, p, &out))
		}
	})
}
