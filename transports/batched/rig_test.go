package batched

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// A rig is a server and its workers in this process, each with a recorder.
type rig struct {
	t       *testing.T
	o       driver.Options
	dir     string
	at      *driver.Endpoint
	session *transports.Server
	server  *server           // the driver below it
	workers []*remote         // whose calls the test makes
	recs    []*phase.Recorder // the server's, then the workers'
	done    []chan error      // what became of each worker
	model   *tensor.Package
}

// layoutOf returns a layout of f32 tensors with the given numbers of elements.
func layoutOf(t testing.TB, elems ...int) *tensor.Layout {
	t.Helper()
	specs := make([]tensor.Spec, len(elems))
	for i, n := range elems {
		specs[i] = tensor.Spec{Name: fmt.Sprintf("layer%d.weight", i), DType: tensor.F32, Shape: []int{n}}
	}
	return layoutFrom(t, specs...)
}

func layoutFrom(t testing.TB, specs ...tensor.Spec) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout(specs)
	check.Must(t, err)
	return l
}

// twenty has 20 tensors, as OpenFL's example.
func twenty(t testing.TB) *tensor.Layout {
	elems := make([]int, 20)
	for i := range elems {
		elems[i] = 100*i + 1
	}
	return layoutOf(t, elems...)
}

// variant parses name[:key=value]….
func variant(t testing.TB, text string) (*transport, driver.Settings) {
	t.Helper()
	v, err := transports.Parse(text, []driver.Transport{Unary(), Batched(), Streaming()})
	check.Must(t, err)
	return v.Transport.(*transport), v.Settings
}

// listen starts a server for the variant.
func listen(t *testing.T, text string, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), o: driver.Options{Down: l, Up: l, Lanes: lanes, Clients: 8, Depth: 2}}
	r.at = driver.NewEndpoint(r.dir)
	r.start(text)
	r.publish(1)
	t.Cleanup(func() { r.shutdown() })
	return r
}

// start starts the server at r.at.
func (r *rig) start(text string) {
	r.t.Helper()
	tr, settings := variant(r.t, text)
	o, seen := r.o, &seen{transport: tr}
	o.Rec = phase.NewRecorder(1 << 16)
	r.recs = append(r.recs, o.Rec)
	var err error
	r.session, err = transports.Listen(r.t.Context(), transports.Variant{Transport: seen, Settings: settings}, r.at, o)
	check.Need(r.t, err == nil, "%v", err)
	r.server = seen.server
}

// seen is a transport that shows what it made.
type seen struct {
	*transport
	server *server
	worker *worker
}

func (s *seen) Listen(ctx context.Context, e *driver.Endpoint, o driver.Options) (driver.Server, error) {
	d, err := s.transport.Listen(ctx, e, o)
	s.server, _ = d.(*server)
	return d, err
}

func (s *seen) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	d, err := s.transport.Dial(ctx, e, lane, o)
	s.worker, _ = d.(*worker)
	return d, err
}

// remote is a worker and the driver below it.
type remote struct {
	*transports.Worker
	inner *worker
}

// dialTo connects a worker.
func dialTo(ctx context.Context, t testing.TB, text string, at *driver.Endpoint, lane int, o driver.Options) (*remote, error) {
	t.Helper()
	tr, settings := variant(t, text)
	seen := &seen{transport: tr}
	w, err := transports.Dial(ctx, transports.Variant{Transport: seen, Settings: settings}, at, lane, o)
	return &remote{w, seen.worker}, err
}

// open is listen with workers that train until the end.
func open(t *testing.T, text string, l *tensor.Layout, lanes int) *rig {
	t.Helper()
	r := listen(t, text, l, lanes)
	for n := range lanes {
		w := r.dial(text, n)
		done := make(chan error, 1)
		r.done = append(r.done, done)
		go func() {
			err := serve(w)
			done <- errors.Join(err, w.Close())
		}()
	}
	r.workers = nil
	return r
}

// dial connects a worker.
func (r *rig) dial(text string, lane int) *remote {
	r.t.Helper()
	return r.dialAt(r.at.Addr(), text, lane)
}

// dialAt connects a worker through another address.
func (r *rig) dialAt(addr, text string, lane int) *remote {
	r.t.Helper()
	o := r.o
	o.Rec = phase.NewRecorder(1 << 16)
	w, err := dialTo(r.t.Context(), r.t, text, driver.EndpointAt(addr, r.at.Secret()), lane, o)
	check.Must(r.t, err)
	r.recs = append(r.recs, o.Rec)
	r.workers = append(r.workers, w)
	return w
}

