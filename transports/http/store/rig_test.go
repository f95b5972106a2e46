package store

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
)

// A rig is a store with an HTTP server.
type rig struct {
	t     testing.TB
	s     *Store
	o     Options
	at    *httptest.Server
	model *tensor.Layout
	seq   int
}

const prefix = "model-0123456789abcdef-"

// kinds are the stores that tests run with: on the heap, or with a slab.
var kinds = []string{"heap", "slab"}

// start serves a store whose model has the given tensors, or by default one of 10 bytes. It
// ends with the test.
func start(t testing.TB, kind string, specs ...tensor.Spec) *rig {
	t.Helper()
	if len(specs) == 0 {
		specs = []tensor.Spec{{Name: "v", DType: tensor.U8, Shape: []int{10}}}
	}
	l := check.Value(tensor.NewLayout(specs))(t)
	m := check.Value(ManifestOf(l))(t)
	o := Options{Room: 64 << 20, Answer: 64<<20 + l.Payload(), Model: m, Prefix: prefix}
	if kind == "slab" {
		o.Slab, o.SlabSize = filepath.Join(t.TempDir(), "stored"), 64<<20
	}
	s := New(o)
	at := httptest.NewServer(exchange.NewHandler(exchange.Options{
		Patience: exchange.Patience(waiting.Limit), Rec: phase.NewRecorder(1 << 10),
		Admits: func(*http.Request) error { return nil }, JobOf: func(*http.Request) phase.ID { return phase.ID{Lane: -1, Round: -1, Client: -1} },
	}, s.Endpoints()))
	t.Cleanup(func() {
		at.Close()
		_ = s.Close()
	})
	return &rig{t, s, o, at, l, 0}
}

// publish publishes a model filled from the given seed.
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
	c := check.Value(net.Dial("tcp", r.at.Listener.Addr().String()))(r.t)
	waiting.Conn(r.t, c)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// A reply is an answer with its body.
type reply struct {
	*http.Response
	t    testing.TB
	text string
}

// want checks the status code and a part of the body.
func (a reply) want(code int, text string, context ...any) reply {
	a.t.Helper()
	check.That(a.t, a.StatusCode == code && strings.Contains(a.text, text), "%v: got %d %.300q, want %d and %.300q", context, a.StatusCode, a.text, code, text)
	return a
}

// is checks the data type and shape in the header of an answer.
func (a reply) is(spec string, context ...any) {
	a.t.Helper()
	check.Equal(a.t, a.Header.Get(FieldDType)+" "+a.Header.Get(FieldShape), spec, context...)
}

// ask makes one request. head lists the names and values of header fields in turn.
func (r *rig) ask(method, path, body string, head ...string) reply {
	r.t.Helper()
	q := check.Value(http.NewRequestWithContext(r.t.Context(), method, r.at.URL+"/v1/"+path, strings.NewReader(body)))(r.t)
	for pair := range slices.Chunk(head, 2) {
		q.Header.Set(pair[0], pair[1])
	}
	a := check.Value(r.at.Client().Do(q))(r.t)
	defer a.Body.Close()
	text := check.Value(io.ReadAll(a.Body))(r.t)
	return reply{a, r.t, string(text)}
}

func (r *rig) get(id string) reply { r.t.Helper(); return r.ask("GET", "tensors/"+id, "") }

// store asks for a tensor to be stored.
func (r *rig) store(id, dtype, shape, data string) reply {
	r.t.Helper()
	return r.ask("PUT", "tensors/"+id, data, FieldDType, dtype, FieldShape, shape)
}

// put stores a tensor of bytes and returns its location.
func (r *rig) put(id, data string) (a putAnswer) {
	r.t.Helper()
	check.Must(r.t, json.Unmarshal([]byte(r.store(id, "u8", fmt.Sprint(len(data)), data).want(201, "").text), &a))
	return a
}

// holds checks the totals of stored tensors.
func (r *rig) holds(tensors, bytes int) {
	r.t.Helper()
	got := r.s.Stats()
	check.That(r.t, got.Tensors == tensors && got.Bytes == bytes, "the store holds %d tensors, %d bytes, want %d, %d", got.Tensors, got.Bytes, tensors, bytes)
}
