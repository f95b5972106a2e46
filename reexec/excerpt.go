package reexec

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// An Excerpt keeps the last bytes of what is written to it or, of a panic what
// matters, the first ones.
type Excerpt struct {
	Most int
	Head bool // the first ones

	mu   sync.Mutex
	text []byte
}

func (e *Excerpt) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Head {
		e.text = append(e.text, b[:min(len(b), e.Most-len(e.text))]...)
		return len(b), nil
	}
	e.text = append(e.text, b...)
	if over := len(e.text) - e.Most; over > 0 {
		e.text = append(e.text[:0], e.text[over:]...)
	}
	return len(b), nil
}

// String returns the lines that are not empty, made printable.
func (e *Excerpt) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(e.text)) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			lines = append(lines, Printable(strings.ReplaceAll(line, "\t", "    ")))
		}
	}
	return strings.Join(lines, "\n")
}

// Printable replaces what cannot be printed, such as control characters and those
// that turn the direction of writing, by its escape.
func Printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case !unicode.IsPrint(r):
			escape := strconv.QuoteRune(r)
			b.WriteString(escape[1 : len(escape)-1])
		default:
			b.WriteRune(r)
		}
		text = text[n:]
	}
	return b.String()
}
