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
	"regexp"
	"runtime"
	"strings"
	"testing"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/exchange"
	"ipcbench/transports/http/store"
	"ipcbench/transports/internal/slab"
)

// TestLocalClientCostsTwoExchanges: A2, A20: a local client needs two exchanges per job,
// without tensors in them. The metadata is part of answers that are sent anyway.
func TestLocalClientCostsTwoExchanges(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 20, 1000), 2)
	r.Publish(1)
	before := r.Workers[0].Rec.Counts()
	for i := range 5 {
		r.Prove(0, driver.Job{Client: i})
	}
	cost := since(before, r.Workers[0].Rec.Counts())
	want := counts{phase.HandleTensors: 5 * 20, phase.HandleBytes: 5 * 20_000, phase.BodyTensors: 0, phase.BodyBytes: 0}
	counted(t, "worker", cost, want)
	r.counted(want, nil)
	for name, n := range cost {
		call, is := strings.CutPrefix(name, phase.Calls)
		check.That(t, !is || n == map[string]int64{"jobs": 5, "results": 5}[call], "%d calls of %s", n, call)
		check.That(t, n == 0 || !strings.HasPrefix(name, phase.Fallback) && name != phase.Copied, "%s: %d, want none", name, n)
	}
	check.That(t, cost[phase.WireReceived]+cost[phase.WireSent] < 5*4096, "tensors went through the socket: %v", cost)
}

// partial holds a worker's counters after two models of 10 tensors of 1000 bytes. 3 tensors
// of the first were damaged.
var partial = counts{
	phase.Calls + "batch": 1, phase.BodyTensors: 3, phase.BodyBytes: 3000,
	phase.HandleTensors: 17, phase.HandleBytes: 17000, phase.Fallback + store.Stale: 3,
}

// TestPartialFallback: A4, A5, A6: valid tensors of a model are read in the slab, and the
// others arrive in one request, in order. Only a damaged tensor falls back, and none is
// read twice.
func TestPartialFallback(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 10, 1000), 1)
	r.Publish(1)
	r.damage(0, 2, 3, 7)
	r.Prove(0, driver.Job{})
	r.Publish(2) // the next model is undamaged
	r.Prove(0, driver.Job{Round: 1})
	r.counted(counts{phase.HandleTensors: 20, phase.BodyTensors: 0}, partial)
}

// damage makes tensors of one of the two models stale, by overwriting the generations that
// precede them.
func (r *rig) damage(model int, tensors ...int) {
	r.T.Helper()
	handles := r.server.models.Memories()[model].handles
	for _, i := range tensors {
		r.overwrite(r.server.memory.models.ref, 4096+int64(handles[i].Offset)-slab.Align, make([]byte, 8))
	}
}

// overwrite changes bytes of a slab's file.
func (r *rig) overwrite(ref *store.SlabRef, at int64, b []byte) {
	r.T.Helper()
	check.Must(r.T, os.Chmod(ref.Path, modeWriter))
	f := check.Value(os.OpenFile(ref.Path, os.O_RDWR, 0))(r.T)
	_, err := f.WriteAt(b, at)
	check.Must(r.T, errors.Join(err, f.Close()))
}

