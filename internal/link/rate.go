// Package link emulates a network: it restarts the program with a loopback interface of limited rate.
//
// The program runs in its own namespaces. The kernel's hierarchical token bucket (HTB)
// limits the rate of their loopback interface, separately for each direction. Only
// traffic to or from [Address] is on the link.
package link

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Rate is the rate, delay and loss of a link, the same in both directions. The zero Rate
// means no link.
type Rate struct {
	bits  int64 // per second; negative if unlimited
	delay time.Duration
	loss  float64 // share of the packets
}

// Unshaped is a link without a limit. It has the same namespaces, address and MTU as
// links with a rate, so results can be compared.
var Unshaped = Rate{bits: -1}

// The texts of the rates without a number.
const (
	none     = "none"
	unshaped = "unshaped"
)

// The limits of rates and delays. Loopback interfaces of current machines are not faster
// than most, and a model of 66 MB needs nine minutes at least.
const (
	least    = 1e6
	most     = 32e9
	minWait  = 2 * time.Millisecond // timers are not more exact
	mostWait = 2 * time.Second      // a connect takes twice as long, and connects have deadlines
	mostLoss = 0.5
)

const syntax = "use 100Mbit, 1Gbit, 125MB/s, 100Mbit/25ms (a delay in each direction), 100Mbit/25ms/0.1% (and a loss), unshaped or none"

// units are in bits per second. Units that end in B must be followed by "/s".
var units = map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "kB": 8e3, "MB": 8e6, "GB": 8e9}

// Parse parses a rate such as 1Gbit, 125MB/s or 1Gbit/10ms, or "unshaped" or "none". Its
// errors suggest valid texts.
func Parse(text string) (Rate, error) {
	r, err := parse(text)
	if err == nil && r.Impaired() && !r.Shaped() {
		err = fmt.Errorf("%s: a delay needs a rate, such as 1Gbit/%s: without one, the speed of its maker is measured",
			text, r.delay)
	}
	return r, err
}

// parse also accepts links that can no longer be made, which older results name.
func parse(text string) (Rate, error) {
	switch text {
	case none:
		return Rate{}, nil
	case unshaped:
		return Unshaped, nil
	}
	amount, rest, waits := strings.Cut(text, "/")
	if amount == unshaped {
		return Unshaped.impaired(text, rest)
	}
	second := rest == "s" || strings.HasPrefix(rest, "s/")
	if second {
		_, rest, waits = strings.Cut(rest, "/")
	}
	unit := strings.TrimLeft(amount, "+-0123456789.")
	number := strings.TrimSuffix(amount, unit)
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return Rate{}, fmt.Errorf("%q is not a rate: %s", text, syntax)
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
		return Rate{}, fmt.Errorf("%s: bits or bytes? use %s%sbit or %[2]s%[3]sB/s", text, number, prefix)
	case unit == "":
		return Rate{}, fmt.Errorf("%s has no unit: %s", text, syntax)
	default:
		return Rate{}, fmt.Errorf("%s: unknown unit %q: %s", text, unit, syntax)
	}
	r := Rate{bits: int64(x * factor)}
	if !(x*factor >= least && x*factor <= most) {
		return Rate{}, fmt.Errorf("%s: the rate must be from %v to %v", text, Rate{bits: least}, Rate{bits: most})
	}
	if !waits {
		return r, nil
	}
	return r.impaired(text, rest)
}

// impaired adds the delay and loss in rest, DELAY[/LOSS], the end of text.
func (r Rate) impaired(text, rest string) (Rate, error) {
	delay, loss, lossy := strings.Cut(rest, "/")
	var err error
	if r.delay, err = time.ParseDuration(delay); err != nil || r.delay < minWait || r.delay > mostWait {
		return Rate{}, fmt.Errorf("%s: delay %q: must be a time from %v to %v, such as 10ms", text, delay, minWait, mostWait)
	}
	r.delay = r.delay.Truncate(time.Microsecond)
	if lossy {
		percent, ok := strings.CutSuffix(loss, "%")
		if r.loss, err = strconv.ParseFloat(percent, 64); err != nil || !ok || !(r.loss > 0 && r.loss <= 100*mostLoss) {
			return Rate{}, fmt.Errorf("%s: loss %q: must be above 0%% and at most %v%%, such as 0.1%%", text, loss, 100*mostLoss)
		}
		r.loss /= 100
	}
	return r, nil
}

// String returns the shortest text that Parse parses as r.
func (r Rate) String() string {
	if r == (Rate{}) {
		return none
	}
	n, unit := r.bits, "bit"
	for _, larger := range []string{"kbit", "Mbit", "Gbit"} {
		if n%1000 != 0 {
			break
		}
		n, unit = n/1000, larger
	}
	text := fmt.Sprint(n, unit)
	if !r.Shaped() {
		text = unshaped
	}
	if r.delay > 0 {
		text += "/" + r.delay.String()
	}
	if r.loss > 0 {
		text += "/" + strconv.FormatFloat(100*r.loss, 'g', -1, 64) + "%"
	}
	return text
}

// MarshalText returns the text of r; see [Rate.String].
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText sets r to the rate in text; see [Parse]. It also accepts the links of older results.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = parse(string(text))
	return err
}

// Bits returns the rate in bits per second in each direction; zero if unlimited.
func (r Rate) Bits() int64 { return max(0, r.bits) }

// Delay returns the delay in each direction.
func (r Rate) Delay() time.Duration { return r.delay }

// Impaired reports whether r has a delay, and perhaps a loss.
func (r Rate) Impaired() bool { return r.delay > 0 }

// Shaped reports whether r has a limit.
func (r Rate) Shaped() bool { return r.bits > 0 }

// Take returns the least time in which bytes cross the link in one direction, with delay.
func (r Rate) Take(bytes int64) time.Duration {
	if !r.Shaped() {
		return r.delay
	}
	return r.delay + time.Duration(float64(bytes)*8/float64(r.bits)*float64(time.Second))
}

// Burst returns the bytes that can pass at once after a pause: few compared with a model,
// but enough for the kernel's timers to keep the rate.
func (r Rate) Burst() int64 {
	const small, upTo = 32 << 10, 1e9
	return max(small, int64(small*(float64(r.bits)/upTo)))
}
