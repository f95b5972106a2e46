//go:build generate

// Gen writes package kernel's AVX2 loops in assembly; generate.sh runs it.
//
// Each loop begins at a multiple of 64 bytes, because the same instructions took 1.75 times
// as long 32 bytes further on. A product is never fused with a sum, which would change the
// last bit.
package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	words()
	folds()
	finishes()
	Generate()
}

// function begins a function with this name, Go signature and doc comment.
func function(name, signature, doc string) {
	TEXT(name, attr.NOSPLIT, signature)
	Doc(name + " " + doc)
	Pragma("noescape")
}

// An operand returns the memory of a part's elements, which have size bytes, in the array at p.
type operand func(p reg.Register, size int) Mem

// loop writes a loop over n elements, at least once, in steps. A step is unrolled: body writes
// the code for each part of it.
func loop(n reg.Register, step, part int, body func(at operand)) {
	i := GP64()
	XORQ(i, i)
	Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(64)}})
	Label("loop")
	for first := 0; first < step; first += part {
		body(func(p reg.Register, size int) Mem {
			return Mem{Base: p, Index: i, Scale: uint8(size), Disp: size * first}
		})
	}
	ADDQ(Imm(uint64(step)), i)
	CMPQ(i, n)
	JB(LabelRef("loop"))
}

func end() {
	VZEROUPPER()
	RET()
}

func pointer(name string) reg.Register { return Load(Param(name), GP64()) }

// everywhere copies a parameter, a float of size 4 or 8, to all elements of a register.
func everywhere(name string, size int) reg.VecVirtual {
	x, y := XMM(), YMM()
	Load(Param(name), x)
	if size == 4 {
		VBROADCASTSS(x, y)
	} else {
		VBROADCASTSD(x, y)
	}
	return y
}

// words4 copies an integer parameter of 8 bytes to all four elements of a register.
func words4(name string) reg.VecVirtual {
	x, y, g := XMM(), YMM(), GP64()
	Load(Param(name), g)
	VMOVQ(g, x)
	VPBROADCASTQ(x, y)
	return y
}

// constants has the memory of constants by value, so that each is written once.
var constants = map[uint64]Mem{}

// constant copies v to all elements of a register, which have size 4 or 8.
func constant(v uint64, size int) reg.VecVirtual {
	load := VPBROADCASTQ
	if size == 4 {
		load, v = VPBROADCASTD, v<<32|v
	}
	m, ok := constants[v]
	if !ok {
		m = ConstData(fmt.Sprintf("c%016x", v), U64(v))
		constants[v] = m
	}
	return loaded(load, m)
}

// number copies x to all elements of a register.
func number(x float64) reg.VecVirtual { return constant(math.Float64bits(x), 8) }

// loaded returns a register to which an instruction has loaded m.
func loaded(load func(ops ...Op), m Mem) reg.VecVirtual {
	y := YMM()
	load(m, y)
	return y
}

func zero() reg.VecVirtual {
	y := YMM()
	VPXOR(y, y, y)
	return y
}
