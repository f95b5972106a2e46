// Package link gives a run a network with a rate: the whole program runs again in
// namespaces of its own, whose loopback interface lets no more bits through each way
// than a rate says. The kernel does that, by its hierarchical token bucket (HTB).
//
// What goes to or comes from [Address] is on the link, and nothing else is.
package link

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Rate is how fast a link is, each way. The zero Rate stands for no link at all.
type Rate struct {
	bits  int64 // a second; below zero if nothing holds them up
	delay time.Duration
}

// Unshaped is a link whose rate is that of the machine: the same namespaces, address
// and MTU as those with a rate, which may so be compared with it.
var Unshaped = Rate{bits: -1}

// The words for rates that are none.
const (
	none     = "none"
	unshaped = "unshaped"
)

// The rates that can be measured. The loopback interface of no machine of today is
// faster than the last, and a model of 66 MB takes nine minutes over the first.
const (
	least    = 1e6
	most     = 32e9
	mostWait = 10 * time.Second
)

const syntax = "want 100Mbit, 1Gbit, 125MB/s, 1Gbit/10ms (a rate and a delay each way), unshaped, or none"

// units are bits a second. In those that end in B, an s has to follow.
var units = map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "kB": 8e3, "MB": 8e6, "GB": 8e9}

// Parse reads a rate, with errors that say what could have been written instead.
func Parse(text string) (Rate, error) {
	switch text {
	case none:
		return Rate{}, nil
	case unshaped:
		return Unshaped, nil
	}
	amount, rest, waits := strings.Cut(text, "/")
	second := rest == "s" || strings.HasPrefix(rest, "s/")
	if second {
		_, rest, waits = strings.Cut(rest, "/")
	}
	unit := strings.TrimLeft(amount, "+-0123456789.")
	number := strings.TrimSuffix(amount, unit)
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return Rate{}, fmt.Errorf("%q is no rate: %s", text, syntax)
	}
	factor, ok := units[unit]
	if !strings.HasSuffix(unit, "B") {
		factor, ok = units[strings.ToLower(unit)]
	} else {
		ok = ok && second
	}
	switch lower := strings.ToLower(unit); {
	case ok:
	case lower == "kb" || lower == "mb" || lower == "gb":
		prefix := strings.ToUpper(lower[:1])
		return Rate{}, fmt.Errorf("%s: bits or bytes? want %s%sbit or %[2]s%[3]sB/s", text, number, prefix)
	case unit == "":
		return Rate{}, fmt.Errorf("%s: of what? %s", text, syntax)
	default:
		return Rate{}, fmt.Errorf("%s: unknown unit %q: %s", text, unit, syntax)
	}
	r := Rate{bits: int64(x * factor)}
	if !(x*factor >= least && x*factor <= most) {
		return Rate{}, fmt.Errorf("%s: want a rate from %v to %v", text, Rate{bits: least}, Rate{bits: most})
	}
	if !waits {
		return r, nil
	}
	if r.delay, err = time.ParseDuration(rest); err != nil || r.delay < time.Microsecond || r.delay > mostWait {
		return Rate{}, fmt.Errorf("%s: delay %q: want a time of at most %v, such as 10ms", text, rest, mostWait)
	}
	r.delay = r.delay.Truncate(time.Microsecond)
	return r, nil
}

// String returns the shortest text that Parse reads as r.
func (r Rate) String() string {
	switch {
	case r == Rate{}:
		return none
	case r == Unshaped:
		return unshaped
	}
	n, unit := r.bits, "bit"
	for _, of := range []string{"kbit", "Mbit", "Gbit"} {
		if n%1000 != 0 {
			break
		}
		n, unit = n/1000, of
	}
	text := fmt.Sprint(n, unit)
	if r.delay > 0 {
		text += "/" + r.delay.String()
	}
	return text
}

// MarshalText returns r as users write it.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText makes r what users have written.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = Parse(string(text))
	return err
}

// Bits returns the bits per second each way; zero if nothing limits them.
func (r Rate) Bits() int64 { return max(0, r.bits) }

// Delay returns the delay of each way.
func (r Rate) Delay() time.Duration { return r.delay }

// Shaped reports whether r holds anything up.
func (r Rate) Shaped() bool { return r.bits > 0 }

// Take returns how long so many bytes need one way, at the least.
func (r Rate) Take(bytes int64) time.Duration {
	if !r.Shaped() {
		return 0
	}
	return r.delay + time.Duration(float64(bytes)*8/float64(r.bits)*float64(time.Second))
}

// Burst returns how many bytes may pass at once after a pause: little beside what a
// model has, and as much as the kernel's timers need to keep the rate.
func (r Rate) Burst() int64 {
	const small, upTo = 32 << 10, 1e9
	return max(small, int64(small*(float64(r.bits)/upTo)))
}
