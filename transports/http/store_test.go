package http

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// A1: put, get, batch, delete and clear, with their status codes, exact counts
// and causes, on both transports.
func TestStore(t *testing.T) {
	for _, variant := range []string{"http", "http-shm", "http:network=tcp"} {
		t.Run(variant, func(t *testing.T) {
			r := start(t, variant, vectors(t, 1, 10), 1)
			c := r.client()
			want := func(what string, got reply, code int, body string) {
				t.Helper()
				if got.code != code || !strings.Contains(string(got.body), body) {
					t.Errorf("%s: got %d %q, want %d and %q", what, got.code, got.body, code, body)
				}
			}
			data := pattern(1, 1000)
			for i := range 5 {
				r.put(c, fmt.Sprint("t", i), append(data, byte(i)))
			}
			got := r.ask(c, "GET", "/v1/tensors/t3", nil)
			if got.code != 200 || !bytes.Equal(got.body, append(data, 3)) || got.head.Get(fieldDType) != "u8" || got.head.Get(fieldShape) != "1001" {
				t.Errorf("get: got %d, %d bytes, %v", got.code, len(got.body), got.head)
			}
			want("get of nothing", r.ask(c, "GET", "/v1/tensors/t9", nil), 404, "no such tensor")

			again := r.ask(c, "PUT", "/v1/tensors/t3", []byte{1, 2, 3, 4}, fieldDType, "f32", fieldShape, "")
			want("replace", again, 200, `"id":"t3"`)
			got = r.ask(c, "GET", "/v1/tensors/t3", nil)
			if !bytes.Equal(got.body, []byte{1, 2, 3, 4}) || got.head.Get(fieldDType) != "f32" || got.head.Get(fieldShape) != "" {
				t.Errorf("get of what was replaced: got %x %v", got.body, got.head)
			}

			// A32: order is that of the request; what is missing is named, in order.
			got = r.ask(c, "POST", "/v1/batch", []byte("t4\nt0\nt4\n"))
			table, err := strconv.Atoi(got.head.Get(fieldTable))
			check(t, err)
			if got.head.Get(fieldCount) != "3" || !bytes.Equal(got.body[table:], slices.Concat(data, []byte{4}, data, []byte{0}, data, []byte{4})) {
				t.Errorf("batch: got %v and %d bytes", got.head, len(got.body))
			}
			want("batch with unknown ids", r.ask(c, "POST", "/v1/batch", []byte("x9\nt0\nx1\n")), 400, `"missing":["x9","x1"]`)
			want("batch of nothing", r.ask(c, "POST", "/v1/batch", nil), 200, "")
			got = r.ask(c, "POST", "/v1/batch", []byte(`{"shard_ids":["t3"]}`), "Content-Type", typeJSON)
			want("batch in JSON", got, 200, `[{"type":"tensor","dtype":"f32","shape":[],"data":"AQIDBA=="}]`)

			want("delete", r.ask(c, "DELETE", "/v1/tensors/t0", nil), 204, "")
			want("second delete", r.ask(c, "DELETE", "/v1/tensors/t0", nil), 404, "")
			want("stats", r.ask(c, "GET", "/v1/stats", nil), 200, `"tensors":4,"bytes":3007`)
			want("clear", r.ask(c, "POST", "/v1/clear", []byte("t0\nt1\nt2\nt2\nzz\n")), 200, `{"cleared_count":2}`)
			want("get after clear", r.ask(c, "GET", "/v1/tensors/t1", nil), 404, "")
			want("clear in JSON", r.ask(c, "POST", "/v1/clear", []byte(`{"shard_ids":["t4","t3"]}`), "Content-Type", typeJSON), 200, `{"cleared_count":2}`)
			want("stats after clear", r.ask(c, "GET", "/v1/stats", nil), 200, `"tensors":0,"bytes":0`)

			// The model is in the store, and is the session's.
			m := r.publish(3)
			set, err := r.s.store.current()
			check(t, err)
			id := set.name + ".0"
			if got := r.ask(c, "GET", "/v1/tensors/"+id, nil); !bytes.Equal(got.body, m.View(0)) {
				t.Errorf("get of the model: got %d %x", got.code, got.body)
			}
			want("delete of the model", r.ask(c, "DELETE", "/v1/tensors/"+id, nil), 409, "belong to the session")
			want("put over the model", r.ask(c, "PUT", "/v1/tensors/"+id, []byte{1}, fieldDType, "u8", fieldShape, "1"), 409, "belong to the session")
			r.put(c, "kept", data)
			want("clear of the model", r.ask(c, "POST", "/v1/clear", []byte("kept\n"+id)), 409, "belong to the session")
			want("what it would have cleared", r.ask(c, "GET", "/v1/tensors/kept", nil), 200, string(data))
			for _, tail := range []string{".1", ".00", ".-0", ".", ".0.0", ".4294967296", ".99999999999999999999"} {
				want("get of no tensor of the model", r.ask(c, "GET", "/v1/tensors/"+set.name+tail, nil), 404, "")
			}
		})
	}
}

