package batched

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// A cutter forwards connections to a server and cuts them: each one, as long as
// there is a cut left, after that many bytes in either direction.
type cutter struct {
	path     string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string        // guarded by mu: the path of a socket
	cuts   []int64       // guarded by mu
	onlyUp bool          // guarded by mu: bytes to the server alone count
	atCut  func() string // guarded by mu: if set, what happens before a cut; returns the next target
	live   []net.Conn    // guarded by mu
}

func newCutter(t *testing.T, target string, cuts ...int64) *cutter {
	t.Helper()
	c := &cutter{path: filepath.Join(t.TempDir(), "cutter"), target: strings.TrimPrefix(target, "unix:"), cuts: cuts}
	var err error
	c.listener, err = net.Listen("unix", c.path)
	check.Need(t, err == nil, "%v", err)
	c.wg.Go(func() {
		for {
			in, err := c.listener.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			at := c.target
			c.mu.Unlock()
			out, err := net.Dial("unix", at)
			if err != nil {
				in.Close()
				continue
			}
			c.forward(in, out)
		}
	})
	t.Cleanup(c.stop)
	return c
}

func (c *cutter) forward(in, out net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := int64(1 << 60)
	if len(c.cuts) > 0 {
		limit, c.cuts = c.cuts[0], c.cuts[1:]
	}
	c.live = append(c.live, in, out)
	atCut := c.atCut
	for i, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		limit := limit
		if i == 0 && c.onlyUp {
			limit = 1 << 60
		}
		c.wg.Go(func() {
			_, err := io.CopyN(pair[0], pair[1], limit) // any end is the end
			if err == nil && atCut != nil {
				next := atCut()
				c.mu.Lock()
				c.target = next
				c.mu.Unlock()
			}
			in.Close()
			out.Close()
		})
	}
}

