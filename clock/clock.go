// Package clock compares the clock of this host with that of another one: how far
// theirs is ahead, between which bounds, and what a time of theirs is on ours.
//
//   - A [Burst] is some exchanges over one connection, made by [Ask] at this end and
//     [Answer] at the other. Each of them bounds the offset, which is theirs − ours:
//     a question had left when it was got, an answer had left when it was back.
//   - [Burst.Bounds] is what all exchanges of a burst allow.
//   - [Between] is the [Line] from a burst before to a burst after. It gives the time
//     on our clock of what happened between them on theirs.
//
// Nothing takes half of a round trip for the time of one way. Two clocks are believed
// to drift by 500 ppm at most, which is what Linux corrects a clock by; what moves
// further has stepped, and is a [Step]. Times are nanoseconds of a monotonic clock.
//
// Package clock imports nothing of ours.
package clock

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Exchanges is how many a burst has as a rule. One that met no delay is enough.
const Exchanges = 64

// perDrift is the time in which two clocks drift apart by one: 500 ppm.
const perDrift = 2000

// drift returns the most by which two clocks drift apart within a time.
func drift(within int64) int64 { return within/perDrift + 1 }

// An Exchange is one question and its answer: Sent and Back on our clock, Got and
// Answered on theirs.
type Exchange struct{ Sent, Got, Answered, Back int64 }

// bounds returns the least and the most by which their clock is ahead.
func (x Exchange) bounds() (low, high int64) { return x.Answered - x.Back, x.Got - x.Sent }

// slack is for how long the exchange was under way: the distance of its bounds.
func (x Exchange) slack() int64 { return x.Back - x.Sent - (x.Answered - x.Got) }

// A Burst is exchanges one after the other.
type Burst []Exchange

// Bounds say that at At of our clock theirs was ahead by Low to High.
type Bounds struct{ At, Low, High int64 }

// Bounds returns what all exchanges allow, at the time of the one that was fastest:
// bounds of others are wider by what clocks may drift until then. If they exclude each
// other, that is a [*Step].
func (b Burst) Bounds() (Bounds, error) {
	if len(b) == 0 {
		return Bounds{}, errors.New("clock: a burst without exchanges")
	}
	best := slices.MinFunc(b, func(x, y Exchange) int { return cmp.Compare(x.slack(), y.slack()) })
	all := Bounds{At: best.Sent + (best.Back-best.Sent)/2, Low: math.MinInt64, High: math.MaxInt64}
	for _, x := range b {
		low, high := x.bounds()
		far := drift(max(all.At-x.Sent, x.Back-all.At))
		all.Low, all.High = max(all.Low, low-far), min(all.High, high+far)
	}
	if all.Low > all.High {
		within := b[len(b)-1].Back - b[0].Sent
		return Bounds{}, &Step{time.Duration(all.Low - all.High + drift(within)), time.Duration(within)}
	}
	return all, nil
}

// Hold reports whether the offset may be that.
func (b Bounds) Hold(offset int64) bool { return b.Low <= offset && offset <= b.High }

func (b Bounds) middle() int64 { return b.Low + (b.High-b.Low)/2 }
func (b Bounds) half() int64   { return b.High - b.middle() }

// A Step says that a clock was set, or stood still, while it was compared.
type Step struct {
	By     time.Duration // about, against our clock
	Within time.Duration
}

func (s *Step) Error() string {
	return fmt.Sprintf("the clock stepped: within %v it moved by about %v, of which drift (500 ppm) explains %v at most",
		short(s.Within), short(s.By), short(time.Duration(drift(int64(s.Within)))))
}

// short rounds to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d.Abs()/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// A Line says how far their clock is ahead at any time between two bursts. The zero
// Line is that of one clock.
type Line struct {
	at, offset  int64 // of the first burst
	span, moved int64 // until the second one
	width       int64
}

// Between returns the line between two bursts. Bounds that lie further apart than
// clocks drift are a [*Step].
func Between(before, after Bounds) (Line, error) {
	span := after.At - before.At
	if span <= 0 {
		return Line{}, fmt.Errorf("clock: a second burst %v after the first", time.Duration(span))
	}
	moved, most := after.middle()-before.middle(), drift(span)
	if after.Low > before.High+most || after.High < before.Low-most {
		return Line{}, &Step{time.Duration(moved), time.Duration(span)}
	}
	return Line{
		at: before.At, offset: before.middle(),
		span: span, moved: min(max(moved, -most), most),
		width: max(before.half(), after.half()) + max(moved, -moved),
	}, nil
}

// Ours returns when it was on our clock that theirs showed a time.
func (l Line) Ours(theirs int64) int64 {
	if l.span == 0 {
		return theirs
	}
	since := theirs - l.offset - l.at // on their clock
	return l.at + since - int64(float64(since)*float64(l.moved)/float64(l.span+l.moved))
}

// Offset returns by how much their clock is ahead, half-way.
func (l Line) Offset() int64 { return l.offset + l.moved/2 }

// Drift returns by how many millionths their clock is faster.
func (l Line) Drift() float64 {
	if l.span == 0 {
		return 0
	}
	return float64(l.moved) / float64(l.span) * 1e6
}

// Width returns by how much a time may be off, either way: half of the wider bounds,
// and all that the offset moved. Nobody knows when that was: where a clock only gained,
// or only lost, it lies between what it was before and after.
func (l Line) Width() int64 { return l.width }

// Same reports whether both clocks are one.
func (l Line) Same() bool { return l == Line{} }
