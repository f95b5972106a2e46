package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// A rig is a session in this process, driven call by call.
type rig struct {
	t       testing.TB
	v       transports.Variant
	e       *driver.Endpoint
	o       driver.Options
	dir     string
	s       *serverEnd
	workers []*workerEnd
	recs    []*phase.Recorder // of the workers
}

// A serverEnd is a session's server and the driver below it.
type serverEnd struct {
	*transports.Server
	in *server
}

// A workerEnd is a lane's worker and the driver below it.
type workerEnd struct {
	*transports.Worker
	in *worker
}

// seen is a transport that shows what it made.
type seen struct {
	driver.Transport
	s *server
	w *worker
}

func (s *seen) Listen(ctx context.Context, e *driver.Endpoint, o driver.Options) (driver.Server, error) {
	d, err := s.Transport.Listen(ctx, e, o)
	in := d
	if c, ok := d.(*slab.CloningServer); ok {
		in = c.Server
	}
	s.s, _ = in.(*server)
	return d, err
}

func (s *seen) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	d, err := s.Transport.Dial(ctx, e, lane, o)
	s.w, _ = d.(*worker)
	return d, err
}

// start opens a session of variant, such as "http:batch=2", without workers.
// change may change what no setting does.
func start(t testing.TB, variant string, l *tensor.Layout, lanes int, change ...func(*transport, *driver.Endpoint)) *rig {
	t.Helper()
	v, err := transports.Parse(variant, []driver.Transport{New(), Local()})
	check.Must(t, err)
	dir, err := scratch.New(os.TempDir())
	check.Must(t, err)
	d, e := v.Transport.(transport), driver.NewEndpoint(dir.Path())
	for _, f := range change {
		f(&d, e)
	}
	v.Transport = d
	r := &rig{t: t, v: v, dir: dir.Path(), e: e, o: driver.Options{
		Down: l, Up: l, Lanes: lanes, Clients: 8, Depth: 2, Settings: v.Settings, Rec: phase.NewRecorder(1 << 10),
	}}
	r.s, err = listen(t.Context(), v, r.e, r.o)
	check.Must(t, err)
	t.Cleanup(func() {
		for _, w := range r.workers {
			_ = w.Close() // some tests have broken it
		}
		_ = r.s.Shutdown(waiting.Context(t)) // some tests have closed it
		check.Must(t, dir.Close())
	})
	return r
}

// impatient changes for how long a peer may be slow, and a stranger be one.
func impatient(patience time.Duration) func(*transport, *driver.Endpoint) {
	return func(d *transport, e *driver.Endpoint) { d.patience, e.Patience = exchange.Patience(patience), patience }
}

// brief changes for how long a stranger may be one.
func brief(patience time.Duration) func(*transport, *driver.Endpoint) {
	return func(_ *transport, e *driver.Endpoint) { e.Patience = patience }
}

func listen(ctx context.Context, v transports.Variant, e *driver.Endpoint, o driver.Options) (*serverEnd, error) {
	seen := &seen{Transport: v.Transport}
	v.Transport = seen
	s, err := transports.Listen(ctx, v, e, o)
	return &serverEnd{s, seen.s}, err
}

func dialLane(ctx context.Context, v transports.Variant, e *driver.Endpoint, lane int, o driver.Options) (*workerEnd, error) {
	seen := &seen{Transport: v.Transport}
	v.Transport = seen
	w, err := transports.Dial(ctx, v, driver.EndpointAt(e.Addr(), e.Secret()), lane, o)
	return &workerEnd{w, seen.w}, err
}

// open is start with a worker for every lane.
func open(t testing.TB, variant string, l *tensor.Layout, lanes int, change ...func(*transport, *driver.Endpoint)) *rig {
	t.Helper()
	r := start(t, variant, l, lanes, change...)
	for n := range lanes {
		r.dial(n)
	}
	return r
}

func (r *rig) dial(lane int) *workerEnd {
	r.t.Helper()
	o := r.o
	o.Rec = phase.NewRecorder(1 << 10)
	w, err := dialLane(r.t.Context(), r.v, r.e, lane, o)
	check.Must(r.t, err)
	r.workers, r.recs = append(r.workers, w), append(r.recs, o.Rec)
	return w
}

// publish makes a model with the given seed current.
func (r *rig) publish(seed uint64) *tensor.Package {
	r.t.Helper()
	m, err := r.s.Reserve()
	check.Must(r.t, err)
	tensor.Fill(m, seed)
	m, err = r.s.Publish(r.t.Context(), m)
	check.Must(r.t, err)
	return m
}

