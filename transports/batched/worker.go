package batched

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// A worker is one lane's end. It fetches with fetch.go and sends with send.go.
type worker struct {
	t          *transport
	cfg        config
	o          driver.Options
	lane       int
	name       string
	addr       address
	federation string
	header     *pb.MessageHeader // of every request
	metadata   metadata.MD       // likewise
	down, up   *catalog
	frames     framePool
	kept       *grpc.ClientConn // nil if every call has its own
	calls      methods
	bodies     bodies

	sent, received, dialled, dialTime, retries, hits *phase.Counter

	model   *tensor.Package
	update  *tensor.Package
	request *pb.GetAggregatedTensorsRequest // for all tensors; reused
	in      incoming                        // reused
	tally   tally                           // of the fetch or the send that goes on

	// What the model's memory holds. The tensors of one client of one version
	// are local; everybody else's are not.
	client  int
	version uint64
	local   []bool

	job    driver.Job
	task   *pb.Task // nil if no job is in hand
	lent   bool     // the update was reserved
	over   bool     // the server said that there is no more
	dead   error    // a call failed: nothing more is possible
	closed bool
}

func newWorker(ctx context.Context, t *transport, a address, n int, o driver.Options) (*worker, error) {
	w := &worker{
		t: t, cfg: t.config(o.Settings), o: o,
		lane: n, name: laneName(n),
		addr: a, federation: a.federation,
		header:   &pb.MessageHeader{Sender: laneName(n), Receiver: aggregator, FederationId: a.federation},
		metadata: metadata.Pairs(federationKey, a.federation),
		down:     newCatalog(o.Down, modelTag),
		up:       newCatalog(o.Up, updateTag),
		sent:     o.Rec.Counter(phase.WireSent),
		received: o.Rec.Counter(phase.WireReceived),
		dialled:  o.Rec.Counter(phase.Dialled),
		calls:    newMethods(o.Rec, phase.Calls),
		bodies:   newBodies(o.Rec),
		retries:  o.Rec.Counter(phase.Retries),
		dialTime: o.Rec.Counter(phase.DialTime),
		hits:     o.Rec.Counter(phase.CacheHits),
		model:    tensor.AllocTouched(o.Down),
		update:   tensor.AllocTouched(o.Up),
		local:    make([]bool, o.Down.Len()),
	}
	w.in = incoming{catalog: w.down, cfg: &w.cfg, mirror: &pb.MessageHeader{Sender: aggregator, Receiver: w.name, FederationId: w.federation}}
	w.in.encoded = marshal(w.in.mirror)
	w.request = w.newRequest()
	if !w.cfg.perCall {
		var err error
		if w.kept, err = w.connect(); err != nil {
			return nil, err
		}
	}
	if err := w.join(ctx); err != nil {
		w.hangUp()
		return nil, err
	}
	return w, nil
}

// connect returns a connection, which gRPC opens when it is first used.
func (w *worker) connect() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+w.addr.at, append(w.cfg.clientBuffers(&w.frames),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(w.dial),
		grpc.WithAuthority(aggregator),
		grpc.WithDisableRetry(), // retries are counted, here
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: backoffBase, Multiplier: 2, Jitter: 0.2, MaxDelay: backoffMax},
			MinConnectTimeout: 20 * time.Second, // those before it in the kernel's queue may be 4096 strangers, who take 4 s
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec(0)),
			grpc.MaxCallRecvMsgSize(min(w.cfg.limit+maxReceipt, maxMessage)),
			grpc.MaxCallSendMsgSize(maxMessage),
		),
	)...)
}

// conn returns the connection of the next call, and what to do after it. What it
// costs to open one is counted by itself, and is in no phase.
func (w *worker) conn(ctx context.Context) (*grpc.ClientConn, func(), error) {
	if w.kept != nil {
		return w.kept, func() {}, nil
	}
	start := phase.Now()
	cc, err := w.connect()
	if err != nil {
		return nil, nil, err
	}
	// Connecting begins before Connect returns. Idle after it is a connection that
	// ended as soon as it was ready: the call opens another one, or fails and is
	// made again.
	cc.Connect()
	for cc.GetState() == connectivity.Connecting && cc.WaitForStateChange(ctx, connectivity.Connecting) {
	}
	w.dialTime.Add(int(phase.Now() - start))
	return cc, func() { _ = cc.Close() }, nil // it can only say that it was closed before
}

// Retries wait from backoffBase to backoffMax, doubling, each wait shortened by
// up to half at random so that workers do not come back all at once.
const (
	attempts    = 8
	backoffBase = 20 * time.Millisecond
	backoffMax  = 2 * time.Second
)

// call makes a call, with f, until it succeeds, fails for good, or has been tried
// for limit or too often. f may be called again only because nothing it did
// counts until it is whole.
func (w *worker) call(ctx context.Context, limit time.Duration, counter *phase.Counter, f func(context.Context, *grpc.ClientConn) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait, n := backoffBase, 1; ; wait, n = min(2*wait, backoffMax), n+1 {
		err := w.try(bounded, f)
		if err == nil {
			counter.Add(1)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // what gRPC says of it is no context error
		}
		if !retryable(err) || bounded.Err() != nil {
			return err
		}
		if n == attempts {
			return fmt.Errorf("%d attempts: %w", n, err)
		}
		w.retries.Add(1)
		timer := time.NewTimer(wait - rand.N(wait/2))
		select {
		case <-timer.C:
		case <-bounded.Done():
			timer.Stop()
		}
	}
}

func (w *worker) try(ctx context.Context, f func(context.Context, *grpc.ClientConn) error) error {
	cc, done, err := w.conn(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, w.metadata)) // ends what f leaves of a stream
	defer cancel()
	return f(ctx, cc)
}