// A tensor cannot be put in the place of one that a later model will have, nor of
// one of a model that is gone.
func TestFutureModel(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		r := open(t, variant, vectors(t, 1, 8), 1)
		r.publish(1)
		r.publish(2)
		prefix := strings.TrimSuffix(jobModel(t, r), "2")
		for _, id := range []string{"1.0", "2.0", "2.7", "3.0", "3.1", "x", ""} {
			a := r.ask(r.client(), "PUT", "/v1/tensors/"+prefix+id, pattern(9, 8), fieldDType, "u8", fieldShape, "8")
			if a.code != http.StatusConflict || !strings.Contains(string(a.body), "belong to the session") {
				t.Errorf("%s: put of …%s: got %d %s, want 409", variant, id, a.code, a.body)
			}
		}
		// Even one that got there is not taken for the model's.
		r.s.store.put(prefix+"3.0", &single{kind: kind{"u8", []int{8}, 8}, entry: kind{"u8", []int{8}, 8}.appendEntry(nil), data: pattern(9, 8)})
		m := r.publish(3)
		r.exchange(0, driver.Job{}, m)
		if a := r.ask(r.client(), "GET", "/v1/tensors/"+prefix+"3.0", nil); !bytes.Equal(a.body, m.View(0)) {
			t.Errorf("%s: get: got %x, want the model's tensor %x", variant, a.body, m.View(0))
		}
	}
}

// A type of ours may be spelt as in safetensors, and then is one of ours: its
// size is checked, and it is answered as we spell it.
func TestSpellings(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 1, 1), 1)
	c := r.client()
	for _, d := range tensor.DTypes() {
		for _, name := range []string{d.String(), strings.ToUpper(d.String())} {
			a := r.ask(c, "PUT", "/v1/tensors/"+name, pattern(1, 3*d.Size()), fieldDType, name, fieldShape, "3")
			if a.code != 201 || !strings.Contains(string(a.body), `"pool"`) || !strings.Contains(string(a.body), `"dtype":"`+d.String()+`"`) {
				t.Errorf("%s: got %d %s, want it stored as %v", name, a.code, a.body, d)
			}
			if a := r.ask(c, "GET", "/v1/tensors/"+name, nil); a.head.Get(fieldDType) != d.String() {
				t.Errorf("%s: comes back as %s", name, a.head.Get(fieldDType))
			}
			a = r.ask(c, "PUT", "/v1/tensors/x", pattern(1, 3*d.Size()), fieldDType, name, fieldShape, "4")
			if a.code != 400 {
				t.Errorf("%s of another shape: got %d %s, want 400", name, a.code, a.body)
			}
		}
	}
}

