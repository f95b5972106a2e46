package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/internal/slab"
)

// A1: put, get, batch, delete and clear, with their status codes, exact counts
// and causes, on both transports.
func TestStore(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			r := start(t, kind, vectors(t, 1, 10))
			c := r.client()
			want := func(what string, got reply, code int, body string) {
				t.Helper()
				check.That(t, got.code == code && strings.Contains(string(got.body), body),
					"%s: got %d %q, want %d and %q", what, got.code, got.body, code, body)
			}
			data := pattern(1, 1000)
			for i := range 5 {
				r.put(c, fmt.Sprint("t", i), append(data, byte(i)))
			}
			got := r.ask(c, "GET", "/v1/tensors/t3", nil)
			if got.code != 200 || !bytes.Equal(got.body, append(data, 3)) || got.head.Get(FieldDType) != "u8" || got.head.Get(FieldShape) != "1001" {
				t.Errorf("get: got %d, %d bytes, %v", got.code, len(got.body), got.head)
			}
			want("get of nothing", r.ask(c, "GET", "/v1/tensors/t9", nil), 404, "no such tensor")

			again := r.ask(c, "PUT", "/v1/tensors/t3", []byte{1, 2, 3, 4}, FieldDType, "f32", FieldShape, "")
			want("replace", again, 200, `"id":"t3"`)
			got = r.ask(c, "GET", "/v1/tensors/t3", nil)
			if !bytes.Equal(got.body, []byte{1, 2, 3, 4}) || got.head.Get(FieldDType) != "f32" || got.head.Get(FieldShape) != "" {
				t.Errorf("get of what was replaced: got %x %v", got.body, got.head)
			}

			// A32: order is that of the request; what is missing is named, in order.
			got = r.ask(c, "POST", "/v1/batch", []byte("t4\nt0\nt4\n"))
			table, err := strconv.Atoi(got.head.Get(FieldTable))
			check.Must(t, err)
			if got.head.Get(FieldCount) != "3" || !bytes.Equal(got.body[table:], slices.Concat(data, []byte{4}, data, []byte{0}, data, []byte{4})) {
				t.Errorf("batch: got %v and %d bytes", got.head, len(got.body))
			}
			want("batch with unknown ids", r.ask(c, "POST", "/v1/batch", []byte("x9\nt0\nx1\n")), 400, `"missing":["x9","x1"]`)
			want("batch of nothing", r.ask(c, "POST", "/v1/batch", nil), 200, "")
			got = r.ask(c, "POST", "/v1/batch", []byte(`{"shard_ids":["t3"]}`), "Content-Type", exchange.TypeJSON)
			want("batch in JSON", got, 200, `[{"type":"tensor","dtype":"f32","shape":[],"data":"AQIDBA=="}]`)

			want("delete", r.ask(c, "DELETE", "/v1/tensors/t0", nil), 204, "")
			want("second delete", r.ask(c, "DELETE", "/v1/tensors/t0", nil), 404, "")
			if got := r.s.Stats(); got.Tensors != 4 || got.Bytes != 3007 {
				t.Errorf("stats: got %+v, want 4 tensors and 3007 bytes", got)
			}
			want("clear", r.ask(c, "POST", "/v1/clear", []byte("t0\nt1\nt2\nt2\nzz\n")), 200, `{"cleared_count":2}`)
			want("get after clear", r.ask(c, "GET", "/v1/tensors/t1", nil), 404, "")
			want("clear in JSON", r.ask(c, "POST", "/v1/clear", []byte(`{"shard_ids":["t4","t3"]}`), "Content-Type", exchange.TypeJSON), 200, `{"cleared_count":2}`)
			if got := r.s.Stats(); got.Tensors != 0 || got.Bytes != 0 {
				t.Errorf("stats after clear: got %+v, want nothing", got)
			}

			// The model is in the store, and is the session's.
			m := r.publish(3)
			id := r.name() + ".0"
			if got := r.ask(c, "GET", "/v1/tensors/"+id, nil); !bytes.Equal(got.body, m.View(0)) {
				t.Errorf("get of the model: got %d %x", got.code, got.body)
			}
			want("delete of the model", r.ask(c, "DELETE", "/v1/tensors/"+id, nil), 409, "belong to the session")
			want("put over the model", r.ask(c, "PUT", "/v1/tensors/"+id, []byte{1}, FieldDType, "u8", FieldShape, "1"), 409, "belong to the session")
			r.put(c, "kept", data)
			want("clear of the model", r.ask(c, "POST", "/v1/clear", []byte("kept\n"+id)), 409, "belong to the session")
			want("what it would have cleared", r.ask(c, "GET", "/v1/tensors/kept", nil), 200, string(data))
			for _, tail := range []string{".1", ".00", ".-0", ".", ".0.0", ".4294967296", ".99999999999999999999"} {
				want("get of no tensor of the model", r.ask(c, "GET", "/v1/tensors/"+r.name()+tail, nil), 404, "")
			}
		})
	}
}

