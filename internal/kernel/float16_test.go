package kernel

import (
	"math"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// A halfType is one of the two 16-bit formats, with a slow, exact reference.
type halfType struct {
	name     string
	widen    func(uint16) float32
	narrow   func(float32) uint16
	value    func(pattern uint16) float64 // value of a finite, non-negative pattern
	infinity uint16
	quiet    uint16 // the bit that makes a NaN quiet
}

var halves = []halfType{
	{"f16", F16ToFloat32, Float32ToF16, func(h uint16) float64 {
		exp, frac := int(h>>10), float64(h&0x3ff)
		if exp == 0 {
			return math.Ldexp(frac, -24)
		}
		return math.Ldexp(1024+frac, exp-25)
	}, 0x7c00, 0x0200},
	{"bf16", BF16ToFloat32, Float32ToBF16, func(h uint16) float64 {
		exp, frac := int(h>>7), float64(h&0x7f)
		if exp == 0 {
			return math.Ldexp(frac, -133)
		}
		return math.Ldexp(128+frac, exp-134)
	}, 0x7f80, 0x0040},
}

// TestHalfPatterns: all patterns widen exactly and convert back; NaNs stay NaNs.
func TestHalfPatterns(t *testing.T) {
	for _, h := range halves {
		for p := range 1 << 16 {
			pattern := uint16(p)
			sign, magnitude := pattern&0x8000, pattern&0x7fff
			f := h.widen(pattern)
			switch {
			case magnitude > h.infinity:
				if f == f || h.narrow(f)&^h.quiet != pattern&^h.quiet || h.narrow(f)&0x7fff <= h.infinity {
					t.Fatalf("%s: NaN %04x became %v and %04x", h.name, pattern, f, h.narrow(f))
				}
				continue
			case magnitude == h.infinity:
				check.Need(t, math.IsInf(float64(f), 0), "%s: infinity %04x became %v", h.name, pattern, f)
			case float64(f) != math.Copysign(h.value(magnitude), float64(f)):
				t.Fatalf("%s: %04x became %v, want magnitude %v", h.name, pattern, f, h.value(magnitude))
			}
			if math.Signbit(float64(f)) != (sign != 0) || h.narrow(f) != pattern {
				t.Fatalf("%s: %04x became %v and %04x", h.name, pattern, f, h.narrow(f))
			}
		}
	}
}

// TestHalfRounding: between two neighbouring values, rounding switches at the midpoint,
// which rounds to the even one. It tests the midpoint and the float32 on either side.
func TestHalfRounding(t *testing.T) {
	for _, h := range halves {
		for low := range h.infinity {
			above := h.value(low + 1) // for infinity, the value that would follow the largest
			middle := float32((h.value(low) + above) / 2)
			even := low + low&1
			verify := func(f float32, want uint16) {
				got := h.narrow(f)
				check.Need(t, got == want, "%s: %v became %04x, want %04x", h.name, f, got, want)
				if got := h.narrow(-f); got != want|0x8000 {
					t.Fatalf("%s: %v became %04x, want %04x", h.name, -f, got, want|0x8000)
				}
			}
			if float64(middle) == (h.value(low)+above)/2 { // false if a float32 cannot represent the midpoint
				verify(middle, even)
			}
			verify(math.Nextafter32(middle, 0), low)
			if next := math.Nextafter32(middle, math.MaxFloat32); float64(next) > h.value(low) {
				verify(next, low+1)
			}
			verify(math.Nextafter32(float32(above), 0), low+1)
		}
		for _, f := range []float64{math.MaxFloat32, math.Inf(1)} {
			got := h.narrow(float32(f))
			check.That(t, got == h.infinity, "%s: %v became %04x", h.name, f, got)
		}
	}
}

// TestHalfRoundingOfEverything: every float32 rounds to the nearest pattern.
func TestHalfRoundingOfEverything(t *testing.T) {
	skip.Soak(t)
	for _, h := range halves {
		low, middle := uint16(0), h.value(1)/2
		for bits := range uint32(0x7f800000) {
			f := math.Float32frombits(bits)
			for low < h.infinity && float64(f) > middle { // f is past the midpoint above low
				low++
				middle = (h.value(low) + h.value(low+1)) / 2
			}
			want := low
			if float64(f) == middle && low < h.infinity {
				want += low & 1
			}
			got := h.narrow(f)
			check.Need(t, got == want, "%s: %v became %04x, want %04x", h.name, f, got, want)
			if got := h.narrow(-f); got != want|0x8000 {
				t.Fatalf("%s: %v became %04x, want %04x", h.name, -f, got, want|0x8000)
			}
		}
	}
}

// TestHalfSlices: the averaging rules convert slices of all patterns in the same way. They
// make a NaN quiet.
func TestHalfSlices(t *testing.T) {
	patterns := make([]uint16, 1<<16)
	for i := range patterns {
		patterns[i] = uint16(i)
	}
	for i, r := range []*Rule[float32, uint16]{F16, BF16} {
		h, wide, back := halves[i], make([]float32, len(patterns)), make([]uint16, len(patterns))
		r.Fold(wide, patterns, 1, true)
		r.Finish(back, wide, 1)
		for i, p := range patterns {
			if want := h.widen(p); math.Float32bits(wide[i]) != math.Float32bits(want) && want == want || back[i]&^h.quiet != h.narrow(want)&^h.quiet {
				t.Fatalf("%s: %04x became %v and %04x", h.name, p, wide[i], back[i])
			}
		}
	}
}
