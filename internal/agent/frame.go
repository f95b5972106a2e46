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

// longest is the limit of a frame's length, in bytes. The largest frame, a greeting with
// an environment, has a tenth of that.
const longest = 64 << 10

func writeFrame(w io.Writer, v any) error { return frame.Write(w, v, longest) }

// readFrame ignores unknown fields, so that it can read the version from a greeting of
// another version.
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

// bounded runs f with a deadline for conn, d from now, and then removes the deadline. If
// f fails because of it, the error states d.
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
