package batched

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ipcbench/phase"
	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A worker is the worker's end of one lane. Its calls are in call.go, the download in
// fetch.go and the upload in send.go.
type worker struct {
	t        *transport
	cfg      config
	e        *endpoint.Endpoint
	o        driver.Options
	lane     int
	header   *pb.MessageHeader // of every request
	reply    *pb.MessageHeader // of every response
	metadata metadata.MD       // of every request
	down, up *catalog
	frames   framePool
	kept     *grpc.ClientConn // nil if every call has its own connection
	calls    methods

	copied, dialled, dialTime, retries, hits *phase.Counter

	model   *tensor.Package
	update  *tensor.Package
	takes   takes                          // of the model
	specs   []*pb.TensorSpec               // of all tensors
	request pb.GetAggregatedTensorsRequest // reused
	in      incoming                       // reused
	watch   stopwatch                      // of the current fetch or send

	// Contents of the model's memory: local tensors are this client's of this version.
	client  int
	version uint64
	local   []bool

	job  driver.Job // the current job
	task *pb.Task   // the task message that brought it
}

func newWorker(t *transport, e *endpoint.Endpoint, n int, o driver.Options) *worker {
	name, federation := endpoint.LaneName(n), e.Name()
	w := &worker{
		t: t, cfg: t.config(o.Settings), e: e, o: o, lane: n,
		header:   &pb.MessageHeader{Sender: name, Receiver: aggregator, FederationId: federation},
		reply:    &pb.MessageHeader{Sender: aggregator, Receiver: name, FederationId: federation},
		metadata: metadata.Pairs(secretKey, e.Authorization()),
		down:     newCatalog(o.Down, modelTag),
		up:       newCatalog(o.Up, updateTag),
		calls:    newMethods(o.Rec, phase.Calls),
		copied:   o.Rec.Counter(phase.Copied),
		dialled:  o.Rec.Counter(phase.Dialled),
		dialTime: o.Rec.Counter(phase.DialTime),
		retries:  o.Rec.Counter(phase.Retries),
		hits:     o.Rec.Counter(phase.CacheHits),
		model:    o.Alloc(o.Down),
		update:   o.Alloc(o.Up),
		local:    make([]bool, o.Down.Len()),
	}
	decodes := encodable(o.Down) // tensors are requested encoded in a session with a codec, else lossless
	if decodes {
		w.takes = either
	}
	for i := range o.Down.Len() {
		w.specs = append(w.specs, &pb.TensorSpec{
			Name: o.Down.Spec(i).Name, Tags: []string{modelTag}, RequireLossless: !decodes, AcceptEncoded: decodes,
		})
	}
	w.in = incoming{catalog: w.down, cfg: &w.cfg, mirror: w.reply, encoded: marshal(w.reply)}
	w.request.Header = w.header
	return w
}

// open connects and joins.
func (w *worker) open(ctx context.Context) (err error) {
	if !w.cfg.perCall {
		if w.kept, err = w.connect(); err != nil {
			return err
		}
	}
	req := &pb.JoinRequest{Header: w.header, ModelDigest: w.o.Down.Digest(), UpdateDigest: w.o.Up.Digest(), Worker: rand.Uint64()}
	resp := &pb.JoinResponse{}
	if err := w.invoke(ctx, w.cfg.deadline, pb.Federation_Join_FullMethodName, req, resp); err != nil {
		return err
	}
	return checkHeader(resp.Header, w.reply)
}

// Ping implements driver.Worker: an empty call.
func (w *worker) Ping(ctx context.Context) error {
	return w.invoke(ctx, w.cfg.deadline, pb.Federation_Ping_FullMethodName, &pb.PingRequest{}, &pb.PingResponse{})
}

// Receive implements driver.Worker.
func (w *worker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	if err := w.getTask(ctx); err != nil {
		return driver.Job{}, nil, driver.Delivered{}, err
	}
	if w.task.ModelVersion == 0 {
		return w.job, nil, driver.Delivered{}, nil
	}
	d, err := w.fetch(ctx)
	if err != nil {
		return driver.Job{}, nil, d, fmt.Errorf("round %d, client %d: fetch the model: %w", w.job.Round, w.job.Client, err)
	}
	w.model.Receipt = append(w.model.Receipt[:0], w.task.Receipt...)
	return w.job, w.model, d, nil
}

// getTask waits for a task and stores it, or returns io.EOF when the session is over. It
// repeats the request after parkFor.
func (w *worker) getTask(ctx context.Context) error {
	span := w.o.Rec.Begin(phase.Wait, phase.ID{})
	resp := &pb.GetTasksResponse{}
	for {
		err := w.invoke(ctx, parkFor, pb.Federation_GetTasks_FullMethodName, &pb.GetTasksRequest{Header: w.header}, resp)
		if err == nil {
			break
		}
		if status.Code(err) != codes.DeadlineExceeded {
			return err
		}
	}
	if err := checkHeader(resp.Header, w.reply); err != nil {
		return err
	}
	if resp.Quit {
		return io.EOF
	}
	task := resp.Task
	if task == nil {
		return refuse(wrongTask, "the response has no task")
	}
	w.task = task
	w.job = driver.Job{
		Round: int(task.Round), Client: int(task.Client), Weight: task.Weight,
		Device: task.Device, Config: task.Config, Timed: task.Timed,
	}
	span.EndAs(w.job.ID(w.lane))
	return nil
}

func (w *worker) record() { w.watch.record(w.job.ID(w.lane)) }

// Reserve implements driver.Worker.
func (w *worker) Reserve() (*tensor.Package, error) { return w.update, nil }

// Submit implements driver.Worker.
func (w *worker) Submit(ctx context.Context, _ *tensor.Package) error { return w.send(ctx) }

// leaveWithin bounds the Leave call that Close makes.
const leaveWithin = time.Second

// Close implements driver.Worker. A server that cannot be reached is gone, or will see
// the connection end.
func (w *worker) Close(cause error) error {
	if cause != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
		defer cancel()
		req := &pb.LeaveRequest{Header: w.header, Cause: cause.Error()}
		if w.try(ctx, func(ctx context.Context, cc *grpc.ClientConn) error {
			return cc.Invoke(ctx, pb.Federation_Leave_FullMethodName, req, &pb.LeaveResponse{})
		}) == nil {
			w.calls[pb.Federation_Leave_FullMethodName].Add(1)
		}
	}
	w.hangUp()
	return nil
}

func (w *worker) hangUp() {
	if w.kept != nil {
		_ = w.kept.Close() // its only error is that it was closed before
	}
}
