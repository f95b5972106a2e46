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
	"ipcbench/internal/test/reply"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/internal/slab"
)

// TestStore: A1: put, get, batch, delete and clear return the right status codes, counts
// and causes, with both kinds of store.
func TestStore(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			r := start(t, kind)
			data := strings.Repeat("0123456789", 100)
			for i := range 5 {
				r.put(fmt.Sprint("t", i), data+fmt.Sprint(i))
			}
			a := r.get("t3")
			r.is(a, "u8 1001")
			check.That(t, a.StatusCode == 200 && a.Text == data+"3", "get: got %s and %d bytes", a.Status, len(a.Text))
			r.get("t9").Want(404, "no such tensor")

			r.store("t3", "f32", "", "\x01\x02\x03\x04").Want(200, `"id":"t3"`, "replace")
			a = r.get("t3")
			r.is(a, "f32 ")
			check.Equal(t, a.Text, "\x01\x02\x03\x04", "what was replaced")

			// A32: the answer has the order of the request; missing tensors are named in
			// order.
			a = r.ask("POST", "batch", "t4\nt0\nt4\n").Want(200, "")
			table := check.Value(strconv.Atoi(a.Header.Get(FieldTable)))(t)
			check.That(t, a.Header.Get(FieldCount) == "3" && a.Text[table:] == data+"4"+data+"0"+data+"4", "batch: got %v and %d bytes", a.Header, len(a.Text))
			r.ask("POST", "batch", "x9\nt0\nx1\n").Want(400, `"missing":["x9","x1"]`)
			r.ask("POST", "batch", "").Want(200, "")
			r.ask("POST", "batch", `{"shard_ids":["t3"]}`, "Content-Type", exchange.TypeJSON).Want(200, `[{"type":"tensor","dtype":"f32","shape":[],"data":"AQIDBA=="}]`)

			r.ask("DELETE", "tensors/t0", "").Want(204, "")
			r.ask("DELETE", "tensors/t0", "").Want(404, "")
			r.holds(4, 3007)
			r.ask("POST", "clear", "t0\nt1\nt2\nt2\nzz\n").Want(200, `{"cleared_count":2}`)
			r.get("t1").Want(404, "")
			r.ask("POST", "clear", `{"shard_ids":["t4","t3"]}`, "Content-Type", exchange.TypeJSON).Want(200, `{"cleared_count":2}`)
			r.holds(0, 0)

			// The model can be read from the store, but belongs to the session.
			m := r.publish(3)
			id := r.name() + ".0"
			r.get(id).Want(200, string(m.View(0)))
			const refusal = "belong to the session"
			r.ask("DELETE", "tensors/"+id, "").Want(409, refusal)
			r.put("kept", data)
			r.ask("POST", "clear", "kept\n"+id).Want(409, refusal)
			r.get("kept").Want(200, data)
			for _, tail := range []string{".1", ".00", ".-0", ".", ".0.0", ".4294967296", ".99999999999999999999"} {
				r.get(r.name()+tail).Want(404, "", tail)
			}
			// No tensor can be stored under a name of a past or later model. Even if one
			// were, it would not be served as the model's.
			for _, tail := range []string{"1.0", "1.7", "0.0", "2.0", "2.1", "x", ""} {
				r.store(prefix+tail, "u8", "10", data[:10]).Want(409, refusal, tail)
			}
			r.s.add(prefix+"2.0", &stored{meta: Meta{DType: "u8", Shape: []int{10}, Size: 10}, data: []byte(data[:10])})
			m = r.publish(4)
			r.get(prefix+"2.0").Want(200, string(m.View(0)))
		})
	}
}

// TestSpellings: A13: our data types may be spelt as in safetensors. Their sizes are
// checked, answers use our spelling, and the tensors are stored in the slab. Tensors of any
// other type are kept unchanged on the heap.
func TestSpellings(t *testing.T) {
	r := start(t, "slab")
	for _, d := range tensor.DTypes() {
		for _, name := range []string{d.String(), strings.ToUpper(d.String())} {
			a := r.store(name, name, "3", strings.Repeat("x", 3*d.Size())).Want(201, `"dtype":"`+d.String()+`"`)
			check.That(t, strings.Contains(a.Text, `"pool"`), "%s: got %s, want it in the slab", name, a.Text)
			r.is(r.get(name), d.String()+" 3", name)
			r.store("x", name, "4", strings.Repeat("x", 3*d.Size())).Want(400, "", "another shape of", name)
		}
	}
	for _, name := range []string{"c64", "f8", "qint4"} {
		a := r.store(name, name, "1,1", "12345678").Want(201, `"fallback":"dtype"`)
		check.That(t, !strings.Contains(a.Text, `"pool"`), "%s: got %s, want it on the heap", name, a.Text)
		r.is(r.get(name).Want(200, "12345678"), name+" 1,1")
	}
}