// A slab for stored tensors that cannot be made, for another reason than that
// memory is short, is an error with its cause; what it was can be mended.
func TestStoredSlabFails(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 1, 1), 1)
	c := r.client()
	path := r.s.store.pool.path
	check(t, os.WriteFile(path, nil, 0o600)) // in the place of the slab
	a := r.ask(c, "PUT", "/v1/tensors/t", []byte{1}, fieldDType, "u8", fieldShape, "1")
	if a.code != 500 || !strings.Contains(string(a.body), "slab of stored tensors") || !strings.Contains(string(a.body), "exists") {
		t.Errorf("got %d %s, want 500 with the cause", a.code, a.body)
	}
	if n, held := r.s.store.held(); n != 0 || held != 0 {
		t.Errorf("the store holds %d tensors, %d bytes", n, held)
	}
	check(t, os.Remove(path))
	if ref := r.put(c, "t", []byte{1}); ref.Pool == nil {
		t.Errorf("got %+v, want it in the slab", ref)
	}
}

// A cache is bounded in all that it takes: tensors without a byte are not free.
func TestCacheIsBounded(t *testing.T) {
	const size = 1 << 20
	for _, n := range []int{0, 1, 1000} {
		c := newCache(size, nil)
		data := make([]byte, n)
		for i := range 1 << 14 {
			c.put(0, []byte(strconv.Itoa(i)), data)
		}
		got := c.stats()
		if most := size / (n + entryBytes + 1); got.Tensors > most || got.Tensors < most/2 || got.Bytes > size || len(c.entries) != c.order.Len() {
			t.Errorf("tensors of %d bytes: holds %+v, want %d at most", n, got, most)
		}
		c.put(0, []byte("huge"), make([]byte, size))
		if c.get(0, []byte("huge"), make([]byte, size)) || c.stats() != got {
			t.Errorf("a tensor that does not fit with its id was kept")
		}
		c.drain()
		if c.stats() != (cacheStats{}) {
			t.Errorf("after drain: %+v", c.stats())
		}
	}
}

// A1: an id may be repeated, but not until the answer is larger than all that
// could be in the store: it takes two bytes, and what it stands for a MiB.
func TestRepeatedIDs(t *testing.T) {
	const size = 1 << 20
	r := start(t, "http", vectors(t, 1, 10), 1)
	c := r.client()
	r.put(c, "t", pattern(1, size))
	most := storeRoom(r.o) / size
	for n, code := range map[int]int{2: 200, most + 1: 413, maxIDs / 64: 413} {
		for kind, ids := range map[string]string{
			typeText: strings.Repeat("t\n", n),
			typeJSON: `{"shard_ids":["t"` + strings.Repeat(`,"t"`, n-1) + `]}`,
		} {
			if got := r.ask(c, "POST", "/v1/batch", []byte(ids), "Content-Type", kind); got.code != code {
				t.Errorf("%s with an id %d times: got %d and %d bytes, want %d", kind, n, got.code, len(got.body), code)
			}
		}
	}
}

// A1: what goes wrong inside is a 500 with its cause, and not the end of the
// server.
func TestInternalErrors(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 1, 10), 1)
	c := r.client()
	r.put(c, "t", []byte("tensor"))
	check(t, r.s.store.pool.pool.Close(t.Context()))
	for _, a := range []reply{
		r.ask(c, "GET", "/v1/tensors/t", nil),
		r.ask(c, "POST", "/v1/batch", []byte("t")),
		r.ask(c, "PUT", "/v1/tensors/u", []byte{1}, fieldDType, "u8", fieldShape, "1"),
	} {
		if a.code != 500 || !strings.Contains(string(a.body), "pool is closed") {
			t.Errorf("got %d %s, want 500 with the cause", a.code, a.body)
		}
	}
	r.s.store.single["broken"] = nil // a handler that panics
	if a := r.ask(c, "GET", "/v1/tensors/broken", nil); a.code != 500 || !strings.Contains(string(a.body), "nil pointer") {
		t.Errorf("panic: got %d %s, want 500 with the cause", a.code, a.body)
	}
	delete(r.s.store.single, "broken")
	if a := r.ask(c, "GET", "/v1/ping", nil); a.code != 204 {
		t.Errorf("ping: got %d", a.code)
	}
}