func (c *cutter) stop() {
	c.listener.Close()
	c.mu.Lock()
	for _, conn := range c.live {
		conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// TestBrokenConnection: O22. Whatever is under way when a connection breaks, the
// job ends with correct data, and what was made again is counted.
func TestBrokenConnection(t *testing.T) {
	l := layoutOf(t, 100_000, 1, 0, 100_000, 50_000) // 1 MB
	const never = 1 << 60
	kept := [][]int64{
		{500_000},          // in the fetch
		{1_500_000},        // in the upload, or later
		{2_500, 600_000},   // in the task, then in the fetch
		{500_000, 900_000}, // and again after it went on
	}
	for _, c := range []struct {
		variant string
		cuts    [][]int64 // bytes after which connections break
	}{
		{"grpc-tensor", kept}, {"grpc-batch", kept}, {"grpc-stream", kept},
		{"grpc-stream:conn=per-call", [][]int64{
			{never, never, 500_000},        // join, task, fetch
			{never, never, never, 500_000}, // upload
			{never, 10, 10, 300_000},       // the task twice, then the fetch
		}},
	} {
		for _, cuts := range c.cuts {
			variantName := c.variant
			r := listen(t, variantName+":chunk=64KiB", l, 1)
			c := newCutter(t, r.at.Addr(), cuts...)
			w := r.dialAt("unix:"+c.path, variantName+":chunk=64KiB", 0)
			done := make(chan error, 1)
			go func() {
				for range 3 {
					if err := turn(w); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			for job := range 3 {
				check.Must(t, r.exchange(0, jobOf(job, job)), variantName, "cuts", cuts)
			}
			check.Must(t, <-done, variantName, "cuts", cuts, "worker")
			got := r.recs[1].Counts()[phase.Retries]
			check.That(t, got >= 1 && got <= 20, "%s, cuts %v: %d retries", variantName, cuts, got)
			r.shutdown()
		}
	}
}

// TestResume: what of a stream came before it broke is not fetched again.
func TestResume(t *testing.T) {
	l := layoutOf(t, 250_000, 250_000, 250_000, 250_000) // 4 MB
	r := listen(t, "grpc-stream:chunk=64KiB", l, 1)
	c := newCutter(t, r.at.Addr(), 3_000_000)
	w := r.dialAt("unix:"+c.path, "grpc-stream:chunk=64KiB", 0)
	r.dispatch(0, driver.Job{})
	_, m, err := w.Receive(limited(t))
	check.Need(t, err == nil && m.Hash() == r.model.Hash(), "model with another hash, or error %v", err)
	got := r.recs[1].Counts()[phase.Copied]
	check.That(t, got >= 4_000_000 && got <= 5_000_000, "put %d bytes in place for a model of 4000000", got)
}

// TestServerRestart: O22. A server that comes back in the middle of a session
// finds its workers again.
func TestServerRestart(t *testing.T) {
	r := open(t, "grpc-stream", twenty(t), 2)
	r.round(0, 4)
	r.server.grpc.Stop()
	check.Must(t, <-r.server.serving)
	r.restart(nil)
	r.round(1, 4)
}

// restart lets the server, which was stopped, listen where it did, through what
// wrap makes of its listener.
func (r *rig) restart(wrap func(net.Listener) net.Listener) {
	r.t.Helper()
	l, err := r.server.listen(r.t.Context())
	check.Must(r.t, err)
	if wrap != nil {
		l.Listener = wrap(l.Listener)
	}
	r.server.start(l)
}

// A fickle listener closes every other one of its first connections as soon as
// HTTP/2 may be spoken on it.
type fickle struct {
	net.Listener
	n, until int
}

func (l *fickle) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.n++; l.n%2 == 0 || l.n > l.until {
			return c, nil
		}
		err = http2.NewFramer(c, nil).WriteSettings()
		if err = errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
	}
}

// TestClosedWhenReady: a worker whose new connection ends before it was used gets
// another one, and does not wait for it until its time is up.
func TestClosedWhenReady(t *testing.T) {
	const name = "grpc-stream:conn=per-call"
	r := listen(t, name, twenty(t), 1)
	w := r.dial(name, 0)
	r.server.grpc.Stop()
	check.Must(t, <-r.server.serving)
	r.restart(func(l net.Listener) net.Listener { return &fickle{Listener: l, until: 40} })
	for range 20 { // the end may also come a little later, and is met by the call
		check.Must(t, w.Ping(limited(t)))
	}
}

// TestDeadline: O22. A server that stays away is not waited for for ever.
func TestDeadline(t *testing.T) {
	for name, variantName := range map[string]string{
		"deadline": "grpc-stream:deadline=1",
		"attempts": "grpc-stream:deadline=3600",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := listen(t, variantName, twenty(t), 1)
			c := newCutter(t, r.at.Addr())
			w := r.dialAt("unix:"+c.path, variantName, 0)
			r.dispatch(0, driver.Job{})
			if _, _, err := w.Receive(limited(t)); err != nil {
				t.Fatal(err)
			}
			c.stop()
			u, err := w.Reserve()
			check.Must(t, err)
			err = w.Submit(limited(t), u)
			if code := status.Code(err); err == nil || code != codes.Unavailable && code != codes.DeadlineExceeded {
				t.Errorf("got error %v, want that the server is unavailable", err)
			}
			got := r.recs[1].Counts()[phase.Retries]
			check.That(t, got >= 2 && got < attempts, "%d retries", got)
		})
	}
}

