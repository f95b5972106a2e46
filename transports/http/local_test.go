package http

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// A2, A20: a local client costs two exchanges, none of them with tensors; the
// metadata rides on the answers that exist anyway.
func TestLocalClientCostsTwoExchanges(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 20, 1000), 2)
	m := r.publish(1)
	before := r.counts(0)
	for i := range 5 {
		r.exchange(0, driver.Job{Client: i}, m)
	}
	got := r.counts(0)
	for name, n := range before {
		got[name] -= n
	}
	wantCounts(t, "worker", got, map[string]int64{
		phase.Calls + "jobs": 5, phase.Calls + "results": 5, phase.Calls + "batch": 0,
		phase.Calls + "join": 0, phase.Calls + "prove": 0,
		phase.HandleTensors: 5 * 20, phase.HandleBytes: 5 * 20_000, phase.BodyTensors: 0, phase.BodyBytes: 0, phase.Copied: 0,
	})
	wantCounts(t, "server", r.counts(-1), map[string]int64{
		phase.Served + "jobs": 5, phase.Served + "results": 5, phase.Served + "batch": 0,
		phase.HandleTensors: 5 * 20, phase.HandleBytes: 5 * 20_000, phase.BodyTensors: 0, phase.BodyBytes: 0,
	})
	for name, n := range r.counts(0) {
		check.That(t, !strings.HasPrefix(name, phase.Fallback) || n == 0, "%s: %d, want none", name, n)
	}
	if got[phase.WireReceived]+got[phase.WireSent] > 5*4096 {
		t.Errorf("%d bytes received and %d sent by 5 clients: tensors went through the socket", got[phase.WireReceived], got[phase.WireSent])
	}
}

// A4, A5, A6: of a model whose shards are partly in the slab and partly not,
// those that are there are read there, the others come in one request, in
// order; a damaged shard falls back alone, and nothing is read twice.
func TestPartialFallback(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 10, 1000), 1)
	m := r.publish(1)
	r.damage(0, 2, 3, 7)
	r.exchange(0, driver.Job{}, m)
	wantCounts(t, "damaged", r.counts(0), map[string]int64{
		phase.Calls + "batch": 1, phase.BodyTensors: 3, phase.BodyBytes: 3000,
		phase.HandleTensors: 7, phase.HandleBytes: 7000, phase.Fallback + store.Stale: 3,
	})
	m = r.publish(2) // the next model is whole
	r.exchange(0, driver.Job{Round: 1}, m)
	wantCounts(t, "whole", r.counts(0), map[string]int64{phase.Calls + "batch": 1, phase.HandleTensors: 17})
}

// damage makes tensors of one of the two models stale, whose generations stand before them.
func (r *rig) damage(model int, tensors ...int) {
	r.t.Helper()
	models := r.s.in.memory.models
	check.Must(r.t, os.Chmod(models.ref.Path, modeWriter))
	pool, err := os.OpenFile(models.ref.Path, os.O_RDWR, 0)
	check.Must(r.t, err)
	defer pool.Close()
	for _, i := range tensors {
		_, err := pool.WriteAt(make([]byte, 8), 4096+int64(models.both[model].handles[i].Offset)-slab.Align)
		check.Must(r.t, err)
	}
}

