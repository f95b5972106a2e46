// Package kernel has the loops that run through the bytes of models: a round's own work,
// which is not what is measured, but half of what is timed.
//
// So they are as fast as memory, and the same in every build. Where the processor has
// AVX2, they are in assembly, which gen writes, and begin at multiples of 64 bytes: the
// speed of a loop in Go depends on where a linker puts it. Elsewhere, and for the last
// few elements, a twin in Go does the same, bit for bit. Only which NaN a NaN is differs.
package kernel

// Loops returns which loops run: "AVX2" or "Go".
func Loops() string {
	if vectors {
		return "AVX2"
	}
	return "Go"
}

const (
	// step is a multiple of what each loop in assembly takes at a time.
	step = 32
	// piece is how many elements such a loop takes at once. The scheduler cannot
	// interrupt it.
	piece = 1 << 14
)

// pieces calls f with where each piece of n elements begins and its length, and returns
// where the elements begin that are left to the twin.
func pieces(n int, f func(from, n int)) int {
	if !vectors {
		return 0
	}
	n &^= step - 1
	for from := 0; from < n; from += piece {
		f(from, min(piece, n-from))
	}
	return n
}
