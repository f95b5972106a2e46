package tensor

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"ipcbench/internal/test/check"
)

func TestParseBytes(t *testing.T) {
	tests := []struct {
		text string
		want int // -1 is an error
	}{
		{"0", 0}, {"4096", 4096}, {"7B", 7},
		{"1KiB", 1 << 10}, {"64MiB", 64 << 20}, {"3GiB", 3 << 30},
		{"1KB", 1000}, {"1.5GB", 1_500_000_000}, {"2MB", 2_000_000}, {"0.5KiB", 512}, {"1e3", 1000},
		{"", -1}, {"B", -1}, {"KiB", -1}, {"x", -1}, {"1 KiB", -1}, {"1kib", -1}, {"1TiB", -1},
		{"-1KiB", -1}, {"NaN", -1}, {"Inf", -1}, {"0.5", -1}, {"1.0001KiB", -1},
		{"9223372036854775807", math.MaxInt}, {"9007199254740993", 1<<53 + 1}, {"9223372036854775808", -1}, {"1e30", -1}, {"8589934592GiB", -1}, {"1KiBB", -1},
	}
	for _, test := range tests {
		got, err := ParseBytes(test.text)
		check.That(t, (test.want >= 0 || err != nil) && (test.want < 0 || err == nil && got == test.want),
			"%q is %d, error %v, want %d", test.text, got, err, test.want)
	}
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int]string{
		0: "0B", 1: "1B", 1000: "1000B", 1023: "1023B", 1024: "1KiB", 1536: "1536B",
		64 << 20: "64MiB", 3 << 29: "1536MiB", 1 << 30: "1GiB", 1<<30 + 1: "1073741825B",
	} {
		check.Equal(t, FormatBytes(n), want, n, "is")
	}
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(0, math.MaxInt).Draw(r, "n") >> rapid.IntRange(0, 62).Draw(r, "down") << rapid.IntRange(0, 40).Draw(r, "up") & math.MaxInt
		back, err := ParseBytes(FormatBytes(n))
		check.Need(r, err == nil && back == n, "%d became %q and %d, error %v", n, FormatBytes(n), back, err)
	})
}
