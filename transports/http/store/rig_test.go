package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

// A rig is a store that is served on a socket.
type rig struct {
	t     testing.TB
	s     *Store
	o     Options
	path  string // of the socket
	model *tensor.Layout
	seq   int
}

const prefix = "model-0123456789abcdef-"

// kinds are the stores that tests run with: on the heap, or with a slab.
var kinds = []string{"heap", "slab"}

// start serves a store whose model has layout l. It ends with the test.
func start(t testing.TB, kind string, l *tensor.Layout, change ...func(*Options)) *rig {
	t.Helper()
	m, err := ManifestOf(l)
	check.Must(t, err)
	r := &rig{t: t, model: l, path: filepath.Join(t.TempDir(), "s")}
	r.o = Options{Room: 64 << 20, Answer: 64<<20 + l.Payload(), Model: m, Prefix: prefix}
	if kind == "slab" {
		r.o.Slab, r.o.SlabSize = filepath.Join(t.TempDir(), "stored"), 64<<20
	}
	for _, f := range change {
		f(&r.o)
	}
	r.s = New(r.o)
	h := exchange.NewHandler(exchange.Options{
		Patience: exchange.Patience(waiting.Limit), Rec: phase.NewRecorder(1 << 10),
		Admits: func(*http.Request) error { return nil }, Whose: func(*http.Request) phase.ID { return phase.ID{Lane: -1, Round: -1, Client: -1} },
	}, r.s.Endpoints())
	var open sync.WaitGroup
	server := &http.Server{Handler: h, MaxHeaderBytes: exchange.MaxHead, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, is http.ConnState) {
		switch is {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Done()
		}
	}}
	listener, err := net.Listen("unix", r.path)
	check.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		check.Must(t, server.Close())
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		open.Wait()
		_ = r.s.Close() // some tests have closed its slab
	})
	return r
}

// publish makes a model with the given seed current.
func (r *rig) publish(seed uint64) *tensor.Package {
	p := tensor.Alloc(r.model)
	tensor.Fill(p, seed)
	r.seq++
	r.s.Publish(r.name(), p)
	return p
}

// name returns the name of the published model.
func (r *rig) name() string { return fmt.Sprint(prefix, r.seq) }

func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("unix", r.path)
	check.Must(r.t, err)
	waiting.Conn(r.t, c)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// client is an ordinary HTTP client for the rig's server.
func (r *rig) client() *http.Client {
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", r.path) },
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: waiting.Limit}
}

// A reply is an answer with its body.
type reply struct {
	code int
	head http.Header
	body []byte
}

// ask makes one request. head is name, value, name, value, ….
func (r *rig) ask(c *http.Client, method, path string, body []byte, head ...string) reply {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, "http://ipcbench"+path, bytes.NewReader(body))
	check.Must(r.t, err)
	for pair := range slices.Chunk(head, 2) {
		q.Header.Set(pair[0], pair[1])
	}
	a, err := c.Do(q)
	check.Must(r.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	check.Must(r.t, err)
	return reply{a.StatusCode, a.Header, text}
}

// put stores a tensor of bytes and returns where it lies.
func (r *rig) put(c *http.Client, id string, data []byte) (a putAnswer) {
	r.t.Helper()
	got := r.ask(c, "PUT", "/v1/tensors/"+id, data, FieldDType, "u8", FieldShape, fmt.Sprint(len(data)))
	check.Need(r.t, got.code == http.StatusCreated, "put %s: got %d %s, want 201", id, got.code, got.body)
	check.Must(r.t, json.Unmarshal(got.body, &a))
	return a
}

// pattern returns n bytes that depend on seed and position.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
	return b
}

// vectors is a layout of n tensors of size bytes each.
func vectors(t testing.TB, n, size int) *tensor.Layout {
	t.Helper()
	specs := make([]tensor.Spec, n)
	for i := range specs {
		specs[i] = tensor.Spec{Name: fmt.Sprint("v", i), DType: tensor.U8, Shape: []int{size}}
	}
	l, err := tensor.NewLayout(specs)
	check.Must(t, err)
	return l
}
