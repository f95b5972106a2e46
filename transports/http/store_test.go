package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// Whoever asks in a way that no endpoint understands gets an answer in JSON that says what to do.
func TestWrongRequestsAreExplained(t *testing.T) {
	r := start(t, "http", vectors(t, 1, 10), 1)
	c := r.client()
	r.put(c, "t", []byte("tensor"))
	ids := []byte(`{"shard_ids": ["t"]}`)
	const form = "application/x-www-form-urlencoded" // as curl -d says
	for _, q := range []struct {
		method, path, kind string
		code               int
		want               string
	}{
		{"GET", "/", "", 404, "no endpoint /"},
		{"GET", "/v1/tensor/t", "", 404, "no endpoint /v1/tensor/t"},
		{"GET", "/v1/tensors", "", 404, "no endpoint /v1/tensors"},
		{"GET", "/v1/batch", "", 405, "method GET of /v1/batch: want POST"},
		{"PATCH", "/v1/tensors/t", "", 405, "want PUT or GET or DELETE"},
		{"POST", "/v1/batch", form, 400, "Content-Type: application/json"},
		{"POST", "/v1/batch", exchange.TypeJSON, 200, ""},
		{"POST", "/v1/batch", exchange.TypeJSON + "; charset=utf-8", 200, ""},
		{"POST", "/v1/clear", form, 400, "Content-Type: application/json"},
		{"POST", "/v1/clear", exchange.TypeJSON, 200, ""},
	} {
		a := r.ask(c, q.method, q.path, ids, "Content-Type", q.kind)
		var p exchange.Problem
		if q.code >= 400 {
			check.Must(t, json.Unmarshal(a.body, &p))
		}
		if a.code != q.code || a.head.Get("Content-Type") != exchange.TypeJSON || !strings.Contains(p.Error, q.want) {
			t.Errorf("%s %s as %q: got %d %s %s, want %d with %q in JSON", q.method, q.path, q.kind, a.code, a.head.Get("Content-Type"), a.body, q.code, q.want)
		}
		allow := a.head.Get("Allow")
		check.That(t, (q.code == 405) == (allow != ""), "%s %s: got Allow: %s", q.method, q.path, allow)
	}
}

// A32: five shards with a limit of two are requests of 2, 2 and 1.
func TestBatches(t *testing.T) {
	for batch, requests := range map[int]int64{0: 1, 1: 5, 2: 3, 4: 2, 5: 1, 6: 1} {
		for _, variant := range []string{"http", "http-shm:shm=off"} {
			r := open(t, fmt.Sprintf("%s:batch=%d", variant, batch), vectors(t, 5, 100), 1)
			m := r.publish(1)
			r.exchange(0, driver.Job{Client: 3}, m)
			wantCounts(t, fmt.Sprint(variant, " batch=", batch), r.counts(0), map[string]int64{
				phase.Calls + "jobs": 1, phase.Calls + "batch": requests, phase.Calls + "results": 1, phase.Calls + "join": 1,
				phase.BodyTensors: 5, phase.BodyBytes: 500, phase.HandleTensors: 0,
			})
			wantCounts(t, "server", r.counts(-1), map[string]int64{
				phase.Served + "jobs": 1, phase.Served + "batch": requests, phase.Served + "results": 1,
				phase.BodyTensors: 5, phase.BodyBytes: 500,
			})
		}
	}
}