// TestStoredSlabFails: if the slab for stored tensors cannot be made, other than for lack
// of memory, the error has the cause. Once the cause is fixed, the store works.
func TestStoredSlabFails(t *testing.T) {
	r := start(t, "slab")
	check.Must(t, os.WriteFile(r.o.Slab, nil, 0o600)) // a file in the place of the slab
	check.Fails(t, errors.New(r.store("t", "u8", "1", "x").Want(500, "slab of stored tensors").Text), "exists")
	r.holds(0, 0)
	check.Must(t, os.Remove(r.o.Slab))
	check.That(t, r.put("t", "x").Pool != nil, "it is not in the slab")
}

// TestCacheIsBounded: A31: a cache limits its total memory, so tensors without bytes count,
// too. The same is true after it was drained.
func TestCacheIsBounded(t *testing.T) {
	const size = 1 << 20
	for _, n := range []int{0, 1, 1000} {
		c := NewCache(size, nil)
		data := make([]byte, n)
		for range 2 {
			for i := range 1 << 14 {
				c.put(0, []byte(strconv.Itoa(i)), data)
			}
			got, most := c.Stats(), size/(n+entryBytes+1)
			full := got.Tensors <= most && got.Tensors >= most/2 && got.Bytes <= size
			check.That(t, full && len(c.tensors) == len(c.order),
				"tensors of %d bytes: holds %+v, want %d at most", n, got, most)
			c.put(0, []byte("huge"), make([]byte, size))
			check.That(t, !c.get(0, []byte("huge"), make([]byte, size)) && c.Stats() == got,
				"a tensor that does not fit with its id was kept")
			c.Drain()
			check.Equal(t, c.Stats(), CacheStats{}, "after drain")
		}
	}
}

// TestRepeatedIDs: A1: a request may repeat an id, until the answer would be larger than
// the store's capacity. An id needs two bytes, its tensor a MiB.
func TestRepeatedIDs(t *testing.T) {
	const size = 1 << 20
	r := start(t, "heap")
	r.put("t", strings.Repeat("x", size))
	most := r.o.Room / size
	for n, code := range map[int]int{2: 200, most + 1: 413, MaxIDs / 64: 413} {
		for kind, ids := range map[string]string{
			exchange.TypeText: strings.Repeat("t\n", n),
			exchange.TypeJSON: `{"shard_ids":["t"` + strings.Repeat(`,"t"`, n-1) + `]}`,
		} {
			r.ask("POST", "batch", ids, "Content-Type", kind).Want(code, "", kind, n)
		}
	}
}

// TestInternalErrors: A1: an internal failure is answered with status 500 and its cause,
// and does not end the server.
func TestInternalErrors(t *testing.T) {
	r := start(t, "slab")
	r.put("t", "tensor")
	check.Must(t, r.s.pool.Close())
	for _, a := range []reply.Reply{r.get("t"), r.ask("POST", "batch", "t"), r.store("u", "u8", "1", "x")} {
		a.Want(500, "pool is closed")
	}
	r.s.put["broken"] = nil // a handler that panics
	r.get("broken").Want(500, "nil pointer")
	delete(r.s.put, "broken")
	r.get("zz").Want(404, "")
}

// TestVisibleWhenComplete: A14, A27: a tensor cannot be read before all its bytes are
// stored, and never if its write fails. A blocked write does not block other requests.
func TestVisibleWhenComplete(t *testing.T) {
	for _, kind := range kinds {
		r := start(t, kind)
		r.put("other", "other")
		slow, failed := r.dial(), r.dial()
		head := "PUT /v1/tensors/%s HTTP/1.1\r\nHost: x\r\nTensor-Dtype: u8\r\nTensor-Shape: 8\r\nContent-Length: 8\r\n\r\nhalf"
		fmt.Fprintf(slow, head, "slow")
		fmt.Fprintf(failed, head, "failed")
		waiting.Until(t, "both halves", func() bool { return r.s.Stats().Bytes == 21 })
		check.Must(t, failed.Close())
		r.get("slow").Want(404, "", kind)
		r.get("other").Want(200, "other", kind)
		fmt.Fprint(slow, "half")
		a := check.Value(http.ReadResponse(bufio.NewReader(slow), nil))(t)
		check.Equal(t, a.StatusCode, 201, kind)
		r.get("slow").Want(200, "halfhalf", kind)
		waiting.Until(t, kind+": 13 bytes in the store, without the failed write's", func() bool { return r.s.Stats().Bytes == 13 })
		r.get("failed").Want(404, "", kind)
	}
}

