//go:build generate

// Gen writes package kernel's AVX2 loops in assembly; generate.sh runs it.
//
// Each loop begins at a multiple of 64 bytes, because the same instructions took 1.75 times
// as long 32 bytes further on. A product is never fused with a sum, which would change the
// last bit.
package main

import (
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

// loop writes a loop: body, with i from 0 in steps while it is below n, at least once.
func loop(n reg.Register, step int, body func(i reg.Register)) {
	i := GP64()
	XORQ(i, i)
	Instruction(&ir.Instruction{Opcode: "PCALIGN", Operands: []Op{Imm(64)}})
	Label("loop")
	body(i)
	ADDQ(Imm(uint64(step)), i)
	CMPQ(i, n)
	JB(LabelRef("loop"))
}

func end() {
	VZEROUPPER()
	RET()
}

func pointer(name string) reg.Register { return Load(Param(name), GP64()) }

// at returns the memory operand of element i + further of p, with size bytes per element.
func at(p, i reg.Register, size, further int) Mem {
	return Mem{Base: p, Index: i, Scale: uint8(size), Disp: size * further}
}

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
	m := memory(v, size)
	y := YMM()
	if size == 4 {
		VPBROADCASTD(m, y)
	} else {
		VPBROADCASTQ(m, y)
	}
	return y
}

func memory(v uint64, size int) Mem {
	if size == 4 {
		v |= v << 32
	}
	m, ok := constants[v]
	if !ok {
		m = ConstData(hex(v), U64(v))
		constants[v] = m
	}
	return m
}

func hex(v uint64) string {
	const digits = "0123456789abcdef"
	name := []byte("c0000000000000000")
	for i := len(name) - 1; v != 0; i-- {
		name[i] = digits[v&15]
		v >>= 4
	}
	return string(name)
}

func zero() reg.VecVirtual {
	y := YMM()
	VPXOR(y, y, y)
	return y
}
