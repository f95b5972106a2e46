// Package legible decides which texts may reach a terminal, a page or a log: those
// that are visible as a whole and move nothing around them. Texts come from
// anybody: a pull request's build, a model file, a kernel, another process.
package legible

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether r can be seen and moves nothing: no control character, no
// line separator, nothing that reverses a line or has no width.
func Rune(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Check says what is wrong with a text.
func Check(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("not UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return !Rune(r) }):
		return errors.New("holds what cannot be printed")
	}
	return nil
}

// Text returns text with all that Check refuses written as Go writes it in a
// string.
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