// A tensor cannot be put in the place of one that a later model will have, nor of
// one of a model that is gone.
func TestFutureModel(t *testing.T) {
	for _, kind := range kinds {
		r := start(t, kind, vectors(t, 1, 8))
		r.publish(1)
		r.publish(2)
		for _, id := range []string{"1.0", "2.0", "2.7", "3.0", "3.1", "x", ""} {
			a := r.ask(r.client(), "PUT", "/v1/tensors/"+prefix+id, pattern(9, 8), FieldDType, "u8", FieldShape, "8")
			check.That(t, a.code == http.StatusConflict && strings.Contains(string(a.body), "belong to the session"),
				"%s: put of …%s: got %d %s, want 409", kind, id, a.code, a.body)
		}
		// Even one that got there is not taken for the model's.
		r.s.add(prefix+"3.0", &stored{meta: Meta{DType: "u8", Shape: []int{8}, Size: 8}, data: pattern(9, 8)})
		m := r.publish(3)
		if a := r.ask(r.client(), "GET", "/v1/tensors/"+prefix+"3.0", nil); !bytes.Equal(a.body, m.View(0)) {
			t.Errorf("%s: get: got %x, want the model's tensor %x", kind, a.body, m.View(0))
		}
	}
}

// A type of ours may be spelt as in safetensors, and then is one of ours: its
// size is checked, and it is answered as we spell it.
func TestSpellings(t *testing.T) {
	r := start(t, "slab", vectors(t, 1, 1))
	c := r.client()
	for _, d := range tensor.DTypes() {
		for _, name := range []string{d.String(), strings.ToUpper(d.String())} {
			a := r.ask(c, "PUT", "/v1/tensors/"+name, pattern(1, 3*d.Size()), FieldDType, name, FieldShape, "3")
			if a.code != 201 || !strings.Contains(string(a.body), `"pool"`) || !strings.Contains(string(a.body), `"dtype":"`+d.String()+`"`) {
				t.Errorf("%s: got %d %s, want it stored as %v", name, a.code, a.body, d)
			}
			if a := r.ask(c, "GET", "/v1/tensors/"+name, nil); a.head.Get(FieldDType) != d.String() {
				t.Errorf("%s: comes back as %s", name, a.head.Get(FieldDType))
			}
			a = r.ask(c, "PUT", "/v1/tensors/x", pattern(1, 3*d.Size()), FieldDType, name, FieldShape, "4")
			check.That(t, a.code == 400, "%s of another shape: got %d %s, want 400", name, a.code, a.body)
		}
	}
}

