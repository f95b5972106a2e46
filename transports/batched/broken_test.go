package batched

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// A cutter forwards connections to a server. It cuts each one after the next number of
// bytes in cuts, in either direction, until none is left; later connections are not cut.
type cutter struct {
	onlyUp bool   // counts only bytes to the server
	before func() // if set, runs once, before the first connection is closed

	listener net.Listener
	wg       sync.WaitGroup
	once     sync.Once
	mu       sync.Mutex
	cuts     []int64    // guarded by mu
	live     []net.Conn // guarded by mu
}

const never = 1 << 60

// to returns the endpoint of workers of the server at e whose connections c cuts.
func (c *cutter) to(t testing.TB, e *endpoint.Endpoint) *endpoint.Endpoint {
	t.Helper()
	path, target := filepath.Join(t.TempDir(), "cutter"), strings.TrimPrefix(e.Addr(), "unix:")
	c.listener = check.Value(net.Listen("unix", path))(t)
	c.wg.Go(func() {
		for {
			in, err := c.listener.Accept()
			if err != nil {
				return
			}
			if out, err := net.Dial("unix", target); err == nil {
				c.forward(in, out)
			} else {
				in.Close()
			}
		}
	})
	t.Cleanup(c.stop)
	return endpoint.At("unix:"+path, e.Secret())
}

// through returns the endpoint of workers whose connections c cuts.
func (r *rig) through(c *cutter) *endpoint.Endpoint {
	r.T.Helper()
	e := c.to(r.T, r.Endpoint)
	r.T.Cleanup(r.shutdown) // workers announce through c that they leave
	return e
}

func (c *cutter) forward(in, out net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	down := int64(never)
	if len(c.cuts) > 0 {
		down, c.cuts = c.cuts[0], c.cuts[1:]
	}
	up := down
	if c.onlyUp {
		down = never
	}
	c.live = append(c.live, in, out)
	pass := func(to, from net.Conn, limit int64) {
		_, _ = io.CopyN(to, from, limit) // an error and the limit both end the connection
		if c.before != nil {
			c.once.Do(c.before)
		}
		in.Close()
		out.Close()
	}
	c.wg.Go(func() { pass(in, out, down) })
	c.wg.Go(func() { pass(out, in, up) })
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

// TestBrokenConnection: O22. Whatever is under way when a connection breaks, the job ends
// with correct data, and the repeated calls are counted.
func TestBrokenConnection(t *testing.T) {
	l := layoutOf(t, 100_000, 1, 0, 100_000, 50_000) // 1 MB
	kept := [][]int64{
		{500_000},          // during the fetch
		{1_500_000},        // during the upload, or later
		{2_500, 600_000},   // during the task, then the fetch
		{500_000, 900_000}, // a second time after the first retry
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
			r := listen(t, c.variant+":chunk=64KiB", l, 1)
			w := r.DialAt(r.through(&cutter{cuts: cuts}), 0)
			for job := range 3 {
				r.Prove(0, jobOf(job, job))
			}
			got := w.Rec.Counts()[phase.Retries]
			check.That(t, got >= 1 && got <= 20, "%s, cuts %v: %d retries", c.variant, cuts, got)
		}
	}
}

// TestResume: the part of a stream that arrived before the connection broke is not fetched
// again.
func TestResume(t *testing.T) {
	r := listen(t, "grpc-stream:chunk=64KiB", layoutOf(t, 250_000, 250_000, 250_000, 250_000), 1) // 4 MB
	w := r.DialAt(r.through(&cutter{cuts: []int64{3_000_000}}), 0)
	r.dispatch(0, driver.Job{})
	_, m, err := w.Receive(waiting.Context(t))
	check.Need(t, err == nil && m.Hash() == r.Model.Hash(), "model with another hash, or error %v", err)
	got := w.Rec.Counts()[phase.Copied]
	check.That(t, got >= 4_000_000 && got <= 5_000_000, "put %d bytes in place for a model of 4000000", got)
}

// TestKilledServer: O22. A server's process is killed in the middle of a transfer. If
// another server with the same address, secret and job replaces it, the worker finishes
// the job there with correct data. Otherwise it gives up. Either way it has counted its
// retries.
func TestKilledServer(t *testing.T) {
	for _, name := range []string{"grpc-tensor", "grpc-batch", "grpc-stream"} {
		for _, upload := range []bool{false, true} {
			for _, returns := range []bool{true, false} {
				if !returns && name != "grpc-stream" {
					continue // all three give up in the same way, and that is slow
				}
				t.Run(fmt.Sprint(name, ",upload=", upload, ",returns=", returns), func(t *testing.T) {
					killServer(t, variant(t, name+":chunk=64KiB"), upload, returns)
				})
			}
		}
	}
}

