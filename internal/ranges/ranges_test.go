package ranges

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text string
		unit int
		want string
	}{
		{"7", 1, "[7]"},
		{"1..4", 1, "[1 2 3 4]"},
		{"1..64:x2", 1, "[1 2 4 8 16 32 64]"},
		{"1..63:x2", 1, "[1 2 4 8 16 32]"},
		{"1..10:x1.5", 1, "[1 2 3 5 7]"},
		{"1000..1331:x1.1", 1, "[1000 1100 1210 1331]"},
		{"1..1000000000000:x1000", 1, "[1 1000 1000000 1000000000 1000000000000]"},
		{"2..8:+3", 1, "[2 5 8]"},
		{"8..20", 4, "[8 12 16 20]"},
		{"8..50:x1.5", 4, "[8 12 16 24 40]"},
		{"1..64", 1, "62 63 64]"},

		{"1..65", 1, "more than 63 steps"},
		{"1..9223372036854775807:x1.0000001", 1, "more than 63 steps"},
		{"1..9223372036854775807:+9223372036854775807", 1, "first step is beyond its end"},
		{"5..9:x2", 1, "use smaller steps, or 5 alone"},
		{"0..9", 1, "begin above 0"},
		{"9..9", 1, "end above its first value"},
		{"9..1:x2", 1, "end above its first value"},
		{"1..", 1, "range 1..: "},
		{"a..2", 1, "range a..2: "},
		{"1..2:", 1, "must be xFACTOR or +STEP, such as 1..2:x2"},
		{"1..9:2", 1, "must be xFACTOR or +STEP, such as 1..9:x2"},
		{"1..9:x1", 1, `step "x1": must have a factor above 1`},
		{"1..9:xNaN", 1, "must have a factor above 1"},
		{"1..9:x-2", 1, "must have a factor above 1"},
		{"1..9:+0", 1, "must have a number above 0, such as +1"},
		{"1..9:+x", 1, "must have a number above 0"},
	} {
		got, err := Parse(test.text, test.unit, strconv.Atoi)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		check.That(t, strings.Contains(text, test.want), "%s: got %s, want %s", test.text, text, test.want)
	}
}

// FuzzParse: an accepted range has ascending values, from the first to at most the last,
// and no more than the limit.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1..64:x2", "1..8", "4..100:+4", "1..2:x1e300", "1..9223372036854775807:x2", "3..1", "..", "1..2..3:x", "8..9000:x1.7"} {
		f.Add(seed, 1)
		f.Add(seed, 4)
	}
	f.Fuzz(func(t *testing.T, text string, unit int) {
		unit = max(1, min(unit, 1<<20))
		all, err := Parse(text, unit, strconv.Atoi)
		if err != nil || !strings.Contains(text, "..") {
			return
		}
		head, tail, _ := strings.Cut(text, "..")
		end, _, _ := strings.Cut(tail, ":")
		from, _ := strconv.Atoi(head)
		to, _ := strconv.Atoi(end)
		check.Need(t, len(all) >= 2 && len(all) <= most && all[0] == from && all[len(all)-1] <= to && slices.IsSorted(all),
			"%q gave %v", text, all)
		for i, n := range all {
			check.Need(t, (n-from)%unit == 0 && (i <= 0 || n != all[i-1]) && (n != math.MaxInt || to == n),
				"%q in multiples of %d gave %v", text, unit, all)
		}
	})
}