// A12, A13: what the slab has no room for goes as a body, and is counted; so
// does a type that it does not hold; all ten types go through it.
func TestFallbacks(t *testing.T) {
	t.Run("full", func(t *testing.T) {
		r := open(t, "http-shm:pool=128B", layout(t, tensor.Spec{Name: "kilobyte", DType: tensor.U8, Shape: []int{1024}}), 1)
		m := r.publish(1)
		r.exchange(0, driver.Job{}, m)
		wantCounts(t, "worker", r.counts(0), map[string]int64{phase.Fallback + store.Full: 1, phase.BodyTensors: 1, phase.HandleTensors: 0})
		wantCounts(t, "server", r.counts(-1), map[string]int64{phase.Fallback + store.Full: 1, phase.BodyTensors: 1, phase.HandleTensors: 0})
		h := r.client()
		data := pattern(1, 1024)
		if a := r.put(h, "kb", data); strings.Contains(a, "pool") || strings.Contains(a, "handle") || !strings.Contains(a, `"fallback":"full"`) {
			t.Errorf("put: got %s, want no metadata", a)
		}
		if a := r.ask(h, "GET", "/v1/tensors/kb", nil); !bytes.Equal(a.body, data) {
			t.Error("get: other bytes")
		}
	})
	t.Run("partly full", func(t *testing.T) {
		// One model and a half fit, and one update: of two models alive at once the
		// second one is half on the heap.
		r := open(t, "http-shm:pool=6000B", vectors(t, 4, 900), 1)
		for round := range 6 {
			r.exchange(0, driver.Job{Round: round}, r.publish(uint64(round)))
		}
		got := r.counts(0)
		if full := got[phase.Fallback+store.Full]; full == 0 || full != got[phase.BodyTensors] || got[phase.HandleTensors] != 24-full {
			t.Errorf("got %v, want some of 24 tensors each way", got)
		}
	})
	t.Run("missing", func(t *testing.T) {
		// As many as the setting says, in every round, and no update.
		for percent, missing := range map[int]int64{25: 4, 50: 8, 75: 12, 100: 16, 10: 1} {
			r := open(t, fmt.Sprintf("http-shm:missing=%d", percent), vectors(t, 16, 100), 1)
			for round := range 3 {
				r.exchange(0, driver.Job{Round: round}, r.publish(uint64(round)))
				n := int64(round + 1)
				wantCounts(t, fmt.Sprint("worker, missing=", percent), r.counts(0), map[string]int64{
					phase.Fallback + store.Missing: n * missing, phase.BodyTensors: n * missing, phase.HandleTensors: n * (16 - missing), phase.Calls + "batch": n,
				})
			}
			wantCounts(t, "server", r.counts(-1), map[string]int64{phase.Fallback + store.Missing: 0, phase.BodyTensors: 0, phase.HandleTensors: 48})
		}
	})
	t.Run("dtypes", func(t *testing.T) {
		r := start(t, "http-shm", vectors(t, 1, 1), 1)
		h := r.client()
		for _, name := range []string{"c64", "f8", "qint4"} {
			a := r.ask(h, "PUT", "/v1/tensors/"+name, []byte("12345678"), store.FieldDType, name, store.FieldShape, "1,1")
			if a.code != 201 || strings.Contains(string(a.body), "pool") || !strings.Contains(string(a.body), `"fallback":"dtype"`) {
				t.Errorf("%s: got %d %s, want no metadata", name, a.code, a.body)
			}
			if a := r.ask(h, "GET", "/v1/tensors/"+name, nil); string(a.body) != "12345678" || a.head.Get(store.FieldDType) != name {
				t.Errorf("%s: got %q %v", name, a.body, a.head)
			}
		}
		for _, d := range tensor.DTypes() {
			a := r.ask(h, "PUT", "/v1/tensors/"+d.String(), pattern(1, 3*d.Size()), store.FieldDType, d.String(), store.FieldShape, "3")
			check.That(t, a.code == 201 && strings.Contains(string(a.body), `"pool"`),
				"%v: got %d %s, want metadata", d, a.code, a.body)
		}
	})
	t.Run("off", func(t *testing.T) { // A30
		mapped := func() int { // by this process; other tests may have left something to a worker function
			maps, err := os.ReadFile("/proc/self/maps")
			check.Must(t, err)
			return bytes.Count(maps, []byte(scratch.SharedMemory+"/ipcbench-"))
		}
		before := mapped()
		r := open(t, "http-shm:shm=off", vectors(t, 3, 100), 1)
		r.exchange(0, driver.Job{}, r.publish(1))
		wantCounts(t, "worker", r.counts(0), map[string]int64{phase.Fallback + store.Off: 3, phase.BodyTensors: 3, phase.HandleTensors: 0})
		wantCounts(t, "server", r.counts(-1), map[string]int64{phase.Fallback + store.Off: 3, phase.BodyTensors: 3, phase.HandleTensors: 0})
		a := r.put(r.client(), "t", []byte{1})
		check.That(t, !strings.Contains(a, "pool") && strings.Contains(a, `"fallback":"off"`), "put: got %s, want no metadata", a)
		if after := mapped(); r.s.in.memory.dir != nil || after > before {
			t.Errorf("shared memory is off, and %d segments more are mapped", after-before)
		}
	})
}

