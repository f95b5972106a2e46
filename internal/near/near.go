// Package near finds the known name that is most similar to a mistyped one.
package near

import "strings"

// Name returns the name with the smallest distance to text, or "" if the distance exceeds
// a third of the length of text. It ignores the case of text.
func Name(text string, names []string) string {
	best, least := "", len(text)/3+1
	for _, n := range names {
		if d := distance(strings.ToLower(text), n); d < least {
			best, least = n, d
		}
	}
	return best
}

// distance returns the least number of bytes to insert, remove or replace to turn a into
// b (Levenshtein, 1965).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the processed part of a to b[:j]
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