// A31: a second fetch succeeds after the server has forgotten the tensors; each
// client has a cache of its own, which is bounded, and empty after a drain.
func TestCache(t *testing.T) {
	r := open(t, "http:cache=on:cache-size=4000", vectors(t, 3, 100), 1)
	w, h := r.workers[0], r.client()
	cost := 100 + 256 + len("model-0123456789abcdef-1.0") // of one tensor
	old := r.publish(1)
	r.exchange(0, driver.Job{Client: 7}, old)
	name := r.model()
	was := old.Hash()
	r.publish(2)
	_, err := r.s.in.Reserve() // and the model before is gone
	check.Must(t, err)
	if a := r.ask(h, "GET", "/v1/tensors/"+name+".0", nil); a.code != 404 {
		t.Fatalf("the old model is still there: %d", a.code)
	}

	got := tensor.Alloc(r.o.Down)
	w.in.client.ID.Client = 7
	d, err := w.in.fetch.Fetch(t.Context(), name, []int{2, 0, 1}, got)
	check.Must(t, err)
	want := (driver.Amount{Tensors: 3, Bytes: 300})
	check.That(t, d == (driver.Delivered{Cached: want}), "got %+v, want %+v cached", d, want)
	check.That(t, got.Hash() == was, "the cache returned other bytes")
	wantCounts(t, "hits", r.counts(0), map[string]int64{
		phase.CacheHits: 3, phase.CacheBytes: int64(3 * cost), phase.Calls + "batch": 1, phase.BodyTensors: 3,
	})
	w.in.client.ID.Client = 8
	_, err = w.in.fetch.Fetch(t.Context(), name, []int{0}, got)
	wantError(t, "another client", err, "not in the store")

	// New models only fill the cache; the oldest tensors go.
	for round := range 10 {
		r.exchange(0, driver.Job{Round: round, Client: 7}, r.publish(uint64(round)))
	}
	wantCounts(t, "full", r.counts(0), map[string]int64{phase.CacheHits: 3, phase.CacheBytes: int64(10*cost + 9)}) // nine ids are longer by a digit
	stats := func() (a statsAnswer) {
		t.Helper()
		check.Must(t, json.Unmarshal(r.ask(h, "GET", "/v1/stats", nil).body, &a))
		return a
	}
	if got, want := stats().Caches[0], (store.CacheStats{Tensors: 10, Bytes: 10*cost + 9}); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}

	a := r.ask(h, "POST", "/v1/drain", nil)
	check.That(t, a.code == 204, "drain: got %d", a.code)
	m := r.publish(50)
	r.exchange(0, driver.Job{Round: 50, Client: 9}, m)
	if got, want := stats().Caches[0], (store.CacheStats{Tensors: 3, Bytes: 3*cost + 3}); got != want { // of the job that came with the drain
		t.Errorf("stats after drain: got %+v, want %+v", got, want)
	}
	r.exchange(0, driver.Job{Round: 51, Client: 9}, m)
	wantCounts(t, "no drain twice", r.counts(0), map[string]int64{phase.CacheHits: 6, phase.CacheBytes: int64(3*cost + 3)})
	w.in.fetch.Cache.Drain()
	check.Equal(t, w.in.fetch.Cache.Stats(), (store.CacheStats{}), "after drain")
}

// A stranger gets the tensors of a model that a codec has encoded as clients train on
// them, bit for bit, until its memory is used again.
func TestStrangersGetDecoded(t *testing.T) {
	l := layout(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{70, 3}}, tensor.Spec{Name: "n", DType: tensor.I64}, tensor.Spec{Name: "e", DType: tensor.F32, Shape: []int{0}})
	for _, variant := range []string{"http:codec=int8", "http:codec=sparse", "http-shm:codec=bf16+gaps"} {
		r := open(t, variant, l, 1)
		h := r.client()
		before := ""
		next, err := r.s.Reserve()
		check.Must(t, err)
		for n := range 4 {
			tensor.Fill(next, uint64(n))
			m, err := r.s.Publish(t.Context(), next)
			check.Must(t, err)
			next, err = r.s.Reserve()
			check.Must(t, err)
			name := r.model()
			check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{Round: n}))
			check.Must(t, train(t.Context(), r.workers[0]))
			u, err := r.s.Collect(t.Context(), 0)
			check.Must(t, err)
			u.Release()
			for i, want := range []string{"f32 70,3", "i64 ", "f32 0"} {
				a := r.ask(h, "GET", fmt.Sprintf("/v1/tensors/%s.%d", name, i), nil)
				if got := a.head.Get(store.FieldDType) + " " + a.head.Get(store.FieldShape); a.code != 200 || got != want || !bytes.Equal(a.body, m.View(i)) {
					t.Errorf("%s: tensor %d: got %d, %s and %d bytes, want %s and those of the model", variant, i, a.code, got, len(a.body), want)
				}
			}
			if before != "" {
				if a := r.ask(h, "GET", "/v1/tensors/"+before+".0", nil); a.code != 404 {
					t.Errorf("%s: a model whose memory is used again: got %d, want that it is unknown", variant, a.code)
				}
			}
			before = name
		}
	}
}