// What does not fit into this machine is said before anything is made.
func TestCheckRoom(t *testing.T) {
	d := Local().(transport)
	v, err := transports.NewVariant(d, nil)
	check.Must(t, err)
	huge := layout(t, tensor.Spec{Name: "huge", DType: tensor.U8, Shape: []int{1 << 50}})
	o := driver.Options{Down: huge, Up: huge, Lanes: 3, Depth: 2, Settings: v.Settings}
	wantError(t, "check", d.Check(o), "slabs need 9007")
	o.Lanes = 1 << 40
	wantError(t, "check of what overflows", d.Check(o), "slabs need 9223372036854775807")
	o.Settings["shm"] = "off"
	check.Must(t, d.Check(o))
}

// A7, A29, A30: a writer has one segment, however many tensors it writes; it is
// there before the first one; its size is the one that was asked for.
func TestSegments(t *testing.T) {
	for _, tensors := range []int{1, 300} {
		r := open(t, "http-shm:pool=1MiB", vectors(t, tensors, 64), 3)
		names := map[string]bool{}
		entries, err := os.ReadDir(r.s.in.memory.dir.Path())
		check.Must(t, err)
		for _, e := range entries {
			info, err := e.Info()
			check.Must(t, err)
			if e.Name() == "lock" {
				continue // which holds nothing
			}
			names[e.Name()] = true
			check.That(t, info.Size() == 4096+1<<20, "%s has %d bytes, want 1 MiB and a header", e.Name(), info.Size())
		}
		check.That(t, len(names) == 4 && names["models"] && names["updates-0"] && names["updates-2"],
			"%d tensors: segments %v, want one of the server and one a lane", tensors, names)
	}
}

// A14, A22: a model that is replaced while a worker reads it is noticed before
// the update is sent.
func TestModelIsCheckedAfterUse(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 3, 100), 1)
	r.publish(1)
	check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{}))
	w := r.workers[0]
	_, _, err := w.Receive(t.Context())
	check.Must(t, err)
	u, err := w.Reserve()
	check.Must(t, err)
	for range 2 { // which no server does before the update was collected
		m, err := r.s.in.Reserve()
		check.Must(t, err)
		check.Must(t, r.s.in.Publish(t.Context(), m))
	}
	err = w.Submit(t.Context(), u)
	check.That(t, errors.Is(err, slab.ErrStale), "submit: got %v, want a stale handle", err)
	check.Must(t, w.Close())
	_, err = r.s.Collect(t.Context(), 0)
	wantError(t, "collect", err, "the worker says: the model changed while it was in use: tensor 0")
}

