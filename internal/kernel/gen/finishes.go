//go:build generate

package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/mmcloughlin/avo/reg"
)

func finishes() {
	for _, k := range kinds {
		switch k.name {
		case "F16":
			k.rounding(narrowF16)
		case "BF16":
			k.rounding(narrowBF16)
		case "I8":
			k.clamping(math.MinInt8, math.MaxInt8, VPMOVSXBD, VMOVD, VPACKSSDW, VPACKSSWB)
		case "I16":
			k.clamping(math.MinInt16, math.MaxInt16, VPMOVSXWD, VMOVQ, VPACKSSDW)
		case "U8":
			k.clamping(0, math.MaxUint8, VPMOVZXBD, VMOVD, VPACKSSDW, VPACKUSWB)
		case "I32":
			whole := func(ops ...Op) { VMOVDQU(ops[0], ops[1]) }
			k.clamping(math.MinInt32, math.MaxInt32, whole, VMOVDQU)
		case "I64":
			finishI64(k)
		case "Bool":
			finishBool(k)
		}
	}
}

// finishing writes a kind's loops finish and added, which have these comments. body writes one
// of them.
func (k kind) finishing(finish, added string, body func(added bool, dst, acc, n reg.Register)) {
	for _, f := range [][2]string{{"finish", finish}, {"added", added}} {
		function(f[0]+k.name, "func(dst *"+k.elem+", acc *"+k.real()+", n int, total float64)", f[1])
		body(f[0] == "added", pointer("dst"), pointer("acc"), pointer("n"))
		end()
	}
}

func narrowF16() func(y reg.VecVirtual) reg.VecVirtual {
	return func(y reg.VecVirtual) reg.VecVirtual {
		x := XMM()
		VCVTPS2PH(Imm(0), y, x)
		return x
	}
}

// narrowBF16 uses integer instructions. It makes NaNs quiet, because rounding could make them
// infinities.
func narrowBF16() func(y reg.VecVirtual) reg.VecVirtual {
	one, half, quiet := constant(1, 4), constant(0x7fff, 4), constant(0x40, 4)
	magnitude, infinity := constant(0x7fffffff, 4), constant(0x7f800000, 4)
	return func(y reg.VecVirtual) reg.VecVirtual {
		nan, upper, odd := YMM(), YMM(), YMM()
		VPAND(magnitude, y, nan)
		VPCMPGTD(infinity, nan, nan)
		VPSRLD(Imm(16), y, upper)
		VPAND(one, upper, odd)
		VPOR(quiet, upper, upper)
		VPADDD(half, y, y)
		VPADDD(odd, y, y)
		VPSRLD(Imm(16), y, y)
		VPBLENDVB(nan, upper, y, y)
		x := XMM()
		VEXTRACTI128(Imm(1), y, x)
		VPACKUSDW(x, y.AsX(), x)
		return x
	}
}

// rounding writes the loops of a 16-bit float, which round sums: narrow's function rounds 8 of
// them. added first adds the model, and skips sums of 0.
func (k kind) rounding(narrow func() func(y reg.VecVirtual) reg.VecVirtual) {
	k.finishing("rounds sums.", "adds sums to dst, where they are not 0.", func(added bool, dst, acc, n reg.Register) {
		round := narrow()
		if !added {
			loop(n, k.step(), 8, func(at operand) {
				VMOVDQU(round(loaded(VMOVUPS, at(acc, 4))), at(dst, 2))
			})
			return
		}
		load, nothing := k.load(), zero()
		loop(n, k.step(), 8, func(at operand) {
			y, moved, upper, old := loaded(VMOVUPS, at(acc, 4)), YMM(), XMM(), XMM()
			VCMPPS(Imm(4), nothing, y, moved)
			VEXTRACTF128(Imm(1), moved, upper)
			VPACKSSDW(upper, moved.AsX(), upper)
			VADDPS(load(at(dst, 2)), y, y)
			VMOVDQU(at(dst, 2), old)
			VPBLENDVB(upper, round(y), old, old)
			VMOVDQU(old, at(dst, 2))
		})
	})
}

