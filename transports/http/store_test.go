package http

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
)

// TestWrongRequestsAreExplained: a request that no endpoint accepts gets an answer in JSON
// with a remedy.
func TestWrongRequestsAreExplained(t *testing.T) {
	r := start(t, "http", vectors(t, 1, 10), 1)
	r.put("t", "tensor")
	const form = "application/x-www-form-urlencoded" // the type that curl -d sends
	for _, q := range []struct {
		method, path, kind string
		code               int
		want               string
	}{
		{"GET", "/", "", 404, "no endpoint /"},
		{"GET", "/v1/tensor/t", "", 404, "no endpoint /v1/tensor/t"},
		{"GET", "/v1/tensors", "", 404, "no endpoint /v1/tensors"},
		{"GET", "/v1/batch", "", 405, "method GET of /v1/batch: must be POST"},
		{"PATCH", "/v1/tensors/t", "", 405, "must be PUT or GET or DELETE"},
		{"POST", "/v1/batch", form, 400, "Content-Type: application/json"},
		{"POST", "/v1/batch", exchange.TypeJSON + "; charset=utf-8", 200, ""},
		{"POST", "/v1/clear", form, 400, "Content-Type: application/json"},
		{"POST", "/v1/clear", exchange.TypeJSON, 200, ""},
	} {
		a := r.ask(q.method, q.path, `{"shard_ids": ["t"]}`, "Content-Type", q.kind)
		var p exchange.Problem
		if q.code >= 400 {
			check.Must(t, json.Unmarshal([]byte(a.Text), &p))
		}
		check.That(t, a.StatusCode == q.code && a.Header.Get("Content-Type") == exchange.TypeJSON && strings.Contains(p.Error, q.want),
			"%+v: got %s %s", q, a.Status, a.Text)
		check.That(t, (q.code == 405) == (a.Header.Get("Allow") != ""), "%+v: got Allow: %s", q, a.Header.Get("Allow"))
	}
}

// TestBatches: A32: five tensors with a limit of two per request are fetched in requests of
// 2, 2 and 1.
func TestBatches(t *testing.T) {
	for batch, requests := range map[int]int64{0: 1, 1: 5, 2: 3, 4: 2, 5: 1, 6: 1} {
		r := open(t, fmt.Sprintf("http:batch=%d", batch), vectors(t, 5, 100), 1)
		r.Publish(1)
		r.Prove(0, driver.Job{Client: 3})
		moved := counts{phase.BodyTensors: 5, phase.BodyBytes: 500, phase.HandleTensors: 0}
		r.counted(moved, moved)
		r.counted(counts{phase.Served + "jobs": 1, phase.Served + "batch": requests, phase.Served + "results": 1},
			counts{phase.Calls + "jobs": 1, phase.Calls + "batch": requests, phase.Calls + "results": 1, phase.Calls + "join": 1})
	}
}

// caches returns the totals of all lanes' caches, as the server reports them.
func (r *rig) caches() (sum store.CacheStats) {
	r.T.Helper()
	var a statsAnswer
	check.Must(r.T, json.Unmarshal([]byte(r.ask("GET", "/v1/stats", "").Text), &a))
	for _, c := range a.Caches {
		sum.Tensors, sum.Bytes = sum.Tensors+c.Tensors, sum.Bytes+c.Bytes
	}
	return sum
}

// cost returns the cache's memory for a tensor of 100 bytes of the published model.
func (r *rig) cost() int { return 100 + 256 + len(r.model()+".0") }