// TestFallbacks: A12, A30: a tensor that the slab cannot or must not hold travels as a
// body, and is counted with the reason.
func TestFallbacks(t *testing.T) {
	mapped := func() int { // by this process
		maps := check.Value(os.ReadFile("/proc/self/maps"))(t)
		return bytes.Count(maps, []byte(scratch.SharedMemory+"/ipcbench-"))
	}
	for _, c := range []struct {
		variant, reason string
		down, up        int64 // how many of 16 tensors fall back
	}{
		{"http-shm:pool=128B", store.Full, 16, 16}, {"http-shm:shm=off", store.Off, 16, 16},
		{"http-shm:missing=10", store.Missing, 1, 0}, {"http-shm:missing=25", store.Missing, 4, 0},
		{"http-shm:missing=75", store.Missing, 12, 0}, {"http-shm:missing=100", store.Missing, 16, 0},
	} {
		before := mapped()
		r := open(t, c.variant, vectors(t, 16, 1024), 1)
		for n := range int64(3) {
			r.Publish(uint64(n))
			r.Prove(0, driver.Job{Round: int(n)})
			fell := func(tensors int64) counts {
				tensors *= n + 1
				return counts{phase.Fallback + c.reason: tensors, phase.BodyTensors: tensors, phase.HandleTensors: 16*(n+1) - tensors}
			}
			r.counted(fell(c.up), fell(c.down))
			r.counted(nil, counts{phase.Calls + "batch": n + 1})
		}
		a := r.put("kb", strings.Repeat("x", 1024))
		inSlab := strings.Contains(a.Text, `"pool"`) && strings.Contains(a.Text, `"handle"`)
		check.That(t, inSlab == (c.up == 0) && strings.Contains(a.Text, `"fallback":"`+c.reason) != inSlab, "%s: put: got %s", c.variant, a.Text)
		r.ask("GET", "/v1/tensors/kb", "").Want(200, strings.Repeat("x", 1024), c.variant)
		check.That(t, c.reason != store.Off || r.server.memory.dir == nil && mapped() <= before, "shared memory is off, and segments are mapped")
	}
	// One model and a half and one update fit. So half of the second of two live models is
	// on the heap.
	r := open(t, "http-shm:pool=6000B", vectors(t, 4, 900), 1)
	for round := range 6 {
		r.Publish(uint64(round))
		r.Prove(0, driver.Job{Round: round})
	}
	_, got := r.Counts()
	full := got[phase.Fallback+store.Full]
	check.That(t, full > 0 && full == got[phase.BodyTensors] && got[phase.HandleTensors] == 24-full, "got %v, want some of 24 tensors each way", got)
}

// TestCheckRoom: a model that does not fit in memory is an error before anything is
// allocated.
func TestCheckRoom(t *testing.T) {
	v := parse(t, "http-shm")
	huge := drivertest.Vectors(t, tensor.U8, 1<<50)
	o := driver.Options{Down: huge, Up: huge, Lanes: 3, Depth: 2, Settings: v.Settings}
	check.Fails(t, v.Subject.Check(o), "slabs need 9007")
	o.Lanes = 1 << 40
	check.Fails(t, v.Subject.Check(o), "slabs need 9223372036854775807", "what overflows")
	o.Settings["shm"] = "off"
	check.Must(t, v.Subject.Check(o))
}

// TestSegments: A7, A29, A30: a writer has one segment, whatever its number of tensors. It
// exists before the first tensor, with the requested size.
func TestSegments(t *testing.T) {
	for _, tensors := range []int{1, 300} {
		r := open(t, "http-shm:pool=1MiB", vectors(t, tensors, 64), 3)
		sizes := map[string]int64{}
		entries := check.Value(os.ReadDir(r.server.memory.dir.Path()))(t)
		for _, e := range entries {
			info := check.Value(e.Info())(t)
			sizes[e.Name()] = info.Size()
		}
		const size = 4096 + 1<<20
		check.Equal(t, sizes, map[string]int64{"models": size, "updates-0": size, "updates-1": size, "updates-2": size, "lock": sizes["lock"]})
	}
}

// TestModelIsCheckedAfterUse: A14, A22: if a model, or any one of its tensors, is replaced
// while a worker reads it, the worker notices before it sends the update.
func TestModelIsCheckedAfterUse(t *testing.T) {
	replaced := func(r *rig) { // a server must not do this before it has the update
		for range 2 {
			check.Must(t, r.server.Publish(t.Context(), check.Value(r.server.Reserve())(t)))
		}
	}
	changes := map[string]func(r *rig){"0 ": replaced}
	for i := range 3 {
		changes[fmt.Sprint(i, " (")] = func(r *rig) { r.damage(0, i) }
	}
	for tensorAt, change := range changes {
		r := open(t, "http-shm", vectors(t, 3, 100), 1)
		r.Publish(1)
		check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}))
		use := func(driver.Job, *tensor.Package, *tensor.Package) error {
			change(r)
			return nil
		}
		err := drivertest.Turn(t.Context(), r.Workers[0].Worker, use)
		check.Is(t, err, slab.ErrStale, "submit")
		check.Must(t, r.Workers[0].Close())
		want := "the worker reports: the model changed while it was in use: tensor " + tensorAt
		check.Fails(t, check.Err(r.Server.Collect(t.Context(), 0)), want)
	}
}

