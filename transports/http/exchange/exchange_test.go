package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
)

// pipes is a listener for connections within this process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) dial(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

// serve serves endpoints to any client, and returns a function that connects to them.
func serve(t *testing.T, endpoints ...Endpoint) func(context.Context) (net.Conn, error) {
	t.Helper()
	h := NewHandler(Options{
		Admits: func(*http.Request) error { return nil },
		JobOf:  func(*http.Request) phase.ID { return phase.ID{Lane: -1, Round: -1, Client: -1} },
	}, endpoints)
	p, s, done := make(pipes), &http.Server{Handler: h}, make(chan error, 1)
	go func() { done <- s.Serve(p) }()
	t.Cleanup(func() {
		close(p)
		check.OK(t, s.Close())
		<-done
	})
	return p.dial
}

// A slow connection carries at most 1000 bytes per hour in each direction.
type slow struct {
	net.Conn
	hour func()
}

func (c slow) Read(b []byte) (int, error) {
	c.hour()
	return c.Conn.Read(b[:min(len(b), 1000)])
}

func (c slow) Write(b []byte) (n int, err error) {
	for part := range slices.Chunk(b, 1000) {
		c.hour()
		m, err := c.Conn.Write(part)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// TestSlowNetwork: bodies may take any time both ways, and so may an answer, until the
// context of the request ends.
func TestSlowNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := func() { <-waiting.Ending(t, time.Hour).Done() }
		dial := serve(t,
			Endpoint{"GET /v1/late", "late", func(x *Exchange) error { hour(); return x.ReplyEmpty() }},
			Endpoint{"POST /v1/echo", "echo", func(x *Exchange) error {
				body, err := x.ReadAll(1<<20, nil)
				if err != nil {
					return err
				}
				return x.Reply(http.StatusOK, TypeRaw, nil, body)
			}})
		c := NewClient(func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			return slow{conn, hour}, err
		}, "", false, nil)
		defer c.Close()
		sent, late := bytes.Repeat([]byte("slow"), 3000), Request{Method: "GET", Path: "/v1/late"}
		for range 2 {
			check.Must(t, c.Do(t.Context(), Request{Method: "POST", Path: "/v1/echo", Body: [][]byte{sent}}, func(r *http.Response) error {
				got, err := ReadBody(r, len(sent))
				check.That(t, bytes.Equal(got, sent), "got %d bytes, %v", len(got), err)
				return err
			}))
			check.Must(t, c.Do(t.Context(), late, nil))
		}
		check.Is(t, c.Do(waiting.Ending(t, time.Minute), late, nil), context.DeadlineExceeded)
	})
}

// TestReply: a body sent in parts arrives as one. If it is found invalid after all but its
// end was sent, it ends short, and the client returns an error.
func TestReply(t *testing.T) {
	type reply struct {
		valid func() error
		parts [][]byte
	}
	var next atomic.Pointer[reply] // a connection does not synchronize its ends
	dial := serve(t, Endpoint{"GET /v1/parts", "parts", func(x *Exchange) error {
		r := next.Load()
		return x.Reply(http.StatusOK, TypeRaw, r.valid, r.parts...)
	}})
	for _, sizes := range [][]int{{}, {0}, {1}, {63}, {64}, {65}, {0, 64, 0}, {10, 60}, {60, 10}, {30, 30, 30}, {5000, 1}, {1, 5000}, {100_000, 0, 0}, {1 << 20, 1 << 20}} {
		var parts [][]byte
		for i, n := range sizes {
			parts = append(parts, bytes.Repeat([]byte{byte('a' + i)}, n))
		}
		want := bytes.Join(parts, nil)
		for _, wrong := range []error{nil, errors.New("replaced")} {
			next.Store(&reply{func() error { return wrong }, parts})
			c := NewClient(dial, "", false, nil)
			var got []byte
			err := c.Do(t.Context(), Request{Method: "GET", Path: "/v1/parts"}, func(r *http.Response) (err error) {
				got, err = ReadBody(r, 4<<20)
				return err
			})
			c.Close()
			check.That(t, wrong != nil || err == nil && bytes.Equal(got, want),
				"parts of %v bytes: got %d bytes, %v", sizes, len(got), err)
			check.That(t, wrong == nil || len(want) <= 0 || err != nil,
				"parts of %v bytes, found to be bad: taken for a whole body", sizes)
		}
	}
}