// TestCache: A31: a client can fetch a cached tensor after the server has retired it. Each
// client has its own bounded cache, from which the oldest tensors are removed.
func TestCache(t *testing.T) {
	r := open(t, "http:cache=on:cache-size=4000", vectors(t, 3, 100), 1)
	w, old := r.worker(0), r.Publish(1)
	r.Prove(0, driver.Job{Client: 7})
	name, was := r.model(), old.Hash()
	r.Publish(2)
	_, err := r.server.Reserve() // and so retires the previous model
	check.Must(t, err)
	r.ask("GET", "/v1/tensors/"+name+".0", "").Want(404, "", "the old model")

	got, before := tensor.Alloc(r.Options.Down), r.caches()
	w.client.ID.Client = 7
	d := check.Value(w.fetch.Fetch(t.Context(), name, []int{2, 0, 1}, got))(t)
	check.Equal(t, d, driver.Delivered{Cached: driver.Amount{Tensors: 3, Bytes: 300}})
	check.That(t, got.Hash() == was, "the cache returned other bytes")
	check.Equal(t, before, store.CacheStats{Tensors: 3, Bytes: 3 * r.cost()})
	r.counted(nil, counts{phase.CacheHits: 3, phase.Calls + "batch": 1, phase.BodyTensors: 3})
	w.client.ID.Client = 8
	check.Fails(t, check.Err(w.fetch.Fetch(t.Context(), name, []int{0}, got)), "not in the store", "another client")
	for round := range 7 { // these only fill the cache
		r.Publish(uint64(round))
		r.Prove(0, driver.Job{Round: round, Client: 7})
	}
	full := store.CacheStats{Tensors: 4000 / r.cost(), Bytes: 4000 / r.cost() * r.cost()}
	check.Equal(t, r.caches(), full)
	r.counted(nil, counts{phase.CacheHits: 3, phase.CacheBytes: int64(full.Bytes)})
}

// TestDrain: A31: without draining, caches grow by each client's model in every round,
// without hits. With drain=on they hold only the last round's models. A drain on request
// empties each cache once.
func TestDrain(t *testing.T) {
	const lanes, clients, tensors = 2, 4, 3
	turns := func(r *rig, round int) {
		for c := range clients {
			r.Prove(c%lanes, driver.Job{Round: round, Client: c})
		}
	}
	for variant, drained := range map[string]bool{"http:cache=on": false, "http:cache=on:drain=on": true} {
		r := open(t, variant, vectors(t, tensors, 100), lanes)
		var want store.CacheStats
		holds := func(models int) {
			t.Helper()
			want.Tensors, want.Bytes = want.Tensors+models*tensors, want.Bytes+models*tensors*r.cost()
			check.Equal(t, r.caches(), want, variant)
			r.counted(nil, counts{phase.CacheBytes: int64(want.Bytes), phase.CacheHits: 0})
		}
		for round := range 5 {
			r.Publish(uint64(round))
			turns(r, round)
			if drained {
				want = store.CacheStats{}
			}
			holds(clients)
		}
		r.ask("POST", "/v1/drain", "").Want(204, "")
		r.Publish(5)
		want = store.CacheStats{}
		turns(r, 5)
		holds(clients)
	}
	// With a codec, a job needs no model if the lane has it, so it adds nothing to the
	// cache.
	r := open(t, "http:cache=on:codec=sparse", vectors(t, tensors, 100), lanes)
	r.Publish(1)
	turns(r, 0)
	check.Equal(t, r.caches().Tensors, lanes*tensors, "of each lane's model")
	r.ask("POST", "/v1/drain", "").Want(204, "")
	turns(r, 0)
	check.Equal(t, r.caches(), store.CacheStats{}, "after the drain")
}

// TestStrangersGetDecoded: a client gets the tensors of an encoded model decoded, bit for
// bit, until the model's memory is reused.
func TestStrangersGetDecoded(t *testing.T) {
	l := drivertest.Layout(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{70, 3}}, tensor.Spec{Name: "n", DType: tensor.I64})
	for _, variant := range []string{"http:codec=int8", "http-shm:codec=bf16+gaps"} {
		r := open(t, variant, l, 1)
		var names []string
		for n := range 3 {
			m := r.Publish(uint64(n))
			r.Exchange(0, driver.Job{Round: n}).Release()
			names = append(names, "/v1/tensors/"+r.model()+".")
			a := r.ask("GET", names[n]+"0", "")
			a.Want(200, string(m.View(0)), variant)
			check.Equal(t, a.Header.Get(store.FieldDType)+" "+a.Header.Get(store.FieldShape), "f32 70,3", variant)
			r.ask("GET", names[n]+"1", "").Want(200, string(m.View(1)), variant)
		}
		r.ask("GET", names[0]+"0", "").Want(404, "", variant)
	}
}