func killServer(t *testing.T, v transports.Variant, upload, returns bool) {
	l := layoutOf(t, 100_000, 1, 0, 100_000, 50_000)
	o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 8, Depth: 2}
	t.Chdir(t.TempDir()) // both servers listen here, one after the other
	child, e := drivertest.Lead(t, v, l, ".")
	next := make(chan *rig, 1)
	c := &cutter{cuts: []int64{500_000}, onlyUp: upload, before: func() {
		if child.Kill(); returns {
			check.Must(t, errors.Join(os.Remove("socket"), os.Remove(endpoint.AddressFile)))
			other := rigOf(drivertest.ListenAt(t, v, endpoint.At("", e.Secret()), "", o))
			other.dispatch(0, driver.Job{})
			next <- other
		}
	}}
	w := check.Value(drivertest.Dial(t.Context(), v, c.to(t, e), 0, o))(t)
	err := drivertest.Turn(waiting.Context(t), w.Worker, drivertest.Stock)
	check.Must(t, w.Close())
	if returns {
		check.Must(t, err)
		other := waiting.Receive(t, "another server", next)
		p := other.collect()
		check.OK(t, tensor.Prove(p, other.Model, drivertest.Key(driver.Job{})))
		p.Release()
	} else {
		check.Equal(t, status.Code(err), codes.Unavailable, "without a server")
	}
	n := w.Rec.Counts()[phase.Retries]
	check.That(t, n >= 1 && n < attempts, "%d retries", n)
}

// TestServerRestart: O22. Workers find a server again that restarts during a session.
func TestServerRestart(t *testing.T) {
	r := open(t, "grpc-stream", twenty(t), 2)
	r.Round(0, 4)
	r.restart(func(l net.Listener) net.Listener { return l })
	r.Round(1, 4)
}

// restart stops the server and lets it listen again at its address, through the listener
// that wrap returns.
func (r *rig) restart(wrap func(net.Listener) net.Listener) {
	r.T.Helper()
	r.server.grpc.Stop()
	check.Must(r.T, <-r.server.serving)
	l := check.Value(r.server.listen(r.T.Context()))(r.T)
	l.Listener = wrap(l.Listener)
	r.server.start(l)
}

// A fickle listener closes every other one of its first connections as soon as it could be
// used for HTTP/2.
type fickle struct {
	net.Listener
	n, until int
}

func (l *fickle) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if l.n++; err != nil || l.n%2 == 0 || l.n > l.until {
			return c, err
		}
		if err = errors.Join(http2.NewFramer(c, nil).WriteSettings(), c.Close()); err != nil {
			return nil, err
		}
	}
}

// TestClosedWhenReady: a worker whose new connection ends before its first use opens
// another one at once, instead of waiting for its deadline.
func TestClosedWhenReady(t *testing.T) {
	r := listen(t, "grpc-stream:conn=per-call", twenty(t), 1)
	w := r.Dial(0)
	r.restart(func(l net.Listener) net.Listener { return &fickle{Listener: l, until: 40} })
	for range 20 { // a connection may also end later, during the call
		check.Must(t, w.Ping(waiting.Context(t)))
	}
	check.Equal(t, w.Rec.Counts()["calls.Ping"], 20, "calls")
}

// TestDeadline: O22. If a server does not come back, a call ends after its number of attempts
// or at its time limit. It has none by default, because a network may be slow.
func TestDeadline(t *testing.T) {
	for limit, want := range map[time.Duration]string{time.Second: "gone", time.Hour: "8 attempts: ", 0: "8 attempts: "} {
		synctest.Test(t, func(t *testing.T) {
			l, v := twenty(t), variant(t, "grpc-stream")
			rec := phase.NewRecorder(0)
			o := driver.Options{Down: l, Up: l, Lanes: 1, Rec: rec, Settings: v.Settings}
			w := newWorker(v.Subject.(*transport), endpoint.At("unix:/nobody", "s"), 0, o)
			var err error
			w.kept = check.Value(w.connect())(t)
			defer w.hangUp()
			check.Equal(t, w.cfg.deadline, 0, "limit by default")
			err = w.call(t.Context(), limit, pb.Federation_Ping_FullMethodName, func(context.Context, *grpc.ClientConn) error {
				return status.Error(codes.Unavailable, "gone")
			})
			check.Fails(t, err, want, limit)
			n := rec.Counts()[phase.Retries]
			check.That(t, n == 7 || limit == time.Second && n == 6, "within %v: %d retries", limit, n) // waits are shortened at random
			check.That(t, limit != time.Second || !strings.Contains(err.Error(), "attempts"), "within %v: %v", limit, err)
		})
	}
}