// clamping writes the loops of integers of 8 to 32 bits. finish divides sums by total, rounds
// to nearest even and clamps to the limits; added first adds dst × total to the sums. widen
// loads 4 elements as 32-bit integers, and store stores them once they are packed.
func (k kind) clamping(low, high float64, widen func(ops ...Op), store func(from, to Op), packs ...func(ops ...Op)) {
	k.finishing("divides sums by total and rounds them.",
		"adds sums to dst × total, divides that by total and rounds it.", func(added bool, dst, acc, n reg.Register) {
			total, least, most := everywhere("total", 8), number(low), number(high)
			loop(n, k.step(), 4, func(at operand) {
				y, x := loaded(k.form(VCVTPS2PD, VMOVUPD), at(acc, k.sum)), XMM()
				if added {
					model := YMM()
					widen(at(dst, k.size), x)
					VCVTDQ2PD(x, model)
					VMULPD(total, model, model)
					VADDPD(model, y, y)
				}
				VDIVPD(total, y, y)
				VROUNDPD(Imm(0), y, y)
				VMINPD(most, y, y)
				VMAXPD(least, y, y)
				VCVTPD2DQY(y, x)
				for _, pack := range packs {
					pack(x, x, x)
				}
				store(x, at(dst, k.size))
			})
		})
}

// finishI64 converts one element at a time, because AVX2 has no vector instruction for
// that. The instruction turns too large values into the lowest integer, and an exclusive
// or turns that into the highest.
func finishI64(k kind) {
	const doc = "adds sums to dst × total, divides that by total and rounds it, where sums are not 0."
	k.finishing("divides sums by total and rounds them.", doc, func(added bool, dst, acc, n reg.Register) {
		total := everywhere("total", 8)
		load, nothing, limit := k.load(), zero(), number(1<<63)
		loop(n, k.step(), 4, func(at operand) {
			y, moved := loaded(VMOVUPD, at(acc, 8)), YMM()
			if added {
				VCMPPD(Imm(4), nothing, y, moved)
				m := load(at(dst, 8))
				VMULPD(total, m, m)
				VADDPD(m, y, y)
			}
			VDIVPD(total, y, y)
			VROUNDPD(Imm(0), y, y)
			above, whole := YMM(), roundedI64(y)
			VCMPPD(Imm(0x1d), limit, y, above) // at least
			VPXOR(above, whole, whole)
			if added {
				model := YMM()
				VMOVDQU(at(dst, 8), model)
				VPBLENDVB(moved, whole, model, whole)
			}
			VMOVDQU(whole, at(dst, 8))
		})
	})
}

func roundedI64(y reg.VecVirtual) reg.VecVirtual {
	upper, whole := XMM(), YMM()
	VEXTRACTF128(Imm(1), y, upper)
	halves := [2]reg.VecVirtual{XMM(), XMM()}
	for h, x := range []reg.Register{y.AsX(), upper} {
		second, a, b := XMM(), GP64(), GP64()
		VCVTTSD2SIQ(x, a)
		VUNPCKHPD(x, x, second)
		VCVTTSD2SIQ(second, b)
		VMOVQ(a, halves[h])
		VPINSRQ(Imm(1), b, halves[h], halves[h])
	}
	VINSERTI128(Imm(1), halves[1], halves[0].AsY(), whole)
	return whole
}

// finishBool writes the loops of Bool. finish sets an element to 1 if its sum is above half
// of total; added first adds dst × total, and skips elements whose sum is 0.
func finishBool(k kind) {
	ones := GLOBL("ones", 8|16) // RODATA|NOPTR: the bytes of 4 comparisons
	for i := range uint32(16) {
		DATA(int(4*i), U32(i&1|i>>1&1<<8|i>>2&1<<16|i>>3&1<<24))
	}
	k.finishing("sets dst to 1 where sums are more than half the total, else to 0.",
		"sets dst to 1 where the sum and dst × total are more than half the total, else to 0, where sums are not 0.",
		func(added bool, dst, acc, n reg.Register) {
			total, half, table := everywhere("total", 8), YMM(), GP64()
			VMULPD(number(0.5), total, half)
			var load func(Mem) reg.VecVirtual
			var nothing reg.VecVirtual
			if added {
				load, nothing = k.load(), zero()
			}
			LEAQ(ones, table)
			loop(n, k.step(), 4, func(at operand) {
				y, moved := loaded(VMOVUPD, at(acc, 8)), YMM()
				bits, bytes, which, kept := GP64(), GP32(), GP64(), GP32()
				mask := which.As32()
				if added {
					VCMPPD(Imm(4), nothing, y, moved)
					VMOVMSKPD(moved, mask)
					MOVL(Mem{Base: table, Index: which, Scale: 4}, mask)
					IMUL3L(Imm(255), mask, mask)
					m := load(at(dst, 1))
					VMULPD(total, m, m)
					VADDPD(m, y, y)
				}
				VCMPPD(Imm(0x1e), half, y, y) // greater
				VMOVMSKPD(y, bits.As32())
				MOVL(Mem{Base: table, Index: bits, Scale: 4}, bytes)
				if added {
					ANDL(mask, bytes)
					NOTL(mask)
					MOVL(at(dst, 1), kept)
					ANDL(mask, kept)
					ORL(kept, bytes)
				}
				MOVL(bytes, at(dst, 1))
			})
		})
}