// writes counts the writes of an answer, and those from the memory of part.
type writes struct {
	*httptest.ResponseRecorder
	all, uncopied int
	part          []byte
}

func (w *writes) Write(b []byte) (int, error) {
	w.all++
	if len(b) > 0 && &b[0] == &w.part[0] {
		w.uncopied++
	}
	return w.ResponseRecorder.Write(b)
}

// TestSmallPartsAreGathered: small parts are written many at a time. Large parts are written
// from their memory.
func TestSmallPartsAreGathered(t *testing.T) {
	for _, c := range []struct{ parts, size, most, uncopied int }{
		{12_000, 3 << 10, 300, 0}, {20, 1 << 20, 21, 20}, {20, Small, 21, 19},
	} {
		part := make([]byte, c.size)
		h := NewHandler(Options{Admits: func(*http.Request) error { return nil }}, []Endpoint{{"GET /", "parts", func(x *Exchange) error {
			return x.Reply(http.StatusOK, TypeRaw, nil, slices.Repeat([][]byte{part}, c.parts)...)
		}}})
		w := &writes{ResponseRecorder: httptest.NewRecorder(), part: part}
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		check.That(t, w.all <= c.most && w.uncopied == c.uncopied && w.Body.Len() == c.parts*c.size,
			"%+v: %d writes, %d of them from the part, %d bytes", c, w.all, w.uncopied, w.Body.Len())
	}
}

// TestClient: a client that keeps its connection makes one, and a client that does not
// makes one per request. A refusal returns its status code and does not end the connection.
func TestClient(t *testing.T) {
	dial := serve(t,
		Endpoint{"POST /v1/echo", "echo", func(x *Exchange) error {
			body, err := x.ReadAll(1<<20, nil)
			if err != nil {
				return err
			}
			return x.Reply(http.StatusOK, TypeText, nil, fmt.Appendf(nil, "%s %s ", x.Header.Get("Number"), x.Header.Get("Text")), body)
		}},
		Endpoint{"GET /v1/refuse", "refuse", func(x *Exchange) error {
			return StatusError{http.StatusTeapot, MissingError{[]string{"a", "b"}}}
		}},
		Endpoint{"GET /v1/panic", "panic", func(x *Exchange) error { panic("oh") }})
	for _, fresh := range []bool{false, true} {
		made := 0
		c := NewClient(func(ctx context.Context) (net.Conn, error) { made++; return dial(ctx) }, "", fresh, nil)
		q := Request{Method: "POST", Path: "/v1/echo", Fields: []Field{{Name: "Number", Value: -7}, {Name: "Text", Text: "t"}}, Body: [][]byte{[]byte("bo"), nil, []byte("dy")}}
		for range 3 {
			err := c.Do(t.Context(), q, func(r *http.Response) error {
				got, err := ReadBody(r, 100)
				check.That(t, string(got) == "-7 t body", "got %q", got)
				return err
			})
			check.OK(t, err)
			var status StatusError
			err = c.Do(t.Context(), Request{Method: "GET", Path: "/v1/refuse"}, nil)
			missing := MissingError{}
			check.That(t, errors.As(err, &status) && status.Code == http.StatusTeapot && errors.As(err, &missing) && len(missing.IDs) == 2, "refusal: got %v", err)
			err = c.Do(t.Context(), Request{Method: "GET", Path: "/v1/panic"}, nil)
			check.Fails(t, err, "panic: oh")
			check.That(t, errors.As(err, &status) && status.Code == http.StatusInternalServerError, "panic: got %v", err)
		}
		want := map[bool]int{false: 1, true: 9}[fresh]
		check.That(t, made == want, "fresh=%v: %d connections, want %d", fresh, made, want)
		c.Close()
	}
}
