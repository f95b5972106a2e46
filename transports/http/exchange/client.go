package exchange

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
	"strings"
	"time"

	"ipcbench/phase"
)

// A Client speaks HTTP/1.1 over one connection, one request at a time. It is
// what is left of net/http's client when there is nothing to pool, redirect or
// multiplex: no goroutine stands between the caller and the socket, tensors go
// out in one gathering write with the request's head, and they come in where
// they belong.
type Client struct {
	dial     func(context.Context) (net.Conn, error)
	auth     string // shown with every request
	fresh    bool   // a new connection for every request
	patience Patience

	rec    *phase.Recorder
	parked []lap // of the last request that parked: whose they are is known later

	// ID is whose work requests belong to. Whoever makes them may set it.
	ID phase.ID

	// Sender is who the client says it is, in the header field of that name; empty says
	// nothing.
	Sender string

	conn     net.Conn // nil before the first request, and between requests if fresh
	closed   bool
	in       *bufio.Reader
	headLeft int // bytes that the head of an answer may still have; -1 outside one
	head     []byte
	out      net.Buffers
	all      [][]byte      // out's memory: writing consumes out
	gather   *bufio.Writer // where out is of no use; nil before
}

// A lap is a span of a request.
type lap struct {
	phase      phase.Phase
	start, end int64
}

// readBuffer is the size of a client's reader. What is larger goes past it.
const readBuffer = 32 << 10

// NewClient returns a client of the server to which dial connects, with one
// connection that is kept, or a fresh one for every request. authorization is what it
// shows with each.
func NewClient(dial func(context.Context) (net.Conn, error), authorization string, fresh bool, p Patience, rec *phase.Recorder) *Client {
	c := &Client{dial: dial, auth: authorization, fresh: fresh, patience: p, rec: rec, ID: phase.ID{Lane: -1, Round: -1, Client: -1}}
	c.in = bufio.NewReaderSize(reader{c}, readBuffer)
	return c
}

// A reader reads from a client's connection.
type reader struct{ *Client }

func (c reader) Read(b []byte) (int, error) {
	if c.headLeft == 0 {
		return 0, errors.New("the head of the answer is too long")
	}
	n, err := c.conn.Read(b)
	if c.headLeft > 0 {
		c.headLeft = max(0, c.headLeft-n)
	}
	return n, err
}

// A Request is what a client asks.
type Request struct {
	Method, Path string
	Type         string // of the body
	Fields       []Field
	Body         [][]byte
	Parks        bool           // the answer may take as long as it likes
	Calls        *phase.Counter // counts the request
}

// A Field is a header field. Its value is Text, or a number if that is empty.
type Field struct {
	Name  string
	Value int
	Text  string
}

// Do sends q and has take read the body of the answer, all of it; take may be
// nil if there is none. An answer that is an error is a StatusError. After any
// other error the client cannot be used any more.
func (c *Client) Do(ctx context.Context, q Request, take func(*http.Response) error) (err error) {
	if c.conn == nil {
		err = c.connect(ctx)
	}
	if err == nil {
		q.Calls.Add(1)
		conn := c.conn
		stop := context.AfterFunc(ctx, func() { conn.Close() }) // half a message may be on it
		if err = c.exchange(q, take); !stop() && err != nil {
			err = context.Cause(ctx)
		}
	}
	if status := (StatusError{}); c.fresh || err != nil && !errors.As(err, &status) {
		c.Close()
	}
	if err != nil {
		path, _, _ := strings.Cut(q.Path, "?") // the rest is long, and says nothing that err does not
		return fmt.Errorf("%s %s: %w", q.Method, path, err)
	}
	return nil
}

func (c *Client) connect(ctx context.Context) (err error) {
	if c.closed {
		return net.ErrClosed
	}
	c.in.Reset(reader{c})
	c.conn, err = c.dial(ctx)
	return err
}

// Close ends the connection. A client that keeps its connection has had its
// only one.
func (c *Client) Close() {
	c.closed = !c.fresh
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *Client) exchange(q Request, take func(*http.Response) error) error {
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
		return Broken(err)
	}
	if n, err := answer.Body.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return errors.New("the answer goes on after its end")
	}
	return nil
}

// send writes head and body in one go, and returns how long they are.
func (c *Client) send(q Request) (length int, err error) {
	mark, start := c.rec.Mark(phase.Send), phase.Now()
	defer func() {
		mark.End()
		c.record(q, phase.Send, start)
	}()
	c.all = append(c.all[:0], nil)
	for _, b := range q.Body {
		if len(b) > 0 {
			c.all = append(c.all, b)
			length += len(b)
		}
	}
	h := put(c.head[:0], q.Method, " ", q.Path, " HTTP/1.1\r\nHost: ipcbench\r\nAuthorization: ", c.auth, "\r\n")
	if c.Sender != "" {
		h = put(h, FieldSender, ": ", c.Sender, "\r\n")
	}
	if c.fresh {
		h = put(h, "Connection: close\r\n")
	}
	if q.Type != "" {
		h = put(h, "Content-Type: ", q.Type, "\r\n")
	}
	if q.Method != http.MethodGet {
		h = Field{Name: "Content-Length", Value: length}.append(h)
	}
	for _, f := range q.Fields {
		h = f.append(h)
	}
	c.head = put(h, "\r\n")
	c.all[0] = c.head
	_ = c.conn.SetWriteDeadline(c.patience.until(int64(length))) // if it fails, so does the write
	return length + len(c.head), c.write()
}

