package store

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/reply"
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
		Rec:    phase.NewRecorder(1 << 10),
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

// ask makes one request. head lists the names and values of header fields in turn.
func (r *rig) ask(method, path, body string, head ...string) reply.Reply {
	r.t.Helper()
	return reply.To(r.t.Context(), r.t, r.at.Client(), method, r.at.URL+"/v1/"+path, body, head...)
}

// is checks the data type and shape in the header of an answer.
func (r *rig) is(a reply.Reply, spec string, context ...any) {
	r.t.Helper()
	check.Equal(r.t, a.Header.Get(FieldDType)+" "+a.Header.Get(FieldShape), spec, context...)
}

func (r *rig) get(id string) reply.Reply { r.t.Helper(); return r.ask("GET", "tensors/"+id, "") }

// store asks for a tensor to be stored.
func (r *rig) store(id, dtype, shape, data string) reply.Reply {
	r.t.Helper()
	return r.ask("PUT", "tensors/"+id, data, FieldDType, dtype, FieldShape, shape)
}

// put stores a tensor of bytes and returns its location.
func (r *rig) put(id, data string) (a putAnswer) {
	r.t.Helper()
	check.Must(r.t, json.Unmarshal([]byte(r.store(id, "u8", fmt.Sprint(len(data)), data).Want(201, "").Text), &a))
	return a
}

// holds checks the totals of stored tensors.
func (r *rig) holds(tensors, bytes int) {
	r.t.Helper()
	got := r.s.Stats()
	check.That(r.t, got.Tensors == tensors && got.Bytes == bytes, "the store holds %d tensors, %d bytes, want %d, %d", got.Tensors, got.Bytes, tensors, bytes)
}
