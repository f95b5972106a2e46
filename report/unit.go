package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ipcbench/bench/stat"
)

// A scale is the unit in which a column shows what is kept in seconds or bytes.
type scale struct {
	name string
	per  float64 // of the base unit
}

var (
	seconds1     = scale{"s", 1}
	milliseconds = scale{"ms", 1e-3}
	microseconds = scale{"µs", 1e-6}
	gigabytes    = scale{"GB/s", 1e9}
	megabytes    = scale{"MB", 1e6}
	plain        = scale{"", 1}
)

// timeScale returns the unit in which the shortest of times is a number that can
// be read. All times of a table are shown in one unit, so that they can be
// compared at a glance.
func timeScale(times ...float64) scale {
	shortest := math.Inf(1)
	for _, t := range times {
		if t > 0 {
			shortest = min(shortest, t)
		}
	}
	switch {
	case shortest >= 2:
		return seconds1
	case shortest >= 0.5e-3:
		return milliseconds
	}
	return microseconds
}

// decimals returns how many digits after the point show x with three that count.
func decimals(x float64) int {
	x = math.Abs(x)
	switch {
	case x == 0 || x >= 100:
		return 0
	case x >= 10:
		return 1
	case x >= 1:
		return 2
	case x >= 0.1:
		return 3
	}
	return min(2-int(math.Floor(math.Log10(x))), 9)
}

// lopsided is the relative half-width from which on the bounds are written out:
// ± would hide that they lie at different distances.
const lopsided = 0.3

// show writes an estimate with its half-width, rounded up: 12.3 ±0.4; or, if that
// is wide, with its bounds: 12.3 (9.9 to 24.1).
func (s scale) show(i stat.Interval) string {
	if !i.Known() {
		return none
	}
	d := decimals(i.Center / s.per)
	text := fixed(i.Center/s.per, d)
	switch half := i.Half() / s.per; {
	case i.Confidence == 0:
		return text
	case i.Relative() > lopsided:
		return text + " (" + s.number(i.Low) + " to " + s.number(i.High) + ")"
	default:
		unit := math.Pow10(-d)
		return text + " ±" + fixed(math.Ceil(half/unit*(1-1e-9))*unit, d)
	}
}

// value writes an estimate alone.
func (s scale) value(i stat.Interval) string {
	if !i.Known() {
		return none
	}
	return s.number(i.Center)
}

func (s scale) number(x float64) string { return fixed(x/s.per, decimals(x/s.per)) }

// fixed writes x with d digits after the point, and never as minus zero.
func fixed(x float64, d int) string {
	text := strconv.FormatFloat(x, 'f', d, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return text
}

// duration writes seconds in a unit of their own.
func duration(s float64) string {
	u := timeScale(math.Abs(s))
	return u.number(s) + " " + u.name
}

// size writes bytes in a decimal unit, as bandwidths are.
func size(n int64) string {
	if n < 1e3 {
		return fmt.Sprintf("%d B", n)
	}
	return decimal(float64(n)) + "B"
}

// rate writes B/s in a decimal unit.
func rate(x float64) string { return decimal(x) + "B/s" }

// decimal writes a number with the letter of its unit.
func decimal(x float64) string {
	for _, u := range []scale{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if x >= u.per {
			return u.number(x) + " " + u.name
		}
	}
	return plain.number(x) + " "
}

// times writes a factor with its bounds: 3.21× (3.10 to 3.32).
func times(i stat.Interval) string {
	if !i.Known() {
		return none
	}
	d := decimals(i.Center)
	text := fixed(i.Center, d) + "×"
	if i.Confidence > 0 {
		text += fmt.Sprintf(" (%s to %s)", fixed(i.Low, d), fixed(i.High, d))
	}
	return text
}

// change writes a ratio as a difference: +4.2 % (+3.1 to +5.0).
func change(i stat.Interval) string {
	if !i.Known() {
		return none
	}
	text := signed(i.Center-1) + " %"
	if i.Confidence > 0 {
		text += fmt.Sprintf(" (%s to %s)", signed(i.Low-1), signed(i.High-1))
	}
	return text
}

// signed writes a share in percent, with its sign.
func signed(x float64) string {
	x *= 100
	text := fixed(x, max(0, min(1, decimals(x))))
	if x > 0 && strings.Trim(text, "0.") != "" {
		text = "+" + text
	}
	return text
}

// share writes a share in percent.
func share(x float64) string {
	x *= 100
	switch {
	case x == math.Trunc(x) || x >= 10 && x < 99.5 || x > 100:
		return fixed(x, 0) + " %"
	case x >= 99.5: // never "100 %" of what is less
		return fixed(math.Floor(x*100)/100, 2) + " %"
	}
	return fixed(x, 1) + " %"
}

// plural writes a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// between writes a range of numbers with its noun.
func between(least, most int, noun string) string {
	if least == most {
		return plural(most, noun)
	}
	return fmt.Sprintf("%d to %s", least, plural(most, noun))
}

// list writes a, b and c.
func list(items []string) string {
	switch n := len(items); n {
	case 0:
		return ""
	case 1:
		return items[0]
	default:
		return strings.Join(items[:n-1], ", ") + " and " + items[n-1]
	}
}

func elapsed(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// lastOf returns the last element of a path.
func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// quoted writes a word of a command line so that a shell reads it as one.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&;|<>()*?[]{}!~#") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
