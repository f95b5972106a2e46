package clock

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBounds: whatever delays messages meet, and whichever way, the bounds of a burst
// hold the offset, and so does the line between two, however the clock gained or lost
// between them.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(-1e17, 1e17).Draw(t, "offset")
		rate := func(what string) float64 { return rapid.Float64Range(-499e-6, 499e-6).Draw(t, what) }
		truth := func(ours int64) int64 { return ours + offset } // what their clock shows
		ours := rapid.Int64Range(0, 1e15).Draw(t, "start")
		delay := func() int64 { return rapid.Int64Range(0, 1e6).Draw(t, "delay") }
		burst := func() Bounds {
			began, base, rate := ours, truth(ours), rate("rate in the burst")
			truth = func(at int64) int64 { return base + at - began + int64(float64(at-began)*rate) }
			var b Burst
			for range rapid.IntRange(1, 8).Draw(t, "exchanges") {
				x := Exchange{Sent: ours}
				ours += delay()
				x.Got = truth(ours)
				ours += delay() / 100
				x.Answered = truth(ours)
				ours += delay()
				x.Back = ours
				b = append(b, x)
			}
			bounds, err := b.Bounds()
			if err != nil {
				t.Fatalf("%v of %+v", err, b)
			}
			if !bounds.Hold(truth(bounds.At) - bounds.At) {
				t.Fatalf("%+v do not hold %d", bounds, truth(bounds.At)-bounds.At)
			}
			return bounds
		}
		before := burst()
		// The clock only gains, or only loses, in two parts at rates of their own.
		sign, mark := rapid.SampledFrom([]float64{-1, 1}).Draw(t, "sign"), ours
		first, second := math.Abs(rate("first rate"))*sign, math.Abs(rate("second rate"))*sign
		span := rapid.Int64Range(1e6, 1e11).Draw(t, "between")
		turn := rapid.Int64Range(0, span).Draw(t, "turn")
		base := truth(mark)
		truth = func(at int64) int64 {
			since := at - mark
			return base + since + int64(float64(min(since, turn))*first) + int64(float64(max(0, since-turn))*second)
		}
		during := truth
		ours += span
		end := ours
		after := burst()
		line, err := Between(before, after)
		if err != nil {
			t.Fatalf("%v between %+v and %+v", err, before, after)
		}
		slack := 2*drift(16e6) + 2 // what the clock may do in the bursts themselves, the other way
		for range 4 {
			at := rapid.Int64Range(mark, end).Draw(t, "at")
			if off := line.Ours(during(at)) - at; max(off, -off) > line.Width()+slack {
				t.Fatalf("%d is off by %d, which is more than %d: %+v", at, off, line.Width(), line)
			}
		}
		if math.Abs(line.Drift()) > 501 && span > 1e7 {
			t.Fatalf("a drift of %v ppm", line.Drift())
		}
	})
}

// TestSteps: a clock that moved by more than drift and the bounds allow has stepped,
// and the error says by how much.
func TestSteps(t *testing.T) {
	const ms = int64(time.Millisecond)
	bounds := func(at, middle, half int64) Bounds { return Bounds{at, middle - half, middle + half} }
	for _, tt := range []struct {
		name          string
		before, after Bounds
		want          string // nothing if there is no step
	}{
		{"1 ms in 1 s", bounds(0, 7, 50_000), bounds(1000*ms, 7+ms, 50_000), "within 1s it moved by about 1ms, of which drift (500 ppm) explains 500µs"},
		{"back by 10 ms in 10 s", bounds(0, 7, 50_000), bounds(10_000*ms, 7-10*ms, 50_000), "within 10s it moved by about -10ms"},
		{"100,000 s", bounds(0, 0, 50_000), bounds(1000*ms, 1e14, 50_000), "moved by about 27h46m40s"},
		{"drift of 500 ppm", bounds(0, 7, 0), bounds(1000*ms, 7+ms/2, 0), ""},
		{"wide bounds", bounds(0, 0, ms), bounds(1000*ms, 2*ms, ms), ""},
	} {
		_, err := Between(tt.before, tt.after)
		var step *Step
		if errors.As(err, &step) != (tt.want != "") || tt.want != "" && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := Between(Bounds{At: 5}, Bounds{At: 5}); err == nil {
		t.Error("two bursts at one time")
	}
	var b Burst // steps by 1 ms in the middle
	for i := range int64(Exchanges) {
		at := i * 100_000
		theirs := at + i/32*ms
		b = append(b, Exchange{at, theirs + 20_000, theirs + 30_000, at + 50_000})
	}
	var step *Step
	if _, err := b.Bounds(); !errors.As(err, &step) || (step.By-time.Millisecond).Abs() > 100*time.Microsecond {
		t.Errorf("a step in a burst: got %v", err)
	}
	if _, err := Burst(nil).Bounds(); err == nil {
		t.Error("an empty burst has bounds")
	}
}

// TestOneClock: the zero line changes no time.
func TestOneClock(t *testing.T) {
	var l Line
	if !l.Same() || l.Ours(12345) != 12345 || l.Offset() != 0 || l.Width() != 0 || l.Drift() != 0 {
		t.Errorf("got %+v", l)
	}
	here := Here()
	if here != Here() || !here.Same(Here()) || here.Same(ID{Boot: here.Boot}) || (ID{}).Same(ID{}) {
		t.Errorf("got %+v", here)
	}
}
