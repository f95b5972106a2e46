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
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// A holder is the state of the worker that has a lane.
type holder struct {
	taken     bool           // a worker has the lane
	conn      *endpoint.Conn // its connection; nil with conn=per-request
	challenge []byte         // to be written to the lane's slab as a proof; nil if the worker cannot be local
	local     bool           // it has proved that it is local
	left      chan struct{}  // closed when the worker has left or knows that the session is over
}

const challengeSize = 16

var (
	errTaken    = errors.New("the lane already has a worker")
	errLeft     = errors.New("the worker has left")
	errStranger = errors.New("the lane's worker has another connection")
	errNoProof  = errors.New("the lane's slab does not hold the challenge")
)

// has reports whether c may be the connection of the lane's worker. Any connection may
// be if the worker keeps none.
func (s *holder) has(c *endpoint.Conn) bool { return s.taken && (s.conn == nil || s.conn == c) }

// admits returns an error if q does not show the secret or, with mutual TLS, does not
// name one of its certificate's lanes: O4, O21.
func (s *server) admits(q *http.Request) (err error) {
	c := connOf(q)
	lane, named := endpoint.LaneOf(q.Header.Get(exchange.FieldSender), len(s.lanes))
	switch {
	case !s.e.Authorizes(q.Header.Get("Authorization")):
		err = exchange.Refuse(http.StatusUnauthorized, "the request must have the header field Authorization: Bearer SECRET, with the text after the # in the file %s of the session's directory", endpoint.AddressFile)
	case !s.e.Mutual():
	case !named:
		err = exchange.Refuse(http.StatusForbidden, "the request must have the header field %s: lane-N, with a lane of its certificate", exchange.FieldSender)
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

func (s *server) forLane(serve func(*exchange.Exchange, *lane) error) func(*exchange.Exchange) error {
	return func(x *exchange.Exchange) error {
		n, err := exchange.ParseCount(x.PathValue("lane"), uint64(len(s.lanes)-1))
		if err != nil {
			return exchange.Refuse(http.StatusNotFound, "lane %w", err)
		}
		if sender := x.Header.Get(exchange.FieldSender); s.e.Mutual() && sender != endpoint.LaneName(int(n)) {
			return exchange.Refuse(http.StatusForbidden, "lane %d is not the lane of the sender, %.20q", n, sender)
		}
		return serve(x, s.lanes[n])
	}
}

// answer replies with 409 and err if err is not nil, else with an empty answer.
func (l *lane) answer(x *exchange.Exchange, err error) error {
	if err != nil {
		return exchange.Refuse(http.StatusConflict, "lane %d: %w", l.n, err)
	}
	return x.ReplyEmpty()
}

// A joinAnswer tells a worker that joins which slabs it may open. If Updates is set, the
// worker proves that it is local by writing Challenge at Offset of that slab.
type joinAnswer struct {
	Models    *store.SlabRef `json:"models,omitempty"`
	Updates   *store.SlabRef `json:"updates,omitempty"`
	Offset    uint64         `json:"offset,omitempty"`
	Challenge string         `json:"challenge,omitempty"`
}

// join serves a worker's first request. It rejects a worker whose layouts differ from
// the session's.
func (s *server) join(x *exchange.Exchange, l *lane) error {
	q := x.URL.Query()
	if down, up := digest(s.o.Down), digest(s.o.Up); strings.TrimLeft(q.Get("down"), "0") != down || strings.TrimLeft(q.Get("up"), "0") != up {
		return exchange.Refuse(http.StatusConflict, "the worker's layouts are %.64q and %.64q, must be %s and %s", q.Get("down"), q.Get("up"), down, up)
	}
	var c *endpoint.Conn
	if !x.Close {
		c = connOf(x.Request)
	}
	a, err := l.join(c)
	if err != nil {
		return l.answer(x, err)
	}
	if c != nil {
		s.assign(c, l)
	}
	a.Models = s.memory.models.ref
	return x.ReplyJSON(http.StatusOK, a)
}

func digest(l *tensor.Layout) string { return strconv.FormatUint(l.Digest(), 16) }

// join gives the lane to the worker at c, or fails if it has one. c must be nil for a
// worker that keeps no connection.
func (l *lane) join(c *endpoint.Conn) (a joinAnswer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return a, l.err
	case l.holder.taken:
		return a, errTaken
	}
	next := holder{taken: true, conn: c, left: make(chan struct{})}
	if l.slab != nil && c != nil && l.writable() {
		next.challenge = make([]byte, challengeSize)
		rand.Read(next.challenge) // never fails
		if err := l.slab.permit(modeWriter); err != nil {
			return a, err
		}
		a.Updates, a.Offset, a.Challenge = l.slab.ref, l.issued.Offset, hex.EncodeToString(next.challenge)
	}
	l.holder = next
	return a, nil
}

// writable reports whether the lane's slab has a place for the challenge: the block of
// the next update, or any place if the slab is empty. Other blocks may hold updates of
// the previous worker that are still being read. l.mu must be held.
func (l *lane) writable() bool {
	err := l.issue()
	return err == nil || errors.Is(err, driver.OutError(0))
}

// prove serves the request that a worker sends after it has written the challenge to the
// lane's slab.
func (s *server) prove(x *exchange.Exchange, l *lane) error {
	return l.answer(x, l.prove(connOf(x.Request)))
}

// prove marks the worker at c as local if the server finds the challenge in the lane's
// slab. The worker has mapped the slab by then, so the file becomes read-only for all
// others.
func (l *lane) prove(c *endpoint.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.holder
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

// leave serves a worker's last request, which may give the reason.
func (s *server) leave(x *exchange.Exchange, l *lane) error {
	cause := l.mail.Explain(errLeft)
	if why := x.URL.Query().Get("cause"); why != "" {
		cause = fmt.Errorf("the worker reports: %.1000s", why)
	}
	return l.answer(x, l.leave(connOf(x.Request), cause))
}

// leave takes the lane from the worker at c. A dispatched job fails with cause.
func (l *lane) leave(c *endpoint.Conn, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.holder.has(c) {
		return errStranger
	}
	if _, out := l.mail.Order(); out {
		l.fail(cause)
	}
	l.vacate()
	return nil
}

// lost is called when c was closed, or when c's request for a job was cancelled. It
// fails the lane.
func (l *lane) lost(c *endpoint.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder.has(c) {
		l.fail(l.mail.Explain(errors.New("the worker's connection was lost")))
		l.vacate()
	}
}

// vacate wakes callers of awaitLeave. l.mu must be held.
func (l *lane) vacate() {
	close(l.holder.left)
	l.holder = holder{}
}

// jobs parks a worker's request until there is a job.
func (s *server) jobs(x *exchange.Exchange, l *lane) error {
	c := connOf(x.Request)
	l.mu.Lock()
	mine := l.holder.has(c)
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
		_ = x.Control.Flush() // the connection closes as soon as the worker has left
		return errors.Join(err, l.leave(c, errLeft))
	case x.Context().Err() != nil:
		l.lost(c)
	}
	return l.answer(x, err)
}

// awaitLeave waits until the lane has no worker, or ctx is done.
func (l *lane) awaitLeave(ctx context.Context) error {
	l.mu.Lock()
	taken, left := l.holder.taken, l.holder.left
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