// A4: who claims to be local has to prove it: a lane's slab has to hold what the
// server said.
func TestLocalityIsProved(t *testing.T) {
	connect := func(t *testing.T, r *rig) *worker { // which has not joined
		c := exchange.NewClient(func(ctx context.Context) (net.Conn, error) { return r.e.Dial(ctx, nil) }, r.e.Authorization(), false, defaultPatience, nil)
		t.Cleanup(c.Close)
		return &worker{o: r.o, client: c}
	}
	join := func(t *testing.T, r *rig) (*worker, joinAnswer) {
		t.Helper()
		w, a := connect(t, r), joinAnswer{}
		q := w.about("join", "POST", "?down="+digest(r.o.Down)+"&up="+digest(r.o.Up))
		check.Must(t, w.client.Do(t.Context(), q, func(q *http.Response) error { return readJSON(q, &a) }))
		return w, a
	}
	t.Run("no proof", func(t *testing.T) {
		r := start(t, "http-shm", vectors(t, 1, 100), 1)
		w, _ := join(t, r)
		wantError(t, "prove", w.client.Do(t.Context(), w.about("prove", "POST", "/local"), nil), "does not hold the challenge")
		m := r.publish(1)
		check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{}))
		var job jobAnswer
		check.Must(t, w.client.Do(t.Context(), w.request("jobs", "GET", "jobs/0"), func(q *http.Response) error { return readJSON(q, &job) }))
		check.That(t, job.Update == "", "a stranger is offered the lane's slab: %+v", job)
		// It claims all the same that its update lies there.
		q := w.request("results", "POST", "results/0")
		q.Type = exchange.TypeRaw
		zero := func(name string) exchange.Field { return exchange.Field{Name: name} }
		q.Fields = []exchange.Field{
			zero(fieldRound), zero(fieldClient), zero(fieldReceipt), zero(store.FieldTable), zero(fieldCache), zero(fieldCached),
			{Name: fieldUpdate, Text: string(store.EncodeHandle(slab.Handle{Length: uint64(r.o.Up.Size()), Generation: 1}))},
		}
		wantError(t, "results", w.client.Do(t.Context(), q, nil), "409")
		// A body is taken.
		q.Fields, q.Body = q.Fields[:6], [][]byte{r.s.in.manifests.up.Bytes, m.View(0)}
		q.Fields[3].Value = len(r.s.in.manifests.up.Bytes)
		check.Must(t, w.client.Do(t.Context(), q, nil))
		p, err := r.s.Collect(t.Context(), 0)
		check.Must(t, err)
		check.That(t, p.Hash() == m.Hash(), "other bytes")
		p.Release()
		wantCounts(t, "server", r.counts(-1), map[string]int64{phase.Fallback + store.Remote: 1})
	})
	t.Run("wrong nonce", func(t *testing.T) {
		r := start(t, "http-shm", vectors(t, 1, 100), 1)
		o := r.o
		o.Rec = phase.NewRecorder(10)
		_, a := join(t, r)
		a.Updates.Nonce, a.Models.Nonce = strings.Repeat("00", 16), strings.Repeat("11", 16)
		s := newShared(o, config{local: true}, a)
		check.That(t, s.reader == nil && s.updates == nil, "opened a slab with another nonce")
		check.Must(t, s.close())
	})
	t.Run("other connection", func(t *testing.T) {
		r := open(t, "http-shm", vectors(t, 1, 100), 1)
		w := connect(t, r)
		wantError(t, "prove", w.client.Do(t.Context(), w.about("prove", "POST", "/local"), nil), "another connection")
		wantError(t, "leave", w.client.Do(t.Context(), w.about("leave", "DELETE", ""), nil), "another connection")
		wantError(t, "jobs", w.client.Do(t.Context(), w.request("jobs", "GET", "jobs/0"), nil), "another connection")
		r.exchange(0, driver.Job{}, r.publish(1))
	})
	t.Run("stale handle", func(t *testing.T) { // A21
		r := open(t, "http-shm", vectors(t, 1, 100), 1)
		r.publish(1)
		check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{}))
		w := r.workers[0]
		_, _, err := w.Receive(t.Context())
		check.Must(t, err)
		u, err := w.Reserve()
		check.Must(t, err)
		h, err := w.in.handle.Decode()
		check.Must(t, err)
		h.Generation--
		w.in.handle = store.EncodeHandle(h)
		wantError(t, "submit", w.Submit(t.Context(), u), "not the one that was given")
	})
}

// A server may be on another host and mean this one no good: whatever it names, and
// knows the nonce of, a worker opens nothing but slabs in the directories of sessions.
func TestNamedByTheServer(t *testing.T) {
	session, err := scratch.New(scratch.SharedMemory)
	check.Must(t, err)
	defer session.Close()
	elsewhere := t.TempDir()
	link := filepath.Join(scratch.SharedMemory, "ipcbench-00000000deadbeef")
	check.Must(t, os.Symlink(elsewhere, link))
	defer os.Remove(link)
	inside := session.Path() + "/slab"
	mem, nonce, err := slab.CreateNamed(inside, 4096)
	check.Must(t, err)
	defer mem.Close()
	copied, err := os.ReadFile(inside)
	check.Must(t, err)
	check.Must(t, os.WriteFile(elsewhere+"/slab", copied, 0o600))
	check.Must(t, os.Symlink(elsewhere+"/slab", session.Path()+"/link"))
	o := driver.Options{Down: vectors(t, 1, 100), Up: vectors(t, 1, 100)}
	for path, ok := range map[string]bool{
		inside: true, elsewhere + "/slab": false, link + "/slab": false, session.Path() + "/link": false, session.Path() + "/lock": false,
		session.Path() + "/../" + filepath.Base(session.Path()) + "/slab": false, scratch.SharedMemory + "/slab": false, session.Path(): false,
		"/dev/zero": false, "slab": false, "": false,
	} {
		ref := store.NewSlabRef(path, nonce)
		s := newShared(o, config{local: true}, joinAnswer{Models: ref, Updates: ref, Challenge: strings.Repeat("ab", challengeSize)})
		if (s.reader != nil) != ok || (s.mem != nil) != ok {
			t.Errorf("%q: the worker has opened it: %v, %v", path, s.reader != nil, s.mem != nil)
		}
		check.Must(t, s.close())
	}
	if now, err := os.ReadFile(elsewhere + "/slab"); err != nil || !bytes.Equal(now, copied) {
		t.Errorf("a file elsewhere was written to: %v", err)
	}
}

