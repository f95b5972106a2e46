package tensor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteUnits are tried in order, so longer suffixes come first. Binary units are first, the
// largest at the beginning.
var byteUnits = []struct {
	suffix string
	bytes  int
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
}

// ParseBytes reads a size such as "64MiB", "1.5GB" or "4096". The result must be a whole
// number of bytes.
func ParseBytes(s string) (int, error) {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && n <= math.MaxInt/u.bytes {
			return n * u.bytes, nil // exact, unlike a float
		}
		f, err := strconv.ParseFloat(number, 64)
		n := f * float64(u.bytes)
		if err != nil || !(n >= 0 && n < math.MaxInt) {
			break
		}
		if n == math.Trunc(n) {
			return int(n), nil
		}
		return 0, fmt.Errorf("size %q is not a whole number of bytes", s)
	}
	return 0, fmt.Errorf("size %q must be a number with an optional unit: B, KB, MB, GB, KiB, MiB, GiB", s)
}

// FormatBytes returns a text that ParseBytes reads as n: in the largest binary unit that
// divides n, else in bytes.
func FormatBytes(n int) string {
	for _, u := range byteUnits[:3] {
		if n != 0 && n%u.bytes == 0 {
			return strconv.Itoa(n/u.bytes) + u.suffix
		}
	}
	return strconv.Itoa(n) + "B"
}
