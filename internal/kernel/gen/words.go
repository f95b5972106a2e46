//go:build generate

package main

import (
	"sync"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/mmcloughlin/avo/reg"
)

const (
	golden  = 0x9e3779b97f4a7c15
	golden4 = golden * 4 & (1<<64 - 1)
)

// wordsStep is the number of words per iteration of a loop.
const wordsStep = 16

// A stream computes kernel.Word of consecutive products, four at a time. Each product is
// the previous product plus golden, so no multiplication is needed.
type stream struct{ x, four, mask reg.VecVirtual }

func newStream() stream {
	s := stream{words4("x"), constant(golden4, 8), words4("mask")}
	VPADDQ(ramp(), s.x, s.x)
	return s
}

// ramp returns the memory of the first four multiples of golden: 0 to 3.
var ramp = sync.OnceValue(func() Mem {
	steps := GLOBL("ramp", 8|16) // RODATA|NOPTR
	for i := range uint64(4) {
		DATA(int(8*i), U64(i*(golden&(1<<64-1))))
	}
	return steps
})

// next returns the next four words, masked.
func (s stream) next() reg.VecVirtual {
	y := YMM()
	VPSRLQ(Imm(32), s.x, y)
	VPXOR(s.x, y, y)
	VPADDQ(s.four, s.x, s.x)
	VPAND(s.mask, y, y)
	return y
}

func words() {
	wordLoop("maskLoop", "func(dst, src *uint64, n int, x, mask uint64)",
		"sets dst to src, exclusive-or'ed with words.", true, "dst")
	wordLoop("fillLoop", "func(dst *uint64, n int, x, mask, base uint64)", "sets dst to words and base.", false, "dst")
	wordLoop("maskedLoop", "func(got, src *uint64, n int, x, mask uint64) bool",
		"reports whether got is what mask makes of src.", true, "got")
	wordLoop("filledLoop", "func(got *uint64, n int, x, mask, base uint64) bool",
		"reports whether got is what fill makes.", false, "got")
	digest()
}

// wordLoop writes a loop that changes src by words, or adds base to them. It stores the results
// in the array dst, or compares them with the array got.
func wordLoop(name, signature, doc string, masks bool, array string) {
	function(name, signature, doc)
	to := pointer(array)
	var src reg.Register
	var base, bad reg.VecVirtual
	if masks {
		src = pointer("src")
	}
	n, s := pointer("n"), newStream()
	if !masks {
		base = words4("base")
	}
	if array == "got" {
		bad = zero()
	}
	loop(n, wordsStep, 4, func(at operand) {
		y := s.next()
		if masks {
			VPXOR(at(src, 8), y, y)
		} else {
			VPOR(base, y, y)
		}
		if bad == nil {
			VMOVDQU(y, at(to, 8))
		} else {
			VPXOR(at(to, 8), y, y)
			VPOR(y, bad, bad)
		}
	})
	if bad == nil {
		end()
		return
	}
	VPTEST(bad, bad)
	ok := GP8()
	SETEQ(ok)
	Store(ok, ReturnIndex(0))
	end()
}

// digest writes digestLoop. It computes a 64-bit product from three 32-bit ones: modulo
// 2⁶⁴, (a×2³² + b)(c×2³² + d) is bd + (ad + bc)×2³².
func digest() {
	function("digestLoop", "func(words *uint64, n int, at uint64) uint64", "returns the sum of the words, spread.")
	src, n := pointer("words"), pointer("n")
	place := words4("at")
	VPADDQ(ramp(), place, place)
	four, one := constant(golden4, 8), constant(1, 8)
	low, high := constant(golden&(1<<32-1), 8), constant(golden>>32, 8)
	low1, high1 := zero(), zero() // sums of the products' parts
	loop(n, wordsStep, 4, func(at operand) {
		y, up, t := YMM(), YMM(), YMM()
		VPXOR(at(src, 8), place, y)
		VPSRLQ(Imm(32), y, up)
		VPMULUDQ(low, up, up)
		VPMULUDQ(high, y, t)
		VPADDQ(t, up, up)
		VPSLLQ(Imm(32), up, up)
		VPMULUDQ(low, y, y)
		VPADDQ(up, y, y)
		// y is the product with golden. The exclusive or does not change its upper half.
		VPSRLQ(Imm(32), y, up)
		VPXOR(up, y, y)
		odd, odds := YMM(), YMM()
		VPOR(one, place, odd)
		VPADDQ(four, place, place)
		VPSRLQ(Imm(32), odd, odds)
		VPMULUDQ(odd, up, up)
		VPMULUDQ(odds, y, odds)
		VPMULUDQ(odd, y, y)
		VPADDQ(up, high1, high1)
		VPADDQ(odds, high1, high1)
		VPADDQ(y, low1, low1)
	})
	VPSLLQ(Imm(32), high1, high1)
	VPADDQ(high1, low1, low1)
	x, sum := XMM(), GP64()
	VEXTRACTI128(Imm(1), low1, x)
	VPADDQ(x, low1.AsX(), x)
	y := XMM()
	VPSHUFD(Imm(0xee), x, y)
	VPADDQ(y, x, x)
	VMOVQ(x, sum)
	Store(sum, ReturnIndex(0))
	end()
}
