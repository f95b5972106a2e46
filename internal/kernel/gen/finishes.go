//go:build generate

package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/mmcloughlin/avo/reg"
)

// An integer is a kind of integers of 8 to 32 bits. Rounded sums are clamped to its limits.
type integer struct {
	kind
	low, high float64
	// store writes 4 elements to m, which x has as 32-bit integers.
	store func(x reg.VecVirtual, m Mem)
}

func finishes() {
	for _, k := range kinds {
		switch k.name {
		case "F16":
			finishF16(k)
		case "BF16":
			finishBF16(k)
		case "I8":
			integer{k, math.MinInt8, math.MaxInt8, func(x reg.VecVirtual, m Mem) {
				VPACKSSDW(x, x, x)
				VPACKSSWB(x, x, x)
				VMOVD(x, m)
			}}.finish()
		case "I16":
			integer{k, math.MinInt16, math.MaxInt16, func(x reg.VecVirtual, m Mem) {
				VPACKSSDW(x, x, x)
				VMOVQ(x, m)
			}}.finish()
		case "U8":
			integer{k, 0, math.MaxUint8, func(x reg.VecVirtual, m Mem) {
				VPACKSSDW(x, x, x)
				VPACKUSWB(x, x, x)
				VMOVD(x, m)
			}}.finish()
		case "I32":
			integer{k, math.MinInt32, math.MaxInt32, func(x reg.VecVirtual, m Mem) { VMOVDQU(x, m) }}.finish()
		case "I64":
			finishI64(k)
		case "Bool":
			finishBool(k)
		}
	}
}

// finishF16 writes the loops of F16, which round sums; added first adds the model, and
// skips sums of 0.
func finishF16(k kind) {
	k.rounding(func() func(y reg.VecVirtual) reg.VecVirtual {
		return func(y reg.VecVirtual) reg.VecVirtual {
			x := XMM()
			VCVTPS2PH(Imm(0), y, x)
			return x
		}
	})
}

// finishBF16 does the same for BF16, with integer instructions. It makes NaNs quiet,
// because rounding could make them infinities.
func finishBF16(k kind) {
	k.rounding(func() func(y reg.VecVirtual) reg.VecVirtual {
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
	})
}

// rounding writes the loops of a 16-bit float. narrow's function rounds 8 sums.
func (k kind) rounding(narrow func() func(y reg.VecVirtual) reg.VecVirtual) {
	function("finish"+k.name, "func(dst *"+k.elem+", acc *float32, n int, total float64)", "rounds sums.")
	dst, acc, n := pointer("dst"), pointer("acc"), pointer("n")
	round := narrow()
	loop(n, k.step(), func(i reg.Register) {
		for e := 0; e < k.step(); e += 8 {
			y := YMM()
			VMOVUPS(at(acc, i, 4, e), y)
			VMOVDQU(round(y), at(dst, i, 2, e))
		}
	})
	end()

	function("added"+k.name, "func(dst *"+k.elem+", acc *float32, n int, total float64)", "adds sums to dst, where they are not 0.")
	dst, acc, n = pointer("dst"), pointer("acc"), pointer("n")
	round = narrow()
	load, nothing := k.load(), zero()
	loop(n, k.step(), func(i reg.Register) {
		for e := 0; e < k.step(); e += 8 {
			model := at(dst, i, 2, e)
			y, moved, upper, old := YMM(), YMM(), XMM(), XMM()
			VMOVUPS(at(acc, i, 4, e), y)
			VCMPPS(Imm(4), nothing, y, moved)
			VEXTRACTF128(Imm(1), moved, upper)
			VPACKSSDW(upper, moved.AsX(), upper)
			VADDPS(load(model), y, y)
			VMOVDQU(model, old)
			VPBLENDVB(upper, round(y), old, old)
			VMOVDQU(old, model)
		}
	})
	end()
}

// wide loads 4 sums as float64.
func (k kind) wide(m Mem) reg.VecVirtual {
	y := YMM()
	if k.sum == 4 {
		VCVTPS2PD(m, y)
	} else {
		VMOVUPD(m, y)
	}
	return y
}

// finish writes two loops. finish divides sums by total, rounds to nearest even and clamps
// to the limits; added first adds dst × total to the sums.
func (k integer) finish() {
	for _, name := range []string{"finish", "added"} {
		function(name+k.name, "func(dst *"+k.elem+", acc *"+k.real()+", n int, total float64)", map[string]string{
			"finish": "divides sums by total and rounds them.",
			"added":  "adds sums to dst × total, divides that by total and rounds it.",
		}[name])
		dst, acc, n, total := pointer("dst"), pointer("acc"), pointer("n"), everywhere("total", 8)
		low, high := constant(math.Float64bits(k.low), 8), constant(math.Float64bits(k.high), 8)
		loop(n, k.step(), func(i reg.Register) {
			for e := 0; e < k.step(); e += 4 {
				y, x := k.wide(at(acc, i, k.sum, e)), XMM()
				if name == "added" {
					model := YMM()
					k.widen(at(dst, i, k.size, e), x)
					VCVTDQ2PD(x, model)
					VMULPD(total, model, model)
					VADDPD(model, y, y)
				}
				VDIVPD(total, y, y)
				VROUNDPD(Imm(0), y, y)
				VMINPD(high, y, y)
				VMAXPD(low, y, y)
				VCVTPD2DQY(y, x)
				k.store(x, at(dst, i, k.size, e))
			}
		})
		end()
	}
}

