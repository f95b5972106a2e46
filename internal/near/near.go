// Package near finds the known names that are most similar to a mistyped one.
package near

import (
	"fmt"
	"slices"
	"strings"
)

// Names returns the names that contain text, or else the one with the smallest distance to it,
// if that does not exceed a third of the length of text. It ignores the case of text.
func Names(text string, names []string) (found []string) {
	if text = strings.ToLower(text); text == "" {
		return nil
	}
	found = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.Contains(n, text) })
	if len(found) > 0 {
		return found
	}
	least := len(text)/3 + 1
	for _, n := range names {
		if d := distance(text, n); d < least {
			found, least = []string{n}, d
		}
	}
	return found
}

// Meant returns a question for the nearest names, each after a prefix, or an empty string.
func Meant(prefix, text string, names []string) string {
	found := Names(text, names)
	if len(found) == 0 {
		return ""
	}
	text, last := prefix+found[len(found)-1], found[:len(found)-1]
	if len(last) > 0 {
		text = prefix + strings.Join(last, ", "+prefix) + " or " + text
	}
	return "did you mean " + text + "?"
}

// Unknown returns an error for a text that is none of the names of such things: it asks for
// the nearest ones, or lists all.
func Unknown(what, text string, names []string) error {
	if meant := Meant("", text, names); meant != "" {
		return fmt.Errorf("unknown %s %q: %s", what, text, meant)
	}
	return fmt.Errorf("unknown %s %q: must be one of %s", what, text, strings.Join(names, ", "))
}

// distance returns the least number of bytes to insert, remove or replace to turn a into
// b (Levenshtein, 1965). Two neighbours that have changed places count as one.
func distance(a, b string) int {
	var before []int             // row for one byte less
	row := make([]int, len(b)+1) // distances from the processed part of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before = last
	}
	return row[len(b)]
}
