package http

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// laneOf returns the lane that the request's path names.
func (s *server) laneOf(x *exchange.Exchange) (*lane, error) {
	n, err := exchange.ParseCount(x.PathValue("lane"), uint64(len(s.lanes)-1))
	if err != nil {
		return nil, exchange.Refuse(http.StatusNotFound, "lane %w", err)
	}
	return s.lanes[n], nil
}

// A joinAnswer says to a worker that joins which slabs to look for, and what to
// write to its own one as a proof.
type joinAnswer struct {
	Models    *store.SlabRef `json:"models,omitempty"`
	Updates   *store.SlabRef `json:"updates,omitempty"`
	Challenge string         `json:"challenge,omitempty"`
}

// join is a worker's first request. It names the layouts that the worker means.
func (s *server) join(x *exchange.Exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	q := x.URL.Query()
	if down, up := digest(s.o.Down), digest(s.o.Up); q.Get("down") != down || q.Get("up") != up {
		return exchange.Refuse(http.StatusConflict, "the worker's layouts are %.64q and %.64q, want %s and %s", q.Get("down"), q.Get("up"), down, up)
	}
	var c *conn
	if !x.Close {
		c = connOf(x.Request)
	}
	a, err := l.join(c)
	if err != nil {
		return l.refuse(err)
	}
	if s.slabs != nil {
		a.Models = s.slabs.models.ref
	}
	return x.ReplyJSON(http.StatusOK, a)
}

func digest(l *tensor.Layout) string { return strconv.FormatUint(l.Digest(), 16) }

// prove is a worker's request after it has written the challenge to its slab.
func (s *server) prove(x *exchange.Exchange) error { return s.tell(x, (*lane).prove) }

// leave is a worker's last request.
func (s *server) leave(x *exchange.Exchange) error { return s.tell(x, (*lane).leave) }

// tell tells the lane something that its worker says.
func (s *server) tell(x *exchange.Exchange, what func(*lane, *conn) error) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	if err := what(l, connOf(x.Request)); err != nil {
		return l.refuse(err)
	}
	return x.ReplyEmpty()
}

// refuse answers what does not fit the lane's state.
func (l *lane) refuse(err error) error {
	return exchange.Refuse(http.StatusConflict, "lane %d: %w", l.n, err)
}

// jobs parks the request until there is a job.
func (s *server) jobs(x *exchange.Exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	answer, err := l.take(x.Context(), connOf(x.Request))
	switch {
	case errors.Is(err, io.EOF):
		err := x.ReplyJSON(http.StatusGone, exchange.Problem{Error: "the session is over"})
		x.Flush() // the connection closes as soon as the lane has left
		return errors.Join(err, l.leave(connOf(x.Request)))
	case err != nil:
		return l.refuse(err)
	}
	return x.Reply(http.StatusOK, exchange.TypeJSON, answer)
}
