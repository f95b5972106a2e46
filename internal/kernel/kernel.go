// Package kernel has the loops over model bytes: training, averaging, checks and hashes.
//
// This work is the same for all transports, but half of the timed part of a round. So the
// loops are as fast as memory, and equally fast in every build. With AVX2, they are in
// assembly that gen writes, at multiples of 64 bytes, because a loop's speed in Go depends
// on where a linker puts it. Without it, and for the last few elements, a twin in Go
// computes the same bits, except for NaNs.
package kernel

// Loops returns the kind of loops in use: "AVX2" or "Go".
func Loops() string {
	if vectors {
		return "AVX2"
	}
	return "Go"
}

const (
	// step is a multiple of the elements per iteration of each loop in assembly.
	step = 32
	// piece is the largest number of elements per call of a loop in assembly, because
	// the scheduler cannot interrupt it.
	piece = 1 << 14
)

// pieces cuts n elements into pieces and calls f with the first index and length of
// each. It returns the index of the first element that is left for the twin.
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
