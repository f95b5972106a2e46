package http

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ipcbench/crash"
	"ipcbench/phase"
)

// An endpoint is one kind of request, with the name that it is counted under.
type endpoint struct {
	pattern, name string
	serve         func(*server, *exchange) error
	served        *atomic.Int64 // requests, for those who ask: the recorder may be off
	counter       *phase.Counter
}

func (e *endpoint) count() {
	e.counter.Add(1)
	e.served.Add(1)
}

func endpoints(rec *phase.Recorder) []*endpoint {
	all := []*endpoint{
		{pattern: "GET /v1/ping", name: "ping", serve: (*server).ping},
		{pattern: "GET /v1/stats", name: "stats", serve: (*server).stats},
		{pattern: "PUT /v1/tensors/{id}", name: "put", serve: (*server).put},
		{pattern: "GET /v1/tensors/{id}", name: "get", serve: (*server).get},
		{pattern: "DELETE /v1/tensors/{id}", name: "delete", serve: (*server).delete},
		{pattern: "POST /v1/batch", name: "batch", serve: (*server).batch},
		{pattern: "POST /v1/clear", name: "clear", serve: (*server).clear},
		{pattern: "POST /v1/drain", name: "drain", serve: (*server).drain},
		{pattern: "POST /v1/lanes/{lane}", name: "join", serve: (*server).join},
		{pattern: "POST /v1/lanes/{lane}/local", name: "prove", serve: (*server).prove},
		{pattern: "DELETE /v1/lanes/{lane}", name: "leave", serve: (*server).leave},
		{pattern: "GET /v1/jobs/{lane}", name: "jobs", serve: (*server).jobs},
		{pattern: "POST /v1/results/{lane}", name: "results", serve: (*server).results},
	}
	for _, e := range all {
		e.served, e.counter = new(atomic.Int64), rec.Counter(phase.Served+e.name)
	}
	return all
}

// An exchange is one request and its answer.
type exchange struct {
	*http.Request
	endpoint *endpoint
	w        http.ResponseWriter
	control  *http.ResponseController
	patience patience
	began    bool // the answer's head was written
}

// A scratchpad is the memory of one exchange, reused.
type scratchpad struct {
	body, table []byte
	ids         [][]byte
	shards      []shard
	tail        [tailBytes]byte
}

// A statusError is an error with the status code that it is answered with.
// Others are answered 500.
type statusError struct {
	code int
	err  error
}

func (e statusError) Error() string { return e.err.Error() }
func (e statusError) Unwrap() error { return e.err }

func refuse(code int, format string, args ...any) error {
	return statusError{code, fmt.Errorf(format, args...)}
}

// problem is the body of every answer that is an error.
type problem struct {
	Error   string   `json:"error"`
	Missing []string `json:"missing,omitempty"` // ids that the store does not know, in the order of the request
}

// handler returns the handler of all endpoints.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, e := range s.endpoints {
		mux.HandleFunc(e.pattern, func(w http.ResponseWriter, r *http.Request) {
			e.count()
			x := &exchange{Request: r, endpoint: e, w: w, control: http.NewResponseController(w), patience: s.patience}
			x.fail(s.guard(e, x))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{Request: r, w: w, control: http.NewResponseController(w), patience: s.patience}
		x.fail(s.unknown(x, mux))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.admits(w, r) {
			return
		}
		s.mu.Lock()
		closing := s.closing
		if !closing {
			s.handlers.Add(1)
		}
		s.mu.Unlock()
		if closing {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer s.handlers.Done()
		// A peer that sends or reads too slowly is given up. One that waits for a job
		// has nothing to send.
		control := http.NewResponseController(w)
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(s.patience.until(r.ContentLength)) // a closed connection shows in what follows
		}
		_ = control.SetWriteDeadline(s.patience.until(0)) // extended when an answer begins
		mux.ServeHTTP(w, r)
	})
}

// unknown says what is wrong with a request that no endpoint is for: its path, or
// its method alone.
func (s *server) unknown(x *exchange, mux *http.ServeMux) error {
	var others []string // methods
	for _, e := range s.endpoints {
		q := *x.Request
		q.Method, _, _ = strings.Cut(e.pattern, " ")
		if _, pattern := mux.Handler(&q); pattern == e.pattern {
			others = append(others, q.Method)
		}
	}
	if len(others) == 0 {
		return refuse(http.StatusNotFound, "no endpoint %.100s", x.URL.Path)
	}
	x.w.Header().Set("Allow", strings.Join(others, ", "))
	return refuse(http.StatusMethodNotAllowed, "method %.20s of %.100s: want %s", x.Method, x.URL.Path, strings.Join(others, " or "))
}