func key(j driver.Job) tensor.Key { return tensor.Key{Seed: 5, Round: j.Round, Client: j.Client} }

// train is one job of w, from Receive to Submit.
func train(ctx context.Context, w *workerEnd) error {
	j, model, err := w.Receive(ctx)
	if err != nil {
		return err
	}
	u, err := w.Reserve()
	if err != nil {
		return err
	}
	if err := tensor.Train(u, model, key(j)); err != nil {
		return err
	}
	return w.Submit(ctx, u)
}

// exchange sends a job through lane n, checks the update and releases it.
func (r *rig) exchange(n int, j driver.Job, model *tensor.Package) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- train(r.t.Context(), r.workers[n]) }()
	check.Must(r.t, r.s.Dispatch(r.t.Context(), n, j))
	p, err := r.s.Collect(r.t.Context(), n)
	check.Must(r.t, errors.Join(err, <-done))
	check.Must(r.t, tensor.Prove(p, model, key(j)))
	p.Release()
}

// counts returns the counters of worker n, or of the server if n is -1.
func (r *rig) counts(n int) map[string]int64 {
	if n < 0 {
		return r.o.Rec.Counts()
	}
	return r.recs[n].Counts()
}

// wantCounts checks counters; those that are not named are not looked at.
func wantCounts(t testing.TB, who string, got, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		check.Equal(t, got[name], n, who, "counter", name, "is")
	}
}

// secret is the header field that every request needs.
func (r *rig) secret() string { return "Authorization: " + r.e.Authorization() + "\r\n" }

// admitted returns a request with the session's secret after its first line.
func (r *rig) admitted(request string) string {
	return strings.Replace(request, "\r\n", "\r\n"+r.secret(), 1)
}

// client is an ordinary HTTP client for the rig's server.
func (r *rig) client() *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.e.Dial(ctx, nil) },
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: waiting.Limit}
}

// A reply is an answer with its body.
type reply struct {
	code int
	head http.Header
	body []byte
}

// ask makes one request. head is name, value, name, value, ….
func (r *rig) ask(c *http.Client, method, path string, body []byte, head ...string) reply {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, "http://ipcbench"+path, bytes.NewReader(body))
	check.Must(r.t, err)
	q.Header.Set("Authorization", r.e.Authorization())
	for pair := range slices.Chunk(head, 2) {
		q.Header.Set(pair[0], pair[1])
	}
	a, err := c.Do(q)
	check.Must(r.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	check.Must(r.t, err)
	return reply{a.StatusCode, a.Header, text}
}

// put stores a tensor of bytes and returns what is answered.
func (r *rig) put(c *http.Client, id string, data []byte) string {
	r.t.Helper()
	a := r.ask(c, "PUT", "/v1/tensors/"+id, data, store.FieldDType, "u8", store.FieldShape, fmt.Sprint(len(data)))
	check.Need(r.t, a.code == http.StatusCreated, "put %s: got %d %s, want 201", id, a.code, a.body)
	return string(a.body)
}

// model returns the name of the published model.
func (r *rig) model() string { return r.s.in.prefix + strconv.Itoa(r.s.in.seq) }

// raw opens a connection to the server for requests that no client would make.
func (r *rig) raw() net.Conn {
	r.t.Helper()
	c, err := r.e.Dial(r.t.Context(), nil)
	check.Must(r.t, err)
	waiting.Conn(r.t, c)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// pattern returns n bytes that depend on seed and position.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*31)
	}
	return b
}

func layout(t testing.TB, specs ...tensor.Spec) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout(specs)
	check.Must(t, err)
	return l
}

// vectors is a layout of n tensors of size bytes each.
func vectors(t testing.TB, n, size int) *tensor.Layout {
	t.Helper()
	specs := make([]tensor.Spec, n)
	for i := range specs {
		specs[i] = tensor.Spec{Name: fmt.Sprint("v", i), DType: tensor.U8, Shape: []int{size}}
	}
	return layout(t, specs...)
}

// wantError checks that err is not nil, is no end of a session, and says text.
func wantError(t testing.TB, what string, err error, text string) {
	t.Helper()
	check.That(t, err != nil && !errors.Is(err, io.EOF) && strings.Contains(err.Error(), text),
		"%s: got error %v, want one with %q", what, err, text)
}