// TestLocalityIsProved: A4: a worker that claims to be local must prove it by writing the
// server's challenge to its lane's slab.
func TestLocalityIsProved(t *testing.T) {
	connect := func(r *rig) *worker {
		c := exchange.NewClient(func(ctx context.Context) (net.Conn, error) { return r.Endpoint.Dial(ctx, nil) },
			r.Endpoint.Authorization(), false, nil)
		t.Cleanup(c.Close)
		w := &worker{o: r.Options, client: c}
		w.o.Rec = nil
		return w
	}
	do := func(w *worker, q exchange.Request, answer any) error {
		return w.client.Do(t.Context(), q, func(a *http.Response) error {
			if answer == nil {
				return nil
			}
			return readJSON(a, answer)
		})
	}
	r := start(t, "http-shm", vectors(t, 1, 100), 1)
	var joined joinAnswer
	w := connect(r)
	check.Must(t, do(w, w.about("join", "POST", "?down="+digest(r.Options.Down)+"&up="+digest(r.Options.Up)), &joined))
	challenge := check.Value(hex.DecodeString(joined.Challenge))(t)
	for i := range challenge {
		almost := bytes.Clone(challenge)
		almost[i] ^= 1
		r.overwrite(joined.Updates, 4096+int64(joined.Offset), almost)
		check.Fails(t, do(w, w.about("prove", "POST", "/local"), nil), "does not hold the challenge", "byte", i)
	}
	r.Publish(1)
	check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}))
	var job jobAnswer
	check.Must(t, do(w, w.request("jobs", "GET", "jobs/0"), &job))
	check.That(t, job.Update == "", "a stranger is offered the lane's slab: %+v", job)
	// It claims that its update is in the slab, without a proof.
	q := w.request("results", "POST", "results/0")
	for _, name := range []string{fieldRound, fieldClient, fieldReceipt, fieldCache, fieldCached, store.FieldTable} {
		q.Fields = append(q.Fields, exchange.Field{Name: name})
	}
	claim := exchange.Field{Name: fieldUpdate, Text: string(store.EncodeHandle(slab.Handle{Length: uint64(r.Options.Up.Size()), Generation: 1}))}
	claiming := q
	claiming.Fields = append(q.Fields[:6:6], claim)
	check.Fails(t, do(w, claiming, nil), "409")
	// An update sent as a body is accepted.
	table := tableOf(t, r.Options.Up)
	q.Fields[5].Value, q.Body = len(table), [][]byte{[]byte(table), r.Model.View(0)}
	check.Must(t, do(w, q, nil))
	p := check.Value(r.Server.Collect(t.Context(), 0))(t)
	check.That(t, p.Hash() == r.Model.Hash(), "other bytes")
	p.Release()
	r.counted(counts{phase.Fallback + store.Remote: 1}, nil)

	joined.Updates.Nonce, joined.Models.Nonce = strings.Repeat("00", 16), strings.Repeat("11", 16)
	s := newShared(r.Options, config{local: true}, joined)
	check.That(t, s.reader == nil && s.updates == nil, "opened a slab with another nonce")
	check.Must(t, s.close())

	r = open(t, "http-shm", vectors(t, 1, 100), 1)
	other := connect(r)
	for _, q := range []exchange.Request{other.about("prove", "POST", "/local"), other.about("leave", "DELETE", ""), other.request("jobs", "GET", "jobs/0")} {
		check.Fails(t, do(other, q, nil), "another connection")
	}
	r.Publish(1)
	r.Prove(0, driver.Job{})
	check.Must(t, r.Server.Dispatch(t.Context(), 0, driver.Job{}))
	err := drivertest.Turn(t.Context(), r.Workers[0].Worker, func(driver.Job, *tensor.Package, *tensor.Package) error { // A21
		h, err := r.worker(0).handle.Decode()
		h.Generation--
		r.worker(0).handle = store.EncodeHandle(h)
		return err
	})
	check.Fails(t, err, "handle is not the job's", "a stale handle")
}

