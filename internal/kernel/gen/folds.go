//go:build generate

package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/mmcloughlin/avo/reg"
)

// A kind is an element type, with the code that loads its elements for sums.
type kind struct {
	name string
	elem string // the type in Go
	size int    // bytes of an element
	sum  int    // bytes of a sum: 4 for float32, 8 for float64
	// load loads constants, and returns a function that loads the elements at m as floats.
	load func() func(m Mem) reg.VecVirtual
}

func (k kind) real() string {
	if k.sum == 4 {
		return "float32"
	}
	return "float64"
}

// lanes returns the number of sums in a register.
func (k kind) lanes() int { return 32 / k.sum }

// step returns the number of elements per iteration of a loop: four registers of sums.
func (k kind) step() int { return 4 * k.lanes() }

var kinds = []kind{
	{"F32", "float32", 4, 4, loads(VMOVUPS)},
	{"F64", "float64", 8, 8, loads(VMOVUPS)},
	{"F16", "uint16", 2, 4, loads(VCVTPH2PS)},
	{"BF16", "uint16", 2, 4, loads(VPMOVZXWD, func(y reg.VecVirtual) { VPSLLD(Imm(16), y, y) })},
	{"I8", "int8", 1, 4, loads(VPMOVSXBD, float)},
	{"I16", "int16", 2, 4, loads(VPMOVSXWD, float)},
	{"U8", "uint8", 1, 4, loads(VPMOVZXBD, float)},
	{"I32", "int32", 4, 8, loads(VCVTDQ2PD)},
	{"I64", "int64", 8, 8, loadI64},
	{"Bool", "uint8", 1, 8, loadBool},
}

func float(y reg.VecVirtual) { VCVTDQ2PS(y, y) }

// loads returns a kind's load that needs no constants: an instruction, and what changes its result.
func loads(load func(ops ...Op), changes ...func(y reg.VecVirtual)) func() func(Mem) reg.VecVirtual {
	return func() func(Mem) reg.VecVirtual {
		return func(m Mem) reg.VecVirtual {
			y := loaded(load, m)
			for _, change := range changes {
				change(y)
			}
			return y
		}
	}
}

// loadI64 converts int64 to float64 in two exact parts. The lower 48 bits become the
// fraction of 2^52. The upper 16 are added to the bits of 3×2^67, whose fraction counts
// units of 2^16. Both constants are subtracted again, and only the last sum rounds.
func loadI64() func(Mem) reg.VecVirtual {
	high := number(3 << 67)
	low := number(1 << 52)
	both := number(3<<67 + 1<<52)
	return func(m Mem) reg.VecVirtual {
		x, upper := YMM(), YMM()
		VMOVDQU(m, x)
		VPSRAD(Imm(16), x, upper)
		nothing := zero()
		VPBLENDW(Imm(0x33), nothing, upper, upper)
		VPADDQ(high, upper, upper)
		VPBLENDW(Imm(0x88), low, x, x)
		VSUBPD(both, upper, upper)
		VADDPD(x, upper, upper)
		return upper
	}
}

// loadBool loads 1 for every value except 0.
func loadBool() func(Mem) reg.VecVirtual {
	nothing, one := zero(), number(1)
	return func(m Mem) reg.VecVirtual {
		y := loaded(VPMOVZXBQ, m)
		VPCMPEQQ(nothing, y, y)
		VANDNPD(one, y, y)
		return y
	}
}

// form returns an instruction's form for the kind's sums.
func (k kind) form(single, double func(ops ...Op)) func(ops ...Op) {
	if k.sum == 4 {
		return single
	}
	return double
}

// same returns ones for elements at p and q with the same bits. As floats they are x and y.
func (k kind) same(p, q Mem, x, y reg.VecVirtual) reg.VecVirtual {
	equal, other := YMM(), YMM()
	switch {
	case k.elem == "int64": // different integers may be the same float64
		VMOVDQU(p, equal)
		VPCMPEQQ(q, equal, equal)
	case k.name == "F16": // different NaNs may be the same float32
		VPMOVZXWD(p, equal)
		VPMOVZXWD(q, other)
		VPCMPEQD(other, equal, equal)
	case k.sum == 4:
		VPCMPEQD(x, y, equal)
	default:
		VPCMPEQQ(x, y, equal)
	}
	return equal
}

func folds() {
	for _, k := range kinds {
		k.fold("first", "sets sums to share × src.")
		k.fold("next", "adds share × src to sums.")
		k.differences()
	}
}

// fold writes a loop: first sets sums to share × elements, and next adds that to them.
func (k kind) fold(name, doc string) {
	function(name+k.name, "func(acc *"+k.real()+", src *"+k.elem+", n int, share "+k.real()+")", doc)
	acc, src, n := pointer("acc"), pointer("src"), pointer("n")
	share, load := everywhere("share", k.sum), k.load()
	loop(n, k.step(), k.lanes(), func(at operand) {
		y := load(at(src, k.size))
		k.form(VMULPS, VMULPD)(y, share, y)
		if name == "next" {
			k.form(VADDPS, VADDPD)(at(acc, k.sum), y, y)
		}
		VMOVUPS(y, at(acc, k.sum))
	})
	end()
}

// differences writes the loop of Differences.
func (k kind) differences() {
	function("differences"+k.name, "func(acc *"+k.real()+", src, base *"+k.elem+", n int, share "+k.real()+")",
		"adds share × (src - base) to sums, where the bits of src and base differ.")
	acc, src, base, n := pointer("acc"), pointer("src"), pointer("base"), pointer("n")
	share, load := everywhere("share", k.sum), k.load()
	loop(n, k.step(), k.lanes(), func(at operand) {
		w, m := load(at(src, k.size)), load(at(base, k.size))
		equal := k.same(at(src, k.size), at(base, k.size), w, m)
		k.form(VSUBPS, VSUBPD)(m, w, w)
		k.form(VMULPS, VMULPD)(w, share, w)
		sum := loaded(VMOVUPS, at(acc, k.sum))
		k.form(VADDPS, VADDPD)(sum, w, w)
		if k.sum == 4 {
			VBLENDVPS(equal, sum, w, w)
		} else {
			VBLENDVPD(equal, sum, w, w)
		}
		VMOVUPS(w, at(acc, k.sum))
	})
	end()
}