// serve is the life of a worker.
func serve(w *remote) error {
	for {
		err := turn(w)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// turn is a worker's part of one job.
func turn(w *remote) error {
	ctx := context.Background()
	j, model, err := w.Receive(ctx)
	if err != nil {
		return err
	}
	u, err := w.Reserve()
	if err != nil {
		return err
	}
	u.Receipt = append(u.Receipt[:0], fmt.Sprintf("client %d", j.Client)...)
	return errors.Join(tensor.Train(u, model, keyOf(j)), w.Submit(ctx, u))
}

func keyOf(j driver.Job) tensor.Key {
	return tensor.Key{Seed: 42, Round: j.Round, Client: j.Client}
}

// publish makes a model with the given seed current.
func (r *rig) publish(seed uint64) {
	r.t.Helper()
	m, err := r.session.Reserve()
	check.Must(r.t, err)
	tensor.Fill(m, seed)
	m.Receipt = append(m.Receipt[:0], "receipt"...)
	if _, err := r.session.Publish(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
	r.model = m
}

// round runs clients over all lanes and proves every update.
func (r *rig) round(number, clients int) {
	r.t.Helper()
	failed := make(chan error)
	for lane := range r.o.Lanes {
		go func() {
			var err error
			for c := lane; c < clients && err == nil; c += r.o.Lanes {
				err = r.exchange(lane, driver.Job{Round: number, Client: c, Timed: true})
			}
			failed <- err
		}()
	}
	var errs error
	for range r.o.Lanes {
		errs = errors.Join(errs, <-failed)
	}
	check.Must(r.t, errs)
}

// exchange is the server's part of one job.
func (r *rig) exchange(lane int, j driver.Job) error {
	ctx := limited(r.t)
	if err := r.session.Dispatch(ctx, lane, j); err != nil {
		return err
	}
	p, err := r.session.Collect(ctx, lane)
	if err != nil {
		return err
	}
	defer p.Release()
	if want := fmt.Sprintf("client %d", j.Client); string(p.Receipt) != want {
		return fmt.Errorf("got receipt %q, want %q", p.Receipt, want)
	}
	return tensor.Prove(p, r.model, keyOf(j))
}

// shutdown ends the session and waits for the workers.
func (r *rig) shutdown() {
	for _, w := range r.workers {
		check.OK(r.t, w.Close(), "close")
	}
	check.OK(r.t, r.session.Shutdown(limited(r.t)), "shutdown")
	for i, done := range r.done {
		check.OK(r.t, <-done, "lane", i)
	}
	r.done = nil
}

// counts returns the counters whose names start with prefix, of the server and
// of all workers together.
func (r *rig) counts(prefix string) (server, workers map[string]int64) {
	server, workers = map[string]int64{}, map[string]int64{}
	for i, rec := range r.recs {
		all := workers
		if i == 0 {
			all = server
		}
		for name, n := range rec.Counts() {
			if rest, ok := strings.CutPrefix(name, prefix); ok && n != 0 {
				all[rest] += n
			}
		}
	}
	return server, workers
}

// less returns what was counted since before.
func less(now, before map[string]int64) map[string]int64 {
	d := maps.Clone(now)
	for name, n := range before {
		if d[name] -= n; d[name] == 0 {
			delete(d, name)
		}
	}
	return d
}

// shown is the secret that every request of a client of generated code shows.
type shown string

func (s shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{secretKey: string(s)}, nil
}

func (shown) RequireTransportSecurity() bool { return false }

// stranger returns a client made of generated code alone, which knows the secret.
func (r *rig) stranger(opts ...grpc.DialOption) (pb.FederationClient, *grpc.ClientConn) {
	r.t.Helper()
	return r.as(r.at.Authorization(), opts...)
}

// as returns a client that shows what it is given.
func (r *rig) as(secret string, opts ...grpc.DialOption) (pb.FederationClient, *grpc.ClientConn) {
	r.t.Helper()
	target := r.at.Addr()
	if rest, ok := strings.CutPrefix(target, "tcp:"); ok {
		target = "passthrough:///" + rest
	}
	cc, err := grpc.NewClient(target, append([]grpc.DialOption{
		grpc.WithPerRPCCredentials(shown(secret)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
	}, opts...)...)
	check.Must(r.t, err)
	r.t.Cleanup(func() { cc.Close() })
	return pb.NewFederationClient(cc), cc
}

// head is the header of a lane's requests.
func (r *rig) head(lane int) *pb.MessageHeader {
	return &pb.MessageHeader{Sender: driver.LaneName(lane), Receiver: aggregator, FederationId: r.server.header.FederationId}
}

// dispatch gives lane a job that a stranger will work on.
func (r *rig) dispatch(lane int, j driver.Job) {
	r.t.Helper()
	check.Must(r.t, r.session.Dispatch(r.t.Context(), lane, j))
}

// specs asks for the tensors in order.
func (r *rig) specs(round int, order ...int) []*pb.TensorSpec {
	var all []*pb.TensorSpec
	for _, i := range order {
		all = append(all, &pb.TensorSpec{
			Name: r.o.Down.Spec(i).Name, Round: int64(round), Tags: []string{modelTag}, RequireLossless: true,
		})
	}
	return all
}

// limited returns a context for one call.
func limited(t *testing.T) context.Context { return waiting.Context(t) }

func jobOf(round, client int) driver.Job { return driver.Job{Round: round, Client: client} }