// TestModelRetires: if a model retires while a client reads it, the answer ends short and
// never contains other bytes.
func TestModelRetires(t *testing.T) {
	for _, kind := range kinds {
		r := start(t, kind, tensor.Spec{Name: "v", DType: tensor.U8, Shape: []int{16 << 20}}) // larger than the socket buffers
		p := r.publish(1)
		c := r.dial()
		fmt.Fprintf(c, "POST /v1/batch HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s.0", len(r.name())+2, r.name())
		a := check.Value(http.ReadResponse(bufio.NewReader(c), nil))(t)
		r.publish(2) // in addition to the first
		r.s.Retire(p)
		got, err := io.ReadAll(a.Body)
		check.That(t, a.StatusCode == 200 && errors.Is(err, io.ErrUnexpectedEOF),
			"%s: got %s with %d bytes and error %v, want an answer that ends short", kind, a.Status, len(got), err)
	}
}

// TestDecoded: a client that gets a tensor of an encoded model gets it decoded, bit for
// bit, with its data type and shape. A batch has the encoded bytes. A retired model is
// unknown to both, even while another one is published.
func TestDecoded(t *testing.T) {
	plain := check.Value(tensor.NewLayout([]tensor.Spec{
		{Name: "a", DType: tensor.F32, Shape: []int{5, 3}}, {Name: "b", DType: tensor.I64}, {Name: "c", DType: tensor.BF16, Shape: []int{9, 2}, Var: true},
	}))(t)
	var wire []tensor.Spec
	for i := range plain.Len() {
		wire = append(wire, tensor.Spec{Name: plain.Spec(i).Name, DType: tensor.U8, Shape: []int{plain.Bytes(i)}, Var: true})
	}
	r := start(t, "heap", wire...)
	publish := func(seed uint64) (*tensor.Package, string) {
		p := tensor.Alloc(r.model)
		p.Plain = tensor.Alloc(plain)
		check.Must(t, errors.Join(p.SetRows(0, 7), p.SetRows(1, 0), p.SetRows(2, 3), p.Plain.SetRows(2, 4)))
		tensor.Fill(p, seed)
		tensor.Fill(p.Plain, seed+100)
		r.seq++
		r.s.Publish(r.name(), p)
		return p, r.name()
	}
	asked := func(p *tensor.Package, name string) {
		for i, want := range []string{"f32 5,3", "i64 ", "bf16 4,2"} {
			a := r.get(fmt.Sprint(name, ".", i))
			r.is(a, want)
			check.Equal(t, a.Text, string(p.Plain.View(i)), "tensor", i)
		}
		a := r.ask("POST", "batch", name+".0\n"+name+".2\n").Want(200, "")
		want := string(p.View(0)) + string(p.View(2))
		check.That(t, strings.HasSuffix(a.Text, want) && len(a.Text) <= len(want)+150, "batch: got %d bytes, want the %d that travel", len(a.Text), len(want))
	}
	first, one := publish(1)
	second, two := publish(2)
	asked(first, one)
	asked(second, two)
	r.s.Retire(first)
	asked(second, two)
	r.get(one+".0").Want(404, "")
	r.ask("POST", "batch", one+".0").Want(400, "")
}

// TestPlainIsSetAgain: a tensor is found with the decoded model that it was published with,
// although the server sets another one as soon as the model has retired. The race detector
// sees a reader that does not hold the lock.
func TestPlainIsSetAgain(t *testing.T) {
	r := start(t, "heap")
	p, id, over := tensor.Alloc(r.model), []byte(prefix+"1.0"), make(chan struct{})
	go func() {
		defer close(over)
		for found := 0; found < 10_000; {
			if l, err := r.s.find(id, true); err == nil {
				check.Equal(t, len(l.data), 10, "bytes of the tensor")
				found++
			}
		}
	}()
	for {
		p.Plain = tensor.Alloc(r.model)
		r.s.Publish(prefix+"1", p)
		select {
		case <-over:
			return
		default:
			r.s.Retire(p)
		}
	}
}

