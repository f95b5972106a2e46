package tensor

import (
	"bytes"
	"math"

	"ipcbench/internal/kernel"
)

// Same returns nil if all bytes in use of p and want, which must have the same layout,
// are equal. Otherwise the error names the first tensor and element that differ.
func Same(p, want *Package) error {
	for t := range want.Len() {
		a, b := p.View(t), want.View(t)
		if bytes.Equal(a, b) {
			continue
		}
		spec := want.Layout().Spec(t)
		words := Slice[uint64](b)
		for i, got := range Slice[uint64](a[:min(len(a), len(b))]) {
			if got != words[i] {
				return mismatch(t, spec, 8*i, 8*i+8, got, words[i])
			}
		}
		return mismatch(t, spec, len(b)&^7, len(b), tail(a), tail(b))
	}
	return nil
}

// Differing returns the number of elements whose bits differ between p and q, which must
// have the same layout. If a tensor's rows in use differ, all of its elements in p count.
func Differing(p, q *Package) int {
	n := 0
	for t := range p.Len() {
		a, b, size := p.View(t), q.View(t), p.Layout().Spec(t).DType.Size()
		switch {
		case len(a) != len(b):
			n += len(a) / size
		case size == 1:
			n += differing(a, b)
		case size == 2:
			n += differing(Slice[uint16](a), Slice[uint16](b))
		case size == 4:
			n += differing(Slice[uint32](a), Slice[uint32](b))
		default:
			n += differing(Slice[uint64](a), Slice[uint64](b))
		}
	}
	return n
}

func differing[T bitsOf](a, b []T) (n int) {
	for i, w := range a {
		if w != b[i] {
			n++
		}
	}
	return n
}

// Elements returns the number of elements in use of all tensors.
func (p *Package) Elements() (n int) {
	for t := range p.Len() {
		n += len(p.View(t)) / p.Layout().Spec(t).DType.Size()
	}
	return n
}

// A Deviation accumulates the errors of values against the values expected. Pairs with a
// value that is not finite are left out.
type Deviation struct {
	Max float64 // largest error, as a share of the largest magnitude in the same tensor; +Inf if that is 0

	errors, numbers norm
}

// A norm is the root of a sum of squares, which cannot overflow: scale × √sum.
type norm struct{ scale, sum float64 }

func (n *norm) add(x float64) {
	switch {
	case x > n.scale:
		r := n.scale / x
		n.scale, n.sum = x, 1+n.sum*r*r
	case x > 0:
		r := x / n.scale
		n.sum += r * r
	}
}

// RMS returns the root mean square of the errors, as a share of the root mean square of
// the values expected; +Inf if that is 0.
func (d Deviation) RMS() float64 {
	return ratio(d.errors.scale*math.Sqrt(d.errors.sum/max(d.numbers.sum, 1)), d.numbers.scale)
}

// Add adds the errors of p against want, which must have the same layout and rows in use.
func (d *Deviation) Add(p, want *Package) {
	for t := range want.Len() {
		a, b := p.View(t), want.View(t)
		switch want.Layout().Spec(t).DType {
		case F16:
			deviate(d, Slice[uint16](a), Slice[uint16](b), func(w uint16) float64 { return float64(kernel.F16ToFloat32(w)) })
		case BF16:
			deviate(d, Slice[uint16](a), Slice[uint16](b), func(w uint16) float64 { return float64(kernel.BF16ToFloat32(w)) })
		case F32:
			deviate(d, Slice[float32](a), Slice[float32](b), number)
		case F64:
			deviate(d, Slice[float64](a), Slice[float64](b), number)
		case I8:
			deviate(d, Slice[int8](a), Slice[int8](b), number)
		case I16:
			deviate(d, Slice[int16](a), Slice[int16](b), number)
		case I32:
			deviate(d, Slice[int32](a), Slice[int32](b), number)
		case I64:
			deviate(d, Slice[int64](a), Slice[int64](b), number)
		default:
			deviate(d, a, b, number)
		}
	}
}

func deviate[T Number](d *Deviation, p, want []T, value func(T) float64) {
	var most, largest float64
	for i, w := range want {
		x, y := value(w), value(p[i])
		if x-x != 0 || y-y != 0 {
			continue
		}
		e := min(math.Abs(y-x), math.MaxFloat64)
		x = math.Abs(x)
		d.errors.add(e)
		d.numbers.add(x)
		most, largest = max(most, e), max(largest, x)
	}
	d.Max = max(d.Max, ratio(most, largest))
}

// ratio returns a / b; 0 if both are 0.
func ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / b
}

func number[W Number](w W) float64 { return float64(w) }
