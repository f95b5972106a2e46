package kernel

// Golden is 2^64 divided by the golden ratio, made odd. Its consecutive multiples are
// evenly spread (Knuth, The Art of Computer Programming, vol. 3, 6.4).
const Golden = 0x9e3779b97f4a7c15

// Word mixes the upper half of product into its lower half. Generated data are words of
// consecutive multiples of Golden.
func Word(product uint64) uint64 { return product ^ product>>32 }

// Spread returns a hash of the word w at the place at. At one place, different words have
// different hashes, because each step is invertible. The first product carries bits up
// and the shift carries them down, so even a sign flipped in every word changes a Digest.
func Spread(w, at uint64) uint64 { return Word((w^at)*Golden) * (at | 1) }

// Mask sets dst[i] to src[i] ^ Word(x + i × Golden) & mask.
func Mask(dst, src []uint64, x, mask uint64) {
	dst = dst[:len(src)]
	done := pieces(len(src), func(i, n int) { maskLoop(&dst[i], &src[i], n, x+uint64(i)*Golden, mask) })
	x += uint64(done) * Golden
	for i, w := range src[done:] {
		dst[done+i] = w ^ Word(x)&mask
		x += Golden
	}
}

// Fill sets dst[i] to Word(x + i × Golden) & mask | base.
func Fill(dst []uint64, x, mask, base uint64) {
	done := pieces(len(dst), func(i, n int) { fillLoop(&dst[i], n, x+uint64(i)*Golden, mask, base) })
	x += uint64(done) * Golden
	for i := range dst[done:] {
		dst[done+i] = Word(x)&mask | base
		x += Golden
	}
}

// Masked returns the first index at which got differs from the result of [Mask] for src,
// or -1.
func Masked(got, src []uint64, x, mask uint64) int {
	got = got[:len(src)]
	return unlike(len(src), func(i, n int) bool {
		return maskedLoop(&got[i], &src[i], n, x+uint64(i)*Golden, mask)
	}, func(i int) bool { return got[i] == src[i]^Word(x+uint64(i)*Golden)&mask })
}

// Filled returns the first index at which got differs from the result of [Fill], or -1.
func Filled(got []uint64, x, mask, base uint64) int {
	return unlike(len(got), func(i, n int) bool {
		return filledLoop(&got[i], n, x+uint64(i)*Golden, mask, base)
	}, func(i int) bool { return got[i] == Word(x+uint64(i)*Golden)&mask|base })
}

// unlike returns the first of n indices for which right is false, or -1. all reports
// whether right is true for the n indices from i on.
func unlike(n int, all func(i, n int) bool, right func(i int) bool) int {
	bad := -1
	done := pieces(n, func(i, n int) {
		if bad < 0 && !all(i, n) {
			bad = i
		}
	})
	if bad < 0 {
		bad = done
	}
	for i := bad; i < n; i++ {
		if !right(i) {
			return i
		}
	}
	return -1
}

// Digest returns the sum of the hashes Spread(words[i], at + (i+1) × Golden).
func Digest(words []uint64, at uint64) (sum uint64) {
	done := pieces(len(words), func(i, n int) { sum += digestLoop(&words[i], n, at+uint64(i+1)*Golden) })
	at += uint64(done) * Golden
	for _, w := range words[done:] {
		at += Golden
		sum += Spread(w, at)
	}
	return sum
}
