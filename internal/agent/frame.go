package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"ipcbench/internal/frame"
)

// longest is the limit of a frame in bytes. A greeting with an environment needs a tenth.
const longest = 64 << 10

func writeFrame(w io.Writer, v any) error { return frame.Write(w, v, longest) }

// readFrame ignores unknown fields, so that greetings of other versions can be read.
func readFrame(r io.Reader, v any) error {
	text, err := frame.Read(r, func() int { return longest })
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %w", frame.ErrProtocol, err)
	}
	return nil
}

// bounded runs f with a deadline for conn, and then removes the deadline.
func bounded(conn net.Conn, d time.Duration, f func() error) error {
	err := conn.SetDeadline(time.Now().Add(d))
	if err == nil {
		err = f()
	}
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		err = fmt.Errorf("no answer within %v: %w", d, err)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return err
}
