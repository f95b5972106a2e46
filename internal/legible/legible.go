// Package legible decides which texts are safe for a terminal, a page or a log.
// A safe text is completely visible and does not affect text around it. Texts may come
// from a pull request's build, a model file, a kernel or another process.
package legible

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether r is visible and does not affect other text. Control characters,
// line separators, characters that reverse a line, and characters without width are not.
func Rune(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Check returns an error unless text is UTF-8 and [Rune] is true for all its runes.
func Check(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("not UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return !Rune(r) }):
		return errors.New("contains unprintable characters")
	}
	return nil
}

// Text returns text with everything that Check rejects replaced by Go's escapes.
func Text(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !Rune(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}