// write writes head and body. A socket gathers them in one system call. Elsewhere, as
// with TLS, what is small goes together.
func (c *Client) write() error {
	if g, ok := c.conn.(interface {
		WriteBuffers(*net.Buffers) (int64, error)
	}); ok {
		c.out = net.Buffers(c.all)
		_, err := g.WriteBuffers(&c.out)
		return err
	}
	if c.gather == nil {
		c.gather = bufio.NewWriterSize(nil, gatherBuffer)
	}
	c.gather.Reset(c.conn)
	for _, b := range c.all {
		_, _ = c.gather.Write(b) // Flush has the error
	}
	return c.gather.Flush()
}

// gatherBuffer is the size of a record of TLS: RFC 8446, section 5.1.
const gatherBuffer = 16 << 10

// FieldSender is the header field with a client's Sender.
const FieldSender = "Sender"

// put appends texts to b.
func put(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = append(b, t...)
	}
	return b
}

func (f Field) append(b []byte) []byte {
	b = put(b, f.Name, ": ", f.Text)
	if f.Text == "" {
		b = strconv.AppendInt(b, int64(f.Value), 10)
	}
	return put(b, "\r\n")
}

// await reads the head of the answer, and sets a deadline for the rest of it. A
// server may need as long to understand the request of that length as to read it.
func (c *Client) await(q Request, length int, patient bool) (*http.Response, error) {
	start := phase.Now()
	switch {
	case patient && q.Parks:
		_ = c.conn.SetReadDeadline(time.Time{}) // if it fails, so does the read
	case patient:
		_ = c.conn.SetReadDeadline(c.patience.until(int64(length)))
	}
	c.headLeft = MaxHead + readBuffer
	_, err := c.in.Peek(1)
	c.record(q, phase.Wait, start)
	if err != nil {
		return nil, Broken(err)
	}
	if patient && q.Parks {
		_ = c.conn.SetReadDeadline(c.patience.until(0))
	}
	answer, err := http.ReadResponse(c.in, nil)
	c.headLeft = -1
	if err != nil {
		return nil, Broken(err)
	}
	if answer.ContentLength < 0 || answer.StatusCode < 200 {
		return nil, fmt.Errorf("answer %s without a length", answer.Status)
	}
	_ = c.conn.SetReadDeadline(c.patience.until(answer.ContentLength))
	return answer, nil
}

// record adds a span, which ends now, to the work that requests belong to. That of a
// request that parks belongs to what answers it: see Claim.
func (c *Client) record(q Request, p phase.Phase, start int64) {
	l := lap{p, start, phase.Now()}
	switch {
	case !q.Parks:
		c.rec.Add(l.phase, c.ID, l.start, l.end)
	case p == phase.Send:
		c.parked = append(c.parked[:0], l)
	default:
		c.parked = append(c.parked, l)
	}
}

// Claim makes the last request that parked, and all that follow, id's work.
func (c *Client) Claim(id phase.ID) {
	c.ID = id
	for _, l := range c.parked {
		c.rec.Add(l.phase, id, l.start, l.end)
	}
}

// Begin begins a span of the work that requests belong to.
func (c *Client) Begin(p phase.Phase) phase.Span { return c.rec.Begin(p, c.ID) }

// Open reports whether the next request may reach the server.
func (c *Client) Open() bool { return c.conn != nil || c.fresh }

// refusal returns the error that an answer is.
func refusal(answer *http.Response) error {
	e := StatusError{answer.StatusCode, errors.New(answer.Status)}
	text, err := ReadBody(answer, maxProblem)
	var p Problem
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", answer.Status, err)
	case json.Unmarshal(text, &p) != nil:
	case len(p.Missing) > 0:
		e.Err = fmt.Errorf("%s: %s: %w", answer.Status, p.Error, MissingError{p.Missing})
	default:
		e.Err = fmt.Errorf("%s: %s", answer.Status, p.Error)
	}
	return e
}

// maxProblem is how long an answer that is an error may be.
const maxProblem = 16 << 20

// ReadBody reads the body of an answer, of at most limit bytes.
func ReadBody(answer *http.Response, limit int) ([]byte, error) {
	if answer.ContentLength > int64(limit) {
		return nil, fmt.Errorf("answer of %d bytes, want %d at most", answer.ContentLength, limit)
	}
	b := make([]byte, answer.ContentLength)
	_, err := io.ReadFull(answer.Body, b)
	return b, err
}