// A slab for stored tensors that cannot be made, for another reason than that
// memory is short, is an error with its cause; what it was can be mended.
func TestStoredSlabFails(t *testing.T) {
	r := start(t, "slab", vectors(t, 1, 1))
	c := r.client()
	path := r.o.Slab
	check.Must(t, os.WriteFile(path, nil, 0o600)) // in the place of the slab
	a := r.ask(c, "PUT", "/v1/tensors/t", []byte{1}, FieldDType, "u8", FieldShape, "1")
	if a.code != 500 || !strings.Contains(string(a.body), "slab of stored tensors") || !strings.Contains(string(a.body), "exists") {
		t.Errorf("got %d %s, want 500 with the cause", a.code, a.body)
	}
	got := r.s.Stats()
	check.That(t, got.Tensors == 0 && got.Bytes == 0, "the store holds %d tensors, %d bytes", got.Tensors, got.Bytes)
	check.Must(t, os.Remove(path))
	ref := r.put(c, "t", []byte{1})
	check.That(t, ref.Pool != nil, "got %+v, want it in the slab", ref)
}

// A cache is bounded in all that it takes: tensors without a byte are not free.
func TestCacheIsBounded(t *testing.T) {
	const size = 1 << 20
	for _, n := range []int{0, 1, 1000} {
		c := NewCache(size, nil)
		data := make([]byte, n)
		for i := range 1 << 14 {
			c.put(0, []byte(strconv.Itoa(i)), data)
		}
		got := c.Stats()
		if most := size / (n + entryBytes + 1); got.Tensors > most || got.Tensors < most/2 || got.Bytes > size || len(c.tensors) != len(c.order) {
			t.Errorf("tensors of %d bytes: holds %+v, want %d at most", n, got, most)
		}
		c.put(0, []byte("huge"), make([]byte, size))
		check.That(t, !c.get(0, []byte("huge"), make([]byte, size)) && c.Stats() == got,
			"a tensor that does not fit with its id was kept")
		c.Drain()
		check.Equal(t, c.Stats(), (CacheStats{}), "after drain")
	}
}