// TestStoreIsBounded: a store that is full, in bytes or in tensors, refuses more tensors
// and continues.
func TestStoreIsBounded(t *testing.T) {
	r := start(t, "heap")
	third := strings.Repeat("x", 25<<20)
	r.put("a", third)
	r.put("b", third)
	r.store("c", "u8", fmt.Sprint(len(third)), third).Want(http.StatusInsufficientStorage, "")
	r.ask("DELETE", "tensors/a", "").Want(204, "")
	r.put("c", third)
	for range MaxIDs - 2 {
		check.Must(t, r.s.reserve(0))
	}
	check.Fails(t, r.s.reserve(0), "the store is full", "one tensor more than the store may hold")
}

// TestStoredMetadata: A20, A22: a stored tensor's metadata is complete, and enough to read
// it in place. A late reader notices that it is gone. Memory from which the server is
// sending is not reused.
func TestStoredMetadata(t *testing.T) {
	r := start(t, "slab")
	data := bytes.Repeat([]byte("01234"), 1000)
	ref := r.put("t", string(data))
	check.Need(t, ref.Pool != nil && ref.Handle != "" && ref.Reason == "" && ref.Size == 5000,
		"got %+v, want complete metadata", ref)
	nonce := check.Value(ref.Pool.Decode())(t)
	handle := check.Value(ref.Handle.Decode())(t)
	reader := check.Value(slab.OpenReader(ref.Pool.Path, nonce, ""))(t)
	defer reader.Close()
	view, err := reader.View(handle, ref.Size)
	check.Must(t, err)
	check.That(t, bytes.Equal(view, data), "other bytes in the slab")
	found, err := r.s.find([]byte("t"), true) // as a request that is being answered does
	check.Must(t, err)
	r.ask("DELETE", "tensors/t", "").Want(204, "")
	for i := range 10 {
		r.put(fmt.Sprint("u", i), strings.Repeat("x", 5000))
	}
	check.That(t, bytes.Equal(found.data, data), "the memory of a tensor was reused while it was being sent")
	found.done()
	err = reader.Check(handle)
	check.Is(t, err, slab.ErrStale, "after delete")
}

// reads counts the reads of a body, and those into the memory of the tensors of p.
type reads struct {
	io.Reader
	all, direct int
	p           *tensor.Package
}

func (r *reads) Read(b []byte) (int, error) {
	r.all++
	for i := range r.p.Len() {
		if &b[0] == &r.p.View(i)[0] {
			r.direct++
		}
	}
	return r.Reader.Read(b)
}

// TestSmallTensorsAreGathered: small tensors are read many at a time, large ones into their
// memory, and all bytes arrive in their places.
func TestSmallTensorsAreGathered(t *testing.T) {
	const small, gathered = exchange.Small - 1, exchange.Gathered
	for _, c := range []struct {
		sizes       []int
		all, direct int
	}{
		{slices.Repeat([]int{3 << 10}, 12_000), 12_000/(gathered/(3<<10)) + 1, 0},
		{slices.Repeat([]int{exchange.Small}, 20), 20, 20},
		{[]int{small, small, small, small, small, 1, exchange.Small, 1, 1, 1 << 20, small}, 6, 2},
	} {
		var specs []tensor.Spec
		for i, n := range c.sizes {
			specs = append(specs, tensor.Spec{Name: strconv.Itoa(i), DType: tensor.U8, Shape: []int{n}})
		}
		l := check.Value(tensor.NewLayout(specs))(t)
		sent, got, scratch := tensor.Alloc(l), tensor.Alloc(l), []byte(nil)
		tensor.Fill(sent, 1)
		var body bytes.Buffer
		var all []int
		for i := range sent.Len() {
			body.Write(sent.View(i))
			all = append(all, i)
		}
		r := &reads{Reader: &body, p: got}
		check.Must(t, ReadTensors(r, l.Payload(), all, got, &scratch))
		check.That(t, got.Hash() == sent.Hash() && r.all <= c.all && r.direct == c.direct,
			"%d tensors of %d bytes …: %d reads, %d of them direct", len(c.sizes), c.sizes[0], r.all, r.direct)
	}
}