// TestNamedByTheServer: a server may be hostile, on another host. Whatever path it names,
// even with the right nonce, a worker opens only slabs in session directories.
func TestNamedByTheServer(t *testing.T) {
	session := check.Value(scratch.New(scratch.SharedMemory))(t)
	defer session.Close()
	elsewhere := t.TempDir()
	link := filepath.Join(scratch.SharedMemory, "ipcbench-00000000deadbeef")
	check.Must(t, os.Symlink(elsewhere, link))
	defer os.Remove(link)
	inside := session.Path() + "/slab"
	mem, nonce, err := slab.CreateNamed(inside, 4096, "")
	check.Must(t, err)
	defer mem.Close()
	copied := check.Value(os.ReadFile(inside))(t)
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
		check.That(t, (s.reader != nil) == ok && (s.mem != nil) == ok, "%q: the worker has opened it: %v, %v", path, s.reader != nil, s.mem != nil)
		check.Must(t, s.close())
	}
	now, err := os.ReadFile(elsewhere + "/slab")
	check.That(t, err == nil && bytes.Equal(now, copied), "a file elsewhere was written to: %v", err)
}

// TestRejoinLeavesUpdates: a worker that takes over a lane does not overwrite the updates
// of its predecessor, even if it proves that it is local.
func TestRejoinLeavesUpdates(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 1, 100), 1)
	r.Publish(1)
	rejoin := func() {
		t.Helper()
		check.Must(t, r.Workers[0].Close())
		r.Workers[0] = r.Dial(0)
	}
	held := r.Exchange(0, driver.Job{})
	rejoin()
	r.Prove(0, driver.Job{Client: 1})
	check.Must(t, tensor.Prove(held, r.Model, drivertest.Key(driver.Job{})))
	held.Release()
	rejoin()
	r.Prove(0, driver.Job{Client: 2})
	r.counted(counts{phase.HandleTensors: 3, phase.BodyTensors: 0}, nil)
}

// TestRunsAreChecked: A21: a job with invalid handles, or handles for invalid tensors, is
// refused before its model is read.
func TestRunsAreChecked(t *testing.T) {
	o := driver.Options{Down: vectors(t, 4, 100), Up: vectors(t, 4, 100)}
	good := slab.Handle{Offset: 64, Length: 100, Generation: 1}
	after := check.Value(next(good, 100))(t)
	at, then := store.EncodeHandle(good), store.EncodeHandle(after)
	is := func(offset, length, generation uint64) store.Handle {
		return store.EncodeHandle(slab.Handle{Offset: offset, Length: length, Generation: generation})
	}
	for name, c := range map[string]struct {
		runs []run
		ok   bool
	}{
		"none":             {nil, true},
		"all":              {[]run{{0, 4, at}}, true},
		"some":             {[]run{{1, 2, at}}, true},
		"two":              {[]run{{0, 1, at}, {3, 1, then}}, true},
		"no handle":        {[]run{{0, 4, ""}}, false},
		"half a handle":    {[]run{{0, 4, at[:55]}}, false},
		"not hexadecimal":  {[]run{{0, 4, "zz" + at[2:]}}, false},
		"negative first":   {[]run{{-1, 1, at}}, false},
		"first beyond":     {[]run{{4, 1, at}}, false},
		"too many":         {[]run{{1, 4, at}}, false},
		"count overflows":  {[]run{{3, 1<<63 - 1, at}}, false},
		"empty":            {[]run{{0, 0, at}}, false},
		"overlap":          {[]run{{0, 2, at}, {1, 1, then}}, false},
		"other length":     {[]run{{0, 1, is(64, 99, 1)}}, false},
		"huge length":      {[]run{{0, 1, is(64, 1<<63, 1)}}, false},
		"no generation":    {[]run{{0, 1, is(64, 100, 0)}}, false},
		"offset overflows": {[]run{{0, 2, is(1<<64-64, 100, 1)}}, false},
	} {
		err := newShared(o, config{local: true}, joinAnswer{}).locate(c.runs)
		check.That(t, (err == nil) == c.ok, "%s: got error %v", name, err)
	}
}

// TestSessionsAreIndependent: A24, A26: two sessions in one process do not affect each
// other. A third one in the directory of the first is refused, and changes nothing there.
func TestSessionsAreIndependent(t *testing.T) {
	a, b := open(t, "http-shm", vectors(t, 2, 100), 1), open(t, "http-shm", vectors(t, 2, 100), 1)
	_, err := a.Variant.Subject.(driver.Transport).Listen(t.Context(), endpoint.New(a.Dir), a.Options)
	check.Fails(t, err, "address already in use")
	for n, r := range []*rig{a, b} {
		r.Publish(uint64(n))
		r.Prove(0, driver.Job{})
	}
	check.Must(t, a.Workers[0].Close())
	check.Must(t, a.Server.Shutdown(t.Context()))
	b.Prove(0, driver.Job{Client: 1})
	b.counted(nil, counts{phase.HandleTensors: 4, phase.BodyTensors: 0})
}

