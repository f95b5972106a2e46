package tensor

import (
	"bytes"
	"math"
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
		a, b, d := p.View(t), q.View(t), p.Layout().Spec(t).DType
		if len(a) != len(b) {
			n += len(a) / d.Size()
		} else {
			n += dtypes[d].elements.differing(a, b)
		}
	}
	return n
}

func (elements[W, A, T]) differing(p, q []byte) (n int) {
	words := Slice[W](q)
	for i, w := range Slice[W](p) {
		if w != words[i] {
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
		dtypes[want.Layout().Spec(t).DType].elements.deviate(d, p.View(t), want.View(t))
	}
}

func (e elements[W, A, T]) deviate(d *Deviation, p, want []byte) {
	value, values := e.decode, Slice[T](p)
	if value == nil {
		value = func(element T) A { return A(element) }
	}
	var most, largest float64
	for i, w := range Slice[T](want) {
		x, y := float64(value(w)), float64(value(values[i]))
		if x-x != 0 || y-y != 0 {
			continue
		}
		off := min(math.Abs(y-x), math.MaxFloat64)
		x = math.Abs(x)
		d.errors.add(off)
		d.numbers.add(x)
		most, largest = max(most, off), max(largest, x)
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
