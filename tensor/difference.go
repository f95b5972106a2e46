package tensor

import "math"

// foldDifferences adds to the sums what update changes of the base.
func (a *Average) foldDifferences(update *Package, weight float64) {
	share := weight / a.total
	for t := range update.Len() {
		src, base, next := update.View(t), a.base.View(t), a.next.View(t)
		narrow, wide := a.narrow[t], a.wide[t]
		switch a.layout.Spec(t).DType {
		case F32:
			addDifferences(Slice[float32](next), Slice[uint32](src), Slice[uint32](base), float32(share), math.Float32frombits)
		case F64:
			addDifferences(Slice[float64](next), Slice[uint64](src), Slice[uint64](base), share, math.Float64frombits)
		case F16:
			addDifferences(narrow, Slice[uint16](src), Slice[uint16](base), float32(share), f16ToFloat32)
		case BF16:
			addDifferences(narrow, Slice[uint16](src), Slice[uint16](base), float32(share), bf16ToFloat32)
		case I8:
			addDifferences(narrow, Slice[int8](src), Slice[int8](base), float32(weight), number)
		case I16:
			addDifferences(narrow, Slice[int16](src), Slice[int16](base), float32(weight), number)
		case U8:
			addDifferences(narrow, src, base, float32(weight), number)
		case Bool:
			addDifferences(wide, src, base, weight, truth)
		case I32:
			addDifferences(wide, Slice[int32](src), Slice[int32](base), weight, number)
		case I64:
			addDifferences(wide, Slice[int64](src), Slice[int64](base), weight, number)
		}
	}
}

// finishDifferences adds the sums to the model, where they are apart from it.
func (a *Average) finishDifferences() {
	for t := range a.next.Len() {
		next, narrow, wide := a.next.View(t), a.narrow[t], a.wide[t]
		switch a.layout.Spec(t).DType {
		case F16:
			addSums(Slice[uint16](next), narrow, func(m uint16, d float32) uint16 { return float32ToF16(f16ToFloat32(m) + d) })
		case BF16:
			addSums(Slice[uint16](next), narrow, func(m uint16, d float32) uint16 { return float32ToBF16(bf16ToFloat32(m) + d) })
		case I8:
			addSums(Slice[int8](next), narrow, moved[int8, float32](a.total, math.MinInt8, math.MaxInt8))
		case I16:
			addSums(Slice[int16](next), narrow, moved[int16, float32](a.total, math.MinInt16, math.MaxInt16))
		case U8:
			addSums(next, narrow, moved[uint8, float32](a.total, 0, math.MaxUint8))
		case Bool:
			addSums(next, wide, func(m uint8, d float64) uint8 {
				if float64(truth(m)*a.total)+d > a.total/2 {
					return 1
				}
				return 0
			})
		case I32:
			addSums(Slice[int32](next), wide, moved[int32, float64](a.total, math.MinInt32, math.MaxInt32))
		case I64:
			addSums(Slice[int64](next), wide, moved[int64, float64](a.total, math.MinInt64, math.MaxInt64))
		}
	}
}

// addDifferences adds share × (word of src − word of base) to acc, where their bits
// differ. The conversion is that of accumulate.
func addDifferences[A float32 | float64, W comparable](acc []A, src, base []W, share A, value func(W) A) {
	acc, base = acc[:len(src)], base[:len(src)]
	for i, w := range src {
		if m := base[i]; w != m {
			acc[i] += A(share * (value(w) - value(m)))
		}
	}
}

// addSums makes next, which is the model, the sum of itself and acc.
func addSums[A float32 | float64, W Number](next []W, acc []A, sum func(m W, d A) W) {
	for i, d := range acc {
		if d != 0 {
			next[i] = sum(next[i], d)
		}
	}
}

// moved returns the sum of an integer and of differences that were not divided by the
// total yet.
func moved[W Number, A float32 | float64](total float64, low, high int64) func(m W, d A) W {
	return func(m W, d A) W { return rounded[W]((float64(float64(m)*total)+float64(d))/total, low, high) }
}

func number[W Number, A float32 | float64](w W) A { return A(w) }

func truth(w uint8) float64 {
	if w != 0 {
		return 1
	}
	return 0
}
