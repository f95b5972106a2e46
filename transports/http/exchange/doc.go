// Package exchange is HTTP/1.1 with bounds, at both ends of a connection: a
// request and its answer, one after another.
//
// [Handler] is the server's end: endpoints that are counted, behind a secret that
// every request has to show before anything else happens. [Client] is the other
// end: one connection, one request at a time, no goroutine between the caller and
// the socket. Whatever a peer says is bounded in bytes, and every wait for one
// that is in the middle of something in time.
//
// It knows neither tensors nor lanes.
package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// MaxHead is how many bytes the head of a request may have.
const MaxHead = 16 << 10

// A Patience bounds every wait for a peer that is in the middle of something. A
// body may take as long, and a second more for every paceBytes.
type Patience time.Duration

// paceBytes a second is the slowest body that is waited for.
const paceBytes = 4 << 20

// until returns when n bytes must have passed.
func (p Patience) until(n int64) time.Time {
	return time.Now().Add(time.Duration(p) + time.Duration(n/paceBytes)*time.Second)
}

// Types of bodies.
const (
	TypeRaw  = "application/octet-stream"
	TypeText = "text/plain"
	TypeJSON = "application/json"
)

// A StatusError is an error with the status code that it is answered with.
// Others are answered 500.
type StatusError struct {
	Code int
	Err  error
}

func (e StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e StatusError) Unwrap() error { return e.Err }

// Refuse returns a StatusError.
func Refuse(code int, format string, args ...any) error {
	return StatusError{code, fmt.Errorf(format, args...)}
}

// A Problem is the body of every answer that is an error.
type Problem struct {
	Error   string   `json:"error"`
	Missing []string `json:"missing,omitempty"` // what was asked for and is not there, in the order of the request
}

// A MissingError lists what was asked for and is not there.
type MissingError struct{ IDs []string }

func (e MissingError) Error() string {
	return fmt.Sprintf("%d tensors are not in the store", len(e.IDs))
}

// ParseJSON decodes one JSON value with nothing after it.
func ParseJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("malformed JSON: %w", err)
	}
	return nil
}

// ParseCount reads digits, and nothing but digits, as a number up to limit.
func ParseCount(s string, limit uint64) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > limit || s[0] == '+' {
		return 0, fmt.Errorf("%q: want a number from 0 to %d", s, limit)
	}
	return int64(n), nil
}

// Broken spells the end of a connection so that nobody takes it for the end of
// a session.
func Broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
