package doc

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ipcbench/bench/stat"
)

// A scale is a unit in which readers see values that are kept in seconds, bytes or as numbers.
type scale struct {
	Name string  `json:"name"`
	Per  float64 `json:"per"` // its size in the unit in which values are kept
}

// scales has the units for readers by the unit in which values are kept, the largest first.
var scales = map[string][]scale{
	"s":  {{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}},
	"B":  {{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}},
	"iB": {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}, // for sizes that users have written
	"%":  {{"%", 0.01}},
	"1":  {{"", 1}},

	"bit": {{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}},
}

// scaleOf returns the one unit in which all of xs are shown. It suits the largest; or it is the
// next smaller one, if the smallest would be less than 0.1 and the largest then has at most
// four digits. Values per GB keep their unit, so that tables can be compared.
func scaleOf(unit string, xs ...float64) scale {
	base, per, divided := strings.Cut(unit, "/")
	all, ok := scales[base]
	if !ok || per == "GB" && base != "1" {
		return scale{unit, 1}
	}
	least, most := math.Inf(1), 0.0
	for _, x := range xs {
		if x = math.Abs(x); x > 0 && !math.IsInf(x, 0) {
			least, most = min(least, x), max(most, x)
		}
	}
	i := 0
	for most > 0 && i < len(all)-1 && most < all[i].Per*(1-1e-9) {
		i++
	}
	if i < len(all)-1 && least < all[i].Per/10 && most < all[i+1].Per*1e4 {
		i++
	}
	s := all[i]
	switch {
	case divided && base != "1":
		s.Name += "/" + per
	case divided && most > 0:
		s.Name = "per " + per
	}
	return s
}

// decimals returns the number of digits after the point that show x with three significant
// digits, or with two if it is a percentage.
func (s scale) decimals(x float64) int {
	x = math.Abs(x / s.Per)
	digits := 3
	if s.Name == "%" { // a third digit would not be significant
		digits = 2
	}
	if x == 0 || math.IsInf(x, 0) {
		return 0
	}
	d := digits - 1 - int(math.Floor(math.Log10(x)))
	if x >= math.Pow10(digits-1-d)*10-math.Pow10(-d)/2 { // rounding up gives it one digit more
		d--
	}
	return min(max(d, 0), 9)
}

// number formats x with three significant digits.
func (s scale) number(x float64) string { return s.fixed(x, s.decimals(x)) }

// fixed formats x with d digits after the point, and never as minus zero. A share below 100 %
// is never rounded to 100 %, and a tiny one not to zeros.
func (s scale) fixed(x float64, d int) string {
	x /= s.Per
	if s.Name == "%" && x < 100 && x >= 99.5 {
		x, d = math.Floor(x*10)/10, 1
	}
	if s.Name == "%" && x > 0 && x < 0.0001 {
		return "<0.0001"
	}
	text := strconv.FormatFloat(math.Abs(x), 'f', d, 64)
	if x < 0 && strings.Trim(text, "0.") != "" {
		text = "−" + text
	}
	return text
}

// lopsided is the relative half-width above which both bounds are written: ± would hide that
// their distances from the center differ.
const lopsided = 0.3

// parts formats an estimate in two parts: the number, and its half-width rounded up, or both
// bounds if that is large. There are at most most digits after the point.
func (s scale) parts(i stat.Interval, most int) (number, bounds string) {
	d := min(s.decimals(i.Center), most)
	number = s.fixed(i.Center, d)
	switch {
	case i.Confidence == 0:
	case i.Relative() > lopsided:
		bounds = " (" + s.number(i.Low) + " to " + s.number(i.High) + ")"
	default:
		step := math.Pow10(-d) * s.Per
		bounds = " ± " + scale{"", s.Per}.fixed(math.Ceil(i.Half()/step*(1-1e-9))*step, d)
	}
	return number, bounds
}

// Quantity formats a value in a unit that suits it: 25.3 ms, 66.6 MB, 5.31 GB/s. unit is the
// one in which x is kept, as in [Column].
func Quantity(unit string, x float64) string {
	s := scaleOf(unit, x)
	number := s.number(x)
	// Bytes have no fraction, and a size is shown as the user wrote it.
	if whole := math.Round(x); s.Name == "B" || unit == "iB" && whole == x && math.Mod(x, s.Per) == 0 {
		number = s.fixed(whole, 0)
	}
	return strings.TrimSuffix(number+" "+s.Name, " ")
}

// Bounded formats an estimate with its bounds, if it has any: 254 ms (251 to 258).
func Bounded(unit string, i stat.Interval) string {
	return scaleOf(unit, i.Center).bounded(i)
}

// bounded formats a value in the unit of the scale, with its bounds.
func (s scale) bounded(i stat.Interval) string {
	return bounded(i, strings.TrimSuffix(" "+s.Name, " "), s.number)
}

// bounded formats the center with its unit, and the bounds without.
func bounded(i stat.Interval, unit string, number func(x float64) string) string {
	switch {
	case !i.Known():
		return none
	case i.Confidence == 0:
		return number(i.Center) + unit
	}
	return number(i.Center) + unit + " (" + number(i.Low) + " to " + number(i.High) + ")"
}

// Percent formats a share: 0.5 is 50 %.
func Percent(x float64) string {
	if whole := math.Round(x * 100); math.Abs(x*100-whole) < 1e-9 {
		return scale{"", 1}.fixed(whole, 0) + " %"
	}
	return Quantity("%", x)
}

// Signed formats a share as a change in percent, with its sign and without the unit: 0.042 is
// +4.2.
func Signed(x float64) string {
	d := 1
	if math.Abs(x) >= 0.0995 {
		d = 0
	}
	text := scale{"", 0.01}.fixed(x, d)
	if x > 0 && strings.Trim(text, "0.") != "" {
		text = "+" + text
	}
	return text
}

// Change formats a ratio as a change: 1.042 is +4.2 % (+3.1 to +5.0).
func Change(i stat.Interval) string {
	return bounded(i, " %", func(x float64) string { return Signed(x - 1) })
}

// Times formats a factor with its bounds: 3.21× (3.10 to 3.32).
func Times(i stat.Interval) string { return bounded(i, "×", scale{"", 1}.number) }

// Plural formats a number with its noun: 1 block, 2 blocks.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List joins items as in a sentence: a, b and c.
func List(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
