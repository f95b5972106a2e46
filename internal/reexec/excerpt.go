package reexec

import (
	"strings"
	"sync"
	"unicode"

	"ipcbench/internal/legible"
)

// An Excerpt keeps the last bytes of what is written to it or, of a panic what
// matters, the first ones.
type Excerpt struct {
	Most int
	Head bool   // the first ones
	Over func() // if it is not nil, called when there were more; a head's

	mu   sync.Mutex
	text []byte
}

func (e *Excerpt) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Head {
		room := min(len(b), e.Most-len(e.text))
		if e.text = append(e.text, b[:room]...); room < len(b) && e.Over != nil {
			e.Over()
		}
		return len(b), nil
	}
	e.text = append(e.text, b...)
	if over := len(e.text) - e.Most; over > 0 {
		e.text = append(e.text[:0], e.text[over:]...)
	}
	return len(b), nil
}

// Bytes returns what was kept, once nothing is written any more.
func (e *Excerpt) Bytes() []byte { return e.text }

// String returns the lines that are not empty, made printable.
func (e *Excerpt) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(e.text)) {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			lines = append(lines, legible.Text(strings.ReplaceAll(line, "\t", "    ")))
		}
	}
	return strings.Join(lines, "\n")
}
