package http

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// A seat is who is at the other end of a lane.
type seat struct {
	taken     bool          // a worker has the lane
	conn      *driver.Conn  // its connection, if it keeps one
	challenge []byte        // what it writes to the lane's slab to prove that it can; nil if it cannot
	local     bool          // it has proved that
	left      chan struct{} // closed when it is gone or was told that the session is over
}

const challengeSize = 16

var (
	errTaken    = errors.New("the lane has a worker")
	errLeft     = errors.New("the worker has left")
	errStranger = errors.New("the lane's worker has another connection")
	errNoProof  = errors.New("the lane's slab does not hold the challenge")
)

// has reports whether c may be the connection of the lane's worker.
func (s *seat) has(c *driver.Conn) bool { return s.taken && (s.conn == nil || s.conn == c) }

// admits says why a request is a stranger's: whoever does not show the secret, or, with
// mutual TLS, does not say for which of the certificate's lanes it is: O4, O21.
func (s *server) admits(q *http.Request) (err error) {
	c := connOf(q)
	lane, named := driver.LaneOf(q.Header.Get(exchange.FieldSender), len(s.lanes))
	switch {
	case !s.e.Authorizes(q.Header.Get("Authorization")):
		err = exchange.Refuse(http.StatusUnauthorized, "want the header field Authorization: Bearer SECRET, with what stands behind the # in the file %s in the session's directory", driver.AddressFile)
	case !s.e.Mutual():
	case !named:
		err = exchange.Refuse(http.StatusForbidden, "want the header field %s: lane-N, with a lane of the certificate", exchange.FieldSender)
	default:
		if why := c.Speaks(lane); why != nil {
			err = exchange.Refuse(http.StatusForbidden, "%w", why)
		}
	}
	if err != nil {
		c.Refused(err)
		return err
	}
	c.Admit()
	return nil
}

// laned serves a request for the lane that its path names.
func (s *server) laned(serve func(*exchange.Exchange, *lane) error) func(*exchange.Exchange) error {
	return func(x *exchange.Exchange) error {
		n, err := exchange.ParseCount(x.PathValue("lane"), uint64(len(s.lanes)-1))
		if err != nil {
			return exchange.Refuse(http.StatusNotFound, "lane %w", err)
		}
		if sender := x.Header.Get(exchange.FieldSender); s.e.Mutual() && sender != driver.LaneName(int(n)) {
			return exchange.Refuse(http.StatusForbidden, "lane %d is not that of the sender, %.20q", n, sender)
		}
		return serve(x, s.lanes[n])
	}
}

// answer says how something went that has to fit the lane's state.
func (l *lane) answer(x *exchange.Exchange, err error) error {
	if err != nil {
		return exchange.Refuse(http.StatusConflict, "lane %d: %w", l.n, err)
	}
	return x.ReplyEmpty()
}

// A joinAnswer says to a worker that joins which slabs to look for, and what to
// write to its own one, and where, as a proof.
type joinAnswer struct {
	Models    *store.SlabRef `json:"models,omitempty"`
	Updates   *store.SlabRef `json:"updates,omitempty"`
	Offset    uint64         `json:"offset,omitempty"`
	Challenge string         `json:"challenge,omitempty"`
}

// join is a worker's first request. It names the layouts that the worker means.
func (s *server) join(x *exchange.Exchange, l *lane) error {
	q := x.URL.Query()
	if down, up := digest(s.o.Down), digest(s.o.Up); strings.TrimLeft(q.Get("down"), "0") != down || strings.TrimLeft(q.Get("up"), "0") != up {
		return exchange.Refuse(http.StatusConflict, "the worker's layouts are %.64q and %.64q, want %s and %s", q.Get("down"), q.Get("up"), down, up)
	}
	var c *driver.Conn
	if !x.Close {
		c = connOf(x.Request)
	}
	a, err := l.join(c)
	if err != nil {
		return l.answer(x, err)
	}
	if c != nil {
		s.seat(c, l)
	}
	a.Models = s.memory.models.ref
	return x.ReplyJSON(http.StatusOK, a)
}

func digest(l *tensor.Layout) string { return strconv.FormatUint(l.Digest(), 16) }

