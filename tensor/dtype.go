package tensor

import (
	"fmt"

	"ipcbench/internal/kernel"
)

// A DType is the type of a tensor's elements.
type DType uint8

// The ten data types that every transport carries. The zero DType is invalid, so that a
// missing one is noticed.
const (
	F16 DType = iota + 1
	BF16
	F32
	F64
	I8
	I16
	I32
	I64
	Bool
	U8
	lastDType = U8
)

// dtypes has for each DType its name, the bytes of an element, the mask of bits that may
// change freely, and the arithmetic of its elements. Under the mask, a finite float keeps
// its sign and exponent, and a bool stays 0 or 1.
var dtypes = [lastDType + 1]struct {
	name     string
	size     int
	mask     uint64
	elements interface {
		newSums(d DType, n int) sums
		deviate(d *Deviation, p, want []byte)
		differing(p, q []byte) int
		alter(data []byte, d DType, r runs)
		proveAltered(update, model []byte, t int, spec Spec, r runs) error
	}
}{
	F16:  {"f16", 2, 0x03ff, elements[uint16, float32, uint16]{kernel.F16, kernel.F16ToFloat32}},
	BF16: {"bf16", 2, 0x007f, elements[uint16, float32, uint16]{kernel.BF16, kernel.BF16ToFloat32}},
	F32:  {"f32", 4, 0x007fffff, elements[uint32, float32, float32]{rule: kernel.F32}},
	F64:  {"f64", 8, 0x000fffffffffffff, elements[uint64, float64, float64]{rule: kernel.F64}},
	I8:   {"i8", 1, 0xff, elements[uint8, float32, int8]{rule: kernel.I8}},
	I16:  {"i16", 2, 0xffff, elements[uint16, float32, int16]{rule: kernel.I16}},
	I32:  {"i32", 4, 0xffffffff, elements[uint32, float64, int32]{rule: kernel.I32}},
	I64:  {"i64", 8, 0xffffffffffffffff, elements[uint64, float64, int64]{rule: kernel.I64}},
	Bool: {"bool", 1, 0x01, elements[uint8, float64, uint8]{rule: kernel.Bool}},
	U8:   {"u8", 1, 0xff, elements[uint8, float32, uint8]{rule: kernel.U8}},
}

// elements has the arithmetic of elements that are viewed as T, summed as A, and whose bits are
// viewed as W.
type elements[W bitsOf, A float32 | float64, T Number] struct {
	rule   *kernel.Rule[A, T]
	decode func(T) A // nil for types that Go converts
}

// DTypes returns all data types in ascending order.
func DTypes() []DType {
	all := make([]DType, 0, lastDType)
	for d := DType(1); d <= lastDType; d++ {
		all = append(all, d)
	}
	return all
}

// Valid reports whether d is one of the ten data types.
func (d DType) Valid() bool { return d >= 1 && d <= lastDType }

// Size returns the bytes of one element, or 0 if d is invalid.
func (d DType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dtypes[d].size
}

// Float reports whether elements of d are floating-point numbers.
func (d DType) Float() bool { return d >= F16 && d <= F64 }

// String returns the name that users write, such as "f32".
func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// ParseDType returns the type whose String is name, or an error if there is none.
func ParseDType(name string) (DType, error) {
	for d := DType(1); d <= lastDType; d++ {
		if dtypes[d].name == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("tensor: unknown dtype %q", name)
}

func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *DType) UnmarshalText(name []byte) (err error) {
	*d, err = ParseDType(string(name))
	return err
}

// wordMask returns the mask of d, repeated over 8 bytes.
func (d DType) wordMask() uint64 { return repeated(dtypes[d].mask, d) }

// repeated returns the bits m of one element for each element in 8 bytes.
func repeated(m uint64, d DType) uint64 {
	for bits := 8 * d.Size(); bits < 64; bits *= 2 {
		m |= m << bits
	}
	return m
}
