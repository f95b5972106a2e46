package http

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// laneOf returns the lane that the request's path names.
func (s *server) laneOf(x *exchange) (*lane, error) {
	n, err := parseCount(x.PathValue("lane"), uint64(len(s.lanes)-1))
	if err != nil {
		return nil, refuse(http.StatusNotFound, "lane %w", err)
	}
	return s.lanes[n], nil
}

// join is a worker's first request. It names the layouts that the worker means.
func (s *server) join(x *exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	q := x.URL.Query()
	if down, up := digest(s.o.Down), digest(s.o.Up); q.Get("down") != down || q.Get("up") != up {
		return refuse(http.StatusConflict, "the worker's layouts are %.64q and %.64q, want %s and %s", q.Get("down"), q.Get("up"), down, up)
	}
	var c *conn
	if !x.Close {
		c = x.conn()
	}
	a, err := l.join(c)
	if err != nil {
		return refuse(http.StatusConflict, "lane %d: %w", l.n, err)
	}
	if s.pools != nil {
		a.Models = s.pools.models.ref
	}
	return x.answerJSON(http.StatusOK, a)
}

// prove is a worker's request after it has written the challenge to its slab.
func (s *server) prove(x *exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	if err := l.prove(x.conn()); err != nil {
		return refuse(http.StatusConflict, "lane %d: %w", l.n, err)
	}
	return x.empty()
}

func digest(l *tensor.Layout) string { return strconv.FormatUint(l.Digest(), 16) }

func (s *server) leave(x *exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	if err := l.leave(x.conn()); err != nil {
		return refuse(http.StatusConflict, "lane %d: %w", l.n, err)
	}
	return x.empty()
}

// conn returns the connection that the request came on.
func (x *exchange) conn() *conn { return x.Context().Value(connKey{}).(*conn) }

// jobs parks the request until there is a job.
func (s *server) jobs(x *exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	answer, err := l.take(x.Context(), x.conn())
	switch {
	case errors.Is(err, io.EOF):
		err := x.answerJSON(http.StatusGone, problem{Error: "the session is over"})
		_ = x.control.Flush() // the connection closes as soon as the lane has left
		return errors.Join(err, l.leave(x.conn()))
	case err != nil:
		return refuse(http.StatusConflict, "lane %d: %w", l.n, err)
	}
	return x.answer(http.StatusOK, typeJSON, answer)
}

// results takes the update of the job that is out: from the lane's slab, or
// from the body straight into its place.
func (s *server) results(x *exchange) error {
	l, err := s.laneOf(x)
	if err != nil {
		return err
	}
	if x.isJSON() {
		return s.resultsJSON(x, l)
	}
	if x.Header.Get(fieldUpdate) != "" {
		return s.resultsSlab(x, l)
	}
	h, err := x.resultHead(len(s.tables.up.bytes), s.o.Up.Payload())
	if err != nil {
		return err
	}
	p, why, err := l.begin(x.conn(), h.round, h.client)
	if err != nil {
		return l.conflict(h, err)
	}
	span := s.o.Rec.Begin(phase.Read, phase.ID{Lane: l.n, Round: h.round, Client: h.client})
	err = s.readUpdate(x, h, p)
	span.End()
	if err != nil {
		l.abandon(p, fmt.Errorf("update of round %d, client %d: %w", h.round, h.client, err))
		return err
	}
	return s.arrived(x, l, p, h, why)
}

// resultsSlab takes an update of which only the receipt is in the body.
func (s *server) resultsSlab(x *exchange, l *lane) error {
	h, err := x.resultHead(0, 0)
	if err != nil {
		return err
	}
	handle, err := hexHandle(x.Header.Get(fieldUpdate)).decode()
	if err != nil {
		return refuse(http.StatusBadRequest, "%s: %w", fieldUpdate, err)
	}
	m := s.scratch.Get().(*scratchpad)
	defer s.scratch.Put(m)
	if m.body, err = x.read(h.receipt, m.body); err != nil {
		return err
	}
	p, err := l.fromSlab(x.conn(), h.round, h.client, handle)
	if err != nil {
		return l.conflict(h, err)
	}
	p.Receipt = append(p.Receipt[:0], m.body...)
	s.count.handleTensors.Add(p.Len())
	s.count.handleBytes.Add(s.o.Up.Payload())
	return s.deliver(x, l, p, h)
}

