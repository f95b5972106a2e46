package cli

import (
	"io"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// TestMistyped: errors about a mistyped join line quote it without the secret.
func TestMistyped(t *testing.T) {
	token := "0123456789abcdef0123456+89ab/cdef=="
	line := "ipcbench://192.0.2.1:7117/#" + token + "." + strings.Repeat("A", 43)
	for _, args := range [][]string{{"agent", line}, {"agent", "--join-timeout", line}, {"agent", "--name", line, "--join", line}, {line}} {
		var stderr strings.Builder
		check.Equal(t, newApp(io.Discard, &stderr, nil).main(args), exitUsage, args)
		said := stderr.String()
		check.That(t, !strings.Contains(said, token[:8]) && !strings.Contains(said, "89ab") && !strings.Contains(said, "cdef") && strings.Contains(said, "ipcbench://192.0.2.1:7117/#…"), "%q: %s", args, said)
	}
}
