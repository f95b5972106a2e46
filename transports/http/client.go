package http

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"ipcbench/phase"
)

// A client speaks HTTP/1.1 over one connection, one request at a time. It is
// what is left of net/http's client when there is nothing to pool, redirect or
// multiplex: no goroutine stands between the caller and the socket, tensors go
// out in one gathering write with the request's head, and they come in where
// they belong.
type client struct {
	addr     string
	bearer   string // shown with every request
	fresh    bool   // a new connection for every request
	patience patience

	rec            *phase.Recorder
	sent, received *phase.Counter
	id             phase.ID        // of the work that requests belong to
	parked         [2]phase.Sample // sending the last request for a job and waiting for it: whose they are is known then

	conn     net.Conn // nil before the first request, and between requests if fresh
	closed   bool
	in       *bufio.Reader
	headLeft int // bytes that the head of an answer may still have; -1 outside one
	head     []byte
	out      net.Buffers
	all      [][]byte // out's memory: writing consumes out
}

// readBuffer is the size of a client's reader. What is larger goes past it.
const readBuffer = 32 << 10

func newClient(addr string, fresh bool, p patience, rec *phase.Recorder) *client {
	_, _, secret, _ := splitAddr(addr) // connect says what is wrong with it
	c := &client{
		addr: addr, bearer: bearer(secret), fresh: fresh, patience: p, rec: rec, id: phase.ID{Lane: -1, Round: -1, Client: -1},
		sent: rec.Counter(phase.WireSent), received: rec.Counter(phase.WireReceived),
	}
	c.in = bufio.NewReaderSize(c, readBuffer)
	return c
}

// Read reads from the connection.
func (c *client) Read(b []byte) (int, error) {
	if c.headLeft == 0 {
		return 0, errors.New("the head of the answer is too long")
	}
	n, err := c.conn.Read(b)
	c.received.Add(n)
	if c.headLeft > 0 {
		c.headLeft = max(0, c.headLeft-n)
	}
	return n, err
}

// A request is what a client asks.
type request struct {
	method, path string
	kind         string // Content-Type of the body
	fields       []field
	handle       hexHandle // of an update; empty for none
	body         [][]byte
	parks        bool // the answer may take as long as it likes
	calls        *phase.Counter
}

type field struct {
	name  string
	value int
}

// do sends q and has take read the body of the answer, all of it; take may be
// nil if there is none. An answer that is an error is a statusError. After any
// other error the client cannot be used any more.
func (c *client) do(ctx context.Context, q request, take func(*http.Response) error) error {
	err := c.connect(ctx)
	if err == nil {
		q.calls.Add(1)
		conn := c.conn
		stop := context.AfterFunc(ctx, func() { conn.Close() }) // half a message may be on it
		if err = c.exchange(q, take); !stop() && err != nil {
			err = context.Cause(ctx)
		}
	}
	if status := (statusError{}); c.fresh || err != nil && !errors.As(err, &status) {
		c.close()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", q.method, q.path, err)
	}
	return nil
}

func (c *client) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	if c.closed {
		return net.ErrClosed
	}
	conn, err := dialAddr(ctx, c.addr)
	if err != nil {
		return err
	}
	c.conn = conn
	c.in.Reset(c)
	return nil
}

// close ends the connection. A client that keeps its connection has had its
// only one.
func (c *client) close() {
	c.closed = !c.fresh
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *client) exchange(q request, take func(*http.Response) error) error {
	length, sent := c.send(q)
	if sent != nil {
		// A server that refuses a request answers and closes, without reading on.
		_ = c.conn.SetReadDeadline(time.Now().Add(time.Second)) // if it fails, so does the read
	}
	answer, err := c.await(q, length, sent == nil)
	if err != nil {
		return errors.Join(sent, err)
	}
	if answer.StatusCode/100 != 2 {
		return refusal(answer)
	}
	if sent != nil {
		return sent
	}
	if take == nil {
		take = func(*http.Response) error { return nil }
	}
	if err := take(answer); err != nil {
		return broken(err)
	}
	if n, err := answer.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return errors.New("the answer goes on after its end")
	}
	return nil
}