// TestLimit: O20, O19. Over the limit a batch fails once, says why and what to
// do, before the session and in it; a stream and split batches do not.
func TestLimit(t *testing.T) {
	l := layoutOf(t, 100_000, 100_000, 60_000, 1) // 400, 400, 240 kB
	const limit = ":chunk=64KiB:limit=512KiB"
	tr, settings := variant(t, "grpc-batch"+limit)
	o := driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1, Settings: settings}
	for _, text := range []string{"4 tensors", "104", "524288", "grpc-stream", "split=on"} {
		check.Fails(t, tr.Check(o), text, "check")
	}
	big := o
	big.Down = layoutOf(t, 200_000)
	for _, name := range []string{"grpc-tensor", "grpc-batch", "grpc-batch:split=on"} {
		tr, settings := variant(t, name+limit)
		big.Settings = settings
		check.Fails(t, tr.Check(big), "use grpc-stream", name, "check of one large tensor")
	}
	if tr, settings := variant(t, "grpc-stream:limit=64KiB"); true {
		o.Settings = settings
		check.Fails(t, tr.Check(o), "chunk=2MiB", "check of a chunk over the limit")
	}

	for _, c := range []struct {
		variant string
		method  string
		calls   int64
	}{
		{"grpc-stream" + limit, "StreamAggregatedTensors", 1},
		{"grpc-batch:split=on" + limit, "GetAggregatedTensors", 3},
		{"grpc-tensor" + limit, "GetAggregatedTensor", 4},
	} {
		r := open(t, c.variant, l, 1)
		r.round(0, 1)
		served, _ := r.counts("served.")
		check.Equal(t, served[c.method], c.calls, c.variant, "calls")
		r.shutdown()
	}

	// A client that asks all the same gets one answer.
	r := listen(t, "grpc-stream"+limit, l, 1)
	r.dispatch(0, driver.Job{})
	client, _ := r.stranger()
	_, err := client.GetAggregatedTensors(limited(t), &pb.GetAggregatedTensorsRequest{Header: r.head(0), Specs: r.specs(0, 0, 1, 2, 3)})
	refused(t, "over the limit", err, overLimit, "use grpc-stream, or split=on")
	w := r.dial("grpc-batch"+limit, 0)
	_, _, err = w.Receive(limited(t))
	refused(t, "a worker over the limit", err, overLimit, "the limit is 524288")
	check.Equal(t, r.recs[1].Counts()[phase.Retries], 0, "retries of what cannot succeed")
}

// TestTwoGiB: protobuf's limit is an error and no panic.
func TestTwoGiB(t *testing.T) {
	l := layoutOf(t, 200<<20, 200<<20, 200<<20) // 800 MiB each; nothing of it is allocated
	tr, settings := variant(t, "grpc-batch:limit=2147483647B")
	err := tr.Check(driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1, Settings: settings})
	check.Fails(t, err, "the limit is 2147483647")
	settings["split"] = "on"
	check.OK(t, tr.Check(driver.Options{Down: l, Up: l, Lanes: 1, Depth: 1, Settings: settings}), "split")
}

