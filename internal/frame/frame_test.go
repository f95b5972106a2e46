package frame

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// TestFrame: reading returns the written message and consumes no more of the stream. Both
// ends reject frames above the limit.
func TestFrame(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, "hi", 5)
	check.Need(t, err == nil && b.String() == "\x00\x00\x00\x05\"hi\"\n", "it writes %q, %v", b.String(), err)
	check.Fails(t, Write(&b, "hip", 5), "has 6 bytes: it must have at most 5", "too long")
	sent := b.String() + "more"
	r := strings.NewReader(sent)
	got, err := Read(r, func() int { return 5 })
	check.That(t, err == nil && string(got) == "\"hi\"\n" && r.Len() == 4, "it reads %q, %v, and leaves %d bytes", got, err, r.Len())
	check.Is(t, check.Err(Read(strings.NewReader(sent), func() int { return 4 })), ErrProtocol, "too long")
	for n, want := range map[int]error{0: io.EOF, 3: io.ErrUnexpectedEOF, 6: io.EOF} {
		check.Is(t, check.Err(Read(strings.NewReader(sent[:n]), func() int { return 5 })), want, n, "bytes")
	}
}