// A worker that takes a lane over leaves the updates alone that its predecessor
// has sent, also when it proves that it is local.
func TestRejoinLeavesUpdates(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 1, 100), 1)
	m := r.publish(1)
	rejoin := func() {
		t.Helper()
		check.Must(t, r.workers[0].Close())
		r.workers, r.recs = nil, nil
		r.dial(0)
	}
	check.Must(t, r.s.Dispatch(t.Context(), 0, driver.Job{}))
	check.Must(t, train(t.Context(), r.workers[0]))
	held, err := r.s.Collect(t.Context(), 0)
	check.Must(t, err)

	rejoin()
	check.Must(t, tensor.Prove(held, m, key(driver.Job{})))
	r.exchange(0, driver.Job{Client: 1}, m)
	check.Must(t, tensor.Prove(held, m, key(driver.Job{})))
	held.Release()
	rejoin()
	r.exchange(0, driver.Job{Client: 2}, m)
	wantCounts(t, "server", r.counts(-1), map[string]int64{phase.HandleTensors: 3, phase.BodyTensors: 0})
}

// A21: a job that does not say where its model lies is refused, and not read.
func TestRunsAreChecked(t *testing.T) {
	o := driver.Options{Down: vectors(t, 4, 100), Up: vectors(t, 4, 100)}
	good := slab.Handle{Offset: 64, Length: 100, Generation: 1}
	after, err := next(good, 100)
	check.Must(t, err)
	for name, c := range map[string]struct {
		runs []run
		ok   bool
	}{
		"none":             {nil, true},
		"all":              {[]run{{0, 4, store.EncodeHandle(good)}}, true},
		"some":             {[]run{{1, 2, store.EncodeHandle(good)}}, true},
		"two":              {[]run{{0, 1, store.EncodeHandle(good)}, {3, 1, store.EncodeHandle(after)}}, true},
		"no handle":        {[]run{{0, 4, ""}}, false},
		"half a handle":    {[]run{{0, 4, store.EncodeHandle(good)[:55]}}, false},
		"not hexadecimal":  {[]run{{0, 4, "zz" + store.EncodeHandle(good)[2:]}}, false},
		"negative first":   {[]run{{-1, 1, store.EncodeHandle(good)}}, false},
		"first beyond":     {[]run{{4, 1, store.EncodeHandle(good)}}, false},
		"too many":         {[]run{{1, 4, store.EncodeHandle(good)}}, false},
		"count overflows":  {[]run{{3, 1<<63 - 1, store.EncodeHandle(good)}}, false},
		"empty":            {[]run{{0, 0, store.EncodeHandle(good)}}, false},
		"overlap":          {[]run{{0, 2, store.EncodeHandle(good)}, {1, 1, store.EncodeHandle(after)}}, false},
		"other length":     {[]run{{0, 1, store.EncodeHandle(slab.Handle{Offset: 64, Length: 99, Generation: 1})}}, false},
		"huge length":      {[]run{{0, 1, store.EncodeHandle(slab.Handle{Offset: 64, Length: 1 << 63, Generation: 1})}}, false},
		"no generation":    {[]run{{0, 1, store.EncodeHandle(slab.Handle{Offset: 64, Length: 100})}}, false},
		"offset overflows": {[]run{{0, 2, store.EncodeHandle(slab.Handle{Offset: 1<<64 - 64, Length: 100, Generation: 1})}}, false},
	} {
		if err := newShared(o, config{local: true}, joinAnswer{}).locate(c.runs); (err == nil) != c.ok {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

// A26: two sessions in one process know nothing of each other.
func TestSessionsAreIndependent(t *testing.T) {
	a, b := open(t, "http-shm", vectors(t, 2, 100), 1), open(t, "http-shm", vectors(t, 2, 100), 1)
	ma, mb := a.publish(1), b.publish(2)
	a.exchange(0, driver.Job{}, ma)
	check.Must(t, a.workers[0].Close())
	check.Must(t, a.s.Shutdown(t.Context()))
	b.exchange(0, driver.Job{}, mb)
}

// A15, A16, A28: a shutdown while tensors are being written: no crash, nothing
// left, and a second one does nothing.
func TestShutdownDuringWrites(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 1)
	r.publish(1)
	const writers = 4
	for i := range writers {
		c := r.raw()
		fmt.Fprintf(c, "PUT /v1/tensors/t%d HTTP/1.1\r\nHost: x\r\n%sTensor-Dtype: u8\r\nTensor-Shape: 8\r\nContent-Length: 8\r\n\r\nhalf", i, r.secret())
	}
	waiting.Until(t, "the writes", func() bool { // in flight: none is in the store yet
		got := r.s.in.store.Stats()
		return got.Bytes == 8*writers && got.Tensors == 0
	})
	r.put(r.client(), "whole", []byte("whole"))
	dir := r.s.in.memory.dir.Path()
	check.Must(t, r.workers[0].Close())
	waiting.Do(t, "shutdown", func() { check.Must(t, r.s.Shutdown(t.Context())) })
	check.Must(t, r.s.Shutdown(t.Context()))
	_, err := os.Stat(dir)
	check.That(t, errors.Is(err, os.ErrNotExist), "%s is left: %v", dir, err)
}

// A19: a thousand steps leave the slabs where the second one put them.
func TestStepsAreFlat(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 7, 1000), 1)
	steps := 1000
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		steps = 2000
	}
	for i := range 3 {
		r.exchange(0, driver.Job{Round: i}, r.publish(uint64(i)))
	}
	used := func() int { // as a pool says when it refuses
		var full *slab.FullError
		_, _, err := r.s.in.memory.models.pool.Reserve(1 << 40)
		check.Need(t, errors.As(err, &full), "got error %v, want a full pool", err)
		return full.Used
	}
	before := used()
	for i := range steps {
		r.exchange(0, driver.Job{Round: i}, r.publish(uint64(i)))
	}
	after := used()
	check.That(t, after == before, "after %d steps %d bytes are used, before %d", steps, after, before)
	wantCounts(t, "worker", r.counts(0), map[string]int64{phase.BodyTensors: 0, phase.HandleTensors: int64(7 * (steps + 3))})
}