// send writes head and body in one go, and returns how long they are.
func (c *client) send(q request) (length int, err error) {
	mark, start := c.rec.Mark(phase.Send), phase.Now()
	defer func() {
		mark.End()
		c.record(q, phase.Sample{Phase: phase.Send, Start: start, End: phase.Now()})
	}()
	c.all = append(c.all[:0], nil)
	for _, b := range q.body {
		if len(b) > 0 {
			c.all = append(c.all, b)
			length += len(b)
		}
	}
	h := append(c.head[:0], q.method...)
	h = append(h, ' ')
	h = append(h, q.path...)
	h = append(h, " HTTP/1.1\r\nHost: ipcbench\r\nAuthorization: "...)
	h = append(h, c.bearer...)
	h = append(h, "\r\n"...)
	if c.fresh {
		h = append(h, "Connection: close\r\n"...)
	}
	if q.kind != "" {
		h = append(h, "Content-Type: "...)
		h = append(h, q.kind...)
		h = append(h, "\r\n"...)
	}
	if q.method != http.MethodGet {
		h = appendField(h, "Content-Length", length)
	}
	for _, f := range q.fields {
		h = appendField(h, f.name, f.value)
	}
	if q.handle != "" {
		h = append(h, fieldUpdate+": "...)
		h = append(h, q.handle...)
		h = append(h, "\r\n"...)
	}
	c.head = append(h, "\r\n"...)
	c.all[0] = c.head
	_ = c.conn.SetWriteDeadline(c.patience.until(int64(length))) // if it fails, so does the write
	c.out = net.Buffers(c.all)
	length += len(c.head)
	c.sent.Add(length) // before the peer has it, and moves on
	n, err := c.out.WriteTo(c.conn)
	c.sent.Add(int(n) - length)
	return length, err
}

func appendField(b []byte, name string, value int) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = strconv.AppendInt(b, int64(value), 10)
	return append(b, "\r\n"...)
}

// await reads the head of the answer, and sets a deadline for the rest of it. A
// server may need as long to understand the request of that length as to read it.
func (c *client) await(q request, length int, patient bool) (*http.Response, error) {
	start := phase.Now()
	switch {
	case patient && q.parks:
		_ = c.conn.SetReadDeadline(time.Time{}) // if it fails, so does the read
	case patient:
		_ = c.conn.SetReadDeadline(c.patience.until(int64(length)))
	}
	c.headLeft = maxHeader + readBuffer
	_, err := c.in.Peek(1)
	c.record(q, phase.Sample{Phase: phase.Wait, Start: start, End: phase.Now()})
	if err != nil {
		return nil, broken(err)
	}
	if patient && q.parks {
		_ = c.conn.SetReadDeadline(c.patience.until(0))
	}
	answer, err := http.ReadResponse(c.in, nil)
	c.headLeft = -1
	if err != nil {
		return nil, broken(err)
	}
	if answer.ContentLength < 0 || answer.StatusCode < 200 {
		return nil, fmt.Errorf("answer %s without a length", answer.Status)
	}
	_ = c.conn.SetReadDeadline(c.patience.until(answer.ContentLength))
	return answer, nil
}

// record adds s to the work that requests belong to. That of a request for a job
// belongs to the job that answers it.
func (c *client) record(q request, s phase.Sample) {
	switch {
	case !q.parks:
		c.add(s)
	case s.Phase == phase.Send:
		c.parked[0] = s
	default:
		c.parked[1] = s
	}
}

func (c *client) add(s phase.Sample) {
	c.rec.Add(s.Phase, c.id, s.Start, s.End)
}

// refusal returns the error that an answer is.
func refusal(answer *http.Response) error {
	e := statusError{code: answer.StatusCode, err: errors.New(answer.Status)}
	text, err := readBody(answer, maxControl+1<<16)
	var p problem
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", answer.Status, err)
	case json.Unmarshal(text, &p) != nil:
	case len(p.Missing) > 0:
		e.err = fmt.Errorf("%s: %s: %w", answer.Status, p.Error, missingError{p.Missing})
	default:
		e.err = fmt.Errorf("%s: %s", answer.Status, p.Error)
	}
	return e
}

// readBody reads a body of at most limit bytes.
func readBody(answer *http.Response, limit int) ([]byte, error) {
	if answer.ContentLength > int64(limit) {
		return nil, fmt.Errorf("answer of %d bytes, want %d at most", answer.ContentLength, limit)
	}
	b := make([]byte, answer.ContentLength)
	_, err := io.ReadFull(answer.Body, b)
	return b, err
}
