package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestCompleted: shell completion offers the words that a flag or an argument accepts, or
// the extensions of file names (cobra's directive 8).
func TestCompleted(t *testing.T) {
	for _, c := range []struct{ typed, offers, directive string }{
		{"run --transport shm-s", "shm-slab", "6"},
		{"world run --transport al", "all", "6"},
		{"run --up cn", "cnn", "6"},
		{"run --view ph", "phases", "6"},
		{"run --profile ", "cpu", "6"},
		{"run --format ben", "benchfmt", "4"},
		{"run --scenario ", "sync", "4"},
		{"run --questions bla", "blazefl/workers", "4"},
		{"run --config ", "yaml", "8"},
		{"run --thor", "--thorough", "4"},
		{"report ", "json", "8"},
		{"compare ", "gz", "8"},
		{"compare --metric ", "overhead", "6"},
		{"doctor --format ", "json", "4"},
		{"pprof ", "gz", "8"},
		{"list tra", "transports", "4"},
		{"schema ", "answer", "4"},
		{"completion fi", "fish", "4"},
	} {
		var out, stderr bytes.Buffer
		code := newApp(&out, &stderr, all.Transports()).main(append([]string{"__complete"}, strings.Split(c.typed, " ")...))
		var words []string
		for line := range strings.Lines(out.String()) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			words = append(words, word)
		}
		check.That(t, code == 0 && slices.Contains(words, c.offers) && words[len(words)-1] == ":"+c.directive,
			"%q: code %d, offers %q, want %s and :%s", c.typed, code, words, c.offers, c.directive)
	}
}
