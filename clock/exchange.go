package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// What travels: a question is the time at which it was sent; its answer is the same,
// when it was got, and when the answer was sent. All are eight bytes, the highest
// first.
const (
	questionSize = 8
	answerSize   = 24
)

// patience is for how long a burst may take, and an answer to be taken.
const patience = 10 * time.Second

// latest is the latest time that is believed, some 70 years after a host has started:
// no difference of two overflows.
const latest = 1 << 61

// Ask makes n exchanges with the [Answer] at the other end of conn. After an error
// the connection is of no use.
func Ask(conn net.Conn, now func() int64, n int) (Burst, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, fmt.Errorf("clock: ask: %w", err)
	}
	b := make(Burst, 0, n)
	var question [questionSize]byte
	var answer [answerSize]byte
	before := int64(0) // on their clock
	for range n {
		x := Exchange{Sent: now()}
		binary.BigEndian.PutUint64(question[:], uint64(x.Sent))
		if _, err := conn.Write(question[:]); err != nil {
			return nil, fmt.Errorf("clock: ask: %w", err)
		}
		if _, err := io.ReadFull(conn, answer[:]); err != nil {
			if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
				err = fmt.Errorf("not done within %v: %w", patience, err)
			}
			return nil, fmt.Errorf("clock: ask: %w", err)
		}
		x.Back = now()
		x.Got, x.Answered = int64(binary.BigEndian.Uint64(answer[8:])), int64(binary.BigEndian.Uint64(answer[16:]))
		switch {
		case [questionSize]byte(answer[:]) != question:
			return nil, errors.New("clock: ask: an answer to another question")
		case x.Got < before || x.Answered < x.Got || x.Answered > latest:
			return nil, fmt.Errorf("clock: ask: got at %d and answered at %d, after %d: no clock runs so", x.Got, x.Answered, before)
		case x.Sent < 0 || x.Back < x.Sent || x.Back > latest:
			return nil, fmt.Errorf("clock: ask: sent at %d and back at %d: this host's own clock does not run", x.Sent, x.Back)
		}
		before = x.Answered
		b = append(b, x)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("clock: ask: %w", err)
	}
	return b, nil
}

// Answer answers the questions that come over conn, until it ends.
func Answer(conn net.Conn, now func() int64) error {
	var answer [answerSize]byte
	for {
		_, err := io.ReadFull(conn, answer[:questionSize])
		got := now()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = conn.SetWriteDeadline(time.Now().Add(patience))
		}
		if err == nil {
			binary.BigEndian.PutUint64(answer[8:], uint64(got))
			binary.BigEndian.PutUint64(answer[16:], uint64(now()))
			_, err = conn.Write(answer[:])
		}
		if err != nil {
			return fmt.Errorf("clock: answer: %w", err)
		}
	}
}