// admits reports whether a request shows the session's secret, and answers it if
// it does not. That comes before all else: who cannot show it costs no memory,
// and learns nothing. Its connection is closed.
func (s *server) admits(w http.ResponseWriter, r *http.Request) bool {
	c := r.Context().Value(connKey{}).(*conn)
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), s.bearer) == 1 {
		c.Admit()
		return true
	}
	w.Header().Set("Connection", "close")
	w.Header().Set("WWW-Authenticate", "Bearer")
	x := &exchange{Request: r, w: w, control: http.NewResponseController(w), patience: s.patience}
	_ = x.control.SetReadDeadline(time.Now().Add(goodbye)) // net/http drops some of the body; a closed connection shows there
	x.fail(refuse(http.StatusUnauthorized,
		"want the header field Authorization: Bearer SECRET, with what stands behind the # in %s in the session's directory", addressFile))
	return false
}

// guard serves one request. A panic is an answer like other errors, and not the
// end of the process.
func (s *server) guard(e *endpoint, x *exchange) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // slabs are files, which somebody may truncate
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			err = fmt.Errorf("%s: %w", e.name, crash.Error(p))
		}
	}()
	return e.serve(s, x)
}

// fail answers with err. If half an answer is out, it closes the connection: a
// body that is shorter than announced cannot be taken for a whole one.
func (x *exchange) fail(err error) {
	if err == nil {
		return
	}
	if x.began {
		panic(http.ErrAbortHandler)
	}
	code := http.StatusInternalServerError
	if e := (statusError{}); errors.As(err, &e) {
		code = e.code
	}
	var missing missingError
	errors.As(err, &missing)
	_ = x.answerJSON(code, problem{Error: err.Error(), Missing: missing.ids}) // nobody else can be told
}

// head writes the head of an answer with a body of n bytes.
func (x *exchange) head(code int, kind string, n int) {
	h := x.w.Header()
	if n > 0 || code == http.StatusOK {
		h.Set("Content-Type", kind)
		h.Set("Content-Length", strconv.Itoa(n))
	}
	_ = x.control.SetWriteDeadline(x.patience.until(int64(n))) // a closed connection shows in the write
	x.w.WriteHeader(code)
	x.began = true
}

// answer writes a whole answer. Its end leaves the server when the handler has
// returned, with all that it records: until then it lies in net/http's buffer.
func (x *exchange) answer(code int, kind string, body []byte) error {
	x.head(code, kind, len(body))
	end := max(0, len(body)-tailBytes)
	if _, err := x.w.Write(body[:end]); err != nil {
		return err
	}
	_, err := x.w.Write(body[end:])
	return err
}

func (x *exchange) answerJSON(code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.answer(code, typeJSON, append(body, '\n'))
}

// empty answers that all is well and there is nothing more to say.
func (x *exchange) empty() error {
	x.head(http.StatusNoContent, "", 0)
	return nil
}

// length returns the announced length of the request's body.
func (x *exchange) length(limit int) (int, error) {
	switch {
	case x.ContentLength < 0:
		return 0, refuse(http.StatusLengthRequired, "body without Content-Length")
	case x.ContentLength > int64(limit):
		return 0, refuse(http.StatusRequestEntityTooLarge, "body of %d bytes, want %d at most", x.ContentLength, limit)
	}
	return int(x.ContentLength), nil
}

// readFull fills b from the request's body.
func (x *exchange) readFull(b []byte) error {
	if _, err := io.ReadFull(x.Body, b); err != nil {
		return refuse(http.StatusBadRequest, "body broke off: %w", broken(err))
	}
	return nil
}

// broken spells the end of a connection so that nobody takes it for the end of
// a session.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readAll reads a whole body of at most limit bytes.
func (x *exchange) readAll(limit int, into []byte) ([]byte, error) {
	n, err := x.length(limit)
	if err != nil {
		return into, err
	}
	return x.read(n, into)
}

// read reads the next n bytes of the body into memory that grows no further than
// what has arrived: the length is only what a peer says.
func (x *exchange) read(n int, into []byte) ([]byte, error) {
	const step = 1 << 20
	b := into[:0]
	for len(b) < n {
		m := min(n-len(b), step)
		if cap(b)-len(b) < m {
			b = append(b, make([]byte, m)...)
		} else {
			b = b[:len(b)+m]
		}
		if err := x.readFull(b[len(b)-m:]); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (x *exchange) isJSON() bool {
	kind, _, _ := strings.Cut(x.Header.Get("Content-Type"), ";") // its parameters say nothing: JSON is UTF-8
	return kind == typeJSON
}

func (s *server) ping(x *exchange) error { return x.empty() }