// TestNeverReads: a client that never reads loses its connection when its time is
// up, holds no handler meanwhile, and disturbs nobody.
func TestNeverReads(t *testing.T) {
	const name = "grpc-stream:threads=1:deadline=1:chunk=64KiB"
	l := layoutOf(t, 500_000)
	r := listen(t, name, l, 2)
	r.dispatch(1, driver.Job{})
	client, cc := r.stranger(grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	if _, err := client.Ping(limited(t), &pb.PingRequest{}); err != nil { // now it is connected
		t.Fatal(err)
	}
	for state := cc.GetState(); state != connectivity.Ready; state = cc.GetState() { // which is said after the answer
		check.Need(t, cc.WaitForStateChange(limited(t), state), "the connection is not ready")
	}
	stream, err := client.StreamAggregatedTensors(t.Context(), &pb.GetAggregatedTensorsRequest{Header: r.head(1), Specs: r.specs(0, 0)})
	check.Must(t, err)
	w := r.dial("grpc-stream:chunk=64KiB", 0) // on a slow machine it takes more than one call
	go func() {
		for range 5 {
			if err := turn(w); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for job := range 5 {
		check.Must(t, r.exchange(0, jobOf(0, job)))
	}
	ctx := limited(t)
	check.Need(t, cc.WaitForStateChange(ctx, connectivity.Ready), "the connection is still there")
	for err == nil {
		_, err = stream.Recv()
	}
	check.That(t, !errors.Is(err, io.EOF), "the stream ended well")
}

// TestThreads: O8, O6. While all handlers are at work a request for tensors
// waits, which is recorded; a request that parks and an empty one do not.
func TestThreads(t *testing.T) {
	r := listen(t, "grpc-batch:threads=2", twenty(t), 1)
	client, _ := r.stranger()
	busy := []seat{{s: r.server.slots}, {s: r.server.slots}}
	for i := range busy {
		check.Must(t, busy[i].take(t.Context(), &tally{}))
	}
	r.dispatch(0, driver.Job{Client: 7})
	if _, err := client.Ping(limited(t), &pb.PingRequest{}); err != nil {
		t.Errorf("an empty call while all handlers work: %v", err)
	}
	if _, err := client.GetTasks(limited(t), &pb.GetTasksRequest{Header: r.head(0)}); err != nil {
		t.Errorf("a request for a task while all handlers work: %v", err)
	}
	get := &pb.GetAggregatedTensorsRequest{Header: r.head(0), Client: 7, Specs: r.specs(0, 1)}
	came, ctx := make(chan error, 1), limited(t)
	go func() {
		_, err := client.GetAggregatedTensors(ctx, get)
		came <- err
	}()
	waiting.Until(t, "a request for tensors that waits while all handlers work", func() bool {
		waited, _ := r.counts(phase.Queued)
		return waited[""] > 0
	})
	busy[0].end()
	check.OK(t, waiting.Receive(t, "its answer when a handler is free", came), "a request for tensors that has waited")
	_, err := client.GetAggregatedTensors(limited(t), get)
	check.That(t, err == nil, "a request for tensors when a handler is free: %v", err)
	busy[1].end()
	r.shutdown()
	samples, _ := r.recs[0].Drain()
	check.That(t, slices.ContainsFunc(samples, func(s phase.Sample) bool { return s.Phase == phase.Queue && s.Client == 7 }),
		"the wait for a handler was not recorded")
	waited, _ := r.counts(phase.Queued)
	check.That(t, waited[""] == 1, "%d requests waited, want the first one", waited[""])
}

// TestSlots: O8. No more than T are at work at any time.
func TestSlots(t *testing.T) {
	const bound = 3
	rec := phase.NewRecorder(0)
	s := newSlots(bound, false, 1, rec)
	var mu sync.Mutex
	working, most := 0, 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 200 {
				sits := seat{s: s}
				if err := sits.take(t.Context(), &tally{}); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				working++
				most = max(most, working)
				mu.Unlock()
				mu.Lock()
				working--
				mu.Unlock()
				sits.rest()
			}
		})
	}
	wg.Wait()
	check.That(t, most <= bound, "%d were at work, want at most %d", most, bound)
	if n, most := inService(rec.Counts()); n != 20*200 || most > bound {
		t.Errorf("counted %d, and at most %d at work, want %d, and %d", n, most, 20*200, bound)
	}
}

// TestLeave: a worker that leaves with a job in hand ends the wait for it, and
// says why.
func TestLeave(t *testing.T) {
	const cause = "ValueError: no data"
	for _, want := range []string{"the worker has left", cause} {
		r := listen(t, "grpc-stream", twenty(t), 1)
		w := r.dial("grpc-stream", 0)
		r.dispatch(0, driver.Job{})
		if _, _, err := w.Receive(limited(t)); err != nil {
			t.Fatal(err)
		}
		if want == cause {
			client, _ := r.stranger()
			_, err := client.Leave(limited(t), &pb.LeaveRequest{Header: r.head(0), Cause: cause})
			check.Need(t, err == nil, "%v", err)
		}
		check.Must(t, w.Close())
		_, err := r.session.Collect(limited(t), 0)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "collect: got %v, want %q", err, want)
		if _, _, err := w.Receive(limited(t)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("receive after close: got %v", err)
		}
	}
}

// TestPing: the floor of a call can be measured on a worker's own connection.
func TestPing(t *testing.T) {
	r := listen(t, "grpc-tensor", twenty(t), 1)
	w := r.dial("grpc-tensor", 0)
	for range 3 {
		check.Must(t, w.Ping(limited(t)))
	}
	check.Equal(t, r.recs[1].Counts()["calls.Ping"], 3, "calls")
}