// join gives the lane to the worker at c. c is nil if it keeps no connection.
func (l *lane) join(c *driver.Conn) (a joinAnswer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return a, l.err
	case l.seat.taken:
		return a, errTaken
	}
	next := seat{taken: true, conn: c, left: make(chan struct{})}
	if l.slab != nil && c != nil && l.writable() {
		next.challenge = make([]byte, challengeSize)
		rand.Read(next.challenge) // never fails
		if err := l.slab.permit(modeWriter); err != nil {
			return a, err
		}
		a.Updates, a.Offset, a.Challenge = l.slab.ref, l.issued.Offset, hex.EncodeToString(next.challenge)
	}
	l.seat = next
	return a, nil
}

// writable reports whether there is a place in the lane's slab for the challenge: the
// block that the next update gets, or any place if there is nothing in the slab. An
// update that the worker before has sent may still be read. l.mu is held.
func (l *lane) writable() bool {
	err := l.issue()
	var full *slab.FullError
	return err == nil || errors.As(err, &full) && full.Used == 0
}

// prove is a worker's request after it has written the challenge to its slab.
func (s *server) prove(x *exchange.Exchange, l *lane) error {
	return l.answer(x, l.prove(connOf(x.Request)))
}

// prove makes the worker at c a local one, if it could write the challenge to
// where the server finds it. It has mapped the slab then, and nobody else may.
func (l *lane) prove(c *driver.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.seat
	switch {
	case !s.taken || s.conn != c:
		return errStranger
	case s.challenge == nil || s.local:
		return errNoProof
	}
	if mem := l.slab.proof(l.issued); subtle.ConstantTimeCompare(mem, s.challenge) == 0 {
		return errNoProof
	}
	if err := l.slab.permit(modeReaders); err != nil {
		return err
	}
	s.local = true
	return nil
}

// leave is a worker's last request, which may say why it leaves.
func (s *server) leave(x *exchange.Exchange, l *lane) error {
	cause := l.mail.Explain(errLeft)
	if why := x.URL.Query().Get("cause"); why != "" {
		cause = fmt.Errorf("the worker says: %.1000s", why)
	}
	return l.answer(x, l.leave(connOf(x.Request), cause))
}

// leave takes the lane from the worker at c. A job that is out cannot be answered
// any more, for that cause.
func (l *lane) leave(c *driver.Conn, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seat.has(c) {
		return errStranger
	}
	if _, out := l.mail.Order(); out {
		l.fail(cause)
	}
	l.vacate()
	return nil
}

// lost is called when c has closed, or c's request for a job was given up.
func (l *lane) lost(c *driver.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat.has(c) {
		l.fail(l.mail.Explain(errors.New("the worker's connection was lost")))
		l.vacate()
	}
}

// vacate wakes who waits for the worker to leave. l.mu is held.
func (l *lane) vacate() {
	close(l.seat.left)
	l.seat = seat{}
}

// jobs parks the request until there is a job.
func (s *server) jobs(x *exchange.Exchange, l *lane) error {
	c := connOf(x.Request)
	l.mu.Lock()
	mine := l.seat.has(c)
	l.mu.Unlock()
	if !mine {
		return l.answer(x, errStranger)
	}
	o, err := l.mail.Take(x.Context())
	switch {
	case err == nil:
		return x.Reply(http.StatusOK, exchange.TypeJSON, nil, o.answer)
	case errors.Is(err, io.EOF):
		err := x.ReplyJSON(http.StatusGone, exchange.Problem{Error: "the session is over"})
		_ = x.Control.Flush() // the connection closes as soon as the lane has left
		return errors.Join(err, l.leave(c, errLeft))
	case x.Context().Err() != nil:
		l.lost(c)
	}
	return l.answer(x, err)
}

// awaitLeave waits until the lane has no worker.
func (l *lane) awaitLeave(ctx context.Context) error {
	l.mu.Lock()
	taken, left := l.seat.taken, l.seat.left
	l.mu.Unlock()
	if !taken {
		return nil
	}
	select {
	case <-left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lane %d: its worker has not left: %w", l.n, context.Cause(ctx))
	}
}
