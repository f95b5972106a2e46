package tensor

import (
	"fmt"

	"ipcbench/internal/kernel"
)

// Widen writes src's elements, which have type d, to dst as float32. The conversion is
// exact except for F64, which is rounded to nearest, ties to even. NaNs of other types
// than F32 become quiet. dst must have as many elements as src. Widen panics if d is not
// a float type.
func Widen(dst []float32, src []byte, d DType) {
	switch d {
	case F16:
		kernel.F16.Fold(dst, Slice[uint16](src), 1, true)
	case BF16:
		kernel.BF16.Fold(dst, Slice[uint16](src), 1, true)
	case F32:
		copy(dst, Slice[float32](src))
	case F64:
		for i, x := range Slice[float64](src) {
			dst[i] = float32(x)
		}
	default:
		panic(fmt.Sprintf("tensor: cannot widen %v, which is not a float type", d))
	}
}

// Narrow is the inverse of Widen: it writes src to dst as elements of type d. F16 and
// BF16 are rounded to nearest, ties to even. It panics if d is not a float type.
func Narrow(dst []byte, src []float32, d DType) {
	switch d {
	case F16:
		kernel.F16.Finish(Slice[uint16](dst), src, 1)
	case BF16:
		kernel.BF16.Finish(Slice[uint16](dst), src, 1)
	case F32:
		copy(Slice[float32](dst), src)
	case F64:
		wide := Slice[float64](dst)[:len(src)]
		for i, x := range src {
			wide[i] = float64(x)
		}
	default:
		panic(fmt.Sprintf("tensor: cannot narrow to %v, which is not a float type", d))
	}
}
