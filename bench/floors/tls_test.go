package floors

import (
	"bytes"
	"io"
	"os"
	"testing"

	"ipcbench/internal/test/check"
)

// TestSecure: bytes sent over a TLS link arrive in both directions, and are not readable on the socket.
func TestSecure(t *testing.T) {
	var ends [2]*os.File // this program's end of each side's socket
	var seen bytes.Buffer
	var relayed [2]*os.File
	for i := range ends {
		pair := check.Value(socketpair())(t)
		defer pair[0].Close()
		defer pair[1].Close()
		ends[i], relayed[i] = pair[0], pair[1]
	}
	done := make(chan error, 3)
	relay := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		done <- err
	}
	go relay(relayed[1], io.TeeReader(relayed[0], &seen)) // the client's bytes are recorded, the server's are not
	go relay(relayed[0], relayed[1])
	go func() { // the server echoes
		l, err := secure(socket(ends[1].Fd()), true)
		b := make([]byte, 100_000)
		if err == nil {
			err = l.read(b)
		}
		if err == nil {
			err = l.write(b)
		}
		done <- err
	}()
	l := check.Value(secure(socket(ends[0].Fd()), false))(t)
	sent, got := bytes.Repeat([]byte("secret"), 20_000)[:100_000], make([]byte, 100_000)
	check.Must(t, l.write(sent))
	check.OK(t, l.read(got))
	check.That(t, bytes.Equal(sent, got), "other bytes came back")
	for i := range ends {
		ends[i].Close()
	}
	for range 3 {
		check.OK(t, <-done)
	}
	check.That(t, seen.Len() >= 100_000 && !bytes.Contains(seen.Bytes(), sent[:16]),
		"of %d bytes on the socket, some are as they were sent", seen.Len())
}