// A1: an id may be repeated, but not until the answer is larger than all that
// could be in the store: it takes two bytes, and what it stands for a MiB.
func TestRepeatedIDs(t *testing.T) {
	const size = 1 << 20
	r := start(t, "heap", vectors(t, 1, 10))
	c := r.client()
	r.put(c, "t", pattern(1, size))
	most := r.o.Room / size
	for n, code := range map[int]int{2: 200, most + 1: 413, MaxIDs / 64: 413} {
		for kind, ids := range map[string]string{
			exchange.TypeText: strings.Repeat("t\n", n),
			exchange.TypeJSON: `{"shard_ids":["t"` + strings.Repeat(`,"t"`, n-1) + `]}`,
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
	r := start(t, "slab", vectors(t, 1, 10))
	c := r.client()
	r.put(c, "t", []byte("tensor"))
	check.Must(t, r.s.pool.Close())
	for _, a := range []reply{
		r.ask(c, "GET", "/v1/tensors/t", nil),
		r.ask(c, "POST", "/v1/batch", []byte("t")),
		r.ask(c, "PUT", "/v1/tensors/u", []byte{1}, FieldDType, "u8", FieldShape, "1"),
	} {
		check.That(t, a.code == 500 && strings.Contains(string(a.body), "pool is closed"),
			"got %d %s, want 500 with the cause", a.code, a.body)
	}
	r.s.put["broken"] = nil // a handler that panics
	if a := r.ask(c, "GET", "/v1/tensors/broken", nil); a.code != 500 || !strings.Contains(string(a.body), "nil pointer") {
		t.Errorf("panic: got %d %s, want 500 with the cause", a.code, a.body)
	}
	delete(r.s.put, "broken")
	if a := r.ask(c, "GET", "/v1/tensors/zz", nil); a.code != 404 {
		t.Errorf("get after it: got %d", a.code)
	}
}

// A14, A27: nobody sees a tensor before all its bytes are there, a failed write
// is never seen, and a blocked one blocks nobody else.
func TestVisibleWhenComplete(t *testing.T) {
	for _, kind := range kinds {
		r := start(t, kind, vectors(t, 1, 10))
		h := r.client()
		r.put(h, "other", []byte("other"))
		slow, failed := r.dial(), r.dial()
		head := "PUT /v1/tensors/%s HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nTensor-Shape: 8\r\nContent-Length: 8\r\n\r\nhalf"
		fmt.Fprintf(slow, head, "slow")
		fmt.Fprintf(failed, head, "failed")
		check.Must(t, failed.Close())
		for range 20 {
			a := r.ask(h, "GET", "/v1/tensors/slow", nil)
			check.Need(t, a.code == 404, "%s: half a tensor is visible: %d %q", kind, a.code, a.body)
			if a := r.ask(h, "GET", "/v1/tensors/other", nil); string(a.body) != "other" {
				t.Fatalf("%s: another tensor: %d", kind, a.code)
			}
		}
		fmt.Fprint(slow, "half")
		answer := make([]byte, 12)
		_, err := io.ReadFull(slow, answer)
		check.Must(t, err)
		check.That(t, string(answer) == "HTTP/1.1 201", "%s: got %q", kind, answer)
		a := r.ask(h, "GET", "/v1/tensors/slow", nil)
		check.That(t, string(a.body) == "halfhalf", "%s: got %d %q", kind, a.code, a.body)
		if a := r.ask(h, "GET", "/v1/tensors/failed", nil); a.code != 404 {
			t.Errorf("%s: a failed write is visible: %d", kind, a.code)
		}
		waiting.Until(t, kind+": 13 bytes in the store, without the failed write's", func() bool {
			return r.s.Stats().Bytes == 13
		})
	}
}

// A reader of a model that retires meanwhile gets an answer that ends short,
// and never other bytes.
func TestModelRetires(t *testing.T) {
	for _, kind := range kinds {
		const size = 16 << 20 // more than sockets hold
		r := start(t, kind, vectors(t, 1, size))
		p := r.publish(1)
		c := r.dial()
		fmt.Fprintf(c, "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s.0", len(r.name())+2, r.name())
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		check.Must(t, err)
		r.publish(2) // beside it
		r.s.Retire(p)
		got, err := io.ReadAll(a.Body)
		check.That(t, a.StatusCode == 200 && errors.Is(err, io.ErrUnexpectedEOF),
			"%s: got %s with %d bytes and error %v, want an answer that ends short", kind, a.Status, len(got), err)
	}
}

// TestDecoded: a stranger who gets a tensor of an encoded model gets what it decodes to,
// bit for bit and with its data type and shape; a batch has it as it travels. What
// retires is unknown in both ways, though the model beside it is not.
func TestDecoded(t *testing.T) {
	plain, err := tensor.NewLayout([]tensor.Spec{
		{Name: "a", DType: tensor.F32, Shape: []int{5, 3}}, {Name: "b", DType: tensor.I64}, {Name: "c", DType: tensor.BF16, Shape: []int{9, 2}, Var: true},
	})
	check.Must(t, err)
	var specs []tensor.Spec
	for i := range plain.Len() {
		specs = append(specs, tensor.Spec{Name: plain.Spec(i).Name, DType: tensor.U8, Shape: []int{plain.Bytes(i)}, Var: true})
	}
	wire, err := tensor.NewLayout(specs)
	check.Must(t, err)
	r := start(t, "heap", wire)
	h := r.client()
	publish := func(seed uint64) (*tensor.Package, string) {
		p := tensor.Alloc(wire)
		p.Plain = tensor.Alloc(plain)
		check.Must(t, errors.Join(p.SetRows(0, 7), p.SetRows(1, 0), p.SetRows(2, 3), p.Plain.SetRows(2, 4)))
		tensor.Fill(p, seed)
		tensor.Fill(p.Plain, seed+100)
		r.seq++
		r.s.Publish(r.name(), p)
		return p, r.name()
	}
	ask := func(p *tensor.Package, name string) {
		for i, want := range []string{"f32 5,3", "i64 ", "bf16 4,2"} {
			a := r.ask(h, "GET", fmt.Sprintf("/v1/tensors/%s.%d", name, i), nil)
			if got := a.head.Get(FieldDType) + " " + a.head.Get(FieldShape); a.code != 200 || got != want || !bytes.Equal(a.body, p.Plain.View(i)) {
				t.Errorf("tensor %d: got %d, %s and %d bytes, want %s and those of the decoded one", i, a.code, got, len(a.body), want)
			}
		}
		a := r.ask(h, "POST", "/v1/batch", fmt.Appendf(nil, "%s.0\n%s.2\n", name, name))
		if want := slices.Concat(p.View(0), p.View(2)); a.code != 200 || !bytes.HasSuffix(a.body, want) || len(a.body)-len(want) > 150 {
			t.Errorf("batch: got %d and %d bytes, want the %d that travel", a.code, len(a.body), len(want))
		}
	}
	first, one := publish(1)
	second, two := publish(2)
	ask(first, one)
	ask(second, two)
	r.s.Retire(first)
	ask(second, two)
	for _, a := range []reply{r.ask(h, "GET", "/v1/tensors/"+one+".0", nil), r.ask(h, "POST", "/v1/batch", []byte(one+".0"))} {
		check.That(t, a.code == 404 || a.code == 400, "of the model that has retired: got %d", a.code)
	}
}

// A stranger who fills the store gets an error, and the session goes on.
func TestStoreIsBounded(t *testing.T) {
	r := start(t, "heap", vectors(t, 1, 10))
	h := r.client()
	third := make([]byte, 25<<20)
	r.put(h, "a", third)
	r.put(h, "b", third)
	a := r.ask(h, "PUT", "/v1/tensors/c", third, FieldDType, "u8", FieldShape, fmt.Sprint(len(third)))
	check.That(t, a.code == http.StatusInsufficientStorage, "third: got %d %s", a.code, a.body)
	a = r.ask(h, "DELETE", "/v1/tensors/a", nil)
	check.Equal(t, a.code, 204, "delete")
	r.put(h, "c", third)
	for range MaxIDs - 2 {
		check.Must(t, r.s.reserve(0))
	}
	err := r.s.reserve(0)
	check.That(t, errors.Is(err, errNoRoom), "one tensor more than the store may hold: got %v", err)
}

// A20, A22: a stored tensor's metadata is complete, and enough to read it in
// place; a reader that is late notices; a view of the server's is not reused.
func TestStoredMetadata(t *testing.T) {
	r := start(t, "slab", vectors(t, 1, 1))
	h := r.client()
	data := pattern(1, 5000)
	ref := r.put(h, "t", data)
	check.Need(t, ref.Pool != nil && ref.Handle != "" && ref.Reason == "" && ref.Size == 5000,
		"got %+v, want complete metadata", ref)
	nonce, err := ref.Pool.Decode()
	check.Must(t, err)
	handle, err := ref.Handle.Decode()
	check.Must(t, err)
	reader, err := slab.OpenReader(ref.Pool.Path, nonce)
	check.Must(t, err)
	defer reader.Close()
	view, err := reader.View(handle, ref.Size)
	check.Must(t, err)
	check.That(t, bytes.Equal(view, data), "other bytes in the slab")
	found, err := r.s.find([]byte("t")) // as a request that is being answered
	check.Must(t, err)
	a := r.ask(h, "DELETE", "/v1/tensors/t", nil)
	check.That(t, a.code == 204, "delete: got %d", a.code)
	for i := range 10 {
		r.put(h, fmt.Sprint("u", i), pattern(2, 5000))
	}
	check.That(t, bytes.Equal(found.data, data), "the memory of a tensor was reused while it was being sent")
	found.done()
	if err := reader.Check(handle); !errors.Is(err, slab.ErrStale) {
		t.Errorf("after delete: got %v, want a stale handle", err)
	}
}
