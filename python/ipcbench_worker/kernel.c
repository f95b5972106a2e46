// The loops of arithmetic.py over words of 8 bytes, used if there is a C compiler.
// docs/reference/arithmetic.md defines them.
// Built with: cc -O3 -march=native -falign-loops=64 -shared -fPIC -o kernel.so kernel.c

// The compiler must not fuse products with sums, because that changes the last bit. Other
// optimizations are allowed: Go's loops also use vectors and begin at multiples of 64 bytes.
#ifndef __clang__
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15u

// A transport can place tensors at any address, so these types have no alignment.
typedef uint64_t __attribute__((aligned(1), may_alias)) word64;
typedef float __attribute__((aligned(1), may_alias)) float32;
typedef double __attribute__((aligned(1), may_alias)) float64;

// word returns a word of a stream: of stream s, word i is word((s + i) * GOLDEN).
static inline uint64_t word(uint64_t product) { return product ^ product >> 32; }

static inline uint64_t scatter(uint64_t h) {
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
	h = (h ^ h >> 27) * 0x94d049bb133111ebu;
	return h ^ h >> 31;
}

static inline uint64_t mix(uint64_t h, uint64_t v) { return scatter(h + GOLDEN + v); }
static inline uint64_t spread(uint64_t w, uint64_t at) { return word((w ^ at) * GOLDEN) * (at | 1); }

static uint64_t rest_of(const char *data, uint64_t size) {
	uint64_t w = 0;
	memcpy(&w, data + (size & ~7ull), size & 7);
	return w;
}

// change writes n tensors: words of from, or bases if from is NULL, XORed with masked words of
// a stream, which depends on key, the tensor's index and, unless it is 0, outer.
void change(uint64_t n, char **to, char **from, const uint64_t *sizes, const uint64_t *masks, const uint64_t *bases, uint64_t key, uint64_t outer) {
	for (uint64_t t = 0; t < n; t++) {
		uint64_t mask = masks[t], base = bases[t], s = mix(key, t), words = sizes[t] / 8;
		if (outer) s = mix(outer, s);
		word64 *dst = (word64 *)to[t];
		const word64 *src = from ? (word64 *)from[t] : NULL;
		uint64_t x = s * GOLDEN;
		if (src)
			for (uint64_t i = 0; i < words; i++, x += GOLDEN) dst[i] = src[i] ^ (word(x) & mask);
		else
			for (uint64_t i = 0; i < words; i++, x += GOLDEN) dst[i] = base ^ (word(x) & mask);
		uint64_t w = (src ? rest_of(from[t], sizes[t]) : base) ^ (word(x) & mask);
		memcpy(to[t] + 8 * words, &w, sizes[t] & 7);
	}
}

uint64_t digest(uint64_t n, char **data, const uint64_t *sizes, const uint64_t *rows) {
	uint64_t d = 0;
	for (uint64_t t = 0; t < n; t++) {
		uint64_t at = mix(mix(mix(0, t), rows[t]), sizes[t]), sum = spread(rest_of(data[t], sizes[t]), at);
		const word64 *words = (word64 *)data[t];
		for (uint64_t i = 0; i < sizes[t] / 8; i++) sum += spread(words[i], at += GOLDEN);
		d = mix(mix(0, d), sum);
	}
	return d;
}

void fold_f32(float32 *acc, const float32 *src, uint64_t n, float share, int first) {
	if (first) for (uint64_t i = 0; i < n; i++) acc[i] = share * src[i];
	else for (uint64_t i = 0; i < n; i++) acc[i] += share * src[i];
}

void fold_f64(float64 *acc, const float64 *src, uint64_t n, double share, int first) {
	if (first) for (uint64_t i = 0; i < n; i++) acc[i] = share * src[i];
	else for (uint64_t i = 0; i < n; i++) acc[i] += share * src[i];
}