// TestLimit: O20, O19. A batch over the limit fails once, with the reason and a remedy,
// before and during the session. Streams and split batches succeed.
func TestLimit(t *testing.T) {
	const limit = ":chunk=64KiB:limit=512KiB"
	l := layoutOf(t, 100_000, 60_000, 60_000, 1)   // 400, 240, 240 kB
	huge := layoutOf(t, 200<<20, 200<<20, 200<<20) // 800 MiB each, never allocated
	for _, c := range []struct {
		variant string
		l       *tensor.Layout
		texts   []string
	}{
		{"grpc-batch" + limit, l, []string{"4 tensors", "88", "524288", "grpc-stream", "split=on"}},
		{"grpc-tensor" + limit, layoutOf(t, 200_000), []string{"use grpc-stream"}},
		{"grpc-batch" + limit, layoutOf(t, 200_000), []string{"use grpc-stream"}},
		{"grpc-batch:split=on" + limit, layoutOf(t, 200_000), []string{"use grpc-stream"}},
		{"grpc-stream:limit=64KiB", l, []string{"chunk=2MiB"}},
		{"grpc-batch:limit=2147483647B", huge, []string{"the limit is 2147483647"}}, // protobuf's own limit must not cause a panic
		{"grpc-batch:split=on:limit=2147483647B", huge, nil},
	} {
		v := variant(t, c.variant)
		err := v.Subject.Check(driver.Options{Down: c.l, Up: c.l, Lanes: 1, Depth: 1, Settings: v.Settings})
		for _, text := range c.texts {
			check.Fails(t, err, text, c.variant)
		}
		check.That(t, err == nil || c.texts != nil, "%s: %v", c.variant, err)
	}
	for _, c := range []struct {
		variant, method string
		calls           int64
	}{
		{"grpc-stream" + limit, "StreamAggregatedTensors", 1},
		{"grpc-batch:split=on" + limit, "GetAggregatedTensors", 2},
		{"grpc-tensor" + limit, "GetAggregatedTensor", 4},
	} {
		r := open(t, c.variant, l, 1)
		r.Round(0, 1)
		served, _ := r.counts(phase.Served)
		check.Equal(t, served[c.method], c.calls, c.variant, "calls")
	}
	// A client that ignores the check gets one refusal.
	r := listen(t, "grpc-stream"+limit, l, 1)
	r.dispatch(0, jobOf(0, 3))
	client, _ := r.stranger()
	_, errs := r.fetched(client, r.specs(0, 0, 1, 2, 3))
	refused(t, "over the limit", errs[1], overLimit, "use grpc-stream, or split=on")
	r.Variant = variant(t, "grpc-batch"+limit)
	w := r.Dial(0)
	_, _, err := w.Receive(waiting.Context(t))
	refused(t, "a worker over the limit", err, overLimit, "the limit is 524288")
	check.Equal(t, w.Rec.Counts()[phase.Retries], 0, "retries of what cannot succeed")
}

// TestNeverReads: a client that never reads loses its connection when its time is up. Until
// then it holds no handler and does not disturb other clients.
func TestNeverReads(t *testing.T) {
	r := listen(t, "grpc-stream:threads=1:chunk=64KiB", layoutOf(t, 500_000), 2)
	r.Dial(0)
	r.dispatch(1, driver.Job{})
	client, cc := r.stranger(grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	check.Must(t, call(t, cc, "Ping", &pb.PingRequest{}))                            // now it is connected
	for state := cc.GetState(); state != connectivity.Ready; state = cc.GetState() { // gRPC reports that only after the answer
		check.Need(t, cc.WaitForStateChange(waiting.Context(t), state), "the connection is not ready")
	}
	r.server.cfg.deadline = time.Second // for this request only, which still has bytes to send when the time is up
	stream, err := client.StreamAggregatedTensors(t.Context(), &pb.GetAggregatedTensorsRequest{Header: r.head(1), Specs: r.specs(0, 0)})
	check.Must(t, err)
	_, err = stream.Recv()
	r.server.cfg.deadline = time.Hour
	for job := range 5 {
		r.Prove(0, jobOf(0, job))
	}
	check.Need(t, cc.WaitForStateChange(waiting.Context(t), connectivity.Ready), "the connection is still there")
	for err == nil {
		_, err = stream.Recv()
	}
	check.That(t, !errors.Is(err, io.EOF), "the stream ended well")
}

// TestLeave: if a worker leaves with an unfinished job, the server's wait for the update
// ends with the cause.
func TestLeave(t *testing.T) {
	for _, cause := range []string{"", "ValueError: no data"} {
		r := listen(t, "grpc-stream", twenty(t), 1)
		w := r.Dial(0)
		r.dispatch(0, driver.Job{})
		_, _, err := w.Receive(waiting.Context(t))
		check.Must(t, err)
		want := "the worker has left"
		if cause != "" {
			want = cause
			_, cc := r.stranger()
			check.Must(t, call(t, cc, "Leave", &pb.LeaveRequest{Header: r.head(0), Cause: cause}))
		}
		check.Must(t, w.Close())
		check.Fails(t, check.Err(r.Server.Collect(waiting.Context(t), 0)), want, "collect")
		_, _, err = w.Receive(waiting.Context(t))
		check.That(t, err != nil && !errors.Is(err, io.EOF), "receive after close: got %v", err)
	}
}
