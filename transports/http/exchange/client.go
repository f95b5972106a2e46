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

// A Client makes HTTP/1.1 requests over one connection, one at a time. It replaces
// net/http's client because it needs no pool, redirects or multiplexing. No goroutine is
// between the caller and the socket. Head and tensors of a request are sent with one
// gathering write, and tensors are received into their final memory.
type Client struct {
	dial  func(context.Context) (net.Conn, error)
	auth  string // value of the header field Authorization
	fresh bool   // a new connection for every request

	rec    *phase.Recorder
	parked []lap // spans of the last request that parked; recorded by Claim

	// ID is the job that spans of requests belong to. Users may change it between
	// requests.
	ID phase.ID

	// Sender is the value of the header field Sender. If it is empty, the field is
	// omitted.
	Sender string

	conn     net.Conn // nil before the first request, and between requests if fresh
	closed   bool
	in       *bufio.Reader
	headLeft int // bytes that the head of an answer may still have; -1 outside a head
	head     []byte
	out      net.Buffers
	all      [][]byte      // memory of out, which is consumed by writing
	gather   *bufio.Writer // for connections without a gathering write; nil until needed
}

// A lap is a span of a request that has no job yet.
type lap struct {
	phase      phase.Phase
	start, end int64
}

// readBuffer is the size of a client's read buffer. Larger bodies are read directly into
// their memory.
const readBuffer = 32 << 10

// NewClient returns a client that connects with dial, once or, if fresh, for every
// request. authorization is sent with each request.
func NewClient(dial func(context.Context) (net.Conn, error), authorization string, fresh bool, rec *phase.Recorder) *Client {
	c := &Client{dial: dial, auth: authorization, fresh: fresh, rec: rec, ID: phase.ID{Lane: -1, Round: -1, Client: -1}}
	c.in = bufio.NewReaderSize(reader{c}, readBuffer)
	return c
}

// A reader reads from a client's connection, and bounds the head of an answer.
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

// A Request is an HTTP request.
type Request struct {
	Method, Path string
	Type         string // content type of the body
	Fields       []Field
	Body         [][]byte
	Parks        bool           // the answer brings the job that the request is recorded for
	Calls        *phase.Counter // counts the request
}

// A Field is a header field. Its value is Text or, if Text is empty, the number Value.
type Field struct {
	Name  string
	Value int
	Text  string
}

// Do sends q and calls take, which must read the whole body of the answer. take may be
// nil if there is no body. If the answer reports an error, Do returns a StatusError.
// After any other error the client cannot be used again, unless it makes a connection
// for every request.
func (c *Client) Do(ctx context.Context, q Request, take func(*http.Response) error) (err error) {
	if c.conn == nil {
		err = c.connect(ctx)
	}
	if err == nil {
		q.Calls.Add(1)
		conn := c.conn
		stop := context.AfterFunc(ctx, func() { conn.Close() }) // the connection may hold half a message
		if err = c.exchange(q, take); !stop() && err != nil {
			err = context.Cause(ctx)
		}
	}
	if status := (StatusError{}); c.fresh || err != nil && !errors.As(err, &status) {
		c.Close()
	}
	if err != nil {
		path, _, _ := strings.Cut(q.Path, "?") // the query is long and explains nothing
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

// Close closes the connection. A client that keeps its connection cannot be used again.
func (c *Client) Close() {
	c.closed = !c.fresh
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *Client) exchange(q Request, take func(*http.Response) error) error {
	sent := c.send(q)
	if sent != nil {
		// A server that rejects a request answers and closes without reading all of it.
		_ = c.conn.SetReadDeadline(time.Now().Add(goodbye)) // if this fails, so does the read
	}
	answer, err := c.await(q)
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
		return errors.New("the answer continues after its end")
	}
	return nil
}

// send sends head and body.
func (c *Client) send(q Request) error {
	mark, start := c.rec.Mark(phase.Send), phase.Now()
	defer func() {
		mark.End()
		c.record(q, phase.Send, start)
	}()
	length := 0
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
	return c.write()
}

// write sends head and body. A socket gathers them in one system call. For other
// connections, such as TLS, small parts are buffered.
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
		_, _ = c.gather.Write(b) // Flush returns the error
	}
	return c.gather.Flush()
}

// gatherBuffer is the largest size of a TLS record: RFC 8446, section 5.1.
const gatherBuffer = 16 << 10

// FieldSender is the header field in which a client names its lane.
const FieldSender = "Sender"

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

// await reads the head of the answer.
func (c *Client) await(q Request) (*http.Response, error) {
	start := phase.Now()
	c.headLeft = MaxHead + readBuffer
	_, err := c.in.Peek(1)
	c.record(q, phase.Wait, start)
	if err != nil {
		return nil, Broken(err)
	}
	answer, err := http.ReadResponse(c.in, nil)
	c.headLeft = -1
	if err != nil {
		return nil, Broken(err)
	}
	if answer.ContentLength < 0 || answer.StatusCode < 200 {
		return nil, fmt.Errorf("answer %s without a length", answer.Status)
	}
	return answer, nil
}

// record records a span that ends now. Spans of a request that parks are kept until
// Claim, because their job is not known before the answer.
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

// Claim records the last request that parked as part of the job id, and all later ones,
// too.
func (c *Client) Claim(id phase.ID) {
	c.ID = id
	for _, l := range c.parked {
		c.rec.Add(l.phase, id, l.start, l.end)
	}
}

// Begin begins a span of the current job.
func (c *Client) Begin(p phase.Phase) phase.Span { return c.rec.Begin(p, c.ID) }

// Open reports whether the client may still make requests.
func (c *Client) Open() bool { return c.conn != nil || c.fresh }

// refusal returns the error that the answer reports.
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

// maxProblem is the largest body of an answer that reports an error, in bytes.
const maxProblem = 16 << 20

// ReadBody reads the body of an answer. It fails if it is longer than limit bytes.
func ReadBody(answer *http.Response, limit int) ([]byte, error) {
	if answer.ContentLength > int64(limit) {
		return nil, fmt.Errorf("answer has %d bytes, must have at most %d", answer.ContentLength, limit)
	}
	b := make([]byte, answer.ContentLength)
	_, err := io.ReadFull(answer.Body, b)
	return b, err
}