// The slab's own file does not help a reader whose header was damaged (A3): it
// is remote then, and the session goes on with bodies.
func TestDamagedHeader(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 3, 100), 1)
	for _, ref := range []*store.SlabRef{r.s.in.memory.models.ref, r.s.in.memory.lanes[0].ref} {
		check.Must(t, os.Chmod(ref.Path, modeWriter))
		f, err := os.OpenFile(ref.Path, os.O_RDWR, 0)
		check.Must(t, err)
		_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, 1), 8) // another capacity
		check.Must(t, errors.Join(err, f.Close()))
	}
	r.dial(0)
	r.exchange(0, driver.Job{}, r.publish(1))
	wantCounts(t, "worker", r.counts(0), map[string]int64{phase.Fallback + store.Remote: 3, phase.BodyTensors: 3, phase.HandleTensors: 0})
	wantCounts(t, "server", r.counts(-1), map[string]int64{phase.Fallback + store.Remote: 3})
}

func FuzzRuns(f *testing.F) {
	h := slab.Handle{Offset: 64, Length: 100, Generation: 1}.Append(nil)
	f.Add(0, 4, h, 2, 1, h)
	f.Add(-1, 1<<62, h[:20], 3, 1, h)
	f.Fuzz(func(t *testing.T, first, count int, h []byte, first2, count2 int, h2 []byte) {
		o := driver.Options{Down: vectors(t, 4, 100), Up: vectors(t, 1, 1)}
		runs := []run{
			{first, count, store.Handle(hex.EncodeToString(h))},
			{first2, count2, store.Handle(hex.EncodeToString(h2))},
		}
		s := newShared(o, config{local: true}, joinAnswer{})
		if s.locate(runs) != nil {
			return
		}
		check.That(t, count+count2 <= 4, "accepted %v", runs)
		if _, _, err := s.model(jobAnswer{Runs: runs, Pool: &store.SlabRef{Path: "/nowhere"}}, func() *tensor.Package { return tensor.Alloc(o.Down) }, nil); err != nil {
			t.Error(err)
		}
	})
}