// retryable reports whether another attempt may succeed.
func retryable(err error) bool { return status.Code(err) == codes.Unavailable }

// invoke makes a unary call without tensors.
func (w *worker) invoke(ctx context.Context, limit time.Duration, counter *phase.Counter, method string, req, resp any) error {
	return w.call(ctx, limit, counter, func(ctx context.Context, cc *grpc.ClientConn) error {
		return cc.Invoke(ctx, method, req, resp)
	})
}

func (w *worker) join(ctx context.Context) error {
	req := &pb.JoinRequest{Header: w.header, ModelDigest: w.o.Down.Digest(), UpdateDigest: w.o.Up.Digest()}
	resp := &pb.JoinResponse{}
	if err := w.invoke(ctx, w.cfg.deadline, w.calls.join, pb.Federation_Join_FullMethodName, req, resp); err != nil {
		return err
	}
	return w.checkReply(resp.Header)
}

// Ping makes an empty call.
func (w *worker) Ping(ctx context.Context) error {
	return w.invoke(ctx, w.cfg.deadline, w.calls.ping, pb.Federation_Ping_FullMethodName, &pb.PingRequest{}, &pb.PingResponse{})
}

// Receive implements driver.Worker.
func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, error) {
	switch {
	case w.over:
		return driver.Job{}, nil, io.EOF
	case w.dead != nil:
		return driver.Job{}, nil, w.dead
	case w.task != nil:
		return driver.Job{}, nil, w.fail("receive", errors.New("the last job was not submitted"))
	}
	if err := w.getTask(ctx); err != nil {
		return driver.Job{}, nil, w.fail("receive", err)
	}
	if w.over {
		return driver.Job{}, nil, io.EOF
	}
	if err := w.fetch(ctx); err != nil {
		return driver.Job{}, nil, w.fail(fmt.Sprintf("round %d, client %d: fetch the model", w.job.Round, w.job.Client), err)
	}
	w.model.Receipt = append(w.model.Receipt[:0], w.task.Receipt...)
	return w.job, w.model, nil
}

// getTask waits for a task. It asks again after parkFor.
func (w *worker) getTask(ctx context.Context) error {
	span := w.o.Rec.Begin(phase.Wait, phase.ID{})
	resp := &pb.GetTasksResponse{}
	for {
		err := w.invoke(ctx, parkFor, w.calls.tasks, pb.Federation_GetTasks_FullMethodName, &pb.GetTasksRequest{Header: w.header}, resp)
		if err == nil {
			break
		}
		if status.Code(err) != codes.DeadlineExceeded {
			return err
		}
	}
	if err := w.checkReply(resp.Header); err != nil {
		return err
	}
	if resp.Quit {
		w.over = true
		return nil
	}
	task := resp.Task
	if task == nil {
		return refuse(wrongTask, "response without a task")
	}
	w.task = task
	w.job = driver.Job{
		Round: int(task.Round), Client: int(task.Client), Weight: task.Weight,
		Device: task.Device, Config: task.Config, Timed: task.Timed,
	}
	span.EndAs(w.id())
	return nil
}

// id says whose work is timed.
func (w *worker) id() phase.ID {
	return phase.ID{Lane: w.lane, Round: w.job.Round, Client: w.job.Client}
}

// Reserve implements driver.Worker.
func (w *worker) Reserve() (*tensor.Package, error) {
	switch {
	case w.dead != nil:
		return nil, w.dead
	case w.task == nil:
		return nil, w.wrap("reserve", errors.New("no job is in hand"))
	case w.lent:
		return nil, w.wrap("reserve", errors.New("the update is reserved already"))
	}
	w.lent = true
	return w.update, nil
}

// Submit implements driver.Worker.
func (w *worker) Submit(ctx context.Context, p *tensor.Package) error {
	switch {
	case w.dead != nil:
		return w.dead
	case w.task == nil || !w.lent || p != w.update:
		return w.wrap("submit", errors.New("the package was not reserved"))
	}
	if err := w.send(ctx); err != nil {
		return w.fail(fmt.Sprintf("round %d, client %d: send the results", w.job.Round, w.job.Client), err)
	}
	w.task, w.lent = nil, false
	return nil
}

// fail makes err the end of the lane.
func (w *worker) fail(act string, err error) error {
	w.dead = w.wrap(act, err)
	return w.dead
}

// wrap says which lane of which transport err is about, as the server does.
func (w *worker) wrap(act string, err error) error {
	return fmt.Errorf("%s%s: %w", w.prefix(), act, err)
}

func (w *worker) prefix() string { return fmt.Sprintf("%s: lane %d: ", w.t.name, w.lane) }

// leaveWithin bounds the last call.
const leaveWithin = time.Second

// Close implements driver.Worker. If the server does not know of the end, it
// is told.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if !w.over {
		cause := "the worker has left"
		if w.dead != nil {
			cause = strings.TrimPrefix(w.dead.Error(), w.prefix()) // the server says that, too
		}
		ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		// If the server cannot be told, it has gone, or will see the connection end.
		if w.try(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
			return cc.Invoke(ctx, pb.Federation_Leave_FullMethodName, &pb.LeaveRequest{Header: w.header, Cause: cause}, &pb.LeaveResponse{})
		}) == nil {
			w.calls.leave.Add(1)
		}
	}
	w.fail("use", errors.New("the worker is closed"))
	w.hangUp()
	return nil
}

func (w *worker) hangUp() {
	if w.kept != nil {
		_ = w.kept.Close() // it can only say that it was closed before
	}
}