// widen loads 4 elements as 32-bit integers.
func (k kind) widen(m Mem, x reg.VecVirtual) {
	switch k.name {
	case "I8":
		VPMOVSXBD(m, x)
	case "U8":
		VPMOVZXBD(m, x)
	case "I16":
		VPMOVSXWD(m, x)
	default:
		VMOVDQU(m, x)
	}
}

// finishI64 converts one element at a time, because AVX2 has no vector instruction for
// that. The instruction turns too large values into the lowest integer, and an exclusive
// or turns that into the highest.
func finishI64(k kind) {
	for _, name := range []string{"finish", "added"} {
		function(name+k.name, "func(dst *int64, acc *float64, n int, total float64)", map[string]string{
			"finish": "divides sums by total and rounds them.",
			"added":  "adds sums to dst × total, divides that by total and rounds it, where sums are not 0.",
		}[name])
		dst, acc, n, total := pointer("dst"), pointer("acc"), pointer("n"), everywhere("total", 8)
		load, nothing, limit := k.load(), zero(), constant(math.Float64bits(1<<63), 8)
		loop(n, k.step(), func(i reg.Register) {
			for e := 0; e < k.step(); e += 4 {
				model, y, moved := at(dst, i, 8, e), YMM(), YMM()
				VMOVUPD(at(acc, i, 8, e), y)
				if name == "added" {
					VCMPPD(Imm(4), nothing, y, moved)
					m := load(model)
					VMULPD(total, m, m)
					VADDPD(m, y, y)
				}
				VDIVPD(total, y, y)
				VROUNDPD(Imm(0), y, y)
				above, whole := YMM(), roundedI64(y)
				VCMPPD(Imm(0x1d), limit, y, above) // at least
				VPXOR(above, whole, whole)
				if name == "added" {
					VPBLENDVB(moved, whole, old(model), whole)
				}
				VMOVDQU(whole, model)
			}
		})
		end()
	}
}

func old(m Mem) reg.VecVirtual {
	y := YMM()
	VMOVDQU(m, y)
	return y
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
	function("finishBool", "func(dst *uint8, acc *float64, n int, total float64)", "sets dst to 1 where sums are more than half the total, else to 0.")
	dst, acc, n, total, half, table := pointer("dst"), pointer("acc"), pointer("n"), everywhere("total", 8), YMM(), GP64()
	VMULPD(constant(math.Float64bits(0.5), 8), total, half)
	LEAQ(ones, table)
	loop(n, k.step(), func(i reg.Register) {
		for e := 0; e < k.step(); e += 4 {
			more, bits, bytes := YMM(), GP64(), GP32()
			VMOVUPD(at(acc, i, 8, e), more)
			VCMPPD(Imm(0x1e), half, more, more) // greater
			VMOVMSKPD(more, bits.As32())
			MOVL(at(table, bits, 4, 0), bytes)
			MOVL(bytes, at(dst, i, 1, e))
		}
	})
	end()

	function("addedBool", "func(dst *uint8, acc *float64, n int, total float64)", "sets dst to 1 where the sum and dst × total are more than half the total, else to 0, where sums are not 0.")
	dst, acc, n, total, half, table = pointer("dst"), pointer("acc"), pointer("n"), everywhere("total", 8), YMM(), GP64()
	VMULPD(constant(math.Float64bits(0.5), 8), total, half)
	load, nothing := k.load(), zero()
	LEAQ(ones, table)
	loop(n, k.step(), func(i reg.Register) {
		for e := 0; e < k.step(); e += 4 {
			y, moved, bits, bytes, which, kept := YMM(), YMM(), GP64(), GP32(), GP64(), GP32()
			VMOVUPD(at(acc, i, 8, e), y)
			VCMPPD(Imm(4), nothing, y, moved)
			VMOVMSKPD(moved, which.As32())
			MOVL(at(table, which, 4, 0), which.As32())
			IMUL3L(Imm(255), which.As32(), which.As32())
			m := load(at(dst, i, 1, e))
			VMULPD(total, m, m)
			VADDPD(m, y, y)
			VCMPPD(Imm(0x1e), half, y, y)
			VMOVMSKPD(y, bits.As32())
			MOVL(at(table, bits, 4, 0), bytes)
			ANDL(which.As32(), bytes)
			NOTL(which.As32())
			MOVL(at(dst, i, 1, e), kept)
			ANDL(which.As32(), kept)
			ORL(kept, bytes)
			MOVL(bytes, at(dst, i, 1, e))
		}
	})
	end()
}