// arrived hands over an update that came as a body.
func (s *server) arrived(x *exchange, l *lane, p *tensor.Package, h resultHead, why string) error {
	s.count.bodyTensors.Add(p.Len())
	s.count.bodyBytes.Add(s.o.Up.Payload())
	s.count.fallback.add(why, p.Len())
	return s.deliver(x, l, p, h)
}

// deliver comes last, after all that is recorded of the update: whoever collects
// it may end the round.
func (s *server) deliver(x *exchange, l *lane, p *tensor.Package, h resultHead) error {
	if err := l.deliver(p, h.cache); err != nil {
		return l.conflict(h, err)
	}
	return x.empty()
}

// conflict answers an upload that the lane does not expect.
func (l *lane) conflict(h resultHead, err error) error {
	return refuse(http.StatusConflict, "lane %d: round %d, client %d: %w", l.n, h.round, h.client, err)
}

// A resultHead is what the header fields of an upload say.
type resultHead struct {
	round, client, receipt, table int
	cache                         cacheStats
}

// A number is a header field that an upload must have.
type number struct {
	name  string
	value *int
	limit int
}

func (x *exchange) numbers(fields ...number) error {
	for _, f := range fields {
		n, err := parseCount(x.Header.Get(f.name), uint64(f.limit))
		if err != nil {
			return refuse(http.StatusBadRequest, "%s: %w", f.name, err)
		}
		*f.value = int(n)
	}
	return nil
}

// jobHead reads what the head of every upload says.
func (x *exchange) jobHead() (h resultHead, err error) {
	return h, x.numbers(number{fieldRound, &h.round, 1 << 40}, number{fieldClient, &h.client, 1 << 40},
		number{fieldCached, &h.cache.Tensors, 1 << 40}, number{fieldCache, &h.cache.Bytes, 1 << 60})
}

// resultHead checks the head of an upload whose table and tensors have the given
// sizes. Nothing is read before everything fits.
func (x *exchange) resultHead(table, payload int) (h resultHead, err error) {
	if h, err = x.jobHead(); err != nil {
		return h, err
	}
	if err := x.numbers(number{fieldReceipt, &h.receipt, maxReceipt}, number{fieldTable, &h.table, maxControl}); err != nil {
		return h, err
	}
	want := h.receipt + table + payload
	n, err := x.length(want)
	if err == nil && (n != want || h.table != table) {
		err = refuse(http.StatusBadRequest, "body of %d bytes with a table of %d, want %d: receipt %d, table %d, tensors %d",
			n, h.table, want, h.receipt, table, payload)
	}
	return h, err
}

// readUpdate reads receipt, table and tensors of an update.
func (s *server) readUpdate(x *exchange, h resultHead, p *tensor.Package) (err error) {
	// The receipt's memory is the session's own: nobody else sets that of an update
	// which was collected.
	if p.Receipt, err = x.read(h.receipt, p.Receipt); err != nil {
		return err
	}
	m := s.scratch.Get().(*scratchpad)
	defer s.scratch.Put(m)
	want := s.tables.up.bytes
	m.table = resize(m.table, len(want))
	if err := x.readFull(m.table); err != nil {
		return err
	}
	if err := matchTable(m.table, want); err != nil {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	for i := range p.Len() {
		if err := x.readFull(p.View(i)); err != nil {
			return err
		}
	}
	return nil
}

// resize returns b with length n, in new memory if it has to be.
func resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
