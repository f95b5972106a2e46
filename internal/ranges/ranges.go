// Package ranges parses ranges of numbers, such as 1..64:x2.
package ranges

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// most is the largest number of values of a range, because measuring each takes time.
const most = 64

// Parse returns the values of a range in ascending order, or a single value if text is
// not a range:
//
//	FROM..TO       steps of unit
//	FROM..TO:xF    each value is F times the previous one
//	FROM..TO:+N    steps of N
//
// TO is included if a step meets it. Values are rounded down to FROM plus a multiple of
// unit, and duplicates removed. one parses FROM, TO and N.
func Parse(text string, unit int, one func(string) (int, error)) ([]int, error) {
	head, tail, ok := strings.Cut(text, "..")
	if !ok {
		n, err := one(text)
		return []int{n}, err
	}
	end, step, stepped := strings.Cut(tail, ":")
	from, err := one(head)
	if err != nil {
		return nil, fmt.Errorf("range %s: %w", text, err)
	}
	to, err := one(end)
	if err != nil {
		return nil, fmt.Errorf("range %s: %w", text, err)
	}
	if from < 1 || to <= from {
		return nil, fmt.Errorf("range %s: must begin above 0 and end above its first value", text)
	}
	by := unit
	at := func(k float64) float64 { return float64(from) + k*float64(by) }
	factor, times := strings.CutPrefix(step, "x")
	number, plus := strings.CutPrefix(step, "+")
	switch {
	case times:
		f, err := strconv.ParseFloat(factor, 64)
		if err != nil || !(f > 1) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("range %s: step %q: must have a factor above 1, such as x2", text, step)
		}
		at = func(k float64) float64 { return float64(from) * math.Pow(f, k) }
	case plus:
		if by, err = one(number); err != nil || by < 1 {
			return nil, fmt.Errorf("range %s: step %q: must have a number above 0, such as +1", text, step)
		}
	case stepped:
		return nil, fmt.Errorf("range %s: step %q: must be xFACTOR or +STEP, such as %s..%s:x2", text, step, head, end)
	}
	all := []int{from}
	for k := 1; ; k++ {
		x := at(float64(k)) * (1 + 1e-14) // powers of factors such as 1.1 may be slightly too small
		if x >= float64(to)+1 {
			break
		}
		if k == most {
			return nil, fmt.Errorf("range %s: more than %d steps: use larger steps, such as %s..%s:x4", text, most-1, head, end)
		}
		if n := from + (int(x)-from)/unit*unit; n > all[len(all)-1] {
			all = append(all, n)
		}
	}
	if len(all) == 1 {
		return nil, fmt.Errorf("range %s: its first step is beyond its end: use smaller steps, or %s alone", text, head)
	}
	return all, nil
}
