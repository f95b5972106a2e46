// Package near finds the name that somebody meant who wrote another one.
package near

import "strings"

// Name returns the name that takes the fewest changes to become text, or "" if even
// that would change more than a third of it.
func Name(text string, names []string) string {
	best, least := "", len(text)/3+1
	for _, n := range names {
		if d := distance(strings.ToLower(text), n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns how many bytes have to be inserted, removed or replaced to
// make b of a (Levenshtein, 1965).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from what was seen of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
