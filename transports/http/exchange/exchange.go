package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ipcbench/internal/crash"
	"ipcbench/phase"
)

// An Endpoint is one kind of request, with the name that it is counted under.
type Endpoint struct {
	Pattern, Name string // of the pattern http.ServeMux says what it means
	Serve         func(*Exchange) error
}

// Options of a handler.
type Options struct {
	Patience Patience
	Rec      *phase.Recorder
	Admits   func(*http.Request) error    // why a request is a stranger's, if it is
	Whose    func(*http.Request) phase.ID // whose work a request belongs to, as far as it is known
}

// A Handler serves the endpoints of a session.
type Handler struct {
	o         Options
	mux       *http.ServeMux
	endpoints []Endpoint
	served    []atomic.Int64 // requests of each, for those who ask: the recorder may be off
}

// NewHandler returns a handler of the given endpoints.
func NewHandler(o Options, endpoints []Endpoint) *Handler {
	h := &Handler{o: o, mux: http.NewServeMux(), endpoints: endpoints, served: make([]atomic.Int64, len(endpoints))}
	for i, e := range endpoints {
		counter := o.Rec.Counter(phase.Served + e.Name)
		h.mux.HandleFunc(e.Pattern, func(w http.ResponseWriter, q *http.Request) {
			counter.Add(1)
			h.served[i].Add(1)
			x := h.exchange(w, q)
			x.fail(x.guard(e))
		})
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
		x := h.exchange(w, q)
		x.fail(h.unknown(x))
	})
	return h
}

// Served returns how many requests there were, by the names of the endpoints.
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
	// A peer that sends or reads too slowly is given up. One that waits for a job
	// has nothing to send.
	control := http.NewResponseController(w)
	if q.ContentLength != 0 {
		_ = control.SetReadDeadline(h.o.Patience.until(q.ContentLength)) // a closed connection shows in what follows
	}
	_ = control.SetWriteDeadline(h.o.Patience.until(0)) // extended when an answer begins
	h.mux.ServeHTTP(w, q)
}

// goodbye bounds how long a stranger may take to read that it is one.
const goodbye = time.Second

// stranger answers who does not show the secret, or not who it is. That comes before
// all else: it costs no memory, and teaches nothing. Its connection is closed.
func (x *Exchange) stranger(err error) {
	x.W.Header().Set("Connection", "close")
	x.W.Header().Set("WWW-Authenticate", "Bearer")
	_ = x.Control.SetReadDeadline(time.Now().Add(goodbye)) // net/http drops some of the body; a closed connection shows there
	x.fail(err)
}

// Goodbye answers somebody who speaks HTTP/1.1 where it is not to be spoken, and says
// that this is the end of that connection.
func Goodbye(c io.ReadWriter, reason string) {
	body, err := json.Marshal(Problem{Error: reason})
	if err != nil {
		panic(err) // a text has no reason to fail
	}
	fmt.Fprintf(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", TypeJSON, len(body), body)
}

// unknown says what is wrong with a request that no endpoint is for: its path, or
// its method alone.
func (h *Handler) unknown(x *Exchange) error {
	var others []string // methods
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
	return Refuse(http.StatusMethodNotAllowed, "method %.20s of %.100s: want %s", x.Method, x.URL.Path, strings.Join(others, " or "))
}

// An Exchange is one request and its answer.
type Exchange struct {
	*http.Request
	Control *http.ResponseController
	W       http.ResponseWriter // for the answer's header fields; Reply writes the rest
	handler *Handler
	began   bool // the answer's head was written
	held    [heldBack]byte
}

func (h *Handler) exchange(w http.ResponseWriter, q *http.Request) *Exchange {
	return &Exchange{Request: q, handler: h, W: w, Control: http.NewResponseController(w)}
}

// guard serves one request. A panic is an answer like other errors, and not the
// end of the process.
func (x *Exchange) guard(e Endpoint) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // slabs are files, which somebody may truncate
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			err = fmt.Errorf("%s: %w", e.Name, crash.Error(p))
		}
	}()
	return e.Serve(x)
}

// Begin begins a span of whoever's work this is.
func (x *Exchange) Begin(p phase.Phase) phase.Span {
	return x.handler.o.Rec.Begin(p, x.handler.o.Whose(x.Request))
}

// fail answers with err. If half an answer is out, it closes the connection: a
// body that is shorter than announced cannot be taken for a whole one.
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
	_ = x.ReplyJSON(code, Problem{Error: err.Error(), Missing: missing.IDs}) // nobody else can be told
}

// heldBack is how many bytes of an answer's end lie in net/http's buffer until the
// handler has returned, with all that it records.
const heldBack = 64

// Reply answers with the parts of a body, one after another. The last bytes go when
// valid, which may be nil, says that those before were good.
func (x *Exchange) Reply(code int, kind string, valid func() error, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > 0 || code == http.StatusOK {
		x.W.Header().Set("Content-Type", kind)
		x.W.Header().Set("Content-Length", strconv.Itoa(n))
	}
	_ = x.Control.SetWriteDeadline(x.handler.o.Patience.until(int64(n))) // a closed connection shows in the write
	x.W.WriteHeader(code)
	x.began = true
	held := x.held[:0]
	for n -= heldBack; len(parts) > 0; parts = parts[1:] {
		p := parts[0]
		now := min(len(p), max(n, 0))
		n -= len(p)
		held = append(held, p[now:]...)
		if _, err := x.W.Write(p[:now]); err != nil {
			return err
		}
	}
	if valid != nil {
		if err := valid(); err != nil {
			return err
		}
	}
	_, err := x.W.Write(held)
	return err
}

// ReplyJSON answers with v.
func (x *Exchange) ReplyJSON(code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.Reply(code, TypeJSON, nil, append(body, '\n'))
}

// ReplyEmpty answers that all is well and there is nothing more to say.
func (x *Exchange) ReplyEmpty() error { return x.Reply(http.StatusNoContent, "", nil) }

// Length returns the announced length of the request's body.
func (x *Exchange) Length(limit int) (int, error) {
	switch {
	case x.ContentLength < 0:
		return 0, Refuse(http.StatusLengthRequired, "body without Content-Length")
	case x.ContentLength > int64(limit):
		return 0, Refuse(http.StatusRequestEntityTooLarge, "body of %d bytes, want %d at most", x.ContentLength, limit)
	}
	return int(x.ContentLength), nil
}

// ReadFull fills b from the request's body.
func (x *Exchange) ReadFull(b []byte) error {
	if _, err := io.ReadFull(x.Body, b); err != nil {
		return Refuse(http.StatusBadRequest, "body broke off: %w", Broken(err))
	}
	return nil
}

// ReadAll reads a whole body of at most limit bytes.
func (x *Exchange) ReadAll(limit int, into []byte) ([]byte, error) {
	n, err := x.Length(limit)
	if err != nil {
		return into, err
	}
	return x.Read(n, into)
}

// Read reads the next n bytes of the body into memory that grows no further than
// what has arrived: the length is only what a peer says.
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

// IsJSON reports whether the request's body is said to be JSON.
func (x *Exchange) IsJSON() bool {
	kind, _, _ := strings.Cut(x.Header.Get("Content-Type"), ";") // its parameters say nothing: JSON is UTF-8
	return kind == TypeJSON
}
