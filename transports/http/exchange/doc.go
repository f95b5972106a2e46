// Package exchange implements bounded HTTP/1.1 requests and answers, one after another,
// at both ends of a connection. It knows neither tensors nor lanes.
//
// [Handler] is the server's end. It counts requests by endpoint, and first checks that
// each shows the session's secret. [Client] is the other end. It has one connection and
// makes one request at a time, without a goroutine between caller and socket. Both bound
// the size of everything a peer sends. They do not bound the time of a message, because a
// network may be slow: a session watches whether anything moves.
package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// MaxHead is the largest head of a request, in bytes.
const MaxHead = 16 << 10

// Content types of bodies.
const (
	TypeRaw  = "application/octet-stream"
	TypeText = "text/plain"
	TypeJSON = "application/json"
)

// A StatusError is an error with an HTTP status code. A server answers other errors with
// 500.
type StatusError struct {
	Code int
	Err  error
}

func (e StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e StatusError) Unwrap() error { return e.Err }

// Refuse returns a StatusError with the given code and a formatted cause.
func Refuse(code int, format string, args ...any) error {
	return StatusError{code, fmt.Errorf(format, args...)}
}

// A Problem is the JSON body of every answer that reports an error.
type Problem struct {
	Error   string   `json:"error"`
	Missing []string `json:"missing,omitempty"` // ids that are not in the store, in the order of the request
}

// A MissingError lists the ids of a request that are not in the store.
type MissingError struct{ IDs []string }

func (e MissingError) Error() string {
	return fmt.Sprintf("%d tensors are not in the store", len(e.IDs))
}

// ParseJSON decodes b into v. b must be one JSON value.
func ParseJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("malformed JSON: %w", err)
	}
	return nil
}

// ParseCount parses decimal digits, without a sign, as a number of at most limit.
func ParseCount(s string, limit uint64) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > limit || s[0] == '+' {
		return 0, fmt.Errorf("%q: must be a number from 0 to %d", s, limit)
	}
	return int64(n), nil
}

// Broken returns io.ErrUnexpectedEOF for io.EOF, and other errors unchanged, because
// callers take io.EOF for the regular end of a session.
func Broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
