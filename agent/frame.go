package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// longest is how many bytes a frame may have: a greeting with an environment has a tenth.
const longest = 64 << 10

// writeFrame sends v: its length in four bytes, the highest first, and v as JSON.
func writeFrame(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > longest {
		return fmt.Errorf("a message of %d bytes: want at most %d", len(text), longest)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readFrame reads what writeFrame has sent, and not a byte beyond.
func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > longest {
		return fmt.Errorf("a message of %d bytes: want at most %d", size, longest)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return fmt.Errorf("in the middle of a message: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("no message of this protocol: %w", err)
	}
	return nil
}

// bounded bounds what f does on conn, and says so.
func bounded(conn net.Conn, d time.Duration, f func() error) error {
	err := conn.SetDeadline(time.Now().Add(d))
	if err == nil {
		err = f()
	}
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		err = fmt.Errorf("nothing comes within %v: %w", d, err)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return err
}
