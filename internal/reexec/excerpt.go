package reexec

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"ipcbench/internal/legible"
)

// An Excerpt is a writer that keeps the last bytes written to it, or the first ones, which
// matter in a panic.
type Excerpt struct {
	Most int    // number of bytes to keep
	Head bool   // keep the first bytes instead of the last
	Over func() // if not nil, called when Head discards bytes

	mu   sync.Mutex
	text []byte
	full bool // the Go runtime has said what ran out; the stacks of all goroutines follow
}

// ranOut matches what the Go runtime says when threads or memory run out, which is not a
// mistake in the program.
var ranOut = regexp.MustCompile(`(?m)^(fatal error: (newosproc|runtime: out of memory|runtime: cannot allocate memory|failed to reserve page summary memory)|runtime/cgo: pthread_create failed.*)\n`)

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
	if e.full {
		return len(b), nil
	}
	line := bytes.LastIndexByte(e.text, '\n') + 1 // the unfinished one; those before were searched
	e.text = append(e.text, b...)
	if end := ranOut.FindIndex(e.text[line:]); end != nil {
		e.text, e.full = e.text[:line+end[1]], true
	}
	if over := len(e.text) - e.Most; over > 0 {
		e.text = append(e.text[:0], e.text[over:]...)
	}
	return len(b), nil
}

// Bytes returns the kept bytes. Write must not be called any more.
func (e *Excerpt) Bytes() []byte { return e.text }

// String returns the kept lines that are not empty, in printable form.
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