// Whoever asks in a way that no endpoint understands is told in JSON what to do.
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
		{"POST", "/v1/batch", typeJSON, 200, ""},
		{"POST", "/v1/batch", typeJSON + "; charset=utf-8", 200, ""},
		{"POST", "/v1/clear", form, 400, "Content-Type: application/json"},
		{"POST", "/v1/clear", typeJSON, 200, ""},
	} {
		a := r.ask(c, q.method, q.path, ids, "Content-Type", q.kind)
		var p problem
		if q.code >= 400 {
			check(t, json.Unmarshal(a.body, &p))
		}
		if a.code != q.code || a.head.Get("Content-Type") != typeJSON || !strings.Contains(p.Error, q.want) {
			t.Errorf("%s %s as %q: got %d %s %s, want %d with %q in JSON", q.method, q.path, q.kind, a.code, a.head.Get("Content-Type"), a.body, q.code, q.want)
		}
		if allow := a.head.Get("Allow"); (q.code == 405) != (allow != "") {
			t.Errorf("%s %s: got Allow: %s", q.method, q.path, allow)
		}
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
	cost := 100 + entryBytes + len("model-0123456789abcdef-1.0") // of one tensor
	old := r.publish(1)
	r.exchange(0, driver.Job{Client: 7}, old)
	name := jobModel(t, r)
	was := old.Hash()
	r.publish(2) // and the model before is gone
	if a := r.ask(h, "GET", "/v1/tensors/"+name+".0", nil); a.code != 404 {
		t.Fatalf("the old model is still there: %d", a.code)
	}

	got := tensor.Alloc(r.o.Down)
	w.client.id.Client = 7
	check(t, w.fetch.fetch(t.Context(), name, []int{2, 0, 1}, got))
	if got.Hash() != was {
		t.Error("the cache returned other bytes")
	}
	wantCounts(t, "hits", r.counts(0), map[string]int64{
		phase.CacheHits: 3, phase.CacheBytes: int64(3 * cost), phase.Calls + "batch": 1, phase.BodyTensors: 3,
	})
	w.client.id.Client = 8
	wantError(t, "another client", w.fetch.fetch(t.Context(), name, []int{0}, got), "not in the store")

	// New models only fill the cache; the oldest tensors go.
	for round := range 10 {
		r.exchange(0, driver.Job{Round: round, Client: 7}, r.publish(uint64(round)))
	}
	wantCounts(t, "full", r.counts(0), map[string]int64{phase.CacheHits: 3, phase.CacheBytes: int64(10*cost + 9)}) // nine ids are longer by a digit
	stats := func() (a statsAnswer) {
		t.Helper()
		check(t, json.Unmarshal(r.ask(h, "GET", "/v1/stats", nil).body, &a))
		return a
	}
	if got, want := stats().Caches[0], (cacheStats{10, 10*cost + 9}); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}

	if a := r.ask(h, "POST", "/v1/drain", nil); a.code != 204 {
		t.Errorf("drain: got %d", a.code)
	}
	m := r.publish(50)
	r.exchange(0, driver.Job{Round: 50, Client: 9}, m)
	if got, want := stats().Caches[0], (cacheStats{3, 3*cost + 3}); got != want { // of the job that came with the drain
		t.Errorf("stats after drain: got %+v, want %+v", got, want)
	}
	r.exchange(0, driver.Job{Round: 51, Client: 9}, m)
	wantCounts(t, "no drain twice", r.counts(0), map[string]int64{phase.CacheHits: 6, phase.CacheBytes: int64(3*cost + 3)})
	w.fetch.cache.drain()
	if got := w.fetch.cache.stats(); got != (cacheStats{}) {
		t.Errorf("after drain: %+v", got)
	}
}