// half starts n writes of tensors, each on a connection of its own, that are half sent when it
// returns: the server holds their memory, but no tensor is in the store yet.
func (r *rig) half(n int) {
	for i := range n {
		fmt.Fprint(r.conn(), r.admitted(fmt.Sprintf("PUT /v1/tensors/t%d\nTensor-Dtype: u8\nTensor-Shape: 8\nContent-Length: 8\n\nhalf", i)))
	}
	waiting.Until(r.T, "the writes", func() bool {
		got := r.server.store.Stats()
		return got.Bytes == 8*n && got.Tensors == 0
	})
}

// TestShutdownDuringWrites: A15, A16, A28: a shutdown during writes of tensors does not
// crash and leaves nothing behind. A second one does nothing.
func TestShutdownDuringWrites(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 1)
	r.Publish(1)
	r.half(4)
	r.put("whole", "whole")
	dir := r.server.memory.dir.Path()
	check.Must(t, r.Workers[0].Close())
	waiting.Do(t, "shutdown", func() { check.Must(t, r.Server.Shutdown(t.Context())) })
	check.Must(t, r.Server.Shutdown(t.Context()))
	_, err := os.Stat(dir)
	check.Is(t, err, os.ErrNotExist, dir, "is left")
}

// inShutdown matches the stack of a shutdown that waits for what it has started.
var inShutdown = regexp.MustCompile(`\(\*WaitGroup\)\.Wait\(.*\n.*\n.*/http\.\(\*server\)\.Shutdown\(`)

// TestShutdownWaits: A16: a shutdown does not release the store while a request is being
// served, even if that continues without its connection.
func TestShutdownWaits(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 2, 100), 1)
	serving, finish := make(chan struct{}), make(chan struct{})
	r.server.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		close(serving)
		<-finish
		r.server.handler.ServeHTTP(w, q)
	})
	fmt.Fprint(r.conn(), r.admitted("PUT /v1/tensors/a\nTensor-Dtype: u8\nTensor-Shape: 1\n\na"))
	waiting.Receive(t, "the request", serving)
	over := make(chan error, 1)
	go func() { over <- r.Server.Shutdown(t.Context()) }()
	waiting.Until(t, "the shutdown waits for the request", func() bool {
		check.Need(t, len(over) == 0, "the shutdown is over while a request is being served")
		stacks := make([]byte, 1<<20)
		return inShutdown.Match(stacks[:runtime.Stack(stacks, true)])
	})
	close(finish)
	check.Must(t, waiting.Receive(t, "the end of the shutdown", over))
}

// TestStepsAreFlat: A19: after a thousand steps the slab has as many bytes in use as after
// three.
func TestStepsAreFlat(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 7, 1000), 1)
	steps := func(n int) int { // returns the bytes in use, which a pool reports when it refuses
		for i := range n {
			r.Publish(uint64(i))
			r.Prove(0, driver.Job{Round: i})
		}
		_, _, err := r.server.memory.models.pool.Reserve(1 << 40)
		full := &slab.FullError{}
		check.Need(t, errors.As(err, &full), "got error %v, want a full pool", err)
		return full.Used
	}
	before, after := steps(3), steps(1000)
	check.Equal(t, after, before, "bytes in use")
	r.counted(nil, counts{phase.BodyTensors: 0, phase.HandleTensors: 7 * 1003})
}

// TestDamagedHeader: A3: a worker that finds a damaged slab header counts as remote, and
// the session continues with bodies.
func TestDamagedHeader(t *testing.T) {
	r := start(t, "http-shm", vectors(t, 3, 100), 1)
	for _, ref := range []*store.SlabRef{r.server.memory.models.ref, r.server.memory.lanes[0].ref} {
		r.overwrite(ref, 8, binary.LittleEndian.AppendUint64(nil, 1)) // another capacity
	}
	r.Dial(0)
	r.Publish(1)
	r.Prove(0, driver.Job{})
	want := counts{phase.Fallback + store.Remote: 3, phase.BodyTensors: 3, phase.HandleTensors: 0}
	r.counted(want, want)
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
