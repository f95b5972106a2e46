package exchange

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ipcbench/internal/crash"
	"ipcbench/phase"
)

// An Endpoint serves one kind of request. Requests are counted under its name.
type Endpoint struct {
	Pattern, Name string // Pattern is a pattern of http.ServeMux
	Serve         func(*Exchange) error
}

// Options of a handler.
type Options struct {
	Rec    *phase.Recorder
	Admits func(*http.Request) error    // returns an error for requests of strangers
	JobOf  func(*http.Request) phase.ID // job that a request belongs to, as far as it is known
}

// A Handler serves the endpoints of a session.
type Handler struct {
	o         Options
	mux       *http.ServeMux
	endpoints []Endpoint
	served    []atomic.Int64 // requests per endpoint, for Served: the recorder may be off
	gatherers sync.Pool      // *bufio.Writer for answers
}

// NewHandler returns a handler that serves the given endpoints.
func NewHandler(o Options, endpoints []Endpoint) *Handler {
	h := &Handler{o: o, mux: http.NewServeMux(), endpoints: endpoints, served: make([]atomic.Int64, len(endpoints))}
	h.gatherers.New = func() any { return bufio.NewWriterSize(nil, Gathered) }
	for i, e := range endpoints {
		counter := o.Rec.Counter(phase.Served + e.Name)
		h.mux.HandleFunc(e.Pattern, func(w http.ResponseWriter, q *http.Request) {
			counter.Add(1)
			h.served[i].Add(1)
			x := h.exchange(w, q)
			x.fail(crash.Guard(func() error { return e.Serve(x) })) // an error by a panic is answered like others
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		x := h.exchange(w, q)
		x.fail(h.unknown(x))
	})
	return h
}

// Served returns the number of requests by endpoint name.
func (h *Handler) Served() map[string]int64 {
	all := map[string]int64{}
	for i, e := range h.endpoints {
		all[e.Name] = h.served[i].Load()
	}
	return all
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if err := h.o.Admits(q); err != nil {
		h.exchange(w, q).stranger(err)
		return
	}
	h.mux.ServeHTTP(w, q)
}

// goodbye bounds the rest of an exchange that has failed: how long a stranger may go on
// sending, and how long a client waits for the answer to a request that it could not send.
const goodbye = time.Second

// stranger answers a request without secret or permitted sender, and closes the
// connection. It reads nothing into memory and reveals nothing.
func (x *Exchange) stranger(err error) {
	x.W.Header().Set("Connection", "close")
	x.W.Header().Set("WWW-Authenticate", "Bearer")
	_ = x.Control.SetReadDeadline(time.Now().Add(goodbye)) // net/http drops some of the body; if this fails, so does that
	x.fail(err)
}

// unknown returns the error for a request without an endpoint: 405 if only its method is
// wrong, else 404.
func (h *Handler) unknown(x *Exchange) error {
	var others []string // methods that the path has
	for _, e := range h.endpoints {
		q := *x.Request
		q.Method, _, _ = strings.Cut(e.Pattern, " ")
		if _, pattern := h.mux.Handler(&q); pattern == e.Pattern {
			others = append(others, q.Method)
		}
	}
	if len(others) == 0 {
		return Refuse(http.StatusNotFound, "no endpoint %.100s", x.URL.Path)
	}
	x.W.Header().Set("Allow", strings.Join(others, ", "))
	return Refuse(http.StatusMethodNotAllowed, "method %.20s of %.100s: must be %s", x.Method, x.URL.Path, strings.Join(others, " or "))
}

// An Exchange is one request and its answer.
type Exchange struct {
	*http.Request
	Control *http.ResponseController
	W       http.ResponseWriter // used to set the answer's header fields; Reply writes the rest
	handler *Handler
	began   bool // the answer's head was written
	held    [heldBack]byte
}

func (h *Handler) exchange(w http.ResponseWriter, q *http.Request) *Exchange {
	return &Exchange{Request: q, handler: h, W: w, Control: http.NewResponseController(w)}
}

// Begin begins a span of the job that the request belongs to.
func (x *Exchange) Begin(p phase.Phase) phase.Span {
	return x.handler.o.Rec.Begin(p, x.handler.o.JobOf(x.Request))
}

// fail answers with err. If an answer has begun, it closes the connection instead, so
// that the body is shorter than announced and cannot be mistaken for a complete one.
func (x *Exchange) fail(err error) {
	if err == nil {
		return
	}
	if x.began {
		panic(http.ErrAbortHandler)
	}
	code := http.StatusInternalServerError
	if e := (StatusError{}); errors.As(err, &e) {
		code = e.Code
	}
	var missing MissingError
	errors.As(err, &missing)
	_ = x.ReplyJSON(code, Problem{Error: err.Error(), Missing: missing.IDs}) // there is no one else to report a failure to
}

// Parts of a body that have fewer than Small bytes are gathered: up to Gathered bytes of them
// are written or read at once, through a buffer. Larger parts are not copied, because a
// system call then costs less than a copy.
const (
	Small    = 32 << 10
	Gathered = 128 << 10
)

// heldBack is the number of bytes at an answer's end that net/http buffers until the
// handler returns. So the peer cannot act before the handler has recorded everything.
const heldBack = 64

// Reply sends an answer with a body of the given parts. If valid is not nil and returns
// an error, the last bytes are not sent and Reply returns the error.
func (x *Exchange) Reply(code int, kind string, valid func() error, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > 0 || code == http.StatusOK {
		x.W.Header().Set("Content-Type", kind)
		x.W.Header().Set("Content-Length", strconv.Itoa(n))
	}
	x.W.WriteHeader(code)
	x.began = true
	held, out := x.held[:0], x.handler.gatherers.Get().(*bufio.Writer)
	defer x.handler.gatherers.Put(out)
	out.Reset(x.W)
	for n -= heldBack; len(parts) > 0; parts = parts[1:] {
		p := parts[0]
		now := min(len(p), max(n, 0))
		n -= len(p)
		held = append(held, p[now:]...)
		to := io.Writer(out)
		if now >= Small {
			to = x.W
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if _, err := to.Write(p[:now]); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if valid != nil {
		if err := valid(); err != nil {
			return err
		}
	}
	_, err := x.W.Write(held)
	return err
}

// ReplyJSON answers with v in JSON.
func (x *Exchange) ReplyJSON(code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.Reply(code, TypeJSON, nil, append(body, '\n'))
}

// ReplyEmpty answers with status 204 and no body.
func (x *Exchange) ReplyEmpty() error { return x.Reply(http.StatusNoContent, "", nil) }

// Length returns the length of the request's body in bytes. It fails if there is no
// Content-Length, or if it exceeds limit.
func (x *Exchange) Length(limit int) (int, error) {
	switch {
	case x.ContentLength < 0:
		return 0, Refuse(http.StatusLengthRequired, "body without Content-Length")
	case x.ContentLength > int64(limit):
		return 0, Refuse(http.StatusRequestEntityTooLarge, "body has %d bytes, must have at most %d", x.ContentLength, limit)
	}
	return int(x.ContentLength), nil
}

// ReadFull fills b from the request's body, and fails if the body ends before.
func (x *Exchange) ReadFull(b []byte) error {
	if _, err := io.ReadFull(x.Body, b); err != nil {
		return Refuse(http.StatusBadRequest, "incomplete body: %w", Broken(err))
	}
	return nil
}

// ReadAll reads a whole body of at most limit bytes into the memory of into, which may
// grow.
func (x *Exchange) ReadAll(limit int, into []byte) ([]byte, error) {
	n, err := x.Length(limit)
	if err != nil {
		return into, err
	}
	return x.Read(n, into)
}

// Read reads the next n bytes of the body into the memory of into, which may grow. It
// allocates memory as data arrives, because a peer may announce any length.
func (x *Exchange) Read(n int, into []byte) ([]byte, error) {
	b := into[:0]
	for len(b) < n {
		m := min(n-len(b), 1<<20)
		b = slices.Grow(b, m)[:len(b)+m]
		if err := x.ReadFull(b[len(b)-m:]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// IsJSON reports whether the request's content type is JSON.
func (x *Exchange) IsJSON() bool {
	kind, _, _ := strings.Cut(x.Header.Get("Content-Type"), ";") // parameters do not matter: JSON is UTF-8
	return kind == TypeJSON
}