// jobModel returns the name of the published model.
func jobModel(t *testing.T, r *rig) string {
	t.Helper()
	set, err := r.s.store.current()
	check(t, err)
	return set.name
}

// A14, A27: nobody sees a tensor before all its bytes are there, a failed write
// is never seen, and a blocked one blocks nobody else.
func TestVisibleWhenComplete(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		r := start(t, variant, vectors(t, 1, 10), 1)
		h := r.client()
		r.put(h, "other", []byte("other"))
		slow, failed := r.raw(), r.raw()
		head := "PUT /v1/tensors/%s HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nTensor-Shape: 8\r\nContent-Length: 8\r\n\r\nhalf"
		fmt.Fprintf(slow, r.admitted(head), "slow")
		fmt.Fprintf(failed, r.admitted(head), "failed")
		check(t, failed.Close())
		for range 20 {
			if a := r.ask(h, "GET", "/v1/tensors/slow", nil); a.code != 404 {
				t.Fatalf("%s: half a tensor is visible: %d %q", variant, a.code, a.body)
			}
			if a := r.ask(h, "GET", "/v1/tensors/other", nil); string(a.body) != "other" {
				t.Fatalf("%s: another tensor: %d", variant, a.code)
			}
		}
		fmt.Fprint(slow, "half")
		answer := make([]byte, 12)
		_, err := io.ReadFull(slow, answer)
		check(t, err)
		if string(answer) != "HTTP/1.1 201" {
			t.Errorf("%s: got %q", variant, answer)
		}
		if a := r.ask(h, "GET", "/v1/tensors/slow", nil); string(a.body) != "halfhalf" {
			t.Errorf("%s: got %d %q", variant, a.code, a.body)
		}
		if a := r.ask(h, "GET", "/v1/tensors/failed", nil); a.code != 404 {
			t.Errorf("%s: a failed write is visible: %d", variant, a.code)
		}
		eventually(t, variant+": 13 bytes in the store, without the failed write's", func() bool {
			_, held := r.s.store.held()
			return held == 13
		})
	}
}

// A reader of a model that is replaced meanwhile gets an answer that ends short,
// and never other bytes.
func TestModelRetires(t *testing.T) {
	for _, variant := range []string{"http", "http-shm"} {
		const size = 16 << 20 // more than sockets hold
		r := start(t, variant, vectors(t, 1, size), 1)
		r.publish(1)
		c := r.raw()
		fmt.Fprintf(c, "POST /v1/batch HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s.0", r.secret(), len(jobModel(t, r))+2, jobModel(t, r))
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		check(t, err)
		r.publish(2) // where the next one goes, nobody has written yet
		got, err := io.ReadAll(a.Body)
		if a.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: got %s with %d bytes and error %v, want an answer that ends short", variant, a.Status, len(got), err)
		}
	}
}

// A stranger who fills the store is told so, and the session goes on.
func TestStoreIsBounded(t *testing.T) {
	r := open(t, "http", vectors(t, 1, 10), 1)
	h := r.client()
	third := make([]byte, 25<<20)
	r.put(h, "a", third)
	r.put(h, "b", third)
	a := r.ask(h, "PUT", "/v1/tensors/c", third, fieldDType, "u8", fieldShape, fmt.Sprint(len(third)))
	if a.code != http.StatusInsufficientStorage {
		t.Errorf("third: got %d %s", a.code, a.body)
	}
	a = r.ask(h, "DELETE", "/v1/tensors/a", nil)
	if a.code != 204 {
		t.Errorf("delete: got %d", a.code)
	}
	r.put(h, "c", third)
	for range maxIDs - 2 {
		check(t, r.s.store.reserve(0))
	}
	if err := r.s.store.reserve(0); !errors.Is(err, errNoRoom) {
		t.Errorf("one tensor more than the store may hold: got %v", err)
	}
	r.exchange(0, driver.Job{}, r.publish(1))
}
