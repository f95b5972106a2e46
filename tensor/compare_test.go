package tensor

import (
	"math"
	"testing"

	"ipcbench/internal/test/check"
)

// TestSame: a difference in any byte is an error that names the tensor.
func TestSame(t *testing.T) {
	l := mustLayout(t, []Spec{{Name: "first", DType: F32, Shape: []int{4}}, {Name: "second", DType: U8, Shape: []int{11}}})
	p, want := Alloc(l), Alloc(l)
	Fill(p, 1)
	Fill(want, 1)
	check.Must(t, Same(p, want))
	for i := range l.Len() {
		for at := range p.View(i) {
			p.View(i)[at] ^= 0x80
			check.Fails(t, Same(p, want), l.Spec(i).Name, "byte", at, "of tensor", i)
			p.View(i)[at] ^= 0x80
		}
	}
}

// TestDiffering: elements of every type are compared by their bits and counted once.
func TestDiffering(t *testing.T) {
	for _, d := range DTypes() {
		l := vector(t, d, 100)
		p, q := Alloc(l), Alloc(l)
		for _, i := range []int{0, 7, 99} {
			p.View(0)[i*d.Size()] = 1
		}
		p.View(0)[8*d.Size()-1] |= 0x80 // the last byte of an element that differs already
		check.Equal(t, []int{Differing(p, q), p.Elements()}, []int{3, 100}, d, "differ, of")
	}
	l := ragged(t)
	p, q := Alloc(l), Alloc(l)
	setRows(t, p, 3, 2, 77, 0)
	setRows(t, q, 3, 2, 70, 0)
	n, all := Differing(p, q), p.Elements()
	check.That(t, n != 0 && n < all, "%d of %d words differ, want those of the tensor with other rows", n, all)
}

// TestDeviation: known answers for every type that can represent them. Elements that are not finite are left out, the
// deviation from zeros is infinite, and squares of large numbers do not overflow.
func TestDeviation(t *testing.T) {
	for _, d := range []DType{F16, BF16, F32, F64, I8, I16, I32, I64, U8} {
		l := vector(t, d, 4)
		p, want := Alloc(l), Alloc(l)
		setElems(want.View(0), d, []float64{3, 4, 0, 10})
		setElems(p.View(0), d, []float64{3, 6, 1, 10})
		var v Deviation
		v.Add(p, want)
		check.That(t, math.Abs(v.Max-0.2) <= 1e-12 && math.Abs(v.RMS()-math.Sqrt(5.0/125)) <= 1e-12,
			"%v: at most %v, RMS %v", d, v.Max, v.RMS())
	}
	l := vector(t, F32, 3)
	p, want := Alloc(l), Alloc(l)
	setElems(want.View(0), F32, []float64{math.NaN(), math.Inf(1), 1})
	setElems(p.View(0), F32, []float64{1, math.Inf(1), math.NaN()})
	var v Deviation
	v.Add(p, want)
	check.That(t, v.Max == 0 && v.RMS() == 0, "numbers that are none: at most %v, RMS %v", v.Max, v.RMS())
	setElems(want.View(0), F32, []float64{0, 0, 0})
	setElems(p.View(0), F32, []float64{1, 0, 0})
	v.Add(p, want)
	check.That(t, math.IsInf(v.Max, 1) && math.IsInf(v.RMS(), 1), "numbers in place of zeros: at most %v, RMS %v", v.Max, v.RMS())
	l = vector(t, F64, 2)
	p, want, v = Alloc(l), Alloc(l), Deviation{}
	setElems(want.View(0), F64, []float64{1e200, -1e308})
	setElems(p.View(0), F64, []float64{1e200, 1e308})
	v.Add(p, want)
	check.That(t, v.Max > 1.7 && v.Max <= 2 && v.RMS() > 1.7 && v.RMS() <= 2, "large numbers: at most %v, RMS %v", v.Max, v.RMS())
}
