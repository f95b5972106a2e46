//go:build generate

package main

import (
	"math"

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
	{"F32", "float32", 4, 4, loadWhole},
	{"F64", "float64", 8, 8, loadWhole},
	{"F16", "uint16", 2, 4, loadF16},
	{"BF16", "uint16", 2, 4, loadBF16},
	{"I8", "int8", 1, 4, loadInt(VPMOVSXBD)},
	{"I16", "int16", 2, 4, loadInt(VPMOVSXWD)},
	{"U8", "uint8", 1, 4, loadInt(VPMOVZXBD)},
	{"I32", "int32", 4, 8, loadI32},
	{"I64", "int64", 8, 8, loadI64},
	{"Bool", "uint8", 1, 8, loadBool},
}

func loadWhole() func(Mem) reg.VecVirtual {
	return func(m Mem) reg.VecVirtual {
		y := YMM()
		VMOVUPS(m, y)
		return y
	}
}

func loadF16() func(Mem) reg.VecVirtual {
	return func(m Mem) reg.VecVirtual {
		y := YMM()
		VCVTPH2PS(m, y)
		return y
	}
}

func loadBF16() func(Mem) reg.VecVirtual {
	return func(m Mem) reg.VecVirtual {
		y := YMM()
		VPMOVZXWD(m, y)
		VPSLLD(Imm(16), y, y)
		return y
	}
}

func loadInt(widen func(ops ...Op)) func() func(Mem) reg.VecVirtual {
	return func() func(Mem) reg.VecVirtual {
		return func(m Mem) reg.VecVirtual {
			y := YMM()
			widen(m, y)
			VCVTDQ2PS(y, y)
			return y
		}
	}
}

func loadI32() func(Mem) reg.VecVirtual {
	return func(m Mem) reg.VecVirtual {
		y := YMM()
		VCVTDQ2PD(m, y)
		return y
	}
}

// loadI64 converts int64 to float64 in two exact parts. The lower 48 bits become the
// fraction of 2^52. The upper 16 are added to the bits of 3×2^67, whose fraction counts
// units of 2^16. Both constants are subtracted again, and only the last sum rounds.
func loadI64() func(Mem) reg.VecVirtual {
	high := constant(math.Float64bits(3<<67), 8)
	low := constant(math.Float64bits(1<<52), 8)
	both := constant(math.Float64bits(3<<67+1<<52), 8)
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
	nothing, one := zero(), constant(math.Float64bits(1), 8)
	return func(m Mem) reg.VecVirtual {
		y := YMM()
		VPMOVZXBQ(m, y)
		VPCMPEQQ(nothing, y, y)
		VANDNPD(one, y, y)
		return y
	}
}

func (k kind) mul(a Op, b, to reg.VecVirtual) {
	if k.sum == 4 {
		VMULPS(a, b, to)
	} else {
		VMULPD(a, b, to)
	}
}

func (k kind) add(a Op, b, to reg.VecVirtual) {
	if k.sum == 4 {
		VADDPS(a, b, to)
	} else {
		VADDPD(a, b, to)
	}
}

// less sets register to to b - a.
func (k kind) less(a Op, b, to reg.VecVirtual) {
	if k.sum == 4 {
		VSUBPS(a, b, to)
	} else {
		VSUBPD(a, b, to)
	}
}

// same returns ones for elements at p and q with the same bits. As floats they are x and y.
func (k kind) same(p, q Mem, x, y reg.VecVirtual) reg.VecVirtual {
	same, other := YMM(), YMM()
	switch {
	case k.elem == "int64": // different integers may be the same float64
		VMOVDQU(p, same)
		VPCMPEQQ(q, same, same)
	case k.name == "F16": // different NaNs may be the same float32
		VPMOVZXWD(p, same)
		VPMOVZXWD(q, other)
		VPCMPEQD(other, same, same)
	case k.sum == 4:
		VPCMPEQD(x, y, same)
	default:
		VPCMPEQQ(x, y, same)
	}
	return same
}

// choose sets register to to b where mask has ones, else to a.
func (k kind) choose(mask reg.VecVirtual, b Op, a, to reg.VecVirtual) {
	if k.sum == 4 {
		VBLENDVPS(mask, b, a, to)
	} else {
		VBLENDVPD(mask, b, a, to)
	}
}

func folds() {
	for _, k := range kinds {
		k.fold()
		k.differences()
	}
}

// fold writes two loops: first sets sums to share × elements, and next adds that to them.
func (k kind) fold() {
	signature := "func(acc *" + k.real() + ", src *" + k.elem + ", n int, share " + k.real() + ")"
	for _, name := range []string{"first", "next"} {
		function(name+k.name, signature, map[string]string{
			"first": "sets sums to share × src.",
			"next":  "adds share × src to sums.",
		}[name])
		acc, src, n := pointer("acc"), pointer("src"), pointer("n")
		share, load := everywhere("share", k.sum), k.load()
		loop(n, k.step(), func(i reg.Register) {
			for e := 0; e < k.step(); e += k.lanes() {
				y := load(at(src, i, k.size, e))
				k.mul(y, share, y)
				sums := at(acc, i, k.sum, e)
				if name == "next" {
					k.add(sums, y, y)
				}
				VMOVUPS(y, sums)
			}
		})
		end()
	}
}

// differences writes the loop of Differences.
func (k kind) differences() {
	function("differences"+k.name, "func(acc *"+k.real()+", src, base *"+k.elem+", n int, share "+k.real()+")",
		"adds share × (src - base) to sums, where the bits of src and base differ.")
	acc, src, base, n := pointer("acc"), pointer("src"), pointer("base"), pointer("n")
	share, load := everywhere("share", k.sum), k.load()
	loop(n, k.step(), func(i reg.Register) {
		for e := 0; e < k.step(); e += k.lanes() {
			w, m := load(at(src, i, k.size, e)), load(at(base, i, k.size, e))
			same := k.same(at(src, i, k.size, e), at(base, i, k.size, e), w, m)
			sums, sum := at(acc, i, k.sum, e), YMM()
			k.less(m, w, w)
			k.mul(w, share, w)
			VMOVUPS(sums, sum)
			k.add(sum, w, w)
			k.choose(same, sum, w, w)
			VMOVUPS(w, sums)
		}
	})
	end()
}
